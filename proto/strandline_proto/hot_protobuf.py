"""The hot messages converted from protobuf's, for input that `hot_decode` does not read itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline_proto import hot_messages as hot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_proto.v1 import fetch_pb2, produce_pb2


def produce_request(message: produce_pb2.ProduceRequest) -> hot.ProduceRequest:
    return hot.ProduceRequest(
        message.correlation_id,
        message.acks,
        message.timeout_ms,
        [
            hot.ProduceData(
                topic.topic_id,
                data.index,
                data.records,
                data.current_leader_epoch if data.HasField("current_leader_epoch") else None,
            )
            for topic in message.topics
            for data in topic.partitions
        ],
        message.transactional_id if message.HasField("transactional_id") else None,
    )


def produce_response(message: produce_pb2.ProduceResponse) -> hot.ProduceResponse:
    return hot.ProduceResponse(
        message.correlation_id,
        [
            hot.ProduceResult(
                topic.topic_id,
                result.index,
                result.error_code,
                result.base_offset,
                result.log_append_time_ms,
                result.log_start_offset,
                tuple(hot.RecordError(e.batch_index, e.message) for e in result.record_errors),
                result.error_message,
                _leader_of(result),
                result.appended,
                result.leader_epoch,
            )
            for topic in message.topics
            for result in topic.partitions
        ],
        _nodes_of(message.node_endpoints),
    )


def fetch_request(message: fetch_pb2.FetchRequest) -> hot.FetchRequest:
    state = message.replica_state
    return hot.FetchRequest(
        message.correlation_id,
        message.cluster_id,
        hot.ReplicaState(state.replica_id, state.replica_epoch)
        if message.HasField("replica_state")
        else None,
        message.max_wait_ms,
        message.min_bytes,
        message.max_bytes,
        message.isolation_level,
        message.session_id,
        message.session_epoch,
        [
            hot.FetchPartition(
                topic.topic_id,
                p.partition,
                p.current_leader_epoch,
                p.fetch_offset,
                p.last_fetched_epoch,
                p.log_start_offset,
                p.partition_max_bytes,
            )
            for topic in message.topics
            for p in topic.partitions
        ],
        tuple((topic.topic_id, i) for topic in message.forgotten for i in topic.partitions),
    )


def fetch_response(message: fetch_pb2.FetchResponse) -> hot.FetchResponse:
    return hot.FetchResponse(
        message.correlation_id,
        message.error_code,
        message.session_id,
        [
            _fetch_result(topic.topic_id, result)
            for topic in message.topics
            for result in topic.partitions
        ],
        _nodes_of(message.node_endpoints),
        message.error_message,
    )


def _fetch_result(topic_id: bytes, result: fetch_pb2.FetchPartitionResult) -> hot.FetchResult:
    end = result.diverging_epoch
    return hot.FetchResult(
        topic_id,
        result.partition_index,
        result.error_code,
        result.high_watermark,
        result.last_stable_offset,
        result.log_start_offset,
        hot.EpochEndOffset(end.epoch, end.end_offset)
        if result.HasField("diverging_epoch")
        else None,
        _leader_of(result),
        result.preferred_read_replica,
        result.records,
        result.error_message,
        _aborted_of(result),
    )


def fetch_range_request(message: fetch_pb2.FetchRangeRequest) -> hot.FetchRangeRequest:
    return hot.FetchRangeRequest(
        message.topic_id,
        message.partition,
        message.current_leader_epoch,
        message.start_offset,
        message.stop_offset,
        message.isolation_level,
        message.max_message_bytes,
    )


def fetch_range_response(message: fetch_pb2.FetchRangeResponse) -> hot.FetchRangeResponse:
    return hot.FetchRangeResponse(
        message.error_code,
        message.error_message,
        message.base_offset,
        message.next_offset,
        message.leader_epoch,
        message.records,
        message.log_start_offset,
        message.high_watermark,
        _leader_of(message),
        message.last_stable_offset,
        _aborted_of(message),
    )


def _aborted_of(message: Any) -> tuple[hot.AbortedTransaction, ...]:
    return tuple(
        hot.AbortedTransaction(each.producer_id, each.first_offset)
        for each in message.aborted_transactions
    )


def _leader_of(message: Any) -> hot.CurrentLeader | None:
    if not message.HasField("current_leader"):
        return None
    leader = message.current_leader
    return hot.CurrentLeader(leader.leader_id, leader.leader_epoch)


def _nodes_of(nodes: Iterable[Any]) -> list[hot.NodeEndpoint]:
    return [hot.NodeEndpoint(node.node_id, node.host, node.port, node.rack) for node in nodes]
