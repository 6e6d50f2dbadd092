"""The steps of every change of a consumer group, each on a draft of the group.

A change of members or of their subscriptions raises the group epoch (I-128). A group epoch above
the assignment's requires a new target. With a target, or with partitions that were freed, members
get closer to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.groups.consumer.consumer import subscription_of
from strandline_broker.core.groups.consumer.current_assignment import Current, MemberState, to_value
from strandline_broker.core.groups.consumer.reconcile import Goal, reconcile
from strandline_broker.core.groups.consumer.subscription import forget_unused_regexes, metadata_hash
from strandline_broker.core.groups.consumer.target import (
    chosen_assignor,
    existing_topics,
    size,
    specification,
    write_target,
)
from strandline_broker.core.groups.effects import (
    Compute,
    RebalanceTimer,
    SessionTimer,
    StartTimer,
    StopTimer,
)
from strandline_broker.core.groups.group_config import SESSION_TIMEOUT, group_value
from strandline_broker.core.groups.records.consumer_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_broker.core.groups.assignors import PartitionSets
    from strandline_broker.core.groups.consumer.consumer import Draft
    from strandline_broker.core.groups.context import Context
    from strandline_proto.ids import TopicId


def raise_epoch(draft: Draft, context: Context) -> None:
    digest = metadata_hash(draft.subscribed_names(), context.inputs.metadata)
    draft.write(
        ConsumerGroupMetadataKey(draft.group_id),
        ConsumerGroupMetadataValue(draft.epoch + 1, digest),
    )


def want_target(draft: Draft, context: Context) -> None:
    """Ensure a target for the group's epoch. It is computed at once if that is quick. The first one
    is always computed at once: without a target no member could distinguish its epoch from a
    joining member's.
    """
    if draft.epoch <= draft.assignment_epoch:
        return
    metadata = context.inputs.metadata
    if draft.assignment_epoch > 0 and size(draft, metadata) > context.settings.assign_at_once_max:
        draft.effects.append(Compute(draft.group_id))
        return
    assignor = context.assignors[chosen_assignor(draft, tuple(context.assignors))]
    target = assignor.assign(specification(draft, metadata))
    write_target(draft, target, context.inputs.wall_ms)


def remove_members(draft: Draft, context: Context, member_ids: Iterable[str]) -> None:
    """Remove members from the group; their partitions become free."""
    group_id = draft.group_id
    for member_id in member_ids:
        draft.freed.update(draft.current(member_id).held())
        draft.write(ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), None)
        draft.write(ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), None)
        draft.write(ConsumerGroupMemberMetadataKey(group_id, member_id), None)
        draft.changed.add(member_id)
        draft.effects.append(StopTimer(SessionTimer(group_id, member_id)))
        draft.effects.append(StopTimer(RebalanceTimer(group_id, member_id)))
    forget_unused_regexes(draft)
    raise_epoch(draft, context)
    want_target(draft, context)
    grant_freed(draft, context)


def reconcile_member(
    draft: Draft,
    context: Context,
    member_id: str,
    *,
    owned: PartitionSets | None,
) -> None:
    """Write the member's new assignment, if it changes."""
    metadata = context.inputs.metadata
    member = draft.members[member_id]
    before = draft.current(member_id)
    holders = draft.holders

    def is_free(topic_id: TopicId, partition: int) -> bool:
        return holders.get((topic_id, partition), member_id) == member_id

    goal = Goal(
        epoch=draft.assignment_epoch,
        target=draft.target(member_id),
        subscribed=existing_topics(draft.names_of(subscription_of(member)), metadata),
        existing=metadata.topics_by_id,
        is_free=is_free,
    )
    after = reconcile(before, goal, owned=owned)
    if after == before and member_id in draft.currents:
        return
    write_current(draft, member_id, after)
    timer = RebalanceTimer(draft.group_id, member_id)
    if after.state is MemberState.UNREVOKED_PARTITIONS:
        draft.effects.append(StartTimer(timer, member.rebalance_timeout_ms, after.epoch))
    elif before.state is MemberState.UNREVOKED_PARTITIONS:
        draft.effects.append(StopTimer(timer))


def write_current(draft: Draft, member_id: str, after: Current) -> None:
    draft.freed.update(set(draft.current(member_id).held()) - set(after.held()))
    draft.write(ConsumerGroupCurrentMemberAssignmentKey(draft.group_id, member_id), to_value(after))
    draft.changed.add(member_id)


def grant_freed(draft: Draft, context: Context) -> None:
    """Give freed partitions to waiting members that have the assignment's epoch. Other waiting
    members are listed as changed, so that those reached by a push are reconciled.
    """
    if not draft.freed:
        return
    freed: dict[TopicId, set[int]] = {}
    for topic_id, partition in draft.freed:
        freed.setdefault(topic_id, set()).add(partition)
    for member_id in sorted(draft.waiting):
        target = draft.target(member_id)
        if not any(partitions & set(target.get(t, ())) for t, partitions in freed.items()):
            continue
        if draft.current(member_id).epoch == draft.assignment_epoch:
            reconcile_member(draft, context, member_id, owned=None)
        draft.changed.add(member_id)


def start_session(draft: Draft, context: Context, member_id: str) -> None:
    overrides = context.inputs.configs_of(draft.group_id)
    ms = group_value(SESSION_TIMEOUT, context.settings, overrides)
    draft.effects.append(StartTimer(SessionTimer(draft.group_id, member_id), ms))
