"""A batch rewritten with fewer records: offsets, timestamps, epochs, producer and codec stay the
same (I-68).

Offsets in a batch are relative to its base offset, and timestamps to its base timestamp. A batch
therefore keeps both, however many of its first records are removed. With a delete horizon
(attribute bit 6, KIP-534) the field of the base timestamp holds the horizon, and timestamps are
relative to it.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, Protocol

from crc32c import crc32c

from strandline_proto.batch import (
    ATTRIBUTES_AT,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    BatchHeader,
    Compression,
)
from strandline_proto.record_codec import load_record_codec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DELETE_HORIZON: Final = 0x40
_COMPRESSION: Final = 0x07
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_FROM_ATTRIBUTES: Final = struct.Struct(">hiqqqhii")
_ANCHOR_SIZE: Final = 7
"""Size of a record with no key, no value and all deltas 0."""
_ROOM: Final = 1 << 31


class RawRecord(Protocol):
    """A record as the compiled codec returns it."""

    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> list[tuple[str, bytes | None]]: ...


def with_records(
    header: BatchHeader, kept: Sequence[RawRecord], *, delete_horizon_ms: int | None = None
) -> tuple[BatchHeader, bytes]:
    """The batch of `header` with only the records `kept`, and with `delete_horizon_ms` if given."""
    attributes, base_timestamp = header.attributes, header.base_timestamp
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON
        base_timestamp = delete_horizon_ms
    max_timestamp = header.max_timestamp
    if not header.is_log_append_time:
        max_timestamp = max(record.timestamp for record in kept)
    body = _body(header.base_offset, base_timestamp, kept)
    return _sealed(
        header._replace(
            attributes=attributes,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            record_count=len(kept),
        ),
        _compressed(header.compression, body),
    )


def emptied(header: BatchHeader) -> tuple[BatchHeader, bytes]:
    """A bare header that keeps the batch's offsets, producer and largest timestamp (I-79)."""
    return _sealed(
        header._replace(
            attributes=header.attributes & ~(DELETE_HORIZON | _COMPRESSION),
            base_timestamp=header.max_timestamp,
            record_count=0,
        ),
        b"",
    )


def _body(base_offset: int, base_timestamp: int, kept: Sequence[RawRecord]) -> bytes:
    load_record_codec()
    from aiokafka.record._crecords import DefaultRecordBatchBuilder

    builder = DefaultRecordBatchBuilder(
        magic=MAGIC,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=_ROOM,
    )
    # The builder takes its base timestamp from the first record. An extra first record at 0 makes
    # every other timestamp the difference to ours; it is cut off afterwards.
    builder.append(0, 0, None, None, [])
    for record in kept:
        builder.append(
            record.offset - base_offset,
            record.timestamp - base_timestamp,
            record.key,
            record.value,
            record.headers,
        )
    return bytes(memoryview(builder.build())[HEADER_SIZE + _ANCHOR_SIZE :])


def _compressed(compression: int, body: bytes) -> bytes:
    load_record_codec()
    from aiokafka.codec import gzip_encode, lz4_encode, snappy_encode, zstd_encode

    encoders: dict[int, Callable[[bytes], bytes]] = {
        Compression.GZIP: gzip_encode,
        Compression.SNAPPY: snappy_encode,
        Compression.LZ4: lz4_encode,
        Compression.ZSTD: zstd_encode,
    }
    encode = encoders.get(compression)
    return body if encode is None else encode(body)


def _sealed(header: BatchHeader, body: bytes) -> tuple[BatchHeader, bytes]:
    """`header` with the length and CRC that fit `body`, and both as bytes."""
    tail = _FROM_ATTRIBUTES.pack(
        header.attributes,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.record_count,
    )
    assert len(tail) == HEADER_SIZE - ATTRIBUTES_AT
    sealed = header._replace(
        batch_length=HEADER_SIZE + len(body) - LENGTH_OVERHEAD,
        crc=crc32c(body, crc32c(tail)),
    )
    head = _HEADER.pack(
        sealed.base_offset,
        sealed.batch_length,
        sealed.leader_epoch,
        sealed.magic,
        sealed.crc,
        sealed.attributes,
        sealed.last_offset_delta,
        sealed.base_timestamp,
        sealed.max_timestamp,
        sealed.producer_id,
        sealed.producer_epoch,
        sealed.base_sequence,
        sealed.record_count,
    )
    return sealed, head + body
