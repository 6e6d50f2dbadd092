"""Conversions between a group's messages and the library's values."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from strandline._core.commit_state import CommitOffset
from strandline._net.offset_commits import committed_topics
from strandline_proto.v1 import committed_offsets_pb2, groups_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from strandline._core.cluster_view import PartitionKey
    from strandline._core.membership import Beat


class MemberOptions(NamedTuple):
    """The identity and options of a member, fixed for its life."""

    group_id: str
    member_id: str
    instance_id: str | None
    assignor: str | None
    rebalance_timeout_ms: int
    client_id: str
    require_stable: bool = True


def heartbeat(options: MemberOptions, beat: Beat) -> groups_pb2.ConsumerGroupHeartbeatRequest:
    request = groups_pb2.ConsumerGroupHeartbeatRequest(
        group_id=options.group_id,
        member_id=options.member_id,
        member_epoch=beat.epoch,
        rebalance_timeout_ms=options.rebalance_timeout_ms if beat.full else -1,
        client_id=options.client_id,
    )
    if options.instance_id is not None:
        request.instance_id = options.instance_id
    if beat.full and options.assignor is not None:
        request.server_assignor = options.assignor
    if beat.subscription is not None:
        request.subscribed_topic_names.SetInParent()
        request.subscribed_topic_names.names.extend(beat.subscription.topics)
        if beat.subscription.pattern is not None:
            request.subscribed_topic_regex = beat.subscription.pattern
        elif beat.clears_pattern:
            request.subscribed_topic_regex = ""
    if beat.owned is not None:
        request.topic_partitions.SetInParent()
        for topic_id, partitions in _by_topic(beat.owned).items():
            request.topic_partitions.topic_partitions.add(topic_id=topic_id, partitions=partitions)
    return request


def _by_topic(keys: Iterable[PartitionKey]) -> dict[bytes, list[int]]:
    found: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(keys):
        found.setdefault(topic_id, []).append(partition)
    return found


def assignment(
    answer: groups_pb2.ConsumerGroupHeartbeatResponse,
) -> frozenset[PartitionKey] | None:
    """The partitions that the member may own; None if the answer has no assignment."""
    if not answer.HasField("assignment"):
        return None
    return frozenset(
        (topic.topic_id, partition)
        for topic in answer.assignment.topic_partitions
        for partition in topic.partitions
    )


def granted_offsets(
    topics: Iterable[groups_pb2.GrantedTopicOffsets],
) -> dict[PartitionKey, CommitOffset]:
    """The offsets of a grant, without those that a transaction may yet change."""
    return {
        (topic.topic_id, p.partition): CommitOffset(
            p.committed_offset, p.committed_leader_epoch, p.committed_metadata
        )
        for topic in topics
        for p in topic.partitions
        if not p.unstable
    }


def commit_request(
    group_id: str,
    member_id: str,
    epoch: int,
    instance_id: str | None,
    offsets: Mapping[PartitionKey, CommitOffset],
) -> committed_offsets_pb2.OffsetCommitRequest:
    request = committed_offsets_pb2.OffsetCommitRequest(
        group_id=group_id, generation_id_or_member_epoch=epoch, member_id=member_id
    )
    if instance_id is not None:
        request.group_instance_id = instance_id
    request.topics.extend(committed_topics(offsets))
    return request


def commit_results(
    answer: committed_offsets_pb2.OffsetCommitResponse,
) -> dict[PartitionKey, tuple[int, str]]:
    return {
        (topic.topic_id, p.partition): (p.error_code, p.error_message)
        for topic in answer.topics
        for p in topic.partitions
    }


def fetch_request(
    group_id: str,
    member_id: str,
    epoch: int,
    keys: Iterable[PartitionKey],
    *,
    require_stable: bool = True,
) -> committed_offsets_pb2.OffsetFetchRequest:
    request = committed_offsets_pb2.OffsetFetchRequest(require_stable=require_stable)
    group = request.groups.add(group_id=group_id, member_id=member_id, member_epoch=epoch)
    group.topics.SetInParent()
    for topic_id, partitions in _by_topic(keys).items():
        group.topics.topics.add(topic_id=topic_id, partitions=partitions)
    return request
