"""The decisions about classic groups, each on the group that its command names.

A decision changes the volatile part of a group at once, and its record by `replay`. If the host
cannot carry it out completely, the shard is loaded again, without the volatile part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from strandline_broker.core.coordination.decision import Decision, Record
from strandline_broker.core.groups.classic.commands import (
    CallDropped,
    ClassicHeartbeat,
    GroupLeft,
    JoinEnded,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    LeftMember,
    SyncEnded,
    SyncGroup,
)
from strandline_broker.core.groups.classic.group import ClassicGroup, GroupState
from strandline_broker.core.groups.classic.join import check_join, join
from strandline_broker.core.groups.classic.leave import call_dropped, leave, session_ended
from strandline_broker.core.groups.classic.rebalance import Change, join_ended, sync_ended
from strandline_broker.core.groups.classic.sync import heartbeat, sync
from strandline_broker.core.groups.commands import (
    MembersRemoved,
    RemovedMember,
    RemoveMembers,
    SessionEnded,
)
from strandline_broker.core.groups.effects import (
    SessionTimer,
    StartTimer,
    StopTimer,
)
from strandline_broker.core.groups.group_ids import check_new_group_id
from strandline_broker.core.groups.records.classic_records import (
    GroupMetadataKey,
    GroupMetadataValue,
)
from strandline_proto.errors import (
    GroupIdNotFound,
    InconsistentGroupProtocol,
    UnknownMemberId,
)

if TYPE_CHECKING:
    from strandline_broker.core.groups.classic.commands import ClassicCommand, ClassicReply
    from strandline_broker.core.groups.consumer.consumer import Draft
    from strandline_broker.core.groups.context import Context
    from strandline_broker.core.groups.effects import Effect
    from strandline_broker.core.groups.group_table import GroupTable
    from strandline_proto.errors import WireError

Reply: TypeAlias = "ClassicReply | MembersRemoved | WireError | None"
MemberCommand: TypeAlias = (
    SyncGroup | ClassicHeartbeat | CallDropped | JoinEnded | SyncEnded | SessionEnded
)


def decide(table: GroupTable, command: ClassicCommand, context: Context) -> Decision[Reply, Effect]:
    match command:
        case JoinGroup():
            return _decide_join(table, command, context)
        case LeaveGroup():
            return _decide_leave(table, command, context)
        case _:
            return decide_member(table, command, context)


def _decide_join(
    table: GroupTable, command: JoinGroup, context: Context
) -> Decision[Reply, Effect]:
    """Decide a JoinGroup. A new member may make the group, or take over one of the consumer
    protocol that has no members.
    """
    group_id = command.group_id
    check_new_group_id(group_id)
    check_join(command, context.settings)
    other = table.consumer.get(group_id)
    if other is not None and other.members:
        raise InconsistentGroupProtocol(
            f"group {group_id!r} is of the consumer protocol and has {len(other.members)} members;"
            " the classic protocol can take it over once they have left"
        )
    group = table.classic_group(group_id)
    if group is None:
        if command.member_id != "":
            raise UnknownMemberId(f"there is no group {group_id!r}: join without a member id")
        group = ClassicGroup(group_id)
    change = Change(group, context)
    reply = join(change, command, table.classic.get(group_id))
    if other is not None and not group.is_void:
        # The record of an empty group keeps the offsets of a group that is about to have members.
        empty = GroupMetadataValue(
            protocol_type="", generation=0, current_state_timestamp_ms=context.inputs.wall_ms
        )
        change.records[:0] = [*other.tombstones(), Record(GroupMetadataKey(group_id), empty)]
    return _decision(table, change, reply)


def decide_member(
    table: GroupTable, command: MemberCommand, context: Context
) -> Decision[Reply, Effect]:
    """Decide a command to a group that has members, or has handed out ids."""
    group_id = command.group_id
    group = table.classic_group(group_id)
    if group is None:
        if isinstance(command, SyncGroup | ClassicHeartbeat):
            check_new_group_id(group_id)
            raise UnknownMemberId(f"there is no group {group_id!r}: join without a member id")
        return Decision((), None, about=group_id)
    change = Change(group, context)
    reply: Reply = None
    match command:
        case SyncGroup():
            reply = sync(change, command)
        case ClassicHeartbeat():
            reply = heartbeat(change, command)
        case CallDropped():
            call_dropped(change, command)
        case JoinEnded():
            join_ended(change)
        case SyncEnded():
            sync_ended(change, command.generation)
        case SessionEnded():
            session_ended(change, command.member_id)
    return _decision(table, change, reply)


def _decide_leave(
    table: GroupTable, command: LeaveGroup, context: Context
) -> Decision[Reply, Effect]:
    check_new_group_id(command.group_id)
    group = table.classic_group(command.group_id)
    if group is None:
        unknown = UnknownMemberId(f"there is no group {command.group_id!r}")
        answers = tuple(LeftMember(m.member_id, m.instance_id, unknown) for m in command.members)
        return Decision((), GroupLeft(answers), about=GroupMetadataKey(command.group_id))
    change = Change(group, context)
    return _decision(table, change, leave(change, command))


def decide_removal(
    table: GroupTable, command: RemoveMembers, context: Context
) -> Decision[Reply, Effect]:
    """Decide the removal of members by an administrator, as one that leave."""
    group = table.classic_group(command.group_id)
    if group is None:
        raise GroupIdNotFound(f"there is no group {command.group_id!r} with members")
    if command.members is None:
        wishes = tuple(LeavingMember(member_id) for member_id in group.members)
    else:
        wishes = tuple(LeavingMember(m.member_id, m.instance_id) for m in command.members)
    change = Change(group, context)
    left = leave(change, LeaveGroup(command.group_id, wishes))
    answers = tuple(RemovedMember(m.member_id, m.instance_id, m.error) for m in left.members)
    return _decision(table, change, MembersRemoved(answers))


def refuse_consumer_protocol(table: GroupTable, group_id: str) -> None:
    """Raise the error for a member of the consumer protocol if the group has classic members."""
    group = table.classic_group(group_id)
    if group is not None and group.members:
        raise GroupIdNotFound(
            f"group {group_id!r} is of the classic protocol and has {len(group.members)} members;"
            " the consumer protocol can take it over once they have left"
        )


def give_up(table: GroupTable, draft: Draft) -> None:
    """Let the consumer protocol take over a group without classic members, if there is one."""
    draft.effects += forget(table, draft.group_id)
    if draft.group_id in table.classic:
        draft.records.insert(0, Record(GroupMetadataKey(draft.group_id), None))


def forget(table: GroupTable, group_id: str) -> tuple[Effect, ...]:
    """Forget the handed-out ids of a group that is deleted, or that the other protocol takes
    over.
    """
    group = table.live.pop(group_id, None)
    if group is None:
        return ()
    assert group.state is GroupState.EMPTY, group
    return tuple(StopTimer(SessionTimer(group_id, member_id)) for member_id in group.pending)


def timers(table: GroupTable) -> tuple[StartTimer, ...]:
    """The timers that the records require: each member has a session."""
    return tuple(
        StartTimer(SessionTimer(group_id, member.member_id), member.session_timeout_ms)
        for group_id, value in sorted(table.classic.items())
        for member in value.members
    )


def _decision(table: GroupTable, change: Change, reply: Reply) -> Decision[Reply, Effect]:
    table.keep(change.group)
    return Decision(
        tuple(change.records),
        reply,
        tuple(change.effects),
        about=GroupMetadataKey(change.group_id),
    )
