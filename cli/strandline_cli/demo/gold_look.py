"""The demo's last output: the flights' gold tables, drawn for a terminal."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from rich.console import Console

NEW_YORK: Final = timezone(timedelta(hours=-5), "EST")
"""Standard time throughout, so that nothing depends on a machine's time zones."""
_HOURS: Final = range(5, 24)
_LEVELS: Final = "▁▂▃▄▅▆▇█"
_BAR_WIDTH: Final = (8, 18)
_OTHER_COLUMNS_WIDTH: Final = 71
_LATE_MINUTES: Final = (8.0, 14.0)
"""The mean delays from which on a bar is drawn as middling, and as bad."""
_SESSIONS_SHOWN: Final = 3


@dataclass(slots=True)
class Delay:
    """Windows of one kind taken together. Means are weighted by the flights that left."""

    flights: int = 0
    cancelled: int = 0
    minutes: float = 0.0

    def add(self, row: dict[str, Any]) -> None:
        flown = row["flights"] - row["cancelled"]
        self.flights += row["flights"]
        self.cancelled += row["cancelled"]
        self.minutes += (row["delay_mean"] or 0.0) * flown

    @property
    def mean(self) -> float | None:
        flown = self.flights - self.cancelled
        return self.minutes / flown if flown else None


def by_carrier(delays: "pa.Table") -> list[tuple[str, Delay, dict[int, Delay]]]:
    """Each carrier, all of its windows, and those of each hour of the day; the latest carrier
    first.
    """
    total: dict[str, Delay] = defaultdict(Delay)
    hours: dict[str, dict[int, Delay]] = defaultdict(lambda: defaultdict(Delay))
    for row in delays.to_pylist():
        total[row["carrier"]].add(row)
        hours[row["carrier"]][row["window_start"].astimezone(NEW_YORK).hour].add(row)
    ordered = sorted(total, key=lambda carrier: -(total[carrier].mean or 0.0))
    return [(carrier, total[carrier], hours[carrier]) for carrier in ordered]


def print_gold(console: "Console", gold: Path) -> None:
    """Draws the tables of the pipeline `flights` that lie in the folder."""
    from deltalake import DeltaTable

    delays, sessions = (
        DeltaTable(str(gold / name)).to_pyarrow_table()
        for name in ("delay_by_hour", "aircraft_sessions")
    )
    print_delays(console, delays)
    print_sessions(console, sessions)


def print_delays(console: "Console", delays: "pa.Table") -> None:
    from rich.bar import Bar
    from rich.table import Table
    from rich.text import Text

    narrow, wide = _BAR_WIDTH
    width = min(wide, max(narrow, console.width - _OTHER_COLUMNS_WIDTH))
    carriers = by_carrier(delays)
    most = max((delay.mean or 0.0 for _, delay, _ in carriers), default=0.0)
    title = f"Gold: who leaves late, and when ({len(delays):,} windows of an hour and a carrier)"
    look = Table(title=title, title_justify="left")
    look.add_column("carrier")
    look.add_column("flights", justify="right")
    look.add_column("cancelled", justify="right")
    look.add_column("mean delay", justify="right", no_wrap=True)
    look.add_column("", width=width)
    look.add_column(f"by hour, {_HOURS.start} to {_HOURS.stop}", no_wrap=True)
    for carrier, delay, hours in carriers:
        mean = delay.mean or 0.0
        bar = Bar(max(most, 1e-9), 0, max(0.0, mean), width=width, color=_colour(mean))
        look.add_row(
            Text(carrier),
            f"{delay.flights:,}",
            f"{delay.cancelled / delay.flights:.1%}",
            f"{mean:.1f} min",
            bar,
            _hours_text(hours),
        )
    console.print(look)


def print_sessions(console: "Console", sessions: "pa.Table") -> None:
    from rich.table import Table
    from rich.text import Text

    title = f"Gold: most miles in one go (of {len(sessions):,} sessions)"
    look = Table(title=title, title_justify="left")
    for name in ("aircraft", "from", "flights", "places", "miles"):
        look.add_column(name, justify="left" if name in ("aircraft", "from") else "right")
    ordered = sessions.sort_by([("miles", "descending"), ("window_start", "ascending")])
    for row in ordered.slice(0, _SESSIONS_SHOWN).to_pylist():
        begin = row["window_start"].astimezone(NEW_YORK)
        figures = (f"{row['flights']:,}", f"{row['places']:,}", f"{row['miles']:,}")
        look.add_row(Text(row["tailnum"]), f"{begin:%d %b %Y, %H:%M}", *figures)
    console.print(look)


def _hours_text(hours: dict[int, Delay]) -> Any:
    """A character for each hour: higher and redder is later, a gap is an hour without flights."""
    from rich.text import Text

    means = {hour: delay.mean for hour, delay in hours.items()}
    most = max((mean for mean in means.values() if mean is not None), default=0.0)
    text = Text()
    for hour in _HOURS:
        mean = means.get(hour)
        if mean is None:
            text.append(" ")
            continue
        level = round(max(0.0, mean) / most * (len(_LEVELS) - 1)) if most > 0 else 0
        text.append(_LEVELS[level], style=_colour(mean))
    return text


def _colour(minutes: float) -> str:
    middling, bad = _LATE_MINUTES
    return "green" if minutes < middling else "yellow" if minutes < bad else "red"
