"""Readers of the requests of Kafka's clients, the header and then the body by its schema, and of
ranges in plain frames.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from google.protobuf.message import DecodeError

from strandline_broker.kafka import codec, wire
from strandline_broker.kafka.headers import read_header
from strandline_proto import range_frames
from strandline_proto.hot_messages import (
    AbortedTransaction,
    FetchRangeRequest,
    FetchRangeResponse,
)
from support.decoders import Decoder


def _frame(name: str, key: int, version: int, **fields: Any) -> bytes:
    """A request of a flexible version, made by kafka-python."""
    message = codec.load()[f"{name}Request"](version=version, **fields)
    header = struct.pack(">hhih", key, version, 7, 1) + b"c" + wire.NO_TAGS
    return header + bytes(message.encode(version=version))


def _requests() -> tuple[bytes, ...]:
    known = codec.load()
    protocol = known["JoinGroupRequest"].JoinGroupRequestProtocol
    topic = known["OffsetCommitRequest"].OffsetCommitRequestTopic
    partition = topic.OffsetCommitRequestPartition
    return (
        _frame(
            "JoinGroup",
            11,
            9,
            group_id="g",
            session_timeout_ms=1000,
            rebalance_timeout_ms=1000,
            member_id="m",
            group_instance_id=None,
            protocol_type="consumer",
            protocols=[protocol(name="range", metadata=b"\x00\x01\x02")],
            reason="r",
        ),
        _frame(
            "OffsetCommit",
            8,
            9,
            group_id="g",
            generation_id_or_member_epoch=3,
            member_id="m",
            group_instance_id=None,
            topics=[
                topic(
                    name="t",
                    partitions=[
                        partition(
                            partition_index=0,
                            committed_offset=5,
                            committed_leader_epoch=1,
                            committed_metadata="x",
                        )
                    ],
                )
            ],
        ),
    )


def _request(data: bytes) -> Any:
    header, body = read_header(memoryview(data))
    if header.api.name not in ("JoinGroup", "OffsetCommit"):
        return header  # a kind with a reader of its own, or one that this table has no bytes of
    return codec.decode(header.api, header.version, body)


def _range_request() -> bytes:
    request = FetchRangeRequest(bytes(16), 3, 4, 5, 600, 1, 2 << 20)
    return range_frames.request_frame(request)[range_frames.LENGTH.size :]


def _range_head() -> bytes:
    message = FetchRangeResponse(
        records=b"records", next_offset=9, aborted_transactions=[AbortedTransaction(1, 2)]
    )
    return range_frames.message_head(message)[range_frames.LENGTHS.size :]


DECODERS: Final = (
    Decoder("kafka.request", _requests(), _request, (wire.MalformedRequest,)),
    Decoder(
        "range_frames.request", (_range_request(),), range_frames.parse_request, (DecodeError,)
    ),
    Decoder(
        "range_frames.head",
        (_range_head(),),
        lambda data: range_frames.parse_message(data, b""),
        (DecodeError,),
    ),
)
