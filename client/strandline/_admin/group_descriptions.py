"""Conversions from messages about groups to the library's values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline._net.arguments import INT64_MAX, one_partition, text, whole
from strandline.group_types import (
    GroupDescription,
    GroupListing,
    GroupMember,
    OffsetAndMetadata,
)
from strandline.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from strandline.group_types import PartitionLag
    from strandline_proto.v1 import committed_offsets_pb2, groups_pb2


def listing(group: groups_pb2.ListedGroup, coordinator: int) -> GroupListing:
    """The library's value of one listed group."""
    return GroupListing(
        group.group_id, group.group_state, group.group_type, group.protocol_type, coordinator
    )


def member(member: groups_pb2.GroupMember) -> GroupMember:
    """The library's value of one member."""
    return GroupMember(
        member_id=member.member_id,
        instance_id=member.instance_id if member.HasField("instance_id") else None,
        rack=member.rack_id if member.HasField("rack_id") else None,
        client_id=member.client_id,
        host=member.client_host,
        member_epoch=member.member_epoch,
        subscribed_topics=tuple(member.subscribed_topic_names),
        subscribed_pattern=member.subscribed_topic_regex
        if member.HasField("subscribed_topic_regex")
        else None,
        assignment=_partitions(member.assignment),
        target_assignment=_partitions(member.target_assignment),
    )


def _partitions(topics: Iterable[groups_pb2.TopicPartitions]) -> frozenset[TopicPartition]:
    return frozenset(
        TopicPartition(topic.topic_name, partition)
        for topic in topics
        for partition in topic.partitions
    )


def description(
    group: groups_pb2.DescribedGroup,
    members: tuple[GroupMember, ...],
    lags: tuple[PartitionLag, ...],
) -> GroupDescription:
    """The library's value of one group."""
    return GroupDescription(
        group_id=group.group_id,
        state=group.group_state,
        type=group.group_type,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor=group.assignor_name,
        members=members,
        lags=lags,
    )


def by_topic(
    name: str, partitions: Iterable[TopicPartition | tuple[str, int]]
) -> dict[str, list[int]]:
    """The numbers of partitions by their topics, both sorted."""
    found: dict[str, list[int]] = {}
    for topic, number in sorted({one_partition(name, given) for given in partitions}):
        found.setdefault(topic, []).append(number)
    return found


def add_offsets(
    request: committed_offsets_pb2.OffsetCommitRequest,
    offsets: Mapping[TopicPartition | tuple[str, int], OffsetAndMetadata | int],
) -> None:
    """Adds offsets to a commit request."""
    topics: dict[str, committed_offsets_pb2.OffsetCommitTopic] = {}
    for given, at in offsets.items():
        topic, number = one_partition("offsets", given)
        position = at if isinstance(at, OffsetAndMetadata) else OffsetAndMetadata(at)
        if topic not in topics:
            topics[topic] = request.topics.add(name=topic)
        topics[topic].partitions.add(
            partition=number,
            committed_offset=whole("offset", position.offset, 0, INT64_MAX),
            committed_leader_epoch=whole("leader_epoch", position.leader_epoch, -1),
            committed_metadata=text("metadata", position.metadata),
        )
