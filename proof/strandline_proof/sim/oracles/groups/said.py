"""Messages between members and coordinators, as plain values for oracles."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from strandline_proof.sim.oracles.groups.admission import Who
from strandline_proto.ids import topic_id_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strandline_proof.sim.oracles.groups.fold import Place
    from strandline_proto.v1 import committed_offsets_pb2 as offsets_pb2
    from strandline_proto.v1 import groups_pb2

Said = tuple[int, int, str]
"""An offset, its leader epoch, its text."""
NONE_COMMITTED = -1


@dataclass(frozen=True, slots=True)
class Beat:
    who: Who
    owned: frozenset[Place] | None


@dataclass(frozen=True, slots=True)
class CommitWish:
    who: Who
    offsets: Mapping[Place, Said]


@dataclass(frozen=True, slots=True)
class View:
    """The state that a member receives; an assignment of None is unchanged."""

    epoch: int
    assignment: frozenset[Place] | None
    error: int = 0
    offsets: Mapping[Place, Said] = field(default_factory=dict)


def beat_of(message: groups_pb2.ConsumerGroupHeartbeatRequest) -> Beat:
    instance_id = message.instance_id if message.HasField("instance_id") else None
    owned = None
    if message.HasField("topic_partitions"):
        owned = places_of(message.topic_partitions)
    return Beat(Who(message.group_id, message.member_id, message.member_epoch, instance_id), owned)


def view_of(
    message: groups_pb2.ConsumerGroupHeartbeatResponse, offsets: Mapping[Place, Said] | None = None
) -> View:
    assignment = places_of(message.assignment) if message.HasField("assignment") else None
    return View(message.member_epoch, assignment, message.error_code, offsets or {})


def places_of(listed: groups_pb2.TopicPartitionsList) -> frozenset[Place]:
    return frozenset(
        (topic_id_text(topic.topic_id), partition)
        for topic in listed.topic_partitions
        for partition in topic.partitions
    )


def commit_of(message: offsets_pb2.OffsetCommitRequest, topic_ids: Mapping[str, str]) -> CommitWish:
    """The commit in a message; `topic_ids` by name, for topics that are named."""
    instance_id = message.group_instance_id if message.HasField("group_instance_id") else None
    who = Who(
        message.group_id, message.member_id, message.generation_id_or_member_epoch, instance_id
    )
    offsets: dict[Place, Said] = {}
    for topic in message.topics:
        topic_id = _topic_id(topic.topic_id, topic.name, topic_ids)
        for p in topic.partitions:
            if topic_id is not None:
                offsets[topic_id, p.partition] = (
                    p.committed_offset,
                    p.committed_leader_epoch,
                    p.committed_metadata,
                )
    return CommitWish(who, offsets)


def committed_in(
    message: offsets_pb2.OffsetCommitResponse, topic_ids: Mapping[str, str]
) -> frozenset[Place]:
    """The partitions that the answer reports as committed."""
    if message.error_code:
        return frozenset()
    return frozenset(
        (topic_id, p.partition)
        for topic in message.topics
        for topic_id in [_topic_id(topic.topic_id, topic.name, topic_ids)]
        for p in topic.partitions
        if topic_id is not None and p.error_code == 0
    )


def _topic_id(topic_id: bytes, name: str, topic_ids: Mapping[str, str]) -> str | None:
    return topic_id_text(topic_id) if topic_id else topic_ids.get(name)


def granted_in(message: groups_pb2.GroupSessionResponse) -> dict[Place, Said]:
    return {
        (topic_id_text(topic.topic_id), p.partition): (
            p.committed_offset,
            p.committed_leader_epoch,
            p.committed_metadata,
        )
        for topic in message.committed_offsets
        for p in topic.partitions
        if not p.unstable
    }


def told_in(result: offsets_pb2.OffsetFetchGroupResult) -> dict[Place, Said]:
    """The committed offsets in an answer, of the partitions without an error."""
    if result.error_code:
        return {}
    return {
        (topic_id_text(topic.topic_id), p.partition): (
            p.committed_offset,
            p.committed_leader_epoch,
            p.committed_metadata,
        )
        for topic in result.topics
        if topic.topic_id
        for p in topic.partitions
        if p.error_code == 0
    }
