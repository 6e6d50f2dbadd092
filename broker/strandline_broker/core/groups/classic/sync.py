"""SyncGroup and Heartbeat: members take their assignment, and say that they are alive.

The leader's SyncGroup ends a rebalance. Its assignments are written in one record with the members
of the generation, and the group is stable with that record (I-119). A member that the leader has
not named gets an empty assignment (I-118).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.groups.classic.commands import PARKED, GroupSynced, Parked
from strandline_broker.core.groups.classic.group import GroupState
from strandline_broker.core.groups.classic.members import (
    check_generation,
    check_protocol,
    known_member,
)
from strandline_broker.core.groups.classic.rebalance import prepare, rebalances, record_bytes
from strandline_broker.core.groups.effects import StopTimer, SyncTimer
from strandline_proto.errors import UnknownServerError

if TYPE_CHECKING:
    from strandline_broker.core.groups.classic.commands import ClassicHeartbeat, SyncGroup
    from strandline_broker.core.groups.classic.group import ClassicGroup, Member
    from strandline_broker.core.groups.classic.rebalance import Change
    from strandline_proto.errors import WireError


def sync(change: Change, command: SyncGroup) -> GroupSynced | Parked | WireError:
    group = change.group
    member = known_member(group, group.group_id, command.member_id, command.instance_id)
    check_generation(group, command.generation)
    check_protocol(group, command.protocol_type, command.protocol, is_named=command.names_protocol)
    if group.state is GroupState.PREPARING:
        return rebalances(group)
    _has_synced(change, member)
    change.start_session(member)
    if group.state is GroupState.STABLE:
        return _synced(group, member)
    change.park_sync(member, command.call)
    if group.leader == member.member_id:
        _assign(change, command)
    return PARKED


def heartbeat(change: Change, command: ClassicHeartbeat) -> WireError | None:
    group = change.group
    member = known_member(group, group.group_id, command.member_id, command.instance_id)
    check_generation(group, command.generation)
    change.start_session(member)
    return rebalances(group) if group.state is GroupState.PREPARING else None


def _assign(change: Change, command: SyncGroup) -> None:
    """Write the leader's assignments, and answer the members that wait for them."""
    group = change.group
    named = {each.member_id: each.assignment for each in command.assignments}
    value = group.value(named)
    size, bound = record_bytes(group.group_id, value), change.context.inputs.batch_bytes_max
    if size > bound:
        _refuse(change, group.members[command.member_id], size, bound)
        return
    change.write(value)
    change.enter_stable()
    for member in group.members.values():
        member.assignment = named.get(member.member_id, b"")
        if member.sync_call is not None:
            change.start_session(member)
            change.answer_sync(member, _synced(group, member))


def _refuse(change: Change, leader: Member, size: int, bound: int) -> None:
    """Nothing is written: the leader gets the reason, and the others join again."""
    error = UnknownServerError(
        f"the members and assignments of group {change.group_id!r} take {size} bytes, and a batch"
        f" of the coordinator's log has at most {bound}: let the members have less metadata or"
        " fewer partitions"
    )
    change.answer_sync(leader, error)
    change.start_session(leader)
    prepare(change, str(error))


def _has_synced(change: Change, member: Member) -> None:
    unsynced = change.group.unsynced
    if member.member_id not in unsynced:
        return
    del unsynced[member.member_id]
    if not unsynced:
        change.effects.append(StopTimer(SyncTimer(change.group_id)))


def _synced(group: ClassicGroup, member: Member) -> GroupSynced:
    return GroupSynced(group.protocol_type, group.protocol or "", member.assignment)
