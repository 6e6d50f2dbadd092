"""The classic groups of a shard, compared with its log and with the calls that are parked.

- Their records are the fold (I-102), and a stable group is its record (I-119).
- A group with members has one of them as its leader (I-115), and no handed-out id is a member
  (I-120).
- Every call that waits has one member that waits for it (I-122).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_proof.sim.oracles.groups.fold import Classic
from strandline_proof.sim.oracles.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from strandline_broker.core.groups.classic.group import ClassicGroup
    from strandline_broker.core.groups.records.classic_records import GroupMetadataValue

STABLE = "Stable"


def check_classic(
    where: str,
    fold: Mapping[str, Classic],
    records: Mapping[str, GroupMetadataValue],
    groups: Mapping[str, ClassicGroup],
    *,
    waiting: Collection[int],
) -> None:
    """Checks the records of classic groups, and the groups as their members know them. `waiting`:
    the numbers of the calls that are parked.
    """
    found = {name: _record(value) for name, value in records.items()}
    if found != dict(fold):
        raise Violation("I-102", f"{where}: classic {found}, by the log {dict(fold)}")
    for name, group in groups.items():
        _check_group(f"{where} group {name}", group, fold.get(name))
    awaited = sorted(number for group in groups.values() for number in _awaited(group))
    if awaited != sorted(waiting):
        raise Violation(
            "I-122", f"{where}: members wait for the calls {awaited}, and parked are {waiting}"
        )


def _check_group(where: str, group: ClassicGroup, written: Classic | None) -> None:
    if group.state.value == STABLE:
        parts = {
            member.member_id: (member.instance_id, member.assignment.hex())
            for member in group.members.values()
        }
        by_log = {} if written is None else {m: (i, part) for m, i, part in written.members}
        if written is None or parts != by_log or written.generation != group.generation:
            raise Violation("I-119", f"{where} is stable with {parts}, by the log {written}")
    if group.members and group.leader not in group.members:
        raise Violation("I-115", f"{where}: its leader {group.leader} is no member")
    if both := set(group.members) & set(group.pending):
        raise Violation("I-120", f"{where}: {both} are members and have not joined")


def _awaited(group: ClassicGroup) -> Iterable[int]:
    for member in group.members.values():
        for number in (member.join_call, member.sync_call):
            if number is not None:
                yield number


def _record(value: GroupMetadataValue) -> Classic:
    return Classic(
        value.generation,
        value.protocol_type,
        value.protocol,
        value.leader,
        tuple((m.member_id, m.group_instance_id, m.assignment.hex()) for m in value.members),
    )
