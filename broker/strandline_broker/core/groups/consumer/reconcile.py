"""The way of a member from its current assignment to its target, without two members ever holding
the same partition.

A member first gives up the partitions outside its target, and reports that, before it takes the
assignment's epoch (I-133). Until then it keeps its own epoch, and the partitions to give up still
count as its own. With nothing to give up it gets the partitions that no other member holds, and
waits for the rest. The partitions of a deleted topic have no holder, so they need not be given up
(I-141).

A member's report counts only if it is known to be newer than the last grant (I-134). Without such a
report it still owns everything. Granted partitions get the epoch that the member has from then on;
kept ones retain the epoch of their grant.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from strandline_broker.core.groups.consumer.current_assignment import MemberState
from strandline_proto.errors import FencedMemberEpoch

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container

    from strandline_broker.core.groups.assignors import PartitionSets
    from strandline_broker.core.groups.consumer.current_assignment import Current, Held
    from strandline_proto.ids import TopicId


@dataclass(frozen=True, slots=True)
class Goal:
    """The goal of a member."""

    epoch: int
    """Epoch of the assignment."""
    target: PartitionSets
    subscribed: Collection[TopicId]
    """Subscribed topics that exist; partitions of others are no part of the target."""
    existing: Container[TopicId]
    is_free: Callable[[TopicId, int], bool]
    """True for a partition that no other member holds."""


def reconcile(current: Current, goal: Goal, *, owned: PartitionSets | None) -> Current:
    """The next assignment; `current` itself if nothing changes."""
    was, current = current, _without_deleted(current, goal.existing)
    if current.state is MemberState.UNKNOWN and (owned is None or owned):
        raise FencedMemberEpoch(
            "the member is in a state of a later version: it must give up everything and join again"
        )
    if current.state is MemberState.UNREVOKED_PARTITIONS and (
        _owns(owned, current.pending) and current.pending
    ):
        return current
    keep, revoke = _divided(current.assigned, goal)
    if revoke and _owns(owned, revoke):
        return replace(
            current, state=MemberState.UNREVOKED_PARTITIONS, assigned=keep, pending=revoke
        )
    assigned = {topic_id: dict(partitions) for topic_id, partitions in keep.items()}
    complete = True
    for topic_id in goal.target:
        if topic_id not in goal.subscribed:
            continue
        for partition in goal.target[topic_id]:
            if partition in assigned.get(topic_id, ()):
                continue
            if goal.is_free(topic_id, partition):
                assigned.setdefault(topic_id, {})[partition] = goal.epoch
            else:
                complete = False
    reached = replace(
        current,
        epoch=goal.epoch,
        previous_epoch=current.previous_epoch if goal.epoch == current.epoch else current.epoch,
        state=MemberState.STABLE if complete else MemberState.UNRELEASED_PARTITIONS,
        assigned=assigned,
        pending={},
    )
    return was if reached == was else reached


def _without_deleted(current: Current, existing: Container[TopicId]) -> Current:
    if all(t in existing for part in (current.assigned, current.pending) for t in part):
        return current
    return replace(
        current,
        assigned={t: ps for t, ps in current.assigned.items() if t in existing},
        pending={t: ps for t, ps in current.pending.items() if t in existing},
    )


def _divided(assigned: Held, goal: Goal) -> tuple[Held, Held]:
    """The partitions in the target, and the others."""
    keep: dict[TopicId, dict[int, int]] = {}
    revoke: dict[TopicId, dict[int, int]] = {}
    for topic_id, partitions in assigned.items():
        target = goal.target.get(topic_id, ()) if topic_id in goal.subscribed else ()
        wanted = set(target)
        for partition, epoch in partitions.items():
            part = keep if partition in wanted else revoke
            part.setdefault(topic_id, {})[partition] = epoch
    return keep, revoke


def _owns(owned: PartitionSets | None, held: Held) -> bool:
    """True if the member may still own some of the partitions."""
    if owned is None:
        return True
    return any(
        partition in partitions
        for topic_id, partitions in held.items()
        for partition in owned.get(topic_id, ())
    )
