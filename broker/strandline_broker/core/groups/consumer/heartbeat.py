"""Heartbeats of consumer groups: members join, stay or leave.

One heartbeat is one decision. The member is added or changed. The group epoch rises if that affects
others, and a target follows. The member then gets as close to the target as its owned partitions
allow. Records are in Kafka's order: member, regular expression, group epoch, target, assignment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.groups.commands import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    UNCHANGED,
    BeatAnswer,
    ConsumerBeat,
    ToRender,
)
from strandline_broker.core.groups.consumer.consumer import subscription_of
from strandline_broker.core.groups.consumer.current_assignment import MemberState
from strandline_broker.core.groups.consumer.membership import (
    grant_freed,
    raise_epoch,
    reconcile_member,
    remove_members,
    start_session,
    want_target,
)
from strandline_broker.core.groups.consumer.static_members import (
    check_known_instance,
    leave_for_a_while,
    replace_member,
    replaced_by,
)
from strandline_broker.core.groups.consumer.subscription import forget_unused_regexes, resolve
from strandline_broker.core.groups.records.consumer_records import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from strandline_proto.errors import (
    FencedMemberEpoch,
    GroupMaxSizeReached,
    UnknownMemberId,
)

if TYPE_CHECKING:
    from strandline_broker.core.groups.assignors import PartitionSets
    from strandline_broker.core.groups.consumer.consumer import Draft
    from strandline_broker.core.groups.consumer.current_assignment import Held
    from strandline_broker.core.groups.context import Context


def heartbeat(draft: Draft, beat: ConsumerBeat, context: Context) -> ToRender | BeatAnswer:
    """Decide a heartbeat to a group that exists, or that this join creates."""
    if beat.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
        return _leave(draft, beat, context)
    if beat.joins:
        _admit(draft, beat, context)
    else:
        _check_member(draft, beat, context)
    if _update(draft, beat, context):
        raise_epoch(draft, context)
    want_target(draft, context)
    if not _has_arrived(draft, beat.member_id):
        reconcile_member(
            draft,
            context,
            beat.member_id,
            owned=None if beat.crossed else beat.owned,
        )
        grant_freed(draft, context)
    start_session(draft, context, beat.member_id)
    draft.changed.discard(beat.member_id)
    return ToRender(beat.group_id, beat.member_id, full=_is_full(beat))


def _leave(draft: Draft, beat: ConsumerBeat, context: Context) -> BeatAnswer:
    _check_known(draft, beat)
    if beat.member_epoch == LEAVE_STATIC_EPOCH:
        leave_for_a_while(draft, context, beat.member_id)
        start_session(draft, context, beat.member_id)
    else:
        remove_members(draft, context, [beat.member_id])
        draft.changed.discard(beat.member_id)
    return BeatAnswer(beat.member_id, beat.member_epoch, 0, None)


def _admit(draft: Draft, beat: ConsumerBeat, context: Context) -> None:
    former = replaced_by(draft, beat.instance_id, beat.member_id)
    if former is not None:
        replace_member(draft, former, beat.member_id)
    bound = context.settings.consumer_max_size
    if beat.member_id not in draft.members and len(draft.members) >= bound:
        raise GroupMaxSizeReached(
            f"group {beat.group_id!r} has {bound} members, as many as group.consumer.max.size "
            "allows"
        )


def _check_known(draft: Draft, beat: ConsumerBeat) -> None:
    check_known_instance(draft, beat.instance_id, beat.member_id)
    if beat.member_id not in draft.members:
        raise UnknownMemberId(
            f"group {beat.group_id!r} has no member {beat.member_id!r}: join again with epoch 0"
        )


def _check_member(draft: Draft, beat: ConsumerBeat, context: Context) -> None:
    _check_known(draft, beat)
    current = draft.current(beat.member_id)
    if beat.crossed or beat.member_epoch == current.epoch:
        return
    if beat.member_epoch > current.epoch:
        raise FencedMemberEpoch(
            f"member {beat.member_id!r} of group {beat.group_id!r} says epoch {beat.member_epoch}, "
            f"and its epoch is {current.epoch}: give up everything, and join again with epoch 0"
        )
    told = context.told_epochs.get((beat.group_id, beat.member_id), ())
    if told and beat.member_epoch == max(told):
        return  # no newer answer was sent yet: it waits for its commit, or for the stream
    # The answer with the newer epoch was lost: the member then has a part of its own partitions.
    is_behind = beat.member_epoch == current.previous_epoch or beat.member_epoch in told
    if is_behind and _owns_no_more(beat.owned, current.assigned):
        return
    raise FencedMemberEpoch(
        f"member {beat.member_id!r} of group {beat.group_id!r} says epoch {beat.member_epoch}, its "
        f"epoch is {current.epoch}, and it does not say that it owns no more than is assigned to "
        "it: give up everything, and join again with epoch 0"
    )


def _owns_no_more(owned: PartitionSets | None, assigned: Held) -> bool:
    return owned is not None and all(
        partition in assigned.get(topic_id, ())
        for topic_id, partitions in owned.items()
        for partition in partitions
    )


def _update(draft: Draft, beat: ConsumerBeat, context: Context) -> bool:
    """Write the member's new data; returns True if it affects the group."""
    before = draft.members.get(beat.member_id)
    after = _metadata(before or ConsumerGroupMemberMetadataValue(), beat)
    if after == before:
        return False
    draft.write(ConsumerGroupMemberMetadataKey(draft.group_id, beat.member_id), after)
    inputs = context.inputs
    resolve(draft, context.matcher, inputs.metadata, inputs.wall_ms, again=False)
    forget_unused_regexes(draft)
    return before is None or (
        subscription_of(before) != subscription_of(after)
        or before.server_assignor != after.server_assignor
        or before.rack_id != after.rack_id
    )


def _metadata(
    before: ConsumerGroupMemberMetadataValue, beat: ConsumerBeat
) -> ConsumerGroupMemberMetadataValue:
    """The member's data after the heartbeat. Omitted fields stay; an empty regular expression or
    assignor removes the old one.
    """
    names = beat.subscribed_topic_names
    regex = beat.subscribed_topic_regex
    assignor = beat.server_assignor
    timeout = beat.rebalance_timeout_ms
    return ConsumerGroupMemberMetadataValue(
        instance_id=before.instance_id if beat.instance_id is None else beat.instance_id,
        rack_id=before.rack_id if beat.rack_id is None else beat.rack_id,
        client_id=beat.client_id or before.client_id,
        client_host=beat.client_host or before.client_host,
        subscribed_topic_names=(
            before.subscribed_topic_names if names is None else tuple(sorted(set(names)))
        ),
        subscribed_topic_regex=before.subscribed_topic_regex if regex is None else regex,
        rebalance_timeout_ms=before.rebalance_timeout_ms if timeout == UNCHANGED else timeout,
        server_assignor=before.server_assignor if assignor is None else assignor or None,
    )


def _has_arrived(draft: Draft, member_id: str) -> bool:
    """True if the member has the group's epoch and its whole target."""
    current = draft.current(member_id)
    return (
        current.state is MemberState.STABLE
        and current.epoch == draft.assignment_epoch == draft.epoch
    )


def _is_full(beat: ConsumerBeat) -> bool:
    """True if the heartbeat contains every field, as after an error: the answer is then complete
    too.
    """
    if beat.member_epoch == JOIN_EPOCH:
        return True
    subscribes = (beat.subscribed_topic_names, beat.subscribed_topic_regex) != (None, None)
    return subscribes and beat.rebalance_timeout_ms != UNCHANGED and beat.owned is not None
