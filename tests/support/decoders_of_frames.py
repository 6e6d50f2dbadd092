"""Readers of the requests of Kafka's clients: the header, then the body by its schema."""

from __future__ import annotations

import struct
from typing import Any, Final

from strandline_broker.kafka import codec, wire
from strandline_broker.kafka.headers import read_header
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


DECODERS: Final = (Decoder("kafka.request", _requests(), _request, (wire.MalformedRequest,)),)
