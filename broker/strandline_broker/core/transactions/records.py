"""The records of `__transaction_state` as bytes and back, in Kafka's format.

Kafka 3 writes values of version 0, Kafka 4 and this project of version 1, whose tagged fields hold
the previous and the next producer id and the version of the client's transactions. Kafka has no
field yet for the last producer epoch (KAFKA-20357), so it has a tag of our own, which Kafka skips.

A coordinator loads a record for each id that was ever used, so the usual forms are read at once:
an id at rest, without a partition. Every other form, and every error, goes through `Reader`.

A later format is no damage: a record of another type, or of a newer version, stays in the log
unchanged and does not affect the state. A record that does not parse is a `MalformedRecord`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from struct import Struct
from typing import TYPE_CHECKING, Final

from strandline_broker.core.coordination.decision import Record
from strandline_broker.core.coordination.wire import MalformedRecord, Reader, Writer
from strandline_broker.core.transactions.transaction import (
    EMPTY,
    NO_PRODUCER_EPOCH,
    Transaction,
    TransactionState,
    TxnPartition,
)
from strandline_proto.ids import NO_PRODUCER_ID, ProducerEpoch, ProducerId

if TYPE_CHECKING:
    from collections.abc import Mapping

KEY_TYPE: Final = 0
FLEXIBLE_SINCE: Final = 1
VERSION_MAX: Final = 1

PREVIOUS_PRODUCER_ID_TAG: Final = 0
NEXT_PRODUCER_ID_TAG: Final = 1
CLIENT_VERSION_TAG: Final = 2
LAST_PRODUCER_EPOCH_TAG: Final = 100
"""Ours; far above the numbers that Kafka uses."""

_HEAD: Final = Struct(">hqhib")
_TIMES: Final = Struct(">qq")
_NO_PARTITIONS: Final = 1
"""Length of an array of a flexible version that is null (0) or empty (1), as a byte."""
_NO_TAGS: Final = b"\0"
_TAGS_AT: Final = _HEAD.size + 1 + _TIMES.size
_USUAL_TAGS: Final = Struct(">3sq2sh2sh")
"""The tags that the end of a transaction of version 2 leaves."""
_USUAL_NAMES: Final = (
    bytes([3, PREVIOUS_PRODUCER_ID_TAG, 8]),
    bytes([CLIENT_VERSION_TAG, 2]),
    bytes([LAST_PRODUCER_EPOCH_TAG, 2]),
)
_I16: Final = Struct(">h")
_I64: Final = Struct(">q")
_STATES: Final = {state.value: state for state in TransactionState}


@dataclass(frozen=True, slots=True)
class TransactionKey:
    transactional_id: str


def decode(key: bytes, value: bytes | None) -> Record | None:
    """Returns one record of the log; None if its type or version is unknown. Raises
    MalformedRecord.
    """
    transactional_id = _id_of(key)
    if transactional_id is None:
        return None
    found = TransactionKey(transactional_id)
    if value is None:
        return Record(found, None)
    try:
        transaction = _value(value)
    except MalformedRecord as error:
        raise MalformedRecord(
            f"the record of transactional id {found.transactional_id!r} does not parse: {error}"
        ) from error
    return None if transaction is None else Record(found, transaction)


def _id_of(key: bytes) -> str | None:
    if key[:2] == b"\0\0" and int.from_bytes(key[2:4], "big") == len(key) - 4:
        try:
            return key[4:].decode()
        except UnicodeDecodeError:
            pass  # the reader says where
    reader = Reader(key)
    if reader.i16() != KEY_TYPE:
        return None
    transactional_id = reader.string()
    reader.end()
    return transactional_id


def _value(value: bytes) -> Transaction | None:
    version = Reader(value).i16() if len(value) < _HEAD.size else _I16.unpack_from(value)[0]
    if version > VERSION_MAX:
        return None
    if version < 0 or len(value) < _HEAD.size:
        raise MalformedRecord(f"version {version} in {len(value)} bytes")
    _, producer_id, epoch, timeout_ms, status = _HEAD.unpack_from(value)
    state = _STATES.get(status)
    if state is None:
        raise MalformedRecord(f"state {status} is not one of {min(_STATES)} to {max(_STATES)}")
    previous, following, client_version, last = NO_PRODUCER_ID, NO_PRODUCER_ID, 0, NO_PRODUCER_EPOCH
    partitions: tuple[TxnPartition, ...] = ()
    tags: dict[int, bytes] = {}
    is_at_rest = len(value) > _TAGS_AT and value[_HEAD.size] <= _NO_PARTITIONS
    if version >= FLEXIBLE_SINCE and is_at_rest:
        updated_ms, started_ms = _TIMES.unpack_from(value, _HEAD.size + 1)
        raw_tags = value[_TAGS_AT:]
        if len(raw_tags) == _USUAL_TAGS.size:
            *usual, epoch_tag, last_epoch = _USUAL_TAGS.unpack(raw_tags)
            if (usual[0], usual[2], epoch_tag) == _USUAL_NAMES:
                previous, client_version, last = usual[1], usual[3], last_epoch
                raw_tags = _NO_TAGS
        if raw_tags != _NO_TAGS:
            reader = Reader(raw_tags, flexible=True)
            tags = reader.tags()
            reader.end()
    else:
        reader = Reader(value[_HEAD.size :], flexible=version >= FLEXIBLE_SINCE)
        partitions = _sorted(reader.nullable_array(lambda: _topic(reader)) or ())
        updated_ms, started_ms = reader.i64(), reader.i64()
        tags = reader.tags()
        reader.end()
    if tags:
        previous = _producer_id(tags, PREVIOUS_PRODUCER_ID_TAG)
        following = _producer_id(tags, NEXT_PRODUCER_ID_TAG)
        client_version = _i16(tags, CLIENT_VERSION_TAG, 0)
        last = ProducerEpoch(_i16(tags, LAST_PRODUCER_EPOCH_TAG, NO_PRODUCER_EPOCH))
    return Transaction(
        producer_id=ProducerId(producer_id),
        producer_epoch=ProducerEpoch(epoch),
        timeout_ms=timeout_ms,
        state=state,
        partitions=partitions,
        updated_ms=updated_ms,
        started_ms=started_ms,
        previous_producer_id=ProducerId(previous),
        next_producer_id=ProducerId(following),
        version=client_version,
        last_producer_epoch=ProducerEpoch(last),
    )


def _topic(reader: Reader) -> tuple[TxnPartition, ...]:
    topic = reader.string()
    partitions = reader.array(reader.i32)
    reader.tags()
    return tuple([TxnPartition(topic, partition) for partition in partitions])


def _sorted(topics: tuple[tuple[TxnPartition, ...], ...]) -> tuple[TxnPartition, ...]:
    return tuple(sorted({partition for topic in topics for partition in topic})) if topics else ()


def _producer_id(tags: Mapping[int, bytes], tag: int) -> ProducerId:
    return ProducerId(_number(tags, tag, _I64, NO_PRODUCER_ID))


def _i16(tags: Mapping[int, bytes], tag: int, default: int) -> int:
    return _number(tags, tag, _I16, default)


def _number(tags: Mapping[int, bytes], tag: int, kind: Struct, default: int) -> int:
    raw = tags.get(tag)
    if raw is None:
        return default
    if len(raw) != kind.size:
        raise MalformedRecord(f"tag {tag} has {len(raw)} bytes, not {kind.size}")
    (value,) = kind.unpack(raw)
    return int(value)


def encode(record: Record) -> tuple[bytes, bytes | None]:
    """Returns the record's key and value as the log has them."""
    key = Writer().i16(KEY_TYPE).string(record.key.transactional_id).done()
    return key, None if record.value is None else encode_value(record.value)


def encode_value(value: Transaction) -> bytes:
    """Returns the value in version 1."""
    writer = Writer(flexible=True).i16(VERSION_MAX).i64(value.producer_id)
    writer.i16(value.producer_epoch).i32(value.timeout_ms).i8(value.state)
    by_topic = groupby(value.partitions, attrgetter("topic"))
    topics = tuple((topic, tuple(p.partition for p in found)) for topic, found in by_topic)
    if value.state is EMPTY:
        assert not topics, value
        writer.null_array()
    else:
        writer.array(topics, lambda each: _write_topic(writer, *each))
    return writer.i64(value.updated_ms).i64(value.started_ms).tags(_tags(value)).done()


def _write_topic(writer: Writer, topic: str, partitions: tuple[int, ...]) -> None:
    writer.string(topic).array(partitions, writer.i32).tags()


def _tags(value: Transaction) -> dict[int, bytes]:
    tags: dict[int, bytes] = {}
    if value.previous_producer_id != NO_PRODUCER_ID:
        tags[PREVIOUS_PRODUCER_ID_TAG] = _I64.pack(value.previous_producer_id)
    if value.next_producer_id != NO_PRODUCER_ID:
        tags[NEXT_PRODUCER_ID_TAG] = _I64.pack(value.next_producer_id)
    if value.version != 0:
        tags[CLIENT_VERSION_TAG] = _I16.pack(value.version)
    if value.last_producer_epoch != NO_PRODUCER_EPOCH:
        tags[LAST_PRODUCER_EPOCH_TAG] = _I16.pack(value.last_producer_epoch)
    return tags
