"""Turns fetched bytes into records: checks, decompresses, parses, one batch at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiokafka.record._crecords import DefaultRecordBatch

from strandline.errors import CorruptRecords
from strandline.types import ConsumerRecord
from strandline_proto.batch import crc_matches, iter_headers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline.types import TopicPartition


def decode(
    data: bytes, partition: TopicPartition, from_offset: int, *, check_crcs: bool
) -> Iterator[tuple[list[ConsumerRecord], int, int]]:
    """(records at or after `from_offset`, next offset, leader epoch) of each batch in `data`.

    A batch without visible records still moves the position on (P-70). Raises CorruptRecords.
    """
    topic, number = partition
    for at, header in iter_headers(data):
        if header.next_offset <= from_offset:
            continue
        if check_crcs and not crc_matches(data, at, header):
            raise CorruptRecords(
                f"{topic}/{number}: the batch at offset {header.base_offset} does not match its "
                f"CRC-32C; seek to {header.next_offset} to skip it"
            )
        epoch = header.leader_epoch
        if header.is_control:
            yield [], header.next_offset, epoch
            continue
        kind = 1 if header.is_log_append_time else 0
        whole = at == 0 and header.size == len(data)
        try:
            batch = DefaultRecordBatch(data if whole else data[at : at + header.size])
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
        except Exception as error:
            raise CorruptRecords(
                f"{topic}/{number}: the batch at offset {header.base_offset} does not parse "
                f"({type(error).__name__}: {error}); seek to {header.next_offset} to skip it"
            ) from error
        if header.base_offset < from_offset:
            records = [r for r in records if r.offset >= from_offset]
        yield records, header.next_offset, epoch
