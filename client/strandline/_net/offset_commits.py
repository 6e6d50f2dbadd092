"""Offsets to commit: what the application gives, and what coordinators are sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline._core.commit_state import CommitOffset
from strandline._net import arguments as given
from strandline.errors import ConfigurationError
from strandline.group_types import OffsetAndMetadata
from strandline_proto.v1 import committed_offsets_pb2, transactions_pb2

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strandline._core.cluster_view import PartitionKey
    from strandline._core.delivery_terms import Identity
    from strandline.group_types import ConsumerGroupMetadata


def offset_of(name: str, at: Any) -> CommitOffset:
    """The offset of a mapping to commit: a number, (number, text) or an OffsetAndMetadata."""
    match at:
        case int(offset) if not isinstance(at, bool):
            found = OffsetAndMetadata(offset)
        case OffsetAndMetadata():
            found = at
        case (offset, str(metadata)):
            found = OffsetAndMetadata(offset, metadata)
        case _:
            raise ConfigurationError(
                f"offsets: {at!r} is neither an offset nor an OffsetAndMetadata"
            )
    given.whole(name, found.offset, 0, given.INT64_MAX)
    given.whole(f"{name}, leader_epoch", found.leader_epoch, -1)
    given.text(f"{name}, metadata", found.metadata)
    return CommitOffset(found.offset, found.leader_epoch, found.metadata)


def txn_commit_request(
    transactional_id: str,
    identity: Identity,
    group: ConsumerGroupMetadata,
    offsets: Mapping[PartitionKey, CommitOffset],
) -> transactions_pb2.TxnOffsetCommitRequest:
    request = transactions_pb2.TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group.group_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        generation_id_or_member_epoch=group.generation_id,
        member_id=group.member_id,
        topics=committed_topics(offsets),
    )
    if group.group_instance_id is not None:
        request.group_instance_id = group.group_instance_id
    return request


def committed_topics(
    offsets: Mapping[PartitionKey, CommitOffset],
) -> list[committed_offsets_pb2.OffsetCommitTopic]:
    """The offsets as a request has them, by topic."""
    topics: dict[bytes, committed_offsets_pb2.OffsetCommitTopic] = {}
    for (topic_id, partition), at in sorted(offsets.items()):
        topic = topics.get(topic_id)
        if topic is None:
            topic = committed_offsets_pb2.OffsetCommitTopic(topic_id=topic_id)
            topics[topic_id] = topic
        topic.partitions.add(
            partition=partition,
            committed_offset=at.offset,
            committed_leader_epoch=at.leader_epoch,
            committed_metadata=at.metadata,
        )
    return list(topics.values())
