"""A Produce request, read by hand: its batches are views of the frame."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from strandline_broker.kafka.versions import BY_NAME
from strandline_broker.kafka.wire import Cursor, MalformedRequest
from strandline_proto.batch import (
    ATTRIBUTES_AT,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    batch_size,
)
from strandline_proto.decompression import Compression
from strandline_proto.errors import CorruptMessage, InvalidRecord, UnknownTopicOrPartition
from strandline_proto.hot_messages import ProduceData, ProduceResult

if TYPE_CHECKING:
    from collections.abc import Mapping

ZSTD: Final = 7
TOPIC_IDS: Final = 13
"""First version that names a topic by its id."""
UNSUPPORTED_COMPRESSION_TYPE: Final = 76
PARTITIONS_MAX: Final = 20_000
"""Limit of partitions in one request."""
RECORD_BYTES_MIN: Final = 14
"""Size of the smallest record of any format, without the offset and the length before it."""
MAGIC_AT: Final = 16
_CODEC: Final = 0x07
_API: Final = BY_NAME["Produce"]
_ACKS_AND_TIMEOUT: Final = Struct(">hi")


class ProduceTopic(NamedTuple):
    name: str
    """The name; empty in a version that has ids."""
    topic_id: bytes
    """The id; empty if no topic has that name."""
    outcomes: list[ProduceResult | None]
    """None for each batch that is to be appended, otherwise its refusal."""


class ParsedProduce(NamedTuple):
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[ProduceTopic]
    batches: list[ProduceData]
    """The batches to append, in the order of the request."""

    @property
    def refusals(self) -> list[str]:
        """The reasons of the batches that are not to be appended."""
        found = [each for topic in self.topics for each in topic.outcomes]
        return [each.error_message for each in found if each is not None]


def parse_produce(
    body: memoryview, version: int, ids_by_name: Mapping[str, bytes]
) -> ParsedProduce:
    """Returns the request. A batch that Kafka refuses before its append has its outcome already.

    Raises MalformedRequest.
    """
    cursor, compact = Cursor(body), _API.is_flexible(version)
    transactional_id = cursor.string(compact)
    acks, timeout_ms = cursor.fields(_ACKS_AND_TIMEOUT)
    parsed = ParsedProduce(transactional_id, acks, timeout_ms, [], [])
    named = 0
    for _ in range(cursor.elements(compact)):
        topic = _topic(cursor, version, compact, ids_by_name)
        parsed.topics.append(topic)
        count = cursor.elements(compact)
        named += count
        if named > PARTITIONS_MAX:
            raise MalformedRequest(f"a request names at most {PARTITIONS_MAX} partitions")
        for _ in range(count):
            index, records = cursor.int32(), cursor.view(compact)
            if compact:
                cursor.skip_tags()
            refused = _refused(topic, index, records, version)
            topic.outcomes.append(refused)
            if refused is None:
                assert records is not None, index
                parsed.batches.append(ProduceData(topic.topic_id, index, records))
        if compact:
            cursor.skip_tags()
    if compact:
        cursor.skip_tags()
    cursor.check_end()
    return parsed


def _topic(
    cursor: Cursor, version: int, compact: bool, ids_by_name: Mapping[str, bytes]
) -> ProduceTopic:
    if version >= TOPIC_IDS:
        return ProduceTopic("", cursor.uuid(), [])
    name = cursor.text(compact)
    return ProduceTopic(name, ids_by_name.get(name, b""), [])


def _refused(
    topic: ProduceTopic, index: int, records: memoryview | None, version: int
) -> ProduceResult | None:
    """Returns the outcome of a batch that is refused by its form; None if it is to be appended."""
    if not topic.topic_id:
        code = UnknownTopicOrPartition.code
        why = f"broker knows no topic {topic.name}; it may be created or learned of soon"
    elif records is None or len(records) <= MAGIC_AT:
        code, why = InvalidRecord.code, "the request has no record batch for the partition"
    elif (size := batch_size(records)) < LENGTH_OVERHEAD + RECORD_BYTES_MIN:
        code, why = CorruptMessage.code, f"a record batch has {size} bytes, fewer than any can have"
    elif size > len(records):
        code = InvalidRecord.code
        why = f"a record batch has {size} bytes, of which the request holds {len(records)}"
    elif records[MAGIC_AT] != MAGIC:
        code = InvalidRecord.code
        why = f"the records have the format of magic {records[MAGIC_AT]}; send magic 2"
    elif version < ZSTD and size >= HEADER_SIZE and _codec(records) == Compression.ZSTD:
        code = UNSUPPORTED_COMPRESSION_TYPE
        why = f"Produce {version} cannot carry zstd, which came with version {ZSTD}; update the"
        why += " client, or set another compression.type"
    elif size < len(records):
        code = InvalidRecord.code
        why = f"{len(records) - size} bytes follow the record batch; send one for each partition"
    else:
        return None
    return ProduceResult(topic.topic_id, index, code, error_message=why)


def _codec(records: memoryview) -> int:
    return records[ATTRIBUTES_AT + 1] & _CODEC
