"""The records of `__transaction_state` as bytes and back, in Kafka's format.

Kafka 3 writes values of version 0, Kafka 4 and this project of version 1, whose tagged fields hold
the previous and the next producer id and the version of the client's transactions. Kafka has no
field yet for the last producer epoch (KAFKA-20357), so it has a tag of our own, which Kafka skips.

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
LAST_PRODUCER_EPOCH_TAG: Final = 10_000
"""Ours; far above the numbers that Kafka uses."""

_HEAD: Final = Struct(">hqhib")
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
    key_reader = Reader(key)
    if key_reader.i16() != KEY_TYPE:
        return None
    found = TransactionKey(key_reader.string())
    key_reader.end()
    if value is None:
        return Record(found, None)
    try:
        transaction = _value(value)
    except MalformedRecord as error:
        raise MalformedRecord(
            f"the record of transactional id {found.transactional_id!r} does not parse: {error}"
        ) from error
    return None if transaction is None else Record(found, transaction)


def _value(value: bytes) -> Transaction | None:
    reader = Reader(value)
    version = reader.i16()
    if version > VERSION_MAX:
        return None
    if version < 0 or len(value) < _HEAD.size:
        raise MalformedRecord(f"version {version} in {len(value)} bytes")
    _, producer_id, epoch, timeout_ms, status = _HEAD.unpack_from(value)
    state = _STATES.get(status)
    if state is None:
        raise MalformedRecord(f"state {status} is not one of {min(_STATES)} to {max(_STATES)}")
    reader = Reader(value[_HEAD.size :], flexible=version >= FLEXIBLE_SINCE)
    topics = reader.nullable_array(lambda: _topic(reader)) or ()
    updated_ms, started_ms = reader.i64(), reader.i64()
    tags = reader.tags()
    reader.end()
    if not tags:
        return Transaction(
            producer_id=ProducerId(producer_id),
            producer_epoch=ProducerEpoch(epoch),
            timeout_ms=timeout_ms,
            state=state,
            partitions=_sorted(topics),
            updated_ms=updated_ms,
            started_ms=started_ms,
        )
    return Transaction(
        producer_id=ProducerId(producer_id),
        producer_epoch=ProducerEpoch(epoch),
        timeout_ms=timeout_ms,
        state=state,
        partitions=_sorted(topics),
        updated_ms=updated_ms,
        started_ms=started_ms,
        previous_producer_id=_producer_id(tags, PREVIOUS_PRODUCER_ID_TAG),
        next_producer_id=_producer_id(tags, NEXT_PRODUCER_ID_TAG),
        version=_i16(tags, CLIENT_VERSION_TAG, 0),
        last_producer_epoch=ProducerEpoch(_i16(tags, LAST_PRODUCER_EPOCH_TAG, NO_PRODUCER_EPOCH)),
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
