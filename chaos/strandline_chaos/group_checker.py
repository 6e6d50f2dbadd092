"""The anomalies that the history of consumer groups must not contain.

A group's committed offset is a register for each key. It never falls below an acknowledged commit
(I-142), and no value appears in it that no member has asked for. A lower answer counts unless the
same owner gets the right one before its next commit, or makes none: a deposed coordinator may not
know yet. Members commit after they have
handled their records, so every acknowledged record reaches each group at least once.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from strandline_chaos.checkers import FINAL_READ, Anomaly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from strandline_chaos.history import Event

MEMBER: Final = "member"
"""The note that a process is a member of a group: [process, group]."""
GROUP_POLL: Final = "group-poll"
"""A member's poll, with records as a reader's poll has them."""
COMMIT: Final = "commit"
"""A member's commit: [[key, offset], ...], the offsets to read next."""
COMMITTED: Final = "committed"
"""A query for the committed offset of keys: [[key, offset], ...], -1 without one."""
GROUP_FINAL: Final = "group-final"
"""The note that the last query of groups begins; its value lists the processes."""

GROUP_ANOMALIES: Final = {
    "commit_fell": "a committed offset below one that was acknowledged before",
    "commit_invented": "a committed offset that no member has asked for",
    "undelivered": "acknowledged, and handed to no member of a group",
    "misdelivered": "handed to a member, and not what the last reading found there",
    "group_short": "a group that did not reach the end",
}

Key = int
Register = tuple[str, Key]


@dataclass(frozen=True, slots=True)
class GroupResult:
    anomalies: dict[str, Anomaly]
    groups: int
    members: int
    """Lives of members, one after the other."""
    commits: int
    """Acknowledged commits."""
    judged: int
    """Registers in answers that were compared with the commits before."""


@dataclass(slots=True)
class _Told:
    """What the events have told so far."""

    group_of: dict[int, str] = field(default_factory=dict)
    asked: dict[int, list[list[int]]] = field(default_factory=dict)
    """The open commits, by operation."""
    values: dict[Register, set[int]] = field(default_factory=lambda: defaultdict(set))
    floors: dict[Register, int] = field(default_factory=dict)
    floors_at: dict[int, dict[Register, int]] = field(default_factory=dict)
    """The floors when a query began, by operation."""
    begun_ns: dict[int, int] = field(default_factory=dict)
    delivered: dict[str, dict[Key, dict[int, set[int]]]] = field(default_factory=dict)
    """Values by group, key and offset."""
    last: dict[Register, int] = field(default_factory=dict)
    """The committed offset in the last query."""
    falls: dict[tuple[int, Key], tuple[int, int]] = field(default_factory=dict)
    """(acknowledged, told) by process and key: answers that were not taken back yet."""
    commits: int = 0
    judged: int = 0
    members: int = 0


def _never(begun_ns: int, ended_ns: int) -> bool:
    return False


def check_groups(
    events: Sequence[Event],
    *,
    may_be_old: Callable[[int, int], bool] = _never,
    lost_until: Mapping[Key, int] | None = None,
) -> GroupResult:
    """Judges a history with the events of members.

    `may_be_old(begun_ns, ended_ns)`: a deposed coordinator may have answered a query of that time
    (I-35). `lost_until`: the event before which records or commits of a key were lost with
    permission; commits and deliveries before it promise nothing.
    """
    found = {name: Anomaly() for name in GROUP_ANOMALIES}
    told, lost = _Told(), lost_until or {}
    final_processes: set[int] = set()
    for event in events:
        if event.f == MEMBER:
            told.group_of[event.value[0]] = event.value[1]
            told.delivered.setdefault(event.value[1], defaultdict(lambda: defaultdict(set)))
            told.members += 1
        elif event.f == GROUP_FINAL:
            final_processes |= set(event.value)
        elif event.f == COMMIT:
            _on_commit(told, event, found, lost)
        elif event.f == COMMITTED:
            is_final = event.process in final_processes
            _on_committed(told, event, found, is_final=is_final, may_be_old=may_be_old)
        elif event.f == GROUP_POLL and event.type == "ok":
            _on_poll(told, event, lost)
    _check_deliveries(told, _last_reading(events), _acknowledged(events, lost), found)
    return GroupResult(found, len(told.delivered), told.members, told.commits, told.judged)


def _on_poll(told: _Told, event: Event, lost: Mapping[Key, int]) -> None:
    delivered = told.delivered[told.group_of[event.process]]
    for key, pairs in event.value[0][1]:
        if event.index >= lost.get(key, 0):
            for offset, value in pairs:
                delivered[key][offset].add(value)


def _on_commit(
    told: _Told, event: Event, found: dict[str, Anomaly], lost: Mapping[Key, int]
) -> None:
    group = told.group_of[event.process]
    if event.type == "invoke":
        _check_falls(told, found, event.process, [key for key, _ in event.value])
        told.asked[event.op] = event.value
        for key, offset in event.value:
            told.values[group, key].add(offset)
        return
    asked = told.asked.pop(event.op)
    if event.type != "ok":
        return
    told.commits += 1
    for key, offset in asked:
        if event.index >= lost.get(key, 0):
            told.floors[group, key] = max(offset, told.floors.get((group, key), -1))


def _on_committed(
    told: _Told,
    event: Event,
    found: dict[str, Anomaly],
    *,
    is_final: bool,
    may_be_old: Callable[[int, int], bool],
) -> None:
    if event.type == "invoke":
        told.floors_at[event.op] = dict(told.floors)
        told.begun_ns[event.op] = event.time_ns
        return
    floors, begun_ns = told.floors_at.pop(event.op), told.begun_ns.pop(event.op)
    if event.type != "ok":
        return
    group = told.group_of[event.process]
    for key, offset in event.value:
        register = group, key
        if offset >= 0 and offset not in told.values[register]:
            found["commit_invented"].add(f"{group}: {offset} of key {key} was never asked for")
        if is_final:
            told.last[register] = offset
        told.judged += 1
        floor = floors.get(register, -1)
        if is_final and offset < floor:
            found["commit_fell"].add(_fall(register, offset, floor))
        elif offset < floor and not may_be_old(begun_ns, event.time_ns):
            told.falls.setdefault((event.process, key), (floor, offset))
        elif told.falls.get((event.process, key), (floor, 0))[0] <= offset:
            told.falls.pop((event.process, key), None)


def _fall(register: Register, offset: int, floor: int) -> str:
    group, key = register
    return f"{group}: {offset} of key {key}, where {floor} was acknowledged"


def _check_falls(told: _Told, found: dict[str, Anomaly], process: int, keys: Iterable[int]) -> None:
    """Counts offsets that an owner got, has asked for again, and gets still: a deposed coordinator
    learns of it, a lost commit stays lost.
    """
    for key in keys:
        if fall := told.falls.pop((process, key), None):
            floor, offset = fall
            found["commit_fell"].add(_fall((told.group_of[process], key), offset, floor))


def _last_reading(events: Iterable[Event]) -> dict[Key, dict[int, int]]:
    processes: set[int] = set()
    final: dict[Key, dict[int, int]] = {}
    for event in events:
        if event.f == FINAL_READ:
            processes, final = set(event.value), {}
        elif event.f == "poll" and event.type == "ok" and event.process in processes:
            for key, pairs in event.value[0][1]:
                final.setdefault(key, {}).update((offset, value) for offset, value in pairs)
    return final


def _acknowledged(
    events: Iterable[Event], lost: Mapping[Key, int]
) -> list[tuple[Key, int | None, int]]:
    """The records that must have been delivered: (key, offset, value)."""
    begun: dict[int, int] = {}
    found = []
    for event in events:
        if event.f != "send":
            continue
        if event.type == "invoke":
            begun[event.op] = event.index
        elif event.type == "ok":
            _, key, (offset, value) = event.value[0]
            if begun[event.op] >= lost.get(key, 0):
                found.append((key, offset, value))
    return found


def _check_deliveries(
    told: _Told,
    final: dict[Key, dict[int, int]],
    acknowledged: list[tuple[Key, int | None, int]],
    found: dict[str, Anomaly],
) -> None:
    for group, by_key in told.delivered.items():
        values = {(k, v) for k, by in by_key.items() for those in by.values() for v in those}
        for key, offset, value in acknowledged:
            if (key, value) not in values:
                found["undelivered"].add(f"{group}: key {key} value {value} at {offset}")
        for key, by_offset in by_key.items():
            for offset, those in by_offset.items():
                expected = final.get(key, {}).get(offset)
                if expected is not None and those != {expected}:
                    found["misdelivered"].add(
                        f"{group}: key {key} offset {offset} gave {sorted(those)},"
                        f" and holds {expected}"
                    )
        for key, log in final.items():
            end, at = max(log, default=-1) + 1, told.last.get((group, key), -1)
            if at != end:
                found["group_short"].add(f"{group}: {at} of key {key}, whose end is {end}")
