"""Committed offsets as registers, as clients see them (I-106, I-142, I-143): a query returns the
last commit acknowledged before the query, or a later one.

The order of the commits is that of their records in the log. A record is matched with a commit by
its content, so the kinder reading judges a history with two equal commits.

A deposed coordinator that has not learned of it answers with the offsets committed under it: it
cannot know that they are old (I-35). Such an answer is excused only if the query began before it
and ended after it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.workload.group_history import (
    AdminAcknowledged,
    AdminAsked,
    AdminRefused,
    CommitAcknowledged,
    CommitAsked,
    CommitRefused,
    Joined,
    OffsetsAsked,
    OffsetsTold,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from strandline_proof.sim.workload.group_history import Committed, Partition, Told

Register = tuple[str, "Partition"]
"""A group and a partition."""


class Written(NamedTuple):
    """A register's value and the time of its commit, or of a deposed coordinator's answer."""

    value: Committed | None
    """None: the offset was deleted."""
    at_s: float


class _Question(NamedTuple):
    group: str
    floors: dict[Partition, int]
    """The number of each register's values before the query."""
    at_s: float


def check_registers(
    told: Sequence[Told],
    written: Mapping[Register, Sequence[Written]],
    by_deposed: Mapping[Register, Sequence[Written]],
) -> int:
    """Checks the answers and returns how many were judged. `written`: in the order of the log.
    `by_deposed`: the answers of deposed coordinators, and their times.
    """
    groups: dict[str, str] = {}
    commits: dict[int, tuple[str, CommitAsked | AdminAsked, float]] = {}
    asked: dict[int, _Question] = {}
    floors: defaultdict[Register, int] = defaultdict(int)
    judged = 0
    _check_refused(told, written)
    for at_s, who, event in told:
        if isinstance(event, Joined | OffsetsAsked):
            groups[who] = event.group
        match event:
            case CommitAsked() if who in groups:
                commits[event.operation] = groups[who], event, at_s
            case AdminAsked():
                commits[event.operation] = event.group, event, at_s
            case CommitAcknowledged() | AdminAcknowledged():
                if event.operation in commits:
                    group, question, since_s = commits.pop(event.operation)
                    _raise_floors(who, group, question, (since_s, at_s), floors, written)
            case OffsetsAsked():
                since = {p: floors[event.group, p] for p in event.partitions}
                asked[event.operation] = _Question(event.group, since, at_s)
            case OffsetsTold() if event.operation in asked:
                ask = asked.pop(event.operation)
                for partition, value in event.offsets.items():
                    register = ask.group, partition
                    old = [e for e in by_deposed.get(register, ()) if ask.at_s <= e.at_s <= at_s]
                    is_old = _said(value) in (_said(each.value) for each in old)
                    floor = 0 if is_old else ask.floors[partition]
                    values = [each.value for each in written.get(register, ())]
                    _check_told(who, register, value, floor, values)
                judged += len(event.offsets)
            case _:
                pass
    return judged


def _said(value: Committed | None) -> tuple[int, str] | None:
    """The content that tells commits apart; the library may add the leader epoch."""
    return None if value is None else (value.offset, value.metadata)


def _raise_floors(
    who: str,
    group: str,
    asked: CommitAsked | AdminAsked,
    during_s: tuple[float, float],
    floors: dict[Register, int],
    written: Mapping[Register, Sequence[Written]],
) -> None:
    """Raises the floor of every later query to an acknowledged commit. Deletions look alike: the
    one committed between the request and its answer counts.
    """
    begun_s, ended_s = during_s
    for partition, value in asked.offsets.items():
        register = group, partition
        values = written.get(register, ())
        found = [
            at
            for at, each in enumerate(values)
            if _said(each.value) == _said(value)
            and (value is not None or begun_s <= each.at_s <= ended_s)
        ]
        if found:
            floors[register] = max(floors[register], found[0] + 1)
        elif value is not None:  # a missing offset need not be deleted
            raise Violation("I-142", f"{who}: {value} of {register} is acknowledged, and lost")


def _check_refused(told: Sequence[Told], written: Mapping[Register, Sequence[Written]]) -> None:
    """A commit that was refused for good is never carried out."""
    committed = {
        (group, partition, _said(each.value))
        for (group, partition), values in written.items()
        for each in values
        if each.value is not None
    }
    groups = {who: event.group for _, who, event in told if isinstance(event, Joined)}
    refused = {
        event.operation for _, _, event in told if isinstance(event, CommitRefused | AdminRefused)
    }
    for _, who, event in told:
        if not isinstance(event, CommitAsked | AdminAsked) or event.operation not in refused:
            continue
        group = event.group if isinstance(event, AdminAsked) else groups.get(who, "")
        for partition, value in event.offsets.items():
            if value is not None and (group, partition, _said(value)) in committed:
                raise Violation(
                    "I-106", f"{who}: {value} of {(group, partition)} is refused, and committed"
                )


def _check_told(
    who: str,
    register: Register,
    value: Committed | None,
    floor: int,
    values: Sequence[Committed | None],
) -> None:
    last = values[floor - 1] if floor > 0 else None
    if _said(value) in map(_said, (last, *values[floor:])):
        return
    known = value is None or _said(value) in map(_said, values)
    raise Violation(
        "I-106" if known else "I-143",
        f"{who} gets {value} of {register}; acknowledged before it asked was {last}",
    )
