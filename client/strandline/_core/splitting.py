"""Splits a batch that a leader refused as too large into smaller ones (KIP-126).

The parts keep the order of the records and share the sequence numbers of the whole. The batches
behind it keep their numbers, and a leader that holds the whole takes each part for a repetition
(I-55, I-59).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline._core.delivery_terms import PACKED_HERE
from strandline._core.producer_batch import NO_SEQUENCE, ProducerBatch
from strandline_proto.batch import HEADER_SIZE, add_sequence, raw_records, read_header, uncompressed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_proto.batch import BatchHeader


def split(batch: ProducerBatch, size_max: int, compression: int) -> tuple[int, list[ProducerBatch]]:
    """Returns the limit used, and at least two batches that replace one of several records.

    The limit is `size_max`, or about half of the records if that is less. It counts uncompressed
    bytes, and only a single record is above it.
    """
    assert not batch.outstanding, "a batch under way stays whole"
    plain = bytes(uncompressed(batch.data, read_header(batch.data), PACKED_HERE))
    header = read_header(plain)
    size = len(plain) - HEADER_SIZE
    # A little more than the half, so that records of nearly one size make two parts, not three.
    limit = min(size_max, HEADER_SIZE + size // 2 + size // 32 + 1)
    parts: list[ProducerBatch] = []
    for record in raw_records(plain, header, PACKED_HERE):
        row = record.timestamp, record.key, record.value, record.headers
        part = parts[-1] if parts else _part(batch, header, limit, compression, parts)
        if part.append(part.count, *row) is None:
            part = _part(batch, header, limit, compression, parts)
            part.append(0, *row)
        part.count += 1
    assert len(parts) > 1, (batch.count, limit, len(plain))
    _share_out(batch, parts)
    sequence = batch.base_sequence
    for part in parts:
        part.seal(header.producer_id, header.producer_epoch, sequence)
        if sequence != NO_SEQUENCE:
            sequence = add_sequence(sequence, part.count)
    batch.settled = True
    batch.parts = tuple(parts)
    return limit, parts


def _part(
    batch: ProducerBatch,
    header: BatchHeader,
    size_max: int,
    compression: int,
    parts: list[ProducerBatch],
) -> ProducerBatch:
    part = ProducerBatch(
        size_max=size_max,
        compression=compression,
        created_ms=batch.created_ms,
        deadline_ms=batch.deadline_ms,
        is_transactional=header.is_transactional,
    )
    part.may_be_written = batch.may_be_written
    part.last_error = batch.last_error
    parts.append(part)
    return part


def _share_out(batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
    """Gives each part its share of the buffer's bytes, and the waiters of its records."""
    left = batch.reserved
    for part in parts[:-1]:
        assert part.builder is not None
        part.reserved = min(left, part.builder.size() - HEADER_SIZE)
        left -= part.reserved
    parts[-1].reserved = left
    waiters, collectors = iter(batch.waiters), iter(batch.collectors)
    start = 0
    waiter, collected = next(waiters, None), next(collectors, None)
    for part in parts:
        end = start + part.count
        while waiter is not None and waiter[0] < end:
            part.waiters.append((waiter[0] - start, *waiter[1:]))
            waiter = next(waiters, None)
        while collected is not None and collected[0] < end:
            first, count, collector = collected
            taken = min(count, end - first)
            part.collectors.append((first - start, taken, collector))
            rest = first + taken, count - taken, collector
            collected = rest if rest[1] > 0 else next(collectors, None)
        start = end


def remaining(batches: list[ProducerBatch]) -> Iterator[ProducerBatch]:
    """The batches that are not settled; the parts of a batch take its place."""
    pending: list[Any] = list(reversed(batches))
    while pending:
        batch = pending.pop()
        if batch.parts:
            pending += reversed(batch.parts)
        elif not batch.settled:
            yield batch
