"""Turns fetched bytes into records: checks, decompresses, parses, one batch at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiokafka.record._crecords import DefaultRecordBatch

from strandline.errors import CorruptRecords
from strandline.types import ConsumerRecord
from strandline_proto.batch import crc_matches, iter_headers, uncompressed
from strandline_proto.errors import CorruptMessage, RecordTooLarge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline._core.aborted_filter import AbortedFilter
    from strandline.types import TopicPartition
    from strandline_proto.batch import BatchHeader
    from strandline_proto.decompression import Bound, Buffer


def decode(
    data: Buffer,
    partition: TopicPartition,
    from_offset: int,
    *,
    check_crcs: bool,
    bound: Bound,
    aborted: AbortedFilter | None = None,
) -> Iterator[tuple[list[ConsumerRecord], int, int]]:
    """Yields (records at or after `from_offset`, next offset, leader epoch) of each batch.

    A batch without visible records still advances the position (P-70). Control batches and those
    that `aborted` hides have none. Raises CorruptRecords if a batch does not match its CRC, does
    not parse, or unpacks to more than the bound.
    """
    topic, number = partition
    view = memoryview(data)
    for at, header in iter_headers(view):
        is_hidden = aborted is not None and aborted.hides(view, at, header)
        if header.next_offset <= from_offset:
            continue
        if check_crcs and not crc_matches(view, at, header):
            raise CorruptRecords(
                f"{topic}:{number}: the batch at offset {header.base_offset} does not match its "
                f"CRC-32C; seek to {header.next_offset} to skip it"
            )
        epoch = header.leader_epoch
        if header.is_control or is_hidden:
            yield [], header.next_offset, epoch
            continue
        kind = 1 if header.is_log_append_time else 0
        try:
            packed = view[at : at + header.size]
            batch = DefaultRecordBatch(uncompressed(packed, header, bound))
            records = [
                ConsumerRecord(
                    topic,
                    number,
                    r.offset,
                    r.timestamp,
                    r.key,
                    r.value,
                    tuple(r.headers),
                    epoch,
                    kind,
                )
                for r in batch
            ]
        except RecordTooLarge as error:
            raise CorruptRecords(
                f"{topic}:{number}: {error}, or seek to {header.next_offset} to skip it"
            ) from error
        except Exception as error:
            raise CorruptRecords(
                f"{topic}:{number}: the batch at offset {header.base_offset} does not parse "
                f"({type(error).__name__}: {error}); seek to {header.next_offset} to skip it"
            ) from error
        if header.base_offset < from_offset:
            records = [r for r in records if r.offset >= from_offset]
        yield records, header.next_offset, epoch


def last_of_run(records: Buffer, offset: int) -> BatchHeader | None:
    """The last batch of an answer to a fetch from `offset`; None if there is none.

    No CRC covers a base offset, and a disk may return bytes of another place. Raises CorruptMessage
    if a batch ends before `offset`, or begins before the previous batch ends (P-54).
    """
    last = None
    for _, header in iter_headers(records):
        if header.next_offset <= offset or (last is not None and header.base_offset < offset):
            raise CorruptMessage(
                f"offsets {header.base_offset} to {header.last_offset} where {offset} must follow"
            )
        last, offset = header, header.next_offset
    return last
