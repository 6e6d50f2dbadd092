"""The current assignment of a member of a consumer group, as of its last record: its epoch, its
assigned partitions, and those that it was asked to give up.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from strandline_broker.core.groups.commands import LEAVE_STATIC_EPOCH
from strandline_broker.core.groups.records.consumer_records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from strandline_broker.core.groups.assignors import PartitionSets
    from strandline_proto.ids import TopicId

Held: TypeAlias = "Mapping[TopicId, Mapping[int, int]]"
"""Partitions, each with the member epoch in which it was assigned."""


class MemberState(enum.IntEnum):
    """States of a member, with Kafka's numbers."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """The member must give up partitions before it reaches the assignment's epoch."""
    UNRELEASED_PARTITIONS = 2
    """The member waits for partitions that others have yet to give up."""
    UNKNOWN = 127
    """A state of a later version of Kafka."""


@dataclass(frozen=True, slots=True)
class Current:
    epoch: int = 0
    previous_epoch: int = -1
    """The previous epoch: the member still uses it if the answer with the new one was lost."""
    state: MemberState = MemberState.STABLE
    assigned: Held = field(default_factory=dict)
    pending: Held = field(default_factory=dict)
    """Partitions that the member must give up."""

    @property
    def is_absent(self) -> bool:
        """True for a static member that has left temporarily."""
        return self.epoch == LEAVE_STATIC_EPOCH

    def held(self) -> Iterator[tuple[TopicId, int]]:
        """All partitions that no other member may have."""
        for part in (self.assigned, self.pending):
            for topic_id, partitions in part.items():
                for partition in partitions:
                    yield topic_id, partition


NOTHING: Final = Current()


def sets_of(held: Held) -> PartitionSets:
    return {topic_id: tuple(sorted(held[topic_id])) for topic_id in sorted(held)}


def from_value(value: ConsumerGroupCurrentMemberAssignmentValue) -> Current:
    known = any(value.state == state for state in MemberState)
    return Current(
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=MemberState(value.state) if known else MemberState.UNKNOWN,
        assigned=_held(value.assigned, value.member_epoch),
        pending=_held(value.pending_revocation, value.member_epoch),
    )


def to_value(current: Current) -> ConsumerGroupCurrentMemberAssignmentValue:
    return ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=current.epoch,
        previous_member_epoch=current.previous_epoch,
        state=int(current.state),
        assigned=_topics(current.assigned),
        pending_revocation=_topics(current.pending),
    )


def _held(topics: Iterable[TopicPartitions], member_epoch: int) -> Held:
    held: dict[TopicId, dict[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None:
            epochs = (member_epoch,) * len(topic.partitions)
        held[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return held


def _topics(held: Held) -> tuple[TopicPartitions, ...]:
    return tuple(
        TopicPartitions(topic_id, partitions, tuple(held[topic_id][p] for p in partitions))
        for topic_id, partitions in sets_of(held).items()
    )


def partition_topics(sets: PartitionSets) -> tuple[TopicPartitions, ...]:
    """The partitions in the form of a target's record."""
    return tuple(TopicPartitions(topic_id, sets[topic_id]) for topic_id in sorted(sets))
