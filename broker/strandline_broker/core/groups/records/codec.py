"""The records of `__consumer_offsets` as bytes and back, byte for byte as Kafka 4 writes them.

A key begins with its type, a value with its version. A later format is no damage: an unknown type,
or a newer version of a known one, is `Unknown`. Such a record stays in the log unchanged and does
not affect the state. A record of a known type and version that does not parse is a
`MalformedRecord`: the log cannot be trusted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from strandline_broker.core.coordination.wire import MalformedRecord, Reader, Writer
from strandline_broker.core.groups.records import classic_records as classic
from strandline_broker.core.groups.records import consumer_records as consumer
from strandline_broker.core.groups.records import offset_records as offsets
from strandline_broker.core.groups.records.classic_records import (
    GroupMetadataKey,
    GroupMetadataValue,
)
from strandline_broker.core.groups.records.consumer_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from strandline_broker.core.groups.records.offset_records import OffsetCommitKey, OffsetCommitValue

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_broker.core.coordination.decision import Record

GroupKey = (
    OffsetCommitKey
    | GroupMetadataKey
    | ConsumerGroupMetadataKey
    | ConsumerGroupPartitionMetadataKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupTargetAssignmentMetadataKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupCurrentMemberAssignmentKey
    | ConsumerGroupRegularExpressionKey
)
GroupValue = (
    OffsetCommitValue
    | GroupMetadataValue
    | ConsumerGroupMetadataValue
    | ConsumerGroupMemberMetadataValue
    | ConsumerGroupTargetAssignmentMetadataValue
    | ConsumerGroupTargetAssignmentMemberValue
    | ConsumerGroupCurrentMemberAssignmentValue
    | ConsumerGroupRegularExpressionValue
)

_NO_VERSION: Final = -1


@dataclass(frozen=True, slots=True)
class Unknown:
    """A record that is kept without being understood."""

    type: int
    version: int
    """Version of the value; -1 for a tombstone."""
    key: bytes
    value: bytes | None


class GroupRecord(NamedTuple):
    key: GroupKey
    value: GroupValue | None
    """The value; None is a tombstone."""


class _Kind(NamedTuple):
    read_key: Callable[[Reader], GroupKey]
    version_max: int = _NO_VERSION
    """The newest version of the value that is understood; -1 if there is none."""
    read_value: Callable[[Reader, int], GroupValue] | None = None


_KINDS: Final[dict[int, _Kind]] = {
    offsets.LEGACY_TYPE: _Kind(offsets.read_key, offsets.VERSION_MAX, offsets.read_value),
    offsets.TYPE: _Kind(offsets.read_key, offsets.VERSION_MAX, offsets.read_value),
    classic.TYPE: _Kind(
        lambda key: GroupMetadataKey(key.string()), classic.VERSION_MAX, classic.read_value
    ),
    consumer.METADATA_TYPE: _Kind(
        lambda key: ConsumerGroupMetadataKey(key.string()),
        consumer.VERSION_MAX,
        consumer.read_metadata,
    ),
    consumer.PARTITION_METADATA_TYPE: _Kind(
        lambda key: ConsumerGroupPartitionMetadataKey(key.string())
    ),
    consumer.MEMBER_METADATA_TYPE: _Kind(
        lambda key: ConsumerGroupMemberMetadataKey(key.string(), key.string()),
        consumer.VERSION_MAX,
        consumer.read_member,
    ),
    consumer.TARGET_METADATA_TYPE: _Kind(
        lambda key: ConsumerGroupTargetAssignmentMetadataKey(key.string()),
        consumer.VERSION_MAX,
        consumer.read_target_metadata,
    ),
    consumer.TARGET_MEMBER_TYPE: _Kind(
        lambda key: ConsumerGroupTargetAssignmentMemberKey(key.string(), key.string()),
        consumer.VERSION_MAX,
        consumer.read_target_member,
    ),
    consumer.CURRENT_ASSIGNMENT_TYPE: _Kind(
        lambda key: ConsumerGroupCurrentMemberAssignmentKey(key.string(), key.string()),
        consumer.VERSION_MAX,
        consumer.read_current_assignment,
    ),
    consumer.REGULAR_EXPRESSION_TYPE: _Kind(
        lambda key: ConsumerGroupRegularExpressionKey(key.string(), key.string()),
        consumer.VERSION_MAX,
        consumer.read_regular_expression,
    ),
}


def decode(key: bytes, value: bytes | None) -> GroupRecord | Unknown:
    """One record as the log has it. Raises MalformedRecord, which names the type it is of."""
    key_reader = Reader(key)
    record_type = key_reader.i16()
    try:
        version = _NO_VERSION if value is None else Reader(value).i16()
        kind = _KINDS.get(record_type)
        if kind is None:
            return Unknown(record_type, version, key, value)
        found = kind.read_key(key_reader)
        key_reader.end()
        if version > kind.version_max:
            return Unknown(record_type, version, key, value)
        return GroupRecord(found, None if value is None else _value(kind, value))
    except MalformedRecord as error:
        raise MalformedRecord(f"a record of type {record_type} does not parse: {error}") from error


def _value(kind: _Kind, value: bytes) -> GroupValue:
    assert kind.read_value is not None, "a type without values has no version"
    reader = Reader(value)
    version = reader.i16()
    if version < 0:
        raise MalformedRecord(f"version {version}")
    found = kind.read_value(reader, version)
    reader.end()
    return found


def encode_key(key: GroupKey) -> bytes:
    match key:
        case OffsetCommitKey():
            return offsets.write_key(key)
        case GroupMetadataKey():
            return _key(classic.TYPE, key.group)
        case ConsumerGroupMetadataKey():
            return _key(consumer.METADATA_TYPE, key.group)
        case ConsumerGroupPartitionMetadataKey():
            return _key(consumer.PARTITION_METADATA_TYPE, key.group)
        case ConsumerGroupMemberMetadataKey():
            return _key(consumer.MEMBER_METADATA_TYPE, key.group, key.member_id)
        case ConsumerGroupTargetAssignmentMetadataKey():
            return _key(consumer.TARGET_METADATA_TYPE, key.group)
        case ConsumerGroupTargetAssignmentMemberKey():
            return _key(consumer.TARGET_MEMBER_TYPE, key.group, key.member_id)
        case ConsumerGroupCurrentMemberAssignmentKey():
            return _key(consumer.CURRENT_ASSIGNMENT_TYPE, key.group, key.member_id)
        case ConsumerGroupRegularExpressionKey():
            return _key(consumer.REGULAR_EXPRESSION_TYPE, key.group, key.regex)


def _key(record_type: int, *fields: str) -> bytes:
    writer = Writer().i16(record_type)
    for text in fields:
        writer.string(text)
    return writer.done()


def encode_value(value: GroupValue) -> bytes:
    match value:
        case OffsetCommitValue():
            return offsets.write_value(value)
        case GroupMetadataValue():
            return classic.write_value(value)
        case ConsumerGroupMetadataValue():
            return consumer.write_metadata(value)
        case ConsumerGroupMemberMetadataValue():
            return consumer.write_member(value)
        case ConsumerGroupTargetAssignmentMetadataValue():
            return consumer.write_target_metadata(value)
        case ConsumerGroupTargetAssignmentMemberValue():
            return consumer.write_target_member(value)
        case ConsumerGroupCurrentMemberAssignmentValue():
            return consumer.write_current_assignment(value)
        case ConsumerGroupRegularExpressionValue():
            return consumer.write_regular_expression(value)


def encode(record: Record) -> tuple[bytes, bytes | None]:
    """Returns the record's key and value as the log has them."""
    return encode_key(record.key), None if record.value is None else encode_value(record.value)
