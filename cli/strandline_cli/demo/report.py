"""The demo's report: figures, a first look at the table, and the verdict."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from strandline_cli.demo.stream import Stream
from strandline_cli.demo.table_check import Findings

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa  # type: ignore[import-untyped]
    from rich.console import Console

_ROWS_SHOWN = 4
_KEY_WIDTH = 10
_OTHER_COLUMNS_WIDTH = 57


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of one run."""

    source: str
    stream: Stream
    findings: Findings
    epochs: dict[int, tuple[int, int]]
    """Leader epoch before the kill and after it, of each partition that the victim led."""
    ingest_s: float
    total_s: float

    @property
    def leader_changed(self) -> bool:
        return bool(self.epochs) and all(after > before for before, after in self.epochs.values())

    @property
    def passed(self) -> bool:
        ledger = self.stream.ledger
        complete = ledger.unknown == 0 and ledger.rejected == 0 and ledger.acknowledged > 0
        return self.findings.perfect and self.leader_changed and complete

    def document(self) -> dict[str, Any]:
        """The figures for scripts, each name ending in its unit."""
        stream, ledger = self.stream, self.stream.ledger
        seconds = max(stream.seconds, 1e-9)
        failover = stream.first_ack_after_s
        return {
            "records_acknowledged": ledger.acknowledged,
            "records_unknown": ledger.unknown,
            "records_rejected": ledger.rejected,
            "records_in_table": self.findings.in_table,
            "lost": self.findings.lost,
            "duplicated": self.findings.duplicated,
            "gaps": self.findings.gaps,
            "leader_changed": self.leader_changed,
            "in_flight_at_kill": stream.in_flight_at_kill,
            "kill_to_next_ack_ms": None if failover is None else round(failover * 1000),
            "records_s": round(ledger.acknowledged / seconds),
            "mb_s": round(ledger.bytes_acknowledged / seconds / 1e6, 1),
            "ingest_s": round(self.ingest_s, 1),
            "total_s": round(self.total_s, 1),
            "passed": self.passed,
        }


def print_report(console: "Console", report: Report, table: "pa.Table") -> None:
    from rich.table import Table

    figures = report.document()
    console.print(f"Input: {report.source}", highlight=False)
    shown = Table(title="What became of every record", title_justify="left")
    shown.add_column("measure")
    shown.add_column("figure", justify="right")
    for label, text, bad in _lines(report, figures):
        shown.add_row(label, text, style="bold red" if bad else "")
    console.print(shown)
    _print_first_look(console, table)
    if report.passed:
        console.print("PASSED: every acknowledged record is in the table, once.", style="green")
    else:
        console.print("FAILED: see the figures in red.", style="bold red")


def _lines(report: Report, figures: dict[str, Any]) -> list[tuple[str, str, bool]]:
    epochs = ", ".join(
        f"partition {p}: {before} to {after}"
        for p, (before, after) in sorted(report.epochs.items())
    )
    victim = report.stream.victim
    pause = figures["kill_to_next_ack_ms"]
    ledger = report.stream.ledger
    return [
        ("records acknowledged", f"{ledger.acknowledged:,}", ledger.acknowledged == 0),
        ("not acknowledged", f"{ledger.rejected:,}", ledger.rejected > 0),
        ("outcome unknown", f"{ledger.unknown:,}", ledger.unknown > 0),
        ("records in the table", f"{report.findings.in_table:,}", False),
        ("lost", f"{report.findings.lost:,}", report.findings.lost > 0),
        ("duplicated", f"{report.findings.duplicated:,}", report.findings.duplicated > 0),
        ("gaps", f"{report.findings.gaps:,}", report.findings.gaps > 0),
        ("killed", "no broker" if victim is None else f"broker {victim.broker}", victim is None),
        ("in flight at the kill", f"{report.stream.in_flight_at_kill:,} records", False),
        ("leader epochs", epochs or "unchanged", not report.leader_changed),
        ("kill to next acknowledgement", "none" if pause is None else f"{pause} ms", pause is None),
        ("throughput, pause included", f"{figures['records_s']:,} records/s", False),
        ("", f"{figures['mb_s']} MB/s", False),
        ("ingestion", f"{figures['ingest_s']} s", False),
        ("everything", f"{figures['total_s']} s", False),
    ]


def _print_first_look(console: "Console", table: "pa.Table") -> None:
    from rich.table import Table
    from rich.text import Text

    look = Table(title="A first look at the table", title_justify="left")
    for name in ("partition", "offset", "epoch", "time", "key", "value"):
        look.add_column(name, no_wrap=True)
    # The terminal's width without the frame and the other columns.
    room = max(16, console.width - _OTHER_COLUMNS_WIDTH)
    first = table.sort_by([("offset", "ascending"), ("partition", "ascending")])
    for row in first.slice(0, _ROWS_SHOWN).to_pylist():
        moment, key = _clock_time(row["timestamp"]), _cut(_text(row["key"]), _KEY_WIDTH)
        cells = (row["partition"], row["offset"], row["leader_epoch"], moment, key)
        look.add_row(*(Text(str(cell)) for cell in (*cells, _cut(_text(row["value"]), room))))
    console.print(look)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _text(data: bytes | None) -> str:
    return "" if data is None else data.decode(errors="replace")


def _clock_time(timestamp: "datetime | int") -> str:
    from datetime import UTC, datetime

    if isinstance(timestamp, int):
        timestamp = datetime.fromtimestamp(timestamp / 1000, tz=UTC)
    return f"{timestamp:%H:%M:%S}"
