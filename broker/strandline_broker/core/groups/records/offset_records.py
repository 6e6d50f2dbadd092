"""The records of committed offsets, one for each group and partition of a topic by name.

The value also contains the topic's id. An offset of a deleted topic therefore does not count for
the next topic of that name (I-145, P-83). A value with its own expiry has version 1, which contains
neither leader epoch nor topic id. Every other value is written as version 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from strandline_broker.core.coordination.wire import Reader, Writer
from strandline_proto.ids import UNKNOWN_EPOCH, LeaderEpoch, Offset, TopicId

TYPE: Final = 1
LEGACY_TYPE: Final = 0
"""Type of Kafka 0.8; it is read as its successor."""
VERSION_MAX: Final = 4

_EXPIRING_VERSION: Final = 1
_LEADER_EPOCH_SINCE: Final = 3
_FLEXIBLE_SINCE: Final = 4
_TOPIC_ID_TAG: Final = 0
_NO_EXPIRY: Final = -1
_NO_TOPIC_ID: Final = TopicId(bytes(16))


@dataclass(frozen=True, slots=True)
class OffsetCommitKey:
    group: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitValue:
    offset: Offset
    leader_epoch: LeaderEpoch = UNKNOWN_EPOCH
    metadata: str = ""
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None
    """Time at which the offset expires, in any state of the group; None if the broker's retention
    decides.
    """
    topic_id: TopicId | None = None
    """Id of the topic; None if the writer did not know it."""


def write_key(key: OffsetCommitKey) -> bytes:
    writer = Writer().i16(TYPE).string(key.group).string(key.topic)
    return writer.i32(key.partition).done()


def read_key(reader: Reader) -> OffsetCommitKey:
    return OffsetCommitKey(reader.string(), reader.string(), reader.i32())


def write_value(value: OffsetCommitValue) -> bytes:
    if value.expire_timestamp_ms is not None:
        writer = Writer().i16(_EXPIRING_VERSION).i64(value.offset).string(value.metadata)
        return writer.i64(value.commit_timestamp_ms).i64(value.expire_timestamp_ms).done()
    writer = Writer(flexible=True).i16(VERSION_MAX).i64(value.offset).i32(value.leader_epoch)
    writer.string(value.metadata).i64(value.commit_timestamp_ms)
    topic_id = value.topic_id
    return writer.tags({} if topic_id is None else {_TOPIC_ID_TAG: topic_id}).done()


def read_value(reader: Reader, version: int) -> OffsetCommitValue:
    reader.flexible = version >= _FLEXIBLE_SINCE
    offset = reader.i64()
    epoch = reader.i32() if version >= _LEADER_EPOCH_SINCE else UNKNOWN_EPOCH
    metadata = reader.string()
    committed_at = reader.i64()
    expires_at = reader.i64() if version == _EXPIRING_VERSION else _NO_EXPIRY
    tags = reader.tags()
    return OffsetCommitValue(
        offset=Offset(offset),
        leader_epoch=LeaderEpoch(epoch),
        metadata=metadata,
        commit_timestamp_ms=committed_at,
        expire_timestamp_ms=None if expires_at == _NO_EXPIRY else expires_at,
        topic_id=_topic_id(tags),
    )


def _topic_id(tags: dict[int, bytes]) -> TopicId | None:
    raw = tags.get(_TOPIC_ID_TAG)
    if raw is None:
        return None
    reader = Reader(raw)
    topic_id = reader.topic_id()
    reader.end()
    return None if topic_id == _NO_TOPIC_ID else topic_id
