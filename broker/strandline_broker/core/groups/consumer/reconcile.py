"""How a member comes from what it has to what it is to have, without two ever having the same.

A member first gives up what its target lacks, and says so, before it takes on the assignment's
epoch (I-133): until then it keeps its own, and what is awaited back from it is still its. With
nothing to give up it is granted what nobody else holds, and waits for the rest. A deleted topic's
partitions are nobody's, so nobody has to give them up (I-141).

What a member says of itself counts only if it is known to be newer than what it was granted last
(I-134): without such a list it owns everything still. What is granted bears the epoch that the
member has from then on; what it keeps, the epoch in which that was granted.
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
    """What a member is to reach."""

    epoch: int
    """The assignment's."""
    target: PartitionSets
    subscribed: Collection[TopicId]
    """Those that exist; partitions of others are no part of the target."""
    existing: Container[TopicId]
    is_free: Callable[[TopicId, int], bool]
    """Whether no other member holds it."""


def reconcile(current: Current, goal: Goal, *, owned: PartitionSets | None) -> Current:
    """`current` itself if nothing is to change."""
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
    """What of it is in the target, and what is not."""
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
    """Whether the member may still own some of it."""
    if owned is None:
        return True
    return any(
        partition in partitions
        for topic_id, partitions in held.items()
        for partition in owned.get(topic_id, ())
    )
