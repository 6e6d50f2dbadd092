"""The lines of movers and readers in a run of transfers: words on their standard output.

| line | said by | meaning |
|---|---|---|
| `ready` | all | the client works |
| `begun NAME SOURCE TARGET AMOUNT` | mover | a transfer begins |
| `committed NAME`, `aborted NAME` | mover | its end was answered |
| `unknown NAME` | mover | its outcome stays unknown to the mover |
| `paused` | mover | no transfer is open, also none of an earlier life |
| `leg PARTITION OFFSET NAME ACCOUNT DELTA` | reader | a record was delivered |
| `at PARTITION OFFSET` | reader | all before this offset was delivered |
| `note TEXT` | all | for people |

A program reads `pause`, `go` and `stop` from its standard input, a line each. The end of the
input is `stop`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from strandline_chaos.transfers.legs import Leg, Transfer

COMMITTED: Final = "committed"
ABORTED: Final = "aborted"
UNKNOWN: Final = "unknown"


class NotSaid(Exception):
    """A line is none of the protocol's."""


@dataclass(frozen=True, slots=True)
class Cut:
    """High watermarks, asked for after `answered` transfers were answered."""

    ends: dict[int, int]
    answered: int
    is_quiet: bool
    """True if no transfer was open."""


@dataclass(slots=True)
class Reading:
    """The deliveries to one reader of committed transactions, in their order."""

    legs: list[tuple[int, int, Leg]] = field(default_factory=list)
    """(partition, offset, leg)."""
    at: dict[int, int] = field(default_factory=dict)
    """The offset before which everything was delivered, by partition."""

    def reaches(self, ends: dict[int, int]) -> bool:
        return all(self.at.get(partition, 0) >= end for partition, end in ends.items())


@dataclass(slots=True)
class Book:
    """All lines that were said in a run, by their meaning."""

    begun: dict[str, Transfer] = field(default_factory=dict)
    outcomes: dict[str, str] = field(default_factory=dict)
    answered: list[str] = field(default_factory=list)
    """Transfers whose commit or abort was answered, in the order of the answers."""
    cuts: list[Cut] = field(default_factory=list)
    readings: dict[str, Reading] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def hear(self, who: str, line: str) -> str:
        """Writes a line down, and returns its first word. Raises NotSaid."""
        words = line.split()
        try:
            match words:
                case ["ready" | "paused"]:
                    pass
                case ["begun", name, source, target, amount]:
                    self.begun[name] = Transfer(name, int(source), int(target), int(amount))
                case [("committed" | "aborted" | "unknown") as outcome, name]:
                    self._end(name, outcome)
                case ["leg", partition, offset, name, account, delta]:
                    leg = Leg(name, int(account), int(delta))
                    self.readings[who].legs.append((int(partition), int(offset), leg))
                case ["at", partition, offset]:
                    self.readings[who].at[int(partition)] = int(offset)
                case ["note", *text]:
                    self.notes.append(f"{who}: {' '.join(text)}")
                case _:
                    raise NotSaid(f"{who} said {line[:80]!r}, which is no line of a run")
        except (ValueError, KeyError) as why:
            raise NotSaid(f"{who} said {line[:80]!r}: {why}") from None
        return words[0]

    def _end(self, name: str, outcome: str) -> None:
        if name not in self.begun or name in self.outcomes:
            raise ValueError("a transfer ends once, after its begin")
        self.outcomes[name] = outcome
        if outcome != UNKNOWN:
            self.answered.append(name)

    def cut(self, ends: dict[int, int], answered: int, *, is_quiet: bool) -> None:
        self.cuts.append(Cut(dict(ends), answered, is_quiet))

    def count(self, outcome: str) -> int:
        return list(self.outcomes.values()).count(outcome)
