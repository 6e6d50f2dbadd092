"""Batches of every kind for the decoder, and the records in them by aiokafka's own parser."""

from __future__ import annotations

from dataclasses import dataclass, field

from aiokafka.record._crecords import DefaultRecordBatch, DefaultRecordBatchBuilder

from strandline_proto.batch import ATTRIBUTES_AT, prefix
from support.fake_broker_sync import resealed

Headers = list[tuple[str, bytes | None]]
Row = tuple[int, int, int, int, bytes | None, bytes | None, Headers | None]
"""offset, timestamp in ms, timestamp type, leader epoch, key, value, headers (None: none)."""


@dataclass(frozen=True)
class MadeRecord:
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int
    gap: int = 0
    """Offsets left out before it, as compaction does."""


@dataclass(frozen=True)
class MadeBatch:
    records: list[MadeRecord]
    codec: int = 0
    control: bool = False
    append_time: bool = False
    gap: int = 0
    """Offsets left out before the batch."""
    epoch_step: int = 0
    """By how much its leader epoch is above the one before."""


@dataclass
class MadeLog:
    data: bytes = b""
    starts: list[int] = field(default_factory=list)
    """Byte position of each batch."""
    rows: list[Row] = field(default_factory=list)
    end_offset: int = 0
    empty: int = 0
    """Offsets that hold no record."""


def build(batch: MadeBatch) -> tuple[bytes, int]:
    """(the batch as a producer sends it, how many offsets it takes)."""
    builder = DefaultRecordBatchBuilder(2, batch.codec, 0, -1, -1, -1, 1 << 30)
    delta = -1
    for record in batch.records:
        delta += 1 + record.gap
        builder.append(delta, record.timestamp_ms, record.key, record.value, record.headers)
    data = bytearray(builder.build())
    if batch.control:
        data[ATTRIBUTES_AT + 1] |= 0x30
    if batch.append_time:
        data[ATTRIBUTES_AT + 1] |= 0x08
    return resealed(data), delta + 1


def lay_out(batches: list[MadeBatch], *, base_offset: int) -> MadeLog:
    """The batches as a leader stores them, back to back, and what must come out of them."""
    log = MadeLog(end_offset=base_offset)
    epoch, data = 0, bytearray()
    for made in batches:
        batch, span = build(made)
        epoch += made.epoch_step
        first = log.end_offset + made.gap
        stored = prefix(first, len(batch) - 12, epoch) + batch[16:]
        rows = [] if made.control else parsed(stored, epoch, made)
        log.empty += made.gap + span - len(rows)
        log.starts.append(len(data))
        log.rows += rows
        log.end_offset = first + span
        data += stored
    log.data = bytes(data)
    return log


def parsed(stored: bytes, epoch: int, made: MadeBatch) -> list[Row]:
    """The rows of one batch by aiokafka's compiled parser."""
    append_time = max(record.timestamp_ms for record in made.records)
    return [
        (
            record.offset,
            append_time if made.append_time else record.timestamp,
            int(made.append_time),
            epoch,
            record.key,
            record.value,
            list(record.headers) or None,
        )
        for record in DefaultRecordBatch(stored)
    ]
