"""Committed offsets as clients see them are registers (I-106, I-142, I-143): who asks is told of
the last commit that was acknowledged before it asked, or of a later one.

The order of the commits is that of their records in the log; which of them is whose is told by what
they say, so a history whose commits say the same twice is judged by the kinder reading.

A coordinator that has been deposed and has not heard of it answers with what was committed under
it: nothing tells it that this is old (I-35). What such a one has said is excused, to who asked
before it said so and was told afterwards, and nobody else.
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
    """What a register was set to, and when that was committed; or who was deposed said it is."""

    value: Committed | None
    """None: it was forgotten."""
    at_s: float


class _Question(NamedTuple):
    group: str
    floors: dict[Partition, int]
    """How many of each register's values were behind who asked."""
    at_s: float


def check_registers(
    told: Sequence[Told],
    written: Mapping[Register, Sequence[Written]],
    by_deposed: Mapping[Register, Sequence[Written]],
) -> int:
    """`written`: in the order of the log. `by_deposed`: what coordinators answered that had been
    deposed, and when. How many answers were judged.
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
    """What tells commits apart; the leader epoch may be the library's to add."""
    return None if value is None else (value.offset, value.metadata)


def _raise_floors(
    who: str,
    group: str,
    asked: CommitAsked | AdminAsked,
    during_s: tuple[float, float],
    floors: dict[Register, int],
    written: Mapping[Register, Sequence[Written]],
) -> None:
    """What is acknowledged is behind everybody who asks from now on. One oblivion is like another:
    it is the one that was committed between the question and its answer.
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
        elif value is not None:  # what is not there need not be forgotten
            raise Violation("I-142", f"{who}: {value} of {register} is acknowledged, and lost")


def _check_refused(told: Sequence[Told], written: Mapping[Register, Sequence[Written]]) -> None:
    """What was refused for good is carried out by nobody, ever."""
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
        f"{who} is told {value} of {register}; acknowledged before it asked was {last}",
    )
