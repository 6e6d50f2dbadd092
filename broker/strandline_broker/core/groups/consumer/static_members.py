"""Static members (KIP-345): a process that returns with an instance id takes over the former
member's place.

While the former process is a member, no other may join with its instance id. Once it has left
temporarily (-2) or with its session, the next process gets its place under a new member id. It gets
the target and the assignment, without a new group epoch (I-126). This is written as records, so
every later coordinator fences the former process too (I-124).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.groups.commands import LEAVE_STATIC_EPOCH
from strandline_broker.core.groups.consumer.current_assignment import (
    Current,
    MemberState,
    partition_topics,
    to_value,
)
from strandline_broker.core.groups.consumer.membership import grant_freed, write_current
from strandline_broker.core.groups.effects import RebalanceTimer, SessionTimer, StopTimer
from strandline_broker.core.groups.records.consumer_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
)
from strandline_proto.errors import FencedInstanceId, UnknownMemberId, UnreleasedInstanceId

if TYPE_CHECKING:
    from strandline_broker.core.groups.consumer.consumer import ConsumerGroup, Draft
    from strandline_broker.core.groups.context import Context


def check_instance(group: ConsumerGroup, instance_id: str | None, member_id: str) -> None:
    """Raise FencedInstanceId if the instance id belongs to another member."""
    if instance_id is None:
        return
    owner = group.static_members.get(instance_id)
    if owner is not None and owner != member_id:
        raise FencedInstanceId(
            f"instance {instance_id!r} of group {group.group_id!r} is member {owner!r} now, not "
            f"{member_id!r}: another process has taken its place"
        )


def check_known_instance(group: ConsumerGroup, instance_id: str | None, member_id: str) -> None:
    if instance_id is not None and instance_id not in group.static_members:
        raise UnknownMemberId(
            f"group {group.group_id!r} has no instance {instance_id!r}: join again with epoch 0"
        )
    check_instance(group, instance_id, member_id)


def replaced_by(group: ConsumerGroup, instance_id: str | None, member_id: str) -> str | None:
    """The member whose place a joining member takes; None if it is the same one or a new one."""
    if instance_id is None:
        return None
    former = group.static_members.get(instance_id)
    if former is None or former == member_id:
        return None
    if not group.current(former).is_absent:
        raise UnreleasedInstanceId(
            f"instance {instance_id!r} of group {group.group_id!r} is held by member {former!r}: "
            "stop that process, or wait for its session to end"
        )
    return former


def replace_member(draft: Draft, former: str, member_id: str) -> None:
    """Give everything of the former member to the new one, which must still receive it."""
    group_id = draft.group_id
    metadata = draft.members[former]
    target = draft.target(former)
    current = draft.current(former)
    draft.write(ConsumerGroupCurrentMemberAssignmentKey(group_id, former), None)
    draft.write(ConsumerGroupTargetAssignmentMemberKey(group_id, former), None)
    draft.write(ConsumerGroupMemberMetadataKey(group_id, former), None)
    draft.write(ConsumerGroupMemberMetadataKey(group_id, member_id), metadata)
    draft.write(
        ConsumerGroupTargetAssignmentMemberKey(group_id, member_id),
        ConsumerGroupTargetAssignmentMemberValue(partition_topics(target)),
    )
    joining = Current(assigned=current.assigned)
    draft.write(ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), to_value(joining))
    draft.changed.add(former)
    draft.effects.append(StopTimer(SessionTimer(group_id, former)))
    draft.effects.append(StopTimer(RebalanceTimer(group_id, former)))


def leave_for_a_while(draft: Draft, context: Context, member_id: str) -> None:
    """Let a static member leave temporarily. It has given up the requested partitions, since it has
    stopped.
    """
    current = draft.current(member_id)
    if current.is_absent:
        return
    absent = Current(
        epoch=LEAVE_STATIC_EPOCH,
        previous_epoch=current.epoch,
        state=MemberState.STABLE,
        assigned=current.assigned,
    )
    write_current(draft, member_id, absent)
    draft.changed.discard(member_id)
    draft.effects.append(StopTimer(RebalanceTimer(draft.group_id, member_id)))
    grant_freed(draft, context)
