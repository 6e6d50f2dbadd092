"""The target of a group: the partitions that each member is to own, as an assignor divided them.

A target belongs to the group epoch for which it was requested. It is written whole, members first
and its epoch last, and members follow it only then (I-128).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from strandline_broker.core.groups.assignors import GroupSpec, MemberSpec
from strandline_broker.core.groups.commands import Assigned
from strandline_broker.core.groups.consumer.consumer import subscription_of
from strandline_broker.core.groups.consumer.current_assignment import partition_topics
from strandline_broker.core.groups.records.consumer_records import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from strandline_broker.core.groups.assignors import Assignor, GroupAssignment
    from strandline_broker.core.groups.consumer.consumer import ConsumerGroup, Draft, Subscription
    from strandline_broker.core.metadata_cache import MetadataView
    from strandline_proto.ids import TopicId


def chosen_assignor(group: ConsumerGroup, assignors: Sequence[str]) -> str:
    """The assignor that most members request; in a tie, the one configured first."""
    wishes = Counter(
        member.server_assignor for member in group.members.values() if member.server_assignor
    )
    return max(assignors, key=lambda name: (wishes[name], -assignors.index(name)))


def size(group: ConsumerGroup, metadata: MetadataView) -> int:
    """Number of members and partitions that an assignor must process."""
    names = group.subscribed_names()
    return len(group.members) + sum(
        len(topic.partitions)
        for topic in (metadata.topic_named(name) for name in names)
        if topic is not None
    )


def specification(group: ConsumerGroup, metadata: MetadataView) -> GroupSpec:
    members: dict[str, MemberSpec] = {}
    partitions: dict[TopicId, int] = {}
    topics: dict[Subscription, frozenset[TopicId]] = {}
    for subscription in group.subscriptions:
        topics[subscription] = existing_topics(group.names_of(subscription), metadata)
        for topic_id in topics[subscription]:
            partitions[topic_id] = len(metadata.topics_by_id[topic_id].partitions)
    for member_id, member in sorted(group.members.items()):
        members[member_id] = MemberSpec(
            member.instance_id,
            member.rack_id,
            topics[subscription_of(member)],
            group.target(member_id),
        )
    return GroupSpec(members, {topic_id: partitions[topic_id] for topic_id in sorted(partitions)})


def existing_topics(names: Iterable[str], metadata: MetadataView) -> frozenset[TopicId]:
    ids = metadata.ids_by_name
    return frozenset(ids[name] for name in names if name in ids)


def write_target(draft: Draft, target: GroupAssignment, wall_ms: int) -> None:
    """Write it as the target of the group's epoch."""
    assert set(target) == set(draft.members), (sorted(target), sorted(draft.members))
    group_id = draft.group_id
    for member_id in sorted(target):
        if target[member_id] != draft.target(member_id):
            draft.write(
                ConsumerGroupTargetAssignmentMemberKey(group_id, member_id),
                ConsumerGroupTargetAssignmentMemberValue(partition_topics(target[member_id])),
            )
            draft.changed.add(member_id)
    draft.write(
        ConsumerGroupTargetAssignmentMetadataKey(group_id),
        ConsumerGroupTargetAssignmentMetadataValue(draft.epoch, wall_ms),
    )


@dataclass(frozen=True, slots=True)
class ToAssign:
    """An immutable description of a target to compute."""

    group_id: str
    group_epoch: int
    assignor: Assignor
    spec: GroupSpec

    def compute(self) -> Assigned:
        """The command with the result. It may run outside the event loop."""
        return Assigned(self.group_id, self.group_epoch, self.assignor.assign(self.spec))
