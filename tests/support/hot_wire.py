"""The hot messages as protobuf's: what their bytes are held against."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from strandline_proto import hot_decode, hot_encode, hot_protobuf
from strandline_proto import hot_messages as hot
from strandline_proto.v1 import common_pb2, fetch_pb2, produce_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


def _runs(partitions: Iterable[Any]) -> Iterator[tuple[bytes, list[Any]]]:
    for topic_id, run in groupby(partitions, key=lambda each: each.topic_id):
        yield topic_id, list(run)


def _leader(leader: hot.CurrentLeader | None) -> common_pb2.CurrentLeader | None:
    return None if leader is None else common_pb2.CurrentLeader(**leader._asdict())


def _nodes(nodes: Iterable[hot.NodeEndpoint]) -> list[common_pb2.NodeEndpoint]:
    return [common_pb2.NodeEndpoint(**node._asdict()) for node in nodes]


def produce_request(message: hot.ProduceRequest) -> produce_pb2.ProduceRequest:
    wire = produce_pb2.ProduceRequest(
        correlation_id=message.correlation_id,
        acks=message.acks,
        timeout_ms=message.timeout_ms,
        transactional_id=message.transactional_id,
    )
    for topic_id, run in _runs(message.partitions):
        topic = wire.topics.add(topic_id=topic_id)
        for data in run:
            topic.partitions.add(
                index=data.partition,
                records=bytes(data.records),
                current_leader_epoch=data.current_leader_epoch,
            )
    return wire


def produce_response(message: hot.ProduceResponse) -> produce_pb2.ProduceResponse:
    wire = produce_pb2.ProduceResponse(
        correlation_id=message.correlation_id, node_endpoints=_nodes(message.node_endpoints)
    )
    for topic_id, run in _runs(message.partitions):
        topic = wire.topics.add(topic_id=topic_id)
        for result in run:
            topic.partitions.add(
                index=result.partition,
                error_code=result.error_code,
                base_offset=result.base_offset,
                log_append_time_ms=result.log_append_time_ms,
                log_start_offset=result.log_start_offset,
                record_errors=[
                    produce_pb2.RecordError(**error._asdict()) for error in result.record_errors
                ],
                error_message=result.error_message,
                current_leader=_leader(result.current_leader),
                appended=result.appended,
                leader_epoch=result.leader_epoch,
            )
    return wire


def fetch_request(message: hot.FetchRequest) -> fetch_pb2.FetchRequest:
    state = message.replica_state
    wire = fetch_pb2.FetchRequest(
        correlation_id=message.correlation_id,
        cluster_id=message.cluster_id,
        replica_state=None if state is None else fetch_pb2.ReplicaState(**state._asdict()),
        max_wait_ms=message.max_wait_ms,
        min_bytes=message.min_bytes,
        max_bytes=message.max_bytes,
        isolation_level=message.isolation_level,
        session_id=message.session_id,
        session_epoch=message.session_epoch,
    )
    for topic_id, run in _runs(message.partitions):
        topic = wire.topics.add(topic_id=topic_id)
        for position in run:
            fields = position._asdict()
            del fields["topic_id"]
            topic.partitions.add(**fields)
    forgotten: dict[bytes, fetch_pb2.ForgottenTopic] = {}
    for topic_id, partition in message.forgotten:
        if topic_id not in forgotten:
            forgotten[topic_id] = wire.forgotten.add(topic_id=topic_id)
        forgotten[topic_id].partitions.append(partition)
    return wire


def fetch_response(message: hot.FetchResponse) -> fetch_pb2.FetchResponse:
    wire = fetch_pb2.FetchResponse(
        correlation_id=message.correlation_id,
        error_code=message.error_code,
        session_id=message.session_id,
        node_endpoints=_nodes(message.node_endpoints),
        error_message=message.error_message,
    )
    for topic_id, run in _runs(message.partitions):
        topic = wire.topics.add(topic_id=topic_id)
        for result in run:
            end = result.diverging_epoch
            topic.partitions.add(
                partition_index=result.partition,
                error_code=result.error_code,
                high_watermark=result.high_watermark,
                last_stable_offset=result.last_stable_offset,
                log_start_offset=result.log_start_offset,
                diverging_epoch=None if end is None else fetch_pb2.EpochEndOffset(**end._asdict()),
                current_leader=_leader(result.current_leader),
                preferred_read_replica=result.preferred_read_replica,
                records=bytes(result.records),
                error_message=result.error_message,
                aborted_transactions=_aborted(result.aborted_transactions),
            )
    return wire


def _aborted(found: Iterable[hot.AbortedTransaction]) -> list[common_pb2.AbortedTransaction]:
    return [common_pb2.AbortedTransaction(**each._asdict()) for each in found]


def fetch_range_request(message: hot.FetchRangeRequest) -> fetch_pb2.FetchRangeRequest:
    return fetch_pb2.FetchRangeRequest(**message._asdict())


def fetch_range_response(message: hot.FetchRangeResponse) -> fetch_pb2.FetchRangeResponse:
    fields = message._asdict() | {
        "records": bytes(message.records),
        "current_leader": _leader(message.current_leader),
        "aborted_transactions": _aborted(message.aborted_transactions),
    }
    return fetch_pb2.FetchRangeResponse(**fields)


class Kind(NamedTuple):
    """One of the messages: how it is written and read by hand, and how by protobuf."""

    message: type[Any]
    wire: type[Any]
    to_protobuf: Callable[[Any], Any]
    of_protobuf: Callable[[Any], Any]
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]

    def decode_by_protobuf(self, data: bytes) -> Any:
        return self.of_protobuf(self.wire.FromString(data))


KINDS = {
    "produce_request": Kind(
        hot.ProduceRequest,
        produce_pb2.ProduceRequest,
        produce_request,
        hot_protobuf.produce_request,
        hot_encode.produce_request,
        hot_decode.produce_request,
    ),
    "produce_response": Kind(
        hot.ProduceResponse,
        produce_pb2.ProduceResponse,
        produce_response,
        hot_protobuf.produce_response,
        hot_encode.produce_response,
        hot_decode.produce_response,
    ),
    "fetch_request": Kind(
        hot.FetchRequest,
        fetch_pb2.FetchRequest,
        fetch_request,
        hot_protobuf.fetch_request,
        hot_encode.fetch_request,
        hot_decode.fetch_request,
    ),
    "fetch_response": Kind(
        hot.FetchResponse,
        fetch_pb2.FetchResponse,
        fetch_response,
        hot_protobuf.fetch_response,
        hot_encode.fetch_response,
        hot_decode.fetch_response,
    ),
    "fetch_range_request": Kind(
        hot.FetchRangeRequest,
        fetch_pb2.FetchRangeRequest,
        fetch_range_request,
        hot_protobuf.fetch_range_request,
        hot_encode.fetch_range_request,
        hot_decode.fetch_range_request,
    ),
    "fetch_range_response": Kind(
        hot.FetchRangeResponse,
        fetch_pb2.FetchRangeResponse,
        fetch_range_response,
        hot_protobuf.fetch_range_response,
        hot_encode.fetch_range_response,
        hot_decode.fetch_range_response,
    ),
}
