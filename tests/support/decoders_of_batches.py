"""Decoders of record batches, of what is compressed in them, and of messages."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from aiokafka.codec import snappy_encode
from google.protobuf.message import DecodeError

from strandline import TopicPartition
from strandline._consumer.records import decode, last_of_run
from strandline.errors import CorruptRecords
from strandline_broker.offline import batches
from strandline_broker.offline.disk import OpenFile
from strandline_broker.offline.records import records_of
from strandline_broker.rpc.cluster.push_codec import envelope_from_wire
from strandline_proto import hot_decode
from strandline_proto.batch import (
    ATTRIBUTES_AT,
    Compression,
    build_batch,
    check_batch,
    end_marker_epoch,
    iter_headers,
    prefix,
    read_records,
)
from strandline_proto.decompression import decompress
from strandline_proto.errors import WireError
from strandline_proto.v1 import fetch_pb2, produce_pb2, push_pb2
from strandline_spark.source.decode import RangeDecoder
from strandline_spark.source.schema import HEADERS, PLAIN
from support.decoders import SMALL, Decoder, disk_with, sealed_batch


def _batches() -> tuple[bytes, ...]:
    pairs = [(b"k", b"v"), (None, b"w" * 20)]
    plain = [build_batch(pairs, timestamp_ms=5, compression=c) for c in Compression]
    marker = bytearray(build_batch([(b"\0\0\0\1", b"\0\0\0\0\0\7")], timestamp_ms=1))
    marker[ATTRIBUTES_AT + 1] |= 0x30
    return tuple(prefix(0, len(b) - 12, 3) + b[16:] for b in (*plain, sealed_batch(bytes(marker))))


def _checked(data: bytes) -> Any:
    header = check_batch(data)
    return list(read_records(data, 0, header, SMALL)), end_marker_epoch(data, 0, header)


def _unchecked(data: bytes) -> Any:
    return [
        (list(read_records(data, at, header, SMALL)), end_marker_epoch(data, at, header))
        for at, header in iter_headers(data)
    ]


def _consumed(data: bytes) -> Any:
    where = TopicPartition("t", 0)
    return list(decode(data, where, 0, check_crcs=True, bound=SMALL))


def _offline(data: bytes) -> Any:
    disk = disk_with("x.log", data)
    with OpenFile(disk, "/d/x.log") as file:
        found = list(batches.scan(file))
        return [
            records_of(file, each, SMALL)
            for each in found
            if isinstance(each, batches.Batch) and each.valid
        ], list(batches.headers(file))


def _spark(data: bytes) -> Any:
    decoder = RangeDecoder("t", 0, 0, 10, columns=PLAIN + HEADERS, bound=SMALL)
    found = list(decoder.decode(data))
    for each in found:
        each.validate(full=True)
    return found


def _codec(codec: Compression) -> tuple[bytes, ...]:
    body = bytes(range(100)) + bytes(200)
    packed = build_batch([(b"k", body)], timestamp_ms=1, compression=codec)[61:]
    return (packed, snappy_encode(body)) if codec == Compression.SNAPPY else (packed,)


def _push() -> bytes:
    request = push_pb2.LeaderAndIsrRequest(cluster_id="c", store_id="s", metadata_offset=4)
    topic = request.leader_and_isr.add(topic_name="t", topic_id=bytes(16))
    topic.partitions.add(partition_index=1, leader=2, replicas=[1, 2])
    request.dynamic_configs.SetInParent()
    return request.SerializeToString()


def _produce() -> produce_pb2.ProduceRequest:
    request = produce_pb2.ProduceRequest(acks=-1)
    request.topics.add(topic_id=bytes(16)).partitions.add(index=1, records=b"abc")
    return request


def _fetch() -> fetch_pb2.FetchRequest:
    request = fetch_pb2.FetchRequest(max_wait_ms=5)
    request.topics.add(topic_id=bytes(16)).partitions.add(partition=1, fetch_offset=7)
    return request


def _fetched() -> fetch_pb2.FetchResponse:
    answer = fetch_pb2.FetchResponse(session_id=3)
    topic = answer.topics.add(topic_id=bytes(16))
    topic.partitions.add(partition_index=1, high_watermark=300, records=bytes(60))
    refused = topic.partitions.add(partition_index=2, error_code=6, error_message="elsewhere")
    refused.current_leader.leader_id = 2
    return answer


DECODERS: Final = (
    Decoder("batch.check_batch", _batches(), _checked, (WireError,), sealed_batch),
    Decoder("batch.iter_headers", _batches(), _unchecked, (WireError,)),
    *(
        Decoder(
            f"decompression.{codec.name.lower()}",
            _codec(codec),
            partial(decompress, codec=codec, bound=SMALL),
            (WireError,),
        )
        for codec in Compression
        if codec != Compression.NONE
    ),
    Decoder("client.decode", _batches(), _consumed, (CorruptRecords, WireError), sealed_batch),
    Decoder("client.last_of_run", _batches(), lambda data: last_of_run(data, 0), (WireError,)),
    Decoder("spark.RangeDecoder", _batches(), _spark, (WireError,), sealed_batch),
    Decoder("offline.batches", _batches(), _offline, (WireError,), sealed_batch),
    Decoder(
        "rpc.push",
        (_push(),),
        lambda data: envelope_from_wire(push_pb2.LeaderAndIsrRequest.FromString(data)),
        (DecodeError,),
    ),
    *(
        Decoder(
            f"hot.{golden.DESCRIPTOR.name}",
            (golden.SerializeToString(),),
            decode,
            (DecodeError,),
        )
        for golden, decode in (
            (_produce(), hot_decode.produce_request),
            (_fetch(), hot_decode.fetch_request),
            (_fetched(), hot_decode.fetch_response),
        )
    ),
)
