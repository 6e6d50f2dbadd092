"""The records of a group of the consumer protocol, by the names of Kafka's schemas.

One group has many keys: its epoch, its members, the epoch of its target assignment, the target and
the current assignment of each member, and its resolved regular expressions. A decision writes its
changes in one batch (I-107). Keys are plain; values are flexible, of version 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from strandline_broker.core.coordination.wire import Reader, Writer, i64_field, i64_tag

if TYPE_CHECKING:
    from strandline_proto.ids import TopicId

METADATA_TYPE: Final = 3
PARTITION_METADATA_TYPE: Final = 4
MEMBER_METADATA_TYPE: Final = 5
TARGET_METADATA_TYPE: Final = 6
TARGET_MEMBER_TYPE: Final = 7
CURRENT_ASSIGNMENT_TYPE: Final = 8
REGULAR_EXPRESSION_TYPE: Final = 16
VERSION_MAX: Final = 0

_ONLY_TAG: Final = 0
"""The only tag: no structure here has more than one tagged field."""
_NULL: Final = b"\x00"
"""A tagged structure that is null."""


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadataKey:
    group: str


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadataValue:
    epoch: int
    metadata_hash: int = 0


@dataclass(frozen=True, slots=True)
class ConsumerGroupPartitionMetadataKey:
    """Key of the partition counts of the subscribed topics, in Kafka before 4.1. Today only
    tombstones are written for it. A value is kept without being parsed.
    """

    group: str


@dataclass(frozen=True, slots=True)
class ConsumerGroupMemberMetadataKey:
    group: str
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMemberMetadataValue:
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str | None = ""
    """The subscribed regular expression. Without one it is empty, as Kafka writes it; null is
    accepted too.
    """
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic_member_metadata: bytes | None = None
    """The tagged field of a member that speaks the classic protocol in such a group, unparsed.
    Empty if the field is absent: to Kafka this is such a member without any protocol. A member of
    the consumer protocol has None, and the field is written as null.
    """


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMetadataKey:
    group: str


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMetadataValue:
    assignment_epoch: int
    assignment_timestamp_ms: int = 0


@dataclass(frozen=True, slots=True)
class TopicPartitions:
    topic_id: TopicId
    partitions: tuple[int, ...]
    assignment_epochs: tuple[int, ...] | None = None
    """Member epoch in which each partition was assigned. Only in current assignments, and not in
    those that Kafka before 4.2 wrote.
    """


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMemberKey:
    group: str
    member_id: str


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMemberValue:
    topics: tuple[TopicPartitions, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsumerGroupCurrentMemberAssignmentKey:
    group: str
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupCurrentMemberAssignmentValue:
    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned: tuple[TopicPartitions, ...] = ()
    pending_revocation: tuple[TopicPartitions, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsumerGroupRegularExpressionKey:
    group: str
    regex: str


@dataclass(frozen=True, slots=True)
class ConsumerGroupRegularExpressionValue:
    topics: tuple[str, ...]
    version: int
    timestamp_ms: int


def write_metadata(value: ConsumerGroupMetadataValue) -> bytes:
    return _epoch(value.epoch, value.metadata_hash)


def read_metadata(reader: Reader, _version: int) -> ConsumerGroupMetadataValue:
    reader.flexible = True
    epoch = reader.i32()
    return ConsumerGroupMetadataValue(epoch, i64_tag(reader.tags(), _ONLY_TAG, 0))


def write_member(value: ConsumerGroupMemberMetadataValue) -> bytes:
    writer = _value().string(value.instance_id).string(value.rack_id)
    writer.string(value.client_id).string(value.client_host)
    writer.array(value.subscribed_topic_names, writer.string)
    writer.string(value.subscribed_topic_regex).i32(value.rebalance_timeout_ms)
    writer.string(value.server_assignor)
    classic = _NULL if value.classic_member_metadata is None else value.classic_member_metadata
    return writer.tags({_ONLY_TAG: classic} if classic != b"" else {}).done()


def read_member(reader: Reader, _version: int) -> ConsumerGroupMemberMetadataValue:
    reader.flexible = True
    found = ConsumerGroupMemberMetadataValue(
        instance_id=reader.nullable_string(),
        rack_id=reader.nullable_string(),
        client_id=reader.string(),
        client_host=reader.string(),
        subscribed_topic_names=reader.array(reader.string),
        subscribed_topic_regex=reader.nullable_string(),
        rebalance_timeout_ms=reader.i32(),
        server_assignor=reader.nullable_string(),
    )
    classic = reader.tags().get(_ONLY_TAG, b"")
    return replace(found, classic_member_metadata=None if classic == _NULL else classic)


def write_target_metadata(value: ConsumerGroupTargetAssignmentMetadataValue) -> bytes:
    return _epoch(value.assignment_epoch, value.assignment_timestamp_ms)


def read_target_metadata(
    reader: Reader, _version: int
) -> ConsumerGroupTargetAssignmentMetadataValue:
    reader.flexible = True
    epoch = reader.i32()
    tags = reader.tags()
    return ConsumerGroupTargetAssignmentMetadataValue(epoch, i64_tag(tags, _ONLY_TAG, 0))


def write_target_member(value: ConsumerGroupTargetAssignmentMemberValue) -> bytes:
    return _write_topics(_value(), value.topics).tags().done()


def read_target_member(reader: Reader, _version: int) -> ConsumerGroupTargetAssignmentMemberValue:
    reader.flexible = True
    topics = _read_topics(reader)
    reader.tags()
    return ConsumerGroupTargetAssignmentMemberValue(topics)


def write_current_assignment(value: ConsumerGroupCurrentMemberAssignmentValue) -> bytes:
    writer = _value().i32(value.member_epoch).i32(value.previous_member_epoch).i8(value.state)
    _write_topics(writer, value.assigned)
    return _write_topics(writer, value.pending_revocation).tags().done()


def read_current_assignment(
    reader: Reader, _version: int
) -> ConsumerGroupCurrentMemberAssignmentValue:
    reader.flexible = True
    found = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=reader.i32(),
        previous_member_epoch=reader.i32(),
        state=reader.i8(),
        assigned=_read_topics(reader),
        pending_revocation=_read_topics(reader),
    )
    reader.tags()
    return found


def write_regular_expression(value: ConsumerGroupRegularExpressionValue) -> bytes:
    writer = _value()
    writer.array(value.topics, writer.string)
    return writer.i64(value.version).i64(value.timestamp_ms).tags().done()


def read_regular_expression(reader: Reader, _version: int) -> ConsumerGroupRegularExpressionValue:
    reader.flexible = True
    topics = reader.array(reader.string)
    found = ConsumerGroupRegularExpressionValue(topics, reader.i64(), reader.i64())
    reader.tags()
    return found


def _value() -> Writer:
    return Writer(flexible=True).i16(VERSION_MAX)


def _epoch(epoch: int, tagged: int) -> bytes:
    fields = {_ONLY_TAG: i64_field(tagged)} if tagged != 0 else {}
    return _value().i32(epoch).tags(fields).done()


def _write_topics(writer: Writer, topics: tuple[TopicPartitions, ...]) -> Writer:
    def topic(one: TopicPartitions) -> None:
        writer.topic_id(one.topic_id).array(one.partitions, writer.i32)
        writer.tags({_ONLY_TAG: _epochs(one.assignment_epochs)} if one.assignment_epochs else {})

    return writer.array(topics, topic)


def _epochs(epochs: tuple[int, ...]) -> bytes:
    writer = Writer(flexible=True)
    return writer.array(epochs, writer.i32).done()


def _read_topics(reader: Reader) -> tuple[TopicPartitions, ...]:
    def topic() -> TopicPartitions:
        topic_id = reader.topic_id()
        partitions = reader.array(reader.i32)
        raw = reader.tags().get(_ONLY_TAG)
        if raw is None:
            return TopicPartitions(topic_id, partitions)
        tagged = Reader(raw, flexible=True)
        epochs = tagged.array(tagged.i32)
        tagged.end()
        return TopicPartitions(topic_id, partitions, epochs)

    return reader.array(topic)
