"""`strandline demo kip101`: the reason why followers truncate by leader epoch, and not by high
watermark.
"""

import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from strandline_cli.demo.kip101_history import ACKNOWLEDGED, History, HistoryResult

if TYPE_CHECKING:
    from rich.console import Console

_LETTERS: Final = {1: "A", 2: "B", 3: "C"}


@dataclass(frozen=True, slots=True)
class Played:
    """One history, its expected outcome, and its outcome."""

    truncation: str
    history: str
    happened: bool
    expected: bool
    what: str

    @property
    def as_expected(self) -> bool:
        return self.happened == self.expected


@dataclass(slots=True)
class Kip101Demo:
    """Both histories under both kinds of truncation."""

    console: "Console"
    as_json: bool = False

    def run(self) -> int:
        """Exit status 0 only if all four outcomes are as expected."""
        played: list[Played] = []
        directory = Path(tempfile.mkdtemp(prefix="strandline-kip101-"))
        try:
            for truncation in ("high-watermark", "leader-epoch"):
                for history in ("loss", "divergence"):
                    played.append(self._play(directory, truncation, history))
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        if self.as_json:
            print(json.dumps([_document(one) for one in played], indent=2))
        else:
            self._print(played)
        return 0 if all(one.as_expected for one in played) else 1

    def _play(self, directory: Path, truncation: str, history: str) -> Played:
        self.console.rule(f"{history}, replica.truncation={truncation}")
        result = History(
            directory=directory / f"{truncation}-{history}",
            truncation=truncation,
            is_divergence=history == "divergence",
            tell=self.console.print,
            show=self._show_logs,
        ).play()
        happened = bool(result.diverged if history == "divergence" else result.lost)
        played = Played(
            truncation=truncation,
            history=history,
            happened=happened,
            expected=truncation == "high-watermark",
            what=_describe(history, result),
        )
        self.console.print(played.what, style="bold red" if happened else "green")
        return played

    def _show_logs(self, history: History) -> None:
        for broker, log in history.logs().items():
            alive = history.cluster.process(broker).pid is not None
            values = " ".join(log[offset] for offset in sorted(log))
            state = "" if alive else "  (dead)"
            self.console.print(f"   {_LETTERS[broker]}: {values}{state}", highlight=False)

    def _print(self, played: list[Played]) -> None:
        from rich.table import Table

        table = Table(
            title="Truncation by high watermark, and by leader epoch", title_justify="left"
        )
        for column in ("replica.truncation", "history", "outcome", "as it should be"):
            table.add_column(column)
        for one in played:
            table.add_row(
                one.truncation,
                one.history,
                one.what,
                "yes" if one.as_expected else "NO",
                style="" if one.as_expected else "bold red",
            )
        self.console.print(table)


def _describe(history: str, result: HistoryResult) -> str:
    if history == "divergence":
        if not result.diverged:
            return "A and C hold the same records"
        offset, (at_a, at_c) = next(iter(result.diverged.items()))
        return f"A and C differ for good: at offset {offset} A has {at_a!r}, C has {at_c!r}"
    if not result.lost:
        return f"{ACKNOWLEDGED!r} is still there"
    return f"acknowledged and lost: {', '.join(map(repr, result.lost))}"


def _document(one: Played) -> dict[str, object]:
    return {
        "truncation": one.truncation,
        "history": one.history,
        "happened": one.happened,
        "expected": one.expected,
        "what": one.what,
    }
