"""The anomalies that a history must not contain: lost, duplicated, reordered and invented records.

The checker trusts only the history. It takes the log of a key to be all values that a client read
or had acknowledged. It compares this log with the sent values and with the last reading, which
starts from the beginning after the last fault. Without transactions and with assigned partitions,
no anomaly at all is allowed.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from strandline_chaos.measures import Measures, measure

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from strandline_chaos.history import Event

REMOVED: Final = "removed"
"""The note that records of a key below an offset may be gone from now on: [key, offset]."""
FINAL_READ: Final = "final-read"
"""The note that opens the last reading; its value lists the processes that do it."""
EXAMPLES_MAX: Final = 5

Key = int
Value = int
Offset = int


@dataclass(frozen=True, slots=True)
class Send:
    """One value's history: its sender, its time, and its answer."""

    process: int
    key: Key
    value: Value
    invoked: int
    outcome: str
    offset: Offset | None
    """The acknowledged offset; None without one, or if the broker no longer knew it."""
    completed_ns: int


@dataclass(slots=True)
class Anomaly:
    """One kind of anomaly: its count, and a few examples in words."""

    count: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, example: str) -> None:
        self.count += 1
        if len(self.examples) < EXAMPLES_MAX:
            self.examples.append(example)


ANOMALIES: Final = {
    "lost": "acknowledged, and not in the last reading",
    "duplicated": "one value at two offsets",
    "reordered": "not in the order in which it was sent, or read backwards",
    "phantom": "read, and never sent or surely not written",
    "inconsistent": "one offset with two values",
    "misplaced": "acknowledged at another offset than the one where it is read",
    "taken_back": "read once, and not in the last reading",
    "skipped": "an offset that a reader passed over",
    "end_fell": "an end offset below one that the same client was told or read before",
    "corrupt": "bytes that are not what was sent",
}


@dataclass(frozen=True, slots=True)
class CheckResult:
    anomalies: dict[str, Anomaly]
    sent: int
    acknowledged: int
    failed: int
    unknown: int
    read: int
    """Records in the last reading."""
    longest_gap_ms: float
    """The longest time in which no send of a key was acknowledged, over all keys."""
    measures: Measures
    complete: bool
    """True if there was a last reading, with something to read."""

    @property
    def sound(self) -> bool:
        return self.complete and all(a.count == 0 for a in self.anomalies.values())

    def document(self) -> dict[str, object]:
        """The verdict for scripts."""
        counts: dict[str, object] = {name: a.count for name, a in self.anomalies.items()}
        return {
            "verdict": "sound" if self.sound else "broken" if self.complete else "incomplete",
            "sent": self.sent,
            "acknowledged": self.acknowledged,
            "failed": self.failed,
            "unknown": self.unknown,
            "read": self.read,
            **counts,
            "longest_gap_ms": round(self.longest_gap_ms, 1),
            **self.measures.document(),
        }


class _Facts:
    """The facts of the history, by key."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.sends: dict[tuple[Key, Value], Send] = {}
        self.polls: list[tuple[int, Key, list[tuple[Offset, Value]]]] = []
        self.removed: dict[Key, Offset] = {}
        self.removed_at_poll: list[Offset] = []
        """For each of `polls`, the offset of its key below which records might be gone by then."""
        self.ends: list[tuple[int, Key, Offset, bool]] = []
        """(process, key, end, told): an end that a client was told, or has read up to."""
        self.final: dict[Key, dict[Offset, Value]] = {}
        self.has_final = False
        self.corrupt: list[str] = []
        final_processes: set[int] = set()
        open_sends: dict[int, Event] = {}
        for event in events:
            if event.f == FINAL_READ:
                final_processes = set(event.value)
                self.has_final = True
                self.final = {}
            elif event.f == REMOVED:
                key, offset = event.value
                self.removed[key] = max(offset, self.removed.get(key, 0))
            elif event.f == "corrupt":
                self.corrupt.append(str(event.value))
            elif event.f == "send" and event.type == "invoke":
                open_sends[event.op] = event
            elif event.f == "send":
                self._completed(open_sends.pop(event.op), event)
            elif event.type == "ok" and event.f in ("poll", "ends"):
                self._read(event, is_final=event.process in final_processes)
        for invoked in open_sends.values():  # the client died in the middle: unknown outcome
            self._completed(invoked, invoked)

    def _read(self, event: Event, *, is_final: bool) -> None:
        if event.f == "ends":
            self.ends += [(event.process, key, end, True) for key, end in event.value[0][1]]
            return
        for key, pairs in event.value[0][1]:
            run = [(offset, value) for offset, value in pairs]
            self.polls.append((event.process, key, run))
            self.removed_at_poll.append(self.removed.get(key, 0))
            if run:
                self.ends.append((event.process, key, run[-1][0] + 1, False))
            if is_final:
                self.final.setdefault(key, {}).update(run)

    def _completed(self, invoked: Event, completed: Event) -> None:
        _, key, value = invoked.value[0]
        outcome = "info" if completed is invoked else completed.type
        offset = completed.value[0][2][0] if outcome == "ok" else None
        self.sends[key, value] = Send(
            process=invoked.process,
            key=key,
            value=value,
            invoked=invoked.index,
            outcome=outcome,
            offset=offset,
            completed_ns=completed.time_ns,
        )

    def may_be_gone(self, key: Key, offset: Offset | None) -> bool:
        """True if the record was deleted on purpose (I-75); None: its offset is unknown."""
        removed = self.removed.get(key, 0)
        return removed > 0 if offset is None else offset < removed

    def placed(self) -> Iterator[tuple[Key, Offset, Value]]:
        """Every (key, offset, value) that a client read, then every one that was acknowledged."""
        for _, key, run in self.polls:
            for offset, value in run:
                yield key, offset, value
        for send in self.sends.values():
            if send.offset is not None:
                yield send.key, send.offset, send.value


def check(events: Iterable[Event]) -> CheckResult:
    """Compare the promises of the history with the reads."""
    events = list(events)
    facts = _Facts(events)
    found = {name: Anomaly() for name in ANOMALIES}
    for example in facts.corrupt:
        found["corrupt"].add(example)
    _check_last_reading(facts, found)
    _check_places(facts, found)
    _check_phantoms(facts, found)
    _check_send_order(facts, found)
    _check_poll_order(facts, found)
    _check_ends(facts, found)
    outcomes = [send.outcome for send in facts.sends.values()]
    read = sum(len(values) for values in facts.final.values())
    return CheckResult(
        anomalies=found,
        sent=len(outcomes),
        acknowledged=outcomes.count("ok"),
        failed=outcomes.count("fail"),
        unknown=outcomes.count("info"),
        read=read,
        longest_gap_ms=_longest_gap_ms(facts.sends.values()),
        measures=measure(events),
        complete=facts.has_final and "ok" in outcomes,
    )


def _check_last_reading(facts: _Facts, found: dict[str, Anomaly]) -> None:
    """Every acknowledged record, and every record that a client read, is there at the end (I-18,
    I-19).
    """
    at_end = {(key, value) for key, log in facts.final.items() for value in log.values()}
    for send in facts.sends.values():
        if (
            send.outcome == "ok"
            and (send.key, send.value) not in at_end
            and not facts.may_be_gone(send.key, send.offset)
        ):
            found["lost"].add(f"key {send.key} value {send.value}, acknowledged at {send.offset}")
    taken_back = {
        (key, value, offset)
        for _, key, run in facts.polls
        for offset, value in run
        if (key, value) not in at_end and not facts.may_be_gone(key, offset)
    }
    for key, value, offset in sorted(taken_back):
        found["taken_back"].add(f"key {key} value {value}, read at {offset}")


def _check_places(facts: _Facts, found: dict[str, Anomaly]) -> None:
    """A value has one offset and an offset one value, in every report."""
    offsets: dict[tuple[Key, Value], set[Offset]] = defaultdict(set)
    values: dict[tuple[Key, Offset], set[Value]] = defaultdict(set)
    read_at: dict[tuple[Key, Value], set[Offset]] = defaultdict(set)
    for key, offset, value in facts.placed():
        offsets[key, value].add(offset)
        values[key, offset].add(value)
    for _, key, run in facts.polls:
        for offset, value in run:
            read_at[key, value].add(offset)
    for (key, value), where in read_at.items():
        if len(where) > 1:
            found["duplicated"].add(f"key {key} value {value} at {sorted(where)}")
    for (key, offset), what in values.items():
        if len(what) > 1:
            found["inconsistent"].add(f"key {key} offset {offset} holds {sorted(what)}")
    for send in facts.sends.values():
        where = read_at.get((send.key, send.value), set())
        if send.offset is not None and where and send.offset not in where:
            found["misplaced"].add(
                f"key {send.key} value {send.value}: acknowledged at {send.offset}, read at"
                f" {sorted(where)}"
            )


def _check_phantoms(facts: _Facts, found: dict[str, Anomaly]) -> None:
    """Every read value was sent, and not by a send that reported to have written nothing (I-21)."""
    seen: set[tuple[Key, Value]] = set()
    for _, key, run in facts.polls:
        for offset, value in run:
            if (key, value) in seen:
                continue
            seen.add((key, value))
            send = facts.sends.get((key, value))
            if send is None:
                found["phantom"].add(f"key {key} value {value} at {offset} was never sent")
            elif send.outcome == "fail":
                found["phantom"].add(
                    f"key {key} value {value} at {offset}, whose send had surely not written"
                )


def _check_send_order(facts: _Facts, found: dict[str, Anomaly]) -> None:
    """One client's records of a key are in the log in the order of its calls (I-59)."""
    where = {(key, value): o for key, log in facts.final.items() for o, value in log.items()}
    last: dict[tuple[int, Key], tuple[Offset, Value]] = {}
    for send in sorted(facts.sends.values(), key=lambda send: send.invoked):
        offset = where.get((send.key, send.value))
        if offset is None:
            continue
        before = last.get((send.process, send.key))
        if before is not None and offset < before[0]:
            found["reordered"].add(
                f"key {send.key}: value {send.value} at {offset} was sent after value {before[1]}"
                f" at {before[0]}"
            )
        last[send.process, send.key] = (offset, send.value)


def _check_poll_order(facts: _Facts, found: dict[str, Anomaly]) -> None:
    """One reader of an assigned key sees every offset once and upwards. If the next records were
    deleted, it continues where the key begins (I-75).
    """
    last: dict[tuple[int, Key], Offset] = {}
    for (process, key, run), removed in zip(facts.polls, facts.removed_at_poll, strict=True):
        for offset, value in run:
            before = last.get((process, key))
            if before is not None and offset <= before:
                found["reordered"].add(f"key {key}: offset {offset} was read after {before}")
            elif before is not None and offset != before + 1 and offset > removed:
                found["skipped"].add(
                    f"key {key}: {value} at {offset} follows {before} in one reader"
                )
            last[process, key] = offset


def _check_ends(facts: _Facts, found: dict[str, Anomaly]) -> None:
    """I-11: the end of a key never falls for a client, which remembers the newest leader that it
    has met. One that knows only a deposed leader may be told less than others were (I-35).
    """
    highest: dict[tuple[int, Key], Offset] = {}
    for process, key, end, told in facts.ends:
        before = highest.get((process, key), 0)
        if told and end < before:
            found["end_fell"].add(f"key {key}: its end was {before} and is given as {end}")
        highest[process, key] = max(before, end)


def _longest_gap_ms(sends: Iterable[Send]) -> float:
    times: dict[Key, list[int]] = defaultdict(list)
    for send in sends:
        if send.outcome == "ok":
            times[send.key].append(send.completed_ns)
    longest = 0
    for stamps in times.values():
        stamps.sort()
        longest = max([longest, *(b - a for a, b in pairwise(stamps))])
    return longest / 1e6
