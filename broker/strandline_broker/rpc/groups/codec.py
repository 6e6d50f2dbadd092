"""Commands and answers of groups, to and from the wire."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from strandline_broker.core.coordination.decision import Producer
from strandline_broker.core.groups.commands import (
    CommitOffsets,
    ConsumerBeat,
    FetchOffsets,
    OffsetsCommitted,
    PartitionCommit,
    TopicPartitionsRef,
    TopicRef,
    TxnOffsetCommit,
)
from strandline_broker.core.groups.group_ids import TEXT_BYTES_MAX, check_group_id
from strandline_proto.errors import InvalidRequest, WireError
from strandline_proto.ids import ProducerEpoch, ProducerId, TopicId
from strandline_proto.v1 import committed_offsets_pb2, groups_pb2, transactions_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from strandline_broker.core.groups.assignors import PartitionSets
    from strandline_broker.core.groups.commands import BeatAnswer, FetchedOffset

TOPIC_ID_BYTES: Final = 16


def beat_from_wire(request: groups_pb2.ConsumerGroupHeartbeatRequest, context: Any) -> ConsumerBeat:
    """The command of a heartbeat. Raises InvalidRequest or InvalidGroupId."""
    check_group_id(request.group_id)
    for name in ("member_id", "instance_id", "rack_id", "server_assignor", "client_id"):
        _check_text(name, getattr(request, name))
    names = request.subscribed_topic_names.names
    for topic in names:
        _check_text("subscribed_topic_names", topic)
    return ConsumerBeat(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        instance_id=_given(request, "instance_id"),
        rack_id=_given(request, "rack_id"),
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        subscribed_topic_names=(
            tuple(dict.fromkeys(names)) if request.HasField("subscribed_topic_names") else None
        ),
        subscribed_topic_regex=_given(request, "subscribed_topic_regex"),
        server_assignor=_given(request, "server_assignor"),
        owned=(
            partition_sets(request.topic_partitions.topic_partitions)
            if request.HasField("topic_partitions")
            else None
        ),
        client_id=request.client_id,
        client_host=client_host(context.peer()),
    )


def beat_to_wire(
    answer: BeatAnswer | WireError, *, member_id: str = ""
) -> groups_pb2.ConsumerGroupHeartbeatResponse:
    if isinstance(answer, WireError):
        return groups_pb2.ConsumerGroupHeartbeatResponse(
            error_code=answer.code, error_message=str(answer), member_id=member_id, member_epoch=-1
        )
    response = groups_pb2.ConsumerGroupHeartbeatResponse(
        member_id=answer.member_id,
        member_epoch=answer.member_epoch,
        heartbeat_interval_ms=answer.heartbeat_interval_ms,
    )
    if answer.assignment is not None:
        response.assignment.topic_partitions.extend(partitions_to_wire(answer.assignment))
        response.assignment.SetInParent()
    return response


def partitions_to_wire(sets: PartitionSets) -> Iterator[groups_pb2.TopicPartitions]:
    for topic_id, partitions in sorted(sets.items()):
        yield groups_pb2.TopicPartitions(topic_id=topic_id, partitions=partitions)


def partition_sets(topics: Iterable[groups_pb2.TopicPartitions]) -> PartitionSets:
    """The partitions of each topic in rising order, each partition once."""
    found: dict[TopicId, set[int]] = {}
    for topic in topics:
        found.setdefault(_topic_id(topic.topic_id), set()).update(topic.partitions)
    return {topic_id: tuple(sorted(each)) for topic_id, each in found.items() if each}


def commit_from_wire(request: committed_offsets_pb2.OffsetCommitRequest) -> CommitOffsets:
    check_group_id(request.group_id)
    _check_text("member_id", request.member_id)
    return CommitOffsets(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.generation_id_or_member_epoch,
        instance_id=_given(request, "group_instance_id"),
        partitions=_commits(request.topics),
    )


def txn_commit_from_wire(request: transactions_pb2.TxnOffsetCommitRequest) -> TxnOffsetCommit:
    check_group_id(request.group_id)
    _check_text("member_id", request.member_id)
    _check_text("transactional_id", request.transactional_id)
    return TxnOffsetCommit(
        group_id=request.group_id,
        producer=Producer(ProducerId(request.producer_id), ProducerEpoch(request.producer_epoch)),
        member_id=request.member_id,
        member_epoch=request.generation_id_or_member_epoch,
        instance_id=_given(request, "group_instance_id"),
        partitions=_commits(request.topics),
    )


def _commits(
    topics: Iterable[committed_offsets_pb2.OffsetCommitTopic],
) -> tuple[PartitionCommit, ...]:
    return tuple(
        PartitionCommit(
            _topic(topic),
            asked.partition,
            asked.committed_offset,
            asked.committed_leader_epoch,
            asked.committed_metadata,
        )
        for topic in topics
        for asked in topic.partitions
    )


def commit_to_wire(
    request: committed_offsets_pb2.OffsetCommitRequest, reply: object
) -> committed_offsets_pb2.OffsetCommitResponse:
    """The answer to this commit; `reply` belongs to the command of this request."""
    response = committed_offsets_pb2.OffsetCommitResponse()
    _add_results(request, reply, response)
    return response


def txn_commit_to_wire(
    request: transactions_pb2.TxnOffsetCommitRequest, reply: object
) -> transactions_pb2.TxnOffsetCommitResponse:
    """The answer to this commit; `reply` belongs to the command of this request."""
    response = transactions_pb2.TxnOffsetCommitResponse()
    _add_results(request, reply, response)
    return response


def _add_results(
    request: committed_offsets_pb2.OffsetCommitRequest | transactions_pb2.TxnOffsetCommitRequest,
    reply: object,
    response: (
        committed_offsets_pb2.OffsetCommitResponse | transactions_pb2.TxnOffsetCommitResponse
    ),
) -> None:
    if isinstance(reply, WireError):
        response.error_code, response.error_message = reply.code, str(reply)
        return
    assert isinstance(reply, OffsetsCommitted), reply
    errors = iter(reply.errors)
    for topic in request.topics:
        results = response.topics.add(topic_id=topic.topic_id, name=topic.name)
        for asked in topic.partitions:
            result, error = results.partitions.add(partition=asked.partition), next(errors)
            if error is not None:
                result.error_code, result.error_message = error.code, str(error)


def fetch_from_wire(
    asked: committed_offsets_pb2.OffsetFetchGroup, *, require_stable: bool
) -> FetchOffsets:
    check_group_id(asked.group_id)
    _check_text("member_id", asked.member_id)
    topics = None
    if asked.HasField("topics"):
        topics = tuple(
            TopicPartitionsRef(_topic(topic), tuple(topic.partitions))
            for topic in asked.topics.topics
        )
    return FetchOffsets(
        group_id=asked.group_id,
        member_id=asked.member_id,
        member_epoch=asked.member_epoch,
        topics=topics,
        require_stable=require_stable,
    )


def fetched_to_wire(
    offsets: Iterable[FetchedOffset], result: committed_offsets_pb2.OffsetFetchGroupResult
) -> None:
    """Adds `offsets` to `result`: offsets may arrive in several parts."""
    for (topic_id, name), group in groupby(offsets, key=lambda each: (each.topic_id, each.topic)):
        results = result.topics[-1] if result.topics else None
        if results is None or (results.topic_id, results.name) != (topic_id or b"", name):
            results = result.topics.add(topic_id=topic_id or b"", name=name)
        for each in group:
            found = results.partitions.add(
                partition=each.partition,
                committed_offset=each.offset,
                committed_leader_epoch=each.leader_epoch,
                committed_metadata=each.metadata,
            )
            if each.error is not None:
                found.error_code, found.error_message = each.error.code, str(each.error)


def deletion_from_wire(
    topics: Iterable[committed_offsets_pb2.OffsetDeleteTopic],
) -> tuple[TopicPartitionsRef, ...]:
    return tuple(TopicPartitionsRef(_topic(topic), tuple(topic.partitions)) for topic in topics)


def client_host(peer: str) -> str:
    """The address as Kafka writes it, from gRPC's `ipv4:127.0.0.1:4123` or
    `ipv6:%5B::1%5D:4123`.
    """
    _, _, address = unquote(peer).partition(":")
    host, colon, _ = address.rpartition(":")
    return f"/{(host if colon else address).strip('[]')}"


def _topic(
    topic: (
        committed_offsets_pb2.OffsetCommitTopic
        | committed_offsets_pb2.OffsetFetchTopic
        | committed_offsets_pb2.OffsetDeleteTopic
    ),
) -> TopicRef:
    if topic.topic_id:
        return TopicRef(_topic_id(topic.topic_id))
    _check_text("name", topic.name)
    return TopicRef(None, topic.name)


def _topic_id(topic_id: bytes) -> TopicId:
    if len(topic_id) != TOPIC_ID_BYTES:
        raise InvalidRequest(f"a topic id has {TOPIC_ID_BYTES} bytes, this one {len(topic_id)}")
    return TopicId(topic_id)


def _given(request: Any, name: str) -> str | None:
    if not request.HasField(name):
        return None
    value: str = getattr(request, name)
    return value


def _check_text(name: str, value: str) -> None:
    if len(value) * 4 > TEXT_BYTES_MAX and len(value.encode()) > TEXT_BYTES_MAX:
        raise InvalidRequest(
            f"{name} has {len(value.encode())} bytes; {TEXT_BYTES_MAX} are the most"
        )
