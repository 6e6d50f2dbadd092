"""Readers of the records of `__consumer_offsets`: a coordinator's, and the offline tools' own.

A key and a value go through each as one text: two bytes for the key's length stand before both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_broker.core.coordination import wire
from strandline_broker.core.groups.records import codec
from strandline_broker.core.groups.records.consumer_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from strandline_broker.core.groups.records.offset_records import OffsetCommitKey, OffsetCommitValue
from strandline_broker.offline import group_records
from strandline_proto.ids import LeaderEpoch, Offset, TopicId
from support.decoders import Decoder

if TYPE_CHECKING:
    from collections.abc import Callable

TOPIC: Final = TopicId(bytes(range(16)))


def _joined(key: bytes, value: bytes) -> bytes:
    return len(key).to_bytes(2, "big") + key + value


def _parted(decode: Callable[[bytes, bytes], object]) -> Callable[[bytes], object]:
    def call(data: bytes) -> object:
        length = int.from_bytes(data[:2], "big")
        return decode(data[2 : 2 + length], data[2 + length :])

    return call


GOLDEN: Final = (
    _joined(
        codec.encode_key(OffsetCommitKey("g", "t", 3)),
        codec.encode_value(
            OffsetCommitValue(
                offset=Offset(42),
                leader_epoch=LeaderEpoch(5),
                metadata="m",
                commit_timestamp_ms=1,
                topic_id=TOPIC,
            )
        ),
    ),
    _joined(
        codec.encode_key(ConsumerGroupCurrentMemberAssignmentKey("g", "m1")),
        codec.encode_value(
            ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=7,
                previous_member_epoch=6,
                state=1,
                assigned=(TopicPartitions(TOPIC, (0,), (4,)),),
                pending_revocation=(TopicPartitions(TOPIC, (1,), None),),
            )
        ),
    ),
)

DECODERS: Final = (
    Decoder("group record", GOLDEN, _parted(codec.decode), (wire.MalformedRecord,)),
    Decoder(
        "group record, offline",
        GOLDEN,
        _parted(group_records.decode),
        (group_records.BrokenRecord,),
    ),
)
