"""The hot messages have the fields of the contract, and keep no more bytes than they count."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Any

import pytest
from google.protobuf.message import DecodeError

from strandline_proto import hot_messages as hot
from strandline_proto.hot_encode import _topic_of
from strandline_proto.v1 import common_pb2, fetch_pb2, produce_pb2
from support.hot_wire import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Set

NOBODY_USES = {"throttle_ms", "rack_id"}
OF_TOPICS = {"topics": "partitions"}
OF_PARTITIONS = {"index": "partition", "partition_index": "partition"}
PAIRS: list[tuple[Any, Any, dict[str, str], Set[str]]] = [
    (hot.CurrentLeader, common_pb2.CurrentLeader, {}, set()),
    (hot.NodeEndpoint, common_pb2.NodeEndpoint, {}, set()),
    (hot.RecordError, produce_pb2.RecordError, {}, set()),
    (hot.ProduceRequest, produce_pb2.ProduceRequest, OF_TOPICS, set()),
    (hot.ProduceData, produce_pb2.PartitionProduceData, OF_PARTITIONS, {"topic_id"}),
    (hot.ProduceResponse, produce_pb2.ProduceResponse, OF_TOPICS, set()),
    (hot.ProduceResult, produce_pb2.PartitionProduceResult, OF_PARTITIONS, {"topic_id"}),
    (hot.ReplicaState, fetch_pb2.ReplicaState, {}, set()),
    (hot.FetchRequest, fetch_pb2.FetchRequest, OF_TOPICS, set()),
    (hot.FetchPartition, fetch_pb2.FetchPartition, {}, {"topic_id"}),
    (hot.FetchResponse, fetch_pb2.FetchResponse, OF_TOPICS, set()),
    (hot.FetchResult, fetch_pb2.FetchPartitionResult, OF_PARTITIONS, {"topic_id"}),
    (hot.EpochEndOffset, fetch_pb2.EpochEndOffset, {}, set()),
    (hot.AbortedTransaction, common_pb2.AbortedTransaction, {}, set()),
    (hot.FetchRangeRequest, fetch_pb2.FetchRangeRequest, {}, set()),
    (hot.FetchRangeResponse, fetch_pb2.FetchRangeResponse, {}, set()),
]


@pytest.mark.parametrize(("ours", "theirs", "renamed", "beside"), PAIRS)
def test_a_message_has_the_fields_of_the_contract(
    ours: Any, theirs: Any, renamed: dict[str, str], beside: Set[str]
) -> None:
    named = {field.name for field in theirs.DESCRIPTOR.fields} - NOBODY_USES
    fields = getattr(ours, "_fields", None) or tuple(ours.__dataclass_fields__)
    assert set(fields) == {renamed.get(name, name) for name in named} | beside


@pytest.mark.parametrize("wire", [produce_pb2.TopicProduceData, fetch_pb2.FetchTopicResult])
def test_a_topic_has_nothing_but_its_id_and_partitions(wire: Any) -> None:
    assert [field.name for field in wire.DESCRIPTOR.fields] == ["topic_id", "partitions"]


def test_records_that_are_copied_out_keep_nothing_else() -> None:
    """What lies in a slow consumer's buffer does not hold the rest of its answer."""
    results = [hot.FetchResult(b"t" * 16, i, records=bytes(1000)) for i in range(3)]
    data = KINDS["fetch_response"].encode(hot.FetchResponse(1, partitions=results))
    came = KINDS["fetch_response"].decode(data)
    assert [type(each.records) for each in came.partitions] == [bytes] * 3


@pytest.mark.parametrize("name", ["produce_request", "fetch_request", "fetch_response"])
def test_many_small_partitions_are_left_to_protobuf_with_the_same_outcome(name: str) -> None:
    count = 40
    messages: dict[str, Any] = {
        "produce_request": hot.ProduceRequest(
            partitions=[hot.ProduceData(b"t" * 16, i, b"x") for i in range(count)]
        ),
        "fetch_request": hot.FetchRequest(
            partitions=[hot.FetchPartition(b"t" * 16, i) for i in range(count)]
        ),
        "fetch_response": hot.FetchResponse(
            partitions=[hot.FetchResult(b"t" * 16, i) for i in range(count)], node_endpoints=[]
        ),
    }
    message = messages[name]
    assert KINDS[name].decode(KINDS[name].encode(message)) == message


@pytest.mark.parametrize("length", [b"\x03", b"\x83\x80\x00", b"\x83\x80\x80\x80\x80\x00"])
def test_a_length_in_more_bytes_than_it_needs_is_what_it_is_to_protobuf(length: bytes) -> None:
    """Which refuses one of more than five bytes, whatever it says."""

    def found(decode: Callable[[bytes], Any]) -> str | None:
        try:
            cluster_id: str = decode(b"\x12" + length + b"abc").cluster_id
        except DecodeError:
            return None
        return cluster_id

    expected = None if len(length) > 5 else "abc"
    assert found(fetch_pb2.FetchRequest.FromString) == expected
    assert found(KINDS["fetch_request"].decode) == expected


def test_topic_ids_of_any_length_are_written_and_not_remembered() -> None:
    before = _topic_of.cache_info().currsize
    for size in (1, 15, 17, 1000):
        result = hot.ProduceResult(b"i" * size, 0, error_code=42)
        KINDS["produce_response"].encode(hot.ProduceResponse(1, [result]))
    assert _topic_of.cache_info().currsize == before


def test_nothing_is_kept_of_what_was_encoded() -> None:
    """Sizes and numbers are remembered, records are not."""

    class Watched(bytearray):
        __slots__ = ("__weakref__",)

    records = Watched(1000)
    alive = weakref.ref(records)
    view = memoryview(records)
    data = hot.ProduceData(b"t" * 16, 0, view)
    KINDS["produce_request"].encode(hot.ProduceRequest(partitions=[data]))
    del records, view, data
    gc.collect()
    assert alive() is None
