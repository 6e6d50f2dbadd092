"""The verdict on a run of transfers: each is whole for every reader, and no acknowledged one is
missing (I-154).

The judge trusts movers for what they began and were answered, readers for what they were given, and
the high watermarks of the cuts. It asks no broker.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strandline_chaos.checkers import Anomaly
from strandline_chaos.transfers.book import ABORTED, COMMITTED, UNKNOWN
from strandline_chaos.transfers.legs import partition_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_chaos.transfers.book import Book, Cut, Reading
    from strandline_chaos.transfers.legs import Leg

TRANSFER_ANOMALIES: Final = {
    "torn": "one leg of a transfer without the other",
    "late": "committed, and not below the high watermarks that were taken afterwards",
    "total": "a quiescent cut whose deltas do not sum to 0, or with another balance of an account",
    "lost": "the commit was acknowledged, and a reader does not have the transfer",
    "aborted_read": "the transfer was aborted, and a reader has a leg of it",
    "duplicated": "one leg at two offsets",
    "phantom": "a leg that was never sent, or in another account's partition",
    "backwards": "a reader whose offsets do not rise",
    "disagree": "two readers with different records below the last high watermarks",
    "end_fell": "a high watermark below an earlier one",
    "stuck": "an open transaction after all movers have ended",
}

Place = tuple[int, int]
"""(partition, offset)."""


@dataclass(frozen=True, slots=True)
class TransferVerdict:
    anomalies: dict[str, Anomaly]
    incomplete: str
    """The reason why no verdict can be given; empty if there is one."""
    begun: int
    committed: int
    aborted: int
    unknown: int
    unknown_there: int
    """Transfers of unknown outcome that turned out to be committed."""
    cuts: int
    quiet_cuts: int
    readers: int

    @property
    def broken(self) -> tuple[str, ...]:
        return tuple(name for name, found in self.anomalies.items() if found.count)

    @property
    def word(self) -> str:
        return "broken" if self.broken else "incomplete" if self.incomplete else "sound"

    def document(self) -> dict[str, object]:
        """The verdict for scripts."""
        return {
            "verdict": self.word,
            **({"incomplete": self.incomplete} if self.incomplete else {}),
            "begun": self.begun,
            "committed": self.committed,
            "aborted": self.aborted,
            "unknown": self.unknown,
            "unknown_there": self.unknown_there,
            "cuts": self.cuts,
            "quiet_cuts": self.quiet_cuts,
            "readers": self.readers,
            **{name: found.count for name, found in self.anomalies.items()},
        }


def judge_transfers(
    book: Book, partitions: int, stuck: Sequence[str] = (), incomplete: str = ""
) -> TransferVerdict:
    """Judges a book whose last cut was taken when all movers had ended."""
    found = {name: Anomaly() for name in TRANSFER_ANOMALIES}
    for example in stuck:
        found["stuck"].add(example)
    _check_ends(book.cuts, found)
    logs = {who: _log_of(who, r, book, partitions, found) for who, r in book.readings.items()}
    if book.cuts and logs:
        last = book.cuts[-1].ends
        for who, reading in book.readings.items():
            if not reading.reaches(last):
                incomplete = incomplete or f"{who} did not reach the last high watermarks {last}"
        _check_agreement(logs, last, found)
    unknown_there = 0
    for who, log in logs.items():
        at = _by_transfer(log)
        _check_outcomes(who, at, book, found)
        _check_cuts(who, at, book, found)
        _check_balances(who, log, book, found)
        there = sum(len(at.get(n, ())) > 1 for n, o in book.outcomes.items() if o == UNKNOWN)
        unknown_there = max(unknown_there, there)
    if not (logs and any(cut.is_quiet for cut in book.cuts) and book.count(COMMITTED)):
        incomplete = incomplete or "nothing was committed, cut in quiescence or read"
    return TransferVerdict(
        found,
        incomplete,
        begun=len(book.begun),
        committed=book.count(COMMITTED),
        aborted=book.count(ABORTED),
        unknown=len(book.begun) - len(book.answered),
        unknown_there=unknown_there,
        cuts=len(book.cuts),
        quiet_cuts=sum(cut.is_quiet for cut in book.cuts),
        readers=len(logs),
    )


def _check_ends(cuts: Sequence[Cut], found: dict[str, Anomaly]) -> None:
    """I-11: over all cuts, which one client takes."""
    highest: dict[int, int] = {}
    for cut in cuts:
        for partition, end in cut.ends.items():
            if end < highest.get(partition, 0):
                found["end_fell"].add(f"partition {partition}: {end} after {highest[partition]}")
            highest[partition] = max(end, highest.get(partition, 0))


def _log_of(
    who: str, reading: Reading, book: Book, partitions: int, found: dict[str, Anomaly]
) -> dict[Place, Leg]:
    """The log that a reader was given."""
    last: dict[int, int] = {}
    where: dict[Leg, Place] = {}
    for partition, offset, leg in reading.legs:
        if offset <= last.get(partition, -1):
            found["backwards"].add(f"{who}: {partition}@{offset} after {last[partition]}")
        last[partition] = max(offset, last.get(partition, -1))
        begun = book.begun.get(leg.transfer)
        if begun is None or leg not in begun.legs:
            found["phantom"].add(f"{who}: {leg} at {partition}@{offset} was never sent")
        elif partition != partition_of(leg.account, partitions):
            found["phantom"].add(f"{who}: {leg} is in partition {partition}")
        if where.setdefault(leg, (partition, offset)) != (partition, offset):
            found["duplicated"].add(f"{who}: {leg} at {where[leg]} and {partition}@{offset}")
    return {(partition, offset): leg for partition, offset, leg in reading.legs}


def _by_transfer(log: dict[Place, Leg]) -> dict[str, list[Place]]:
    at: dict[str, list[Place]] = defaultdict(list)
    for place, leg in log.items():
        at[leg.transfer].append(place)
    return at


def _check_agreement(
    logs: dict[str, dict[Place, Leg]], last: dict[int, int], found: dict[str, Anomaly]
) -> None:
    """Below the last high watermarks, all readers have the same records."""
    seen = {
        who: {(p, o): leg for (p, o), leg in log.items() if o < last.get(p, 0)}
        for who, log in logs.items()
    }
    (first, theirs), *others = seen.items()
    for who, log in others:
        for place in sorted(theirs.keys() | log.keys()):
            if theirs.get(place) != log.get(place):
                found["disagree"].add(
                    f"{place}: {first} has {theirs.get(place)}, {who} {log.get(place)}"
                )


def _check_outcomes(
    who: str, at: dict[str, list[Place]], book: Book, found: dict[str, Anomaly]
) -> None:
    """At the end every transfer is there or not, as its mover was told."""
    for name in book.begun:
        legs = at.get(name, [])
        outcome = book.outcomes.get(name, UNKNOWN)
        if outcome == COMMITTED and not legs:
            found["lost"].add(f"{who}: {name}")
        elif outcome == ABORTED and legs:
            found["aborted_read"].add(f"{who}: {name} at {legs}")
        elif len(legs) == 1:
            found["torn"].add(f"{who}: {name} ({outcome}) has only {legs}")


def _check_cuts(
    who: str, at: dict[str, list[Place]], book: Book, found: dict[str, Anomaly]
) -> None:
    """A transfer that was answered before a cut is whole below it. Ends never fall, so the first
    cut after the answer says it for all later ones.
    """
    cuts = iter(book.cuts)
    cut = next(cuts, None)
    for number, name in enumerate(book.answered):
        while cut is not None and cut.answered <= number:
            cut = next(cuts, None)
        if cut is None:
            return
        legs = at.get(name, [])
        below = [(p, o) for p, o in legs if o < cut.ends.get(p, 0)]
        if len(below) == 1:
            found["torn"].add(f"{who}: {name} has {legs}, and only {below} below {cut.ends}")
        elif legs and not below:
            found["late"].add(f"{who}: {name} has {legs}, and nothing below {cut.ends}")


def _check_balances(who: str, log: dict[Place, Leg], book: Book, found: dict[str, Anomaly]) -> None:
    """At a quiescent cut the deltas sum to 0, and accounts have what whole transfers give."""
    for number, cut in enumerate(book.cuts):
        if not cut.is_quiet:
            continue
        balances: dict[int, int] = defaultdict(int)
        below: set[str] = set()
        for (partition, offset), leg in log.items():
            if offset < cut.ends.get(partition, 0):
                balances[leg.account] += leg.delta
                below.add(leg.transfer)
        expected: dict[int, int] = defaultdict(int)
        committed = {n for n in book.answered[: cut.answered] if book.outcomes[n] == COMMITTED}
        unknown = {n for n in below if book.outcomes.get(n, UNKNOWN) == UNKNOWN}
        for name in committed | (unknown & book.begun.keys()):
            for leg in book.begun[name].legs:
                expected[leg.account] += leg.delta
        if total := sum(balances.values()):
            found["total"].add(f"{who}: cut {number} sums to {total}")
        for account in sorted(balances.keys() | expected.keys()):
            if balances[account] != expected[account]:
                found["total"].add(
                    f"{who}: account {account} has {balances[account]} at cut {number}, not"
                    f" {expected[account]}"
                )
