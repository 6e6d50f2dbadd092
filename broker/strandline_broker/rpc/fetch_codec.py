"""The Fetch stream on the wire: requests and answers to protobuf and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.metadata_cache import CurrentLeader
from strandline_broker.hosts.fetch_messages import (
    FetchedPartition,
    FetchRequest,
    FetchResponse,
    Position,
    Replica,
)
from strandline_proto import errors
from strandline_proto.ids import BrokerId, LeaderEpoch
from strandline_proto.v1 import fetch_pb2

if TYPE_CHECKING:
    from strandline_broker.hosts.fetch_messages import Key

NO_PREFERRED_REPLICA = -1


def request_to_wire(request: FetchRequest) -> fetch_pb2.FetchRequest:
    wire = fetch_pb2.FetchRequest(
        correlation_id=request.correlation_id,
        cluster_id=request.cluster_id,
        max_wait_ms=request.max_wait_ms,
        min_bytes=request.min_bytes,
        max_bytes=request.max_bytes,
        isolation_level=request.isolation_level,
        session_id=request.session_id,
        session_epoch=request.session_epoch,
    )
    if request.replica is not None:
        wire.replica_state.replica_id = request.replica.broker_id
        wire.replica_state.replica_epoch = request.replica.broker_epoch
    forgotten: dict[bytes, fetch_pb2.ForgottenTopic] = {}
    for topic_id, index in request.forgotten:
        if topic_id not in forgotten:
            forgotten[topic_id] = wire.forgotten.add(topic_id=topic_id)
        forgotten[topic_id].partitions.append(index)
    wanted: dict[bytes, fetch_pb2.FetchTopic] = {}
    for (topic_id, index), position in request.positions.items():
        if topic_id not in wanted:
            wanted[topic_id] = wire.topics.add(topic_id=topic_id)
        wanted[topic_id].partitions.add(
            partition=index,
            current_leader_epoch=position.current_leader_epoch,
            fetch_offset=position.fetch_offset,
            last_fetched_epoch=position.last_fetched_epoch,
            log_start_offset=position.log_start_offset,
            partition_max_bytes=position.max_bytes,
        )
    return wire


def request_from_wire(wire: fetch_pb2.FetchRequest) -> FetchRequest:
    replica = None
    if wire.HasField("replica_state") and wire.replica_state.replica_id >= 0:
        replica = Replica(wire.replica_state.replica_id, wire.replica_state.replica_epoch)
    return FetchRequest(
        correlation_id=wire.correlation_id,
        session_id=wire.session_id,
        session_epoch=wire.session_epoch,
        max_wait_ms=wire.max_wait_ms,
        min_bytes=wire.min_bytes,
        max_bytes=wire.max_bytes,
        cluster_id=wire.cluster_id,
        isolation_level=wire.isolation_level,
        replica=replica,
        positions={
            (topic.topic_id, p.partition): Position(
                p.current_leader_epoch,
                p.fetch_offset,
                p.last_fetched_epoch,
                p.log_start_offset,
                p.partition_max_bytes,
            )
            for topic in wire.topics
            for p in topic.partitions
        },
        forgotten=[(topic.topic_id, i) for topic in wire.forgotten for i in topic.partitions],
    )


def response_to_wire(response: FetchResponse) -> fetch_pb2.FetchResponse:
    """Takes the records out of `response`: an answer of many megabytes is not held twice."""
    wire = fetch_pb2.FetchResponse(
        correlation_id=response.correlation_id, session_id=response.session_id
    )
    if response.error is not None:
        wire.error_code, wire.error_message = response.error.code, str(response.error)
    topics: dict[bytes, fetch_pb2.FetchTopicResult] = {}
    for key, fetched in response.partitions.items():
        topic = topics.get(key[0])
        if topic is None:
            topic = topics[key[0]] = wire.topics.add(topic_id=key[0])
        _partition_to_wire(fetched, topic.partitions.add(partition_index=key[1]))
    return wire


def _partition_to_wire(fetched: FetchedPartition, result: fetch_pb2.FetchPartitionResult) -> None:
    if fetched.holds_replica:
        result.high_watermark = fetched.high_watermark
        result.last_stable_offset = fetched.high_watermark
        result.log_start_offset = fetched.log_start_offset
        result.preferred_read_replica = NO_PREFERRED_REPLICA
    if fetched.records:
        result.records, fetched.records = fetched.records, b""
    if fetched.diverging is not None:
        result.diverging_epoch.epoch, result.diverging_epoch.end_offset = fetched.diverging
    if fetched.error is not None:
        result.error_code, result.error_message = fetched.error.code, str(fetched.error)
    if fetched.leader is not None:
        result.current_leader.leader_id = fetched.leader.broker_id
        result.current_leader.leader_epoch = fetched.leader.leader_epoch


def response_from_wire(wire: fetch_pb2.FetchResponse) -> FetchResponse:
    error = None
    if wire.error_code != errors.NONE:
        error = errors.from_code(wire.error_code, wire.error_message)
    partitions: dict[Key, FetchedPartition] = {
        (topic.topic_id, result.partition_index): _partition_from_wire(result)
        for topic in wire.topics
        for result in topic.partitions
    }
    return FetchResponse(wire.correlation_id, wire.session_id, error, partitions)


def _partition_from_wire(result: fetch_pb2.FetchPartitionResult) -> FetchedPartition:
    fetched = FetchedPartition(
        high_watermark=result.high_watermark,
        log_start_offset=result.log_start_offset,
        records=result.records,
        holds_replica=result.preferred_read_replica == NO_PREFERRED_REPLICA,
    )
    if result.HasField("diverging_epoch"):
        fetched.diverging = (result.diverging_epoch.epoch, result.diverging_epoch.end_offset)
    if result.error_code != errors.NONE:
        fetched.error = errors.from_code(result.error_code, result.error_message)
    if result.HasField("current_leader"):
        leader = result.current_leader
        fetched.leader = CurrentLeader(BrokerId(leader.leader_id), LeaderEpoch(leader.leader_epoch))
    return fetched
