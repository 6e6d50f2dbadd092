"""Kafka's RecordBatch v2: the one unit of data, from the producer to the table.

Layout of the 61-byte header, big-endian (Kafka's message format, magic 2):

    0 baseOffset i64 | 8 batchLength i32 | 12 partitionLeaderEpoch i32 | 16 magic i8 | 17 crc u32
    21 attributes i16 | 23 lastOffsetDelta i32 | 27 baseTimestamp i64 | 35 maxTimestamp i64
    43 producerId i64 | 51 producerEpoch i16 | 53 baseSequence i32 | 57 recordCount i32

`batchLength` counts from byte 12. The CRC-32C covers byte 21 to the end, so a leader can assign
base offset and leader epoch without changing it. Only offset continuity and the epoch checkpoint
protect these two fields (I-5, I-7).

Brokers read headers, and records only where necessary. aiokafka's compiled codec builds and parses
records; it is imported at its first use.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from crc32c import crc32c

from strandline_proto.decompression import DEFAULT_BOUND, Bound, Buffer, decompress
from strandline_proto.decompression import Compression as Compression
from strandline_proto.errors import (
    CorruptMessage,
    InvalidRecord,
    RecordTooLarge,
    UnsupportedVersion,
    WireError,
)
from strandline_proto.record_codec import load_record_codec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from aiokafka.record._protocols import DefaultRecordProtocol

HEADER_SIZE: Final = 61
LENGTH_OVERHEAD: Final = 12
"""Bytes of a batch that `batchLength` does not count."""
MAGIC: Final = 2
CRC_AT: Final = 17
ATTRIBUTES_AT: Final = 21
LOG_APPEND_TIME: Final = 0x08
"""Attribute bit that is set if the timestamps are from the leader's clock."""
SEQUENCE_MAX: Final = 2**31 - 1

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_OFFSET_AND_LENGTH: Final = struct.Struct(">qi")
_PREFIX: Final = struct.Struct(">qii")
_CRC: Final = struct.Struct(">I")
_LENGTH_AND_CRC: Final = struct.Struct(">8xi5xI")
_ATTRIBUTES: Final = struct.Struct(">h")
_TIMESTAMP: Final = struct.Struct(">q")
_MAX_TIMESTAMP_AT: Final = 35
_CONTROL_KEY: Final = struct.Struct(">hh")
_END_MARKER: Final = struct.Struct(">hi")
_ABORT: Final = 0
_COMMIT: Final = 1
_END_MARKER_RECORD: Final = struct.Struct(">bbbbbhhbhib")
"""A marker's record: its length 16, attributes, deltas of time and offset, length 4 and key, length
6 and value, no headers; lengths and deltas are varints, so a length of 16 is the byte 32.
"""
CONTROL: Final = 0x20
"""Attribute bit of a control batch."""
_TRANSACTIONAL: Final = 0x10
_END_MARKER_BOUND: Final = Bound(64 << 10)
"""Bound for a marker, which has some twenty bytes. The event loop reads markers, so it must not
unpack long data.
"""
_CODEC_BITS: Final = 0x07
assert _HEADER.size == HEADER_SIZE


class BatchHeader(NamedTuple):
    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Size of the whole batch in bytes, header included."""
        return self.batch_length + LENGTH_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, wrapped after 2^31 - 1; -1 without a producer id."""
        if self.base_sequence < 0:
            return -1
        return add_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def compression(self) -> int:
        return self.attributes & 0x07

    @property
    def is_log_append_time(self) -> bool:
        return self.attributes & LOG_APPEND_TIME != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & 0x10 != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & 0x20 != 0

    @property
    def has_delete_horizon(self) -> bool:
        """True if the field of the base timestamp holds the time from which tombstones may be
        removed (KIP-534).
        """
        return self.attributes & 0x40 != 0


def add_sequence(sequence: int, by: int) -> int:
    """The sum of a sequence number and `by`; numbers wrap from 2^31 - 1 to 0."""
    return (sequence + by) & SEQUENCE_MAX


def read_header(data: Buffer, at: int = 0) -> BatchHeader:
    """The header that starts at byte `at`; struct.error if fewer than 61 bytes are there."""
    return BatchHeader._make(_HEADER.unpack_from(data, at))


def batch_size(data: Buffer, at: int = 0) -> int:
    """Size of the batch that starts at `at`, read from its first 12 bytes."""
    length: int = _OFFSET_AND_LENGTH.unpack_from(data, at)[1]
    return length + LENGTH_OVERHEAD


def crc_matches(data: Buffer, at: int, header: BatchHeader) -> bool:
    return crc32c(memoryview(data)[at + ATTRIBUTES_AT : at + header.size]) == header.crc


def checked_end(data: memoryview, at: int) -> int | None:
    """The end of the batch that starts at `at`; None if it is cut off or does not match its CRC.

    For many consecutive batches of which only the end is needed: no header object is made.
    """
    if at + HEADER_SIZE > len(data):
        return None
    length, crc = _LENGTH_AND_CRC.unpack_from(data, at)
    end: int = at + length + LENGTH_OVERHEAD
    if not at + HEADER_SIZE <= end <= len(data):
        return None
    return end if crc32c(data[at + ATTRIBUTES_AT : end]) == crc else None


def prefix(base_offset: int, batch_length: int, leader_epoch: int) -> bytes:
    """The first 16 bytes of a batch: every field that a leader assigns."""
    return _PREFIX.pack(base_offset, batch_length, leader_epoch)


def stamp(batch: Buffer, header: BatchHeader, now_ms: int) -> tuple[bytes, BatchHeader]:
    """The batch with the leader's clock for every record, and its header (LogAppendTime).

    The records are unchanged, compressed or not: readers use the header's largest timestamp for
    each of them. The base timestamp is unchanged too, as in Kafka.
    """
    stamped = bytearray(batch)
    attributes = header.attributes | LOG_APPEND_TIME
    _ATTRIBUTES.pack_into(stamped, ATTRIBUTES_AT, attributes)
    _TIMESTAMP.pack_into(stamped, _MAX_TIMESTAMP_AT, now_ms)
    crc = crc32c(memoryview(stamped)[ATTRIBUTES_AT:])
    _CRC.pack_into(stamped, CRC_AT, crc)
    return bytes(stamped), header._replace(attributes=attributes, max_timestamp=now_ms, crc=crc)


def check_batch(data: Buffer) -> BatchHeader:
    """The header of `data`, which must be exactly one sound batch as a producer sends it.

    Raises CorruptMessage (size, CRC), UnsupportedVersion (magic, codec) or InvalidRecord (counts
    that contradict each other).
    """
    size = len(data)
    if size < HEADER_SIZE:
        raise CorruptMessage(
            f"a batch of {size} bytes is shorter than its {HEADER_SIZE}-byte header"
        )
    header = read_header(data)
    if header.magic != MAGIC:
        raise UnsupportedVersion(f"message format {header.magic} is not supported; send magic 2")
    if header.size != size:
        raise CorruptMessage(f"batchLength says {header.size} bytes, the request holds {size}")
    if not crc_matches(data, 0, header):
        raise CorruptMessage("the batch does not match its CRC-32C; it was damaged on the way")
    if header.compression > Compression.ZSTD:
        raise UnsupportedVersion(f"compression type {header.compression} is not known")
    if header.record_count < 1 or header.last_offset_delta != header.record_count - 1:
        raise InvalidRecord(
            f"{header.record_count} records cannot end at offset delta {header.last_offset_delta}"
        )
    return header


def iter_headers(data: Buffer, at: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each whole batch in `data`; stops before one that is cut off.

    Raises CorruptMessage at a length that no batch can have.
    """
    end = len(data)
    while at + HEADER_SIZE <= end:
        header = read_header(data, at)
        if header.batch_length < HEADER_SIZE - LENGTH_OVERHEAD:
            raise CorruptMessage(f"batchLength {header.batch_length} at byte {at} is impossible")
        if at + header.size > end:
            return
        yield at, header
        at += header.size


@dataclass(frozen=True, slots=True)
class Record:
    """One record as a consumer sees it; `timestamp` in milliseconds since the epoch."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def build_batch(
    records: Iterable[tuple[bytes | None, bytes | None]],
    *,
    timestamp_ms: int,
    compression: Compression = Compression.NONE,
    is_transactional: bool = False,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytes:
    """One batch of (key, value) records, as a producer sends it: base offset 0, no leader epoch."""
    load_record_codec()
    from aiokafka.record._crecords import DefaultRecordBatchBuilder

    builder = DefaultRecordBatchBuilder(
        magic=MAGIC,
        compression_type=int(compression),
        is_transactional=int(is_transactional),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        batch_size=1 << 30,
    )
    for offset, (key, value) in enumerate(records):
        builder.append(offset, timestamp_ms, key, value, [])
    return bytes(builder.build())


def read_records(
    data: Buffer, at: int, header: BatchHeader, bound: Bound = DEFAULT_BOUND
) -> Iterator[Record]:
    """The records of the batch at byte `at`; raises as `raw_records` does."""
    # The codec needs the bytes of one batch. It reads the offset from the header, as in the log.
    for r in raw_records(bytes(memoryview(data)[at : at + header.size]), header, bound):
        headers = tuple((k, v) for k, v in r.headers)
        yield Record(r.offset, r.timestamp, r.key, r.value, headers)


def raw_records(
    batch: bytes, header: BatchHeader, bound: Bound = DEFAULT_BOUND
) -> Iterator[DefaultRecordProtocol]:
    """The records of exactly one batch, in the codec's own type: for millions of records.

    Raises CorruptMessage if they do not parse, RecordTooLarge if they unpack to more than the
    bound. A batch with a right CRC can still contain any bytes.
    """
    load_record_codec()
    from aiokafka.errors import KafkaError
    from aiokafka.record._crecords import DefaultRecordBatch

    plain = uncompressed(batch, header, bound)
    # The record parser raises these errors: for a header's key that is not UTF-8, and for lengths
    # near 2^63, which it adds to a position.
    try:
        yield from DefaultRecordBatch(plain)
    except (KafkaError, ValueError, OverflowError, MemoryError) as why:
        raise CorruptMessage(
            f"the records of the batch at offset {header.base_offset} do not parse: {why}"
        ) from why


def uncompressed(batch: Buffer, header: BatchHeader, bound: Bound = DEFAULT_BOUND) -> Buffer:
    """The batch as if its producer had not compressed it; its CRC is not computed again.

    Raises as `raw_records` does.
    """
    if len(batch) != header.size or header.size < HEADER_SIZE:
        raise CorruptMessage(
            f"the batch at offset {header.base_offset} says that it has {header.size} bytes, where"
            f" {len(batch)} stand"
        )
    codec = header.compression
    if codec == Compression.NONE:
        return batch
    try:
        plain = decompress(memoryview(batch)[HEADER_SIZE:], codec, bound, room=HEADER_SIZE)
    except RecordTooLarge as error:
        raise RecordTooLarge(f"the batch at offset {header.base_offset}: {error}") from error
    except (CorruptMessage, UnsupportedVersion) as error:
        where = f"the records of the batch at offset {header.base_offset} do not parse"
        raise type(error)(f"{where}: {error}") from error
    length, attributes = len(plain) - LENGTH_OVERHEAD, header.attributes & ~_CODEC_BITS
    _HEADER.pack_into(plain, 0, *header._replace(batch_length=length, attributes=attributes))
    return plain


class EndMarkerRecord(NamedTuple):
    """The content of a control batch that ends a transaction."""

    is_commit: bool
    coordinator_epoch: int


def build_end_marker(
    producer_id: int, producer_epoch: int, marker: EndMarkerRecord, *, timestamp_ms: int
) -> bytes:
    """The control batch that ends a transaction: base offset 0, no leader epoch, no sequence."""
    kind = _COMMIT if marker.is_commit else _ABORT
    record = _END_MARKER_RECORD.pack(32, 0, 0, 0, 8, 0, kind, 12, 0, marker.coordinator_epoch, 0)
    length = HEADER_SIZE + len(record) - LENGTH_OVERHEAD
    attributes = _TRANSACTIONAL | CONTROL
    fields = (attributes, 0, timestamp_ms, timestamp_ms, producer_id, producer_epoch, -1, 1)
    batch = bytearray(_HEADER.pack(0, length, -1, MAGIC, 0, *fields) + record)
    _CRC.pack_into(batch, CRC_AT, crc32c(memoryview(batch)[ATTRIBUTES_AT:]))
    return bytes(batch)


def end_marker(data: Buffer, at: int, header: BatchHeader) -> EndMarkerRecord | None:
    """The content of the control batch at byte `at`, which ends a transaction; None for any other
    batch.

    A control record's key is version i16 and type i16, an end marker's value version i16 and
    coordinator epoch i32. A record that does not parse is no end marker. It stays in the log as it
    was written, and no replica may fail because of it (P-40).
    """
    if not header.is_control:
        return None
    try:
        for record in read_records(data, at, header, _END_MARKER_BOUND):
            _, kind = _CONTROL_KEY.unpack_from(record.key or b"")
            if kind in (_ABORT, _COMMIT):
                epoch: int = _END_MARKER.unpack_from(record.value or b"")[1]
                return EndMarkerRecord(kind == _COMMIT, epoch)
    except (WireError, struct.error):
        pass
    return None


def end_marker_epoch(data: Buffer, at: int, header: BatchHeader) -> int | None:
    """The coordinator epoch in the control batch at byte `at`, as `end_marker` finds it."""
    marker = end_marker(data, at, header)
    return None if marker is None else marker.coordinator_epoch
