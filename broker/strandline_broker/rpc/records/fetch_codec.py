"""The Fetch stream on the wire: requests and answers as its messages, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeVar

from strandline_broker.core.metadata_cache import CurrentLeader
from strandline_broker.hosts.common.fetch_messages import (
    NO_OFFSETS,
    FetchedPartition,
    FetchRequest,
    FetchResponse,
    Offsets,
    Position,
    Replica,
)
from strandline_broker.hosts.serving.turns import Turns
from strandline_proto import errors, hot_decode
from strandline_proto import hot_messages as hot
from strandline_proto.ids import BrokerId, LeaderEpoch
from strandline_proto.v1 import fetch_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_broker.hosts.common.fetch_messages import Key

T = TypeVar("T")

WireRequest: TypeAlias = hot.FetchRequest | fetch_pb2.FetchRequest
NO_PREFERRED_REPLICA = -1
LARGE_BYTES = 16 << 10
"""Size of a request with some hundred partitions."""


def request_to_wire(request: FetchRequest) -> hot.FetchRequest:
    replica = request.replica
    return hot.FetchRequest(
        correlation_id=request.correlation_id,
        cluster_id=request.cluster_id,
        replica_state=None if replica is None else hot.ReplicaState(*replica),
        max_wait_ms=request.max_wait_ms,
        min_bytes=request.min_bytes,
        max_bytes=request.max_bytes,
        isolation_level=request.isolation_level,
        session_id=request.session_id,
        session_epoch=request.session_epoch,
        partitions=[
            hot.FetchPartition(*key, *p) for key, p in _by_topic(request.positions.items())
        ],
        forgotten=request.forgotten,
    )


def _by_topic(items: Iterable[tuple[Key, T]]) -> list[tuple[Key, T]]:
    """One topic after the other, in the order of their first ones: each is named once."""
    topics: dict[bytes, list[tuple[Key, T]]] = {}
    for item in items:
        topics.setdefault(item[0][0], []).append(item)
    return [item for topic in topics.values() for item in topic]


def decode_request(data: bytes) -> WireRequest:
    """A request. One with many partitions stays a protobuf message, whose partitions are read in
    turns.
    """
    if len(data) > LARGE_BYTES:
        return fetch_pb2.FetchRequest.FromString(data)
    return hot_decode.fetch_request(data)


def request_from_wire(wire: hot.FetchRequest) -> FetchRequest:
    state = wire.replica_state
    return FetchRequest(
        correlation_id=wire.correlation_id,
        session_id=wire.session_id,
        session_epoch=wire.session_epoch,
        max_wait_ms=wire.max_wait_ms,
        min_bytes=wire.min_bytes,
        max_bytes=wire.max_bytes,
        cluster_id=wire.cluster_id,
        isolation_level=wire.isolation_level,
        replica=None if state is None or state.replica_id < 0 else Replica(*state),
        positions={p[:2]: Position(*p[2:]) for p in wire.partitions},
        forgotten=wire.forgotten,
    )


async def large_request_from_wire(wire: fetch_pb2.FetchRequest) -> FetchRequest:
    turns = Turns()
    positions: dict[Key, Position] = {}
    forgotten: list[Key] = []
    for topic in wire.topics:
        await turns.took()
        topic_id = topic.topic_id
        for p in topic.partitions:
            await turns.took()
            positions[topic_id, p.partition] = Position(
                p.current_leader_epoch,
                p.fetch_offset,
                p.last_fetched_epoch,
                p.log_start_offset,
                p.partition_max_bytes,
            )
    for dropped in wire.forgotten:
        await turns.took(1 + len(dropped.partitions))
        forgotten.extend((dropped.topic_id, partition) for partition in dropped.partitions)
    state = wire.replica_state
    has_replica = wire.HasField("replica_state") and state.replica_id >= 0
    return FetchRequest(
        correlation_id=wire.correlation_id,
        session_id=wire.session_id,
        session_epoch=wire.session_epoch,
        max_wait_ms=wire.max_wait_ms,
        min_bytes=wire.min_bytes,
        max_bytes=wire.max_bytes,
        cluster_id=wire.cluster_id,
        isolation_level=wire.isolation_level,
        replica=Replica(state.replica_id, state.replica_epoch) if has_replica else None,
        positions=positions,
        forgotten=forgotten,
    )


def response_to_wire(response: FetchResponse) -> hot.FetchResponse:
    """The message of `response`. The records are moved out of `response`, so that an answer of many
    megabytes is not held twice.
    """
    error = response.error
    return hot.FetchResponse(
        response.correlation_id,
        errors.NONE if error is None else error.code,
        response.session_id,
        [_partition_to_wire(*item) for item in _by_topic(response.partitions.items())],
        error_message="" if error is None else str(error),
    )


def _partition_to_wire(key: Key, fetched: FetchedPartition) -> hot.FetchResult:
    records, fetched.records = fetched.records, b""
    error, leader, holds = fetched.error, fetched.leader, fetched.holds_replica
    offsets = fetched.offsets if holds else NO_OFFSETS
    return hot.FetchResult(
        *key,
        errors.NONE if error is None else error.code,
        offsets.high_watermark,
        offsets.last_stable,
        offsets.log_start,
        None if fetched.diverging is None else hot.EpochEndOffset(*fetched.diverging),
        None if leader is None else hot.CurrentLeader(leader.broker_id, leader.leader_epoch),
        NO_PREFERRED_REPLICA if holds else 0,
        records,
        "" if error is None else str(error),
        [hot.AbortedTransaction(*each) for each in fetched.aborted] if fetched.aborted else (),
    )


def response_from_wire(wire: hot.FetchResponse) -> FetchResponse:
    error = None
    if wire.error_code != errors.NONE:
        error = errors.from_code(wire.error_code, wire.error_message)
    partitions: dict[Key, FetchedPartition] = {
        (result.topic_id, result.partition): _partition_from_wire(result)
        for result in wire.partitions
    }
    return FetchResponse(wire.correlation_id, wire.session_id, error, partitions)


def _partition_from_wire(result: hot.FetchResult) -> FetchedPartition:
    fetched = FetchedPartition(
        Offsets(result.high_watermark, result.last_stable_offset, result.log_start_offset),
        records=result.records,
        diverging=result.diverging_epoch,
        aborted=result.aborted_transactions,
        holds_replica=result.preferred_read_replica == NO_PREFERRED_REPLICA,
    )
    if result.error_code != errors.NONE:
        fetched.error = errors.from_code(result.error_code, result.error_message)
    if result.current_leader is not None:
        broker_id, epoch = result.current_leader
        fetched.leader = CurrentLeader(BrokerId(broker_id), LeaderEpoch(epoch))
    return fetched
