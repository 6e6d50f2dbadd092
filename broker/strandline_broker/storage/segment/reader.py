"""Search for batches in a segment, by its sparse indexes and a walk over at most one index
interval.

A wrong index costs time, but never gives a wrong result. If it leads to no batch, or to one too
late, the walk begins at the segment's first byte.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from strandline_broker.storage.files.checkpoints import OFFSET_MAX
from strandline_broker.storage.files.damage import BadBatch
from strandline_broker.storage.files.steps import HEADERS_A_STEP, RECORDS_A_STEP, paced
from strandline_broker.storage.segment.batch_walk import walk
from strandline_broker.storage.segment.offset_index import RELATIVE_MAX
from strandline_proto.batch import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    crc_matches,
    raw_records,
    read_header,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aiokafka.record._protocols import DefaultRecordProtocol

    from strandline_broker.storage.files.steps import Steps
    from strandline_broker.storage.segment.recent_batches import RecentBatches
    from strandline_broker.storage.segment.segment import Segment, View
    from strandline_proto.batch import BatchHeader
    from strandline_proto.decompression import Bound

SPAN: Final = struct.Struct(">qi4xb6xi")
"""Base offset, length, magic, last offset delta: the header's fields that locate the next batch."""

Run = tuple[int, int, int]
"""(position, end position, next offset)."""
Place = tuple[int, int]
"""(position, offset of the batch that must begin there)."""


def first_batch_to(
    segment: Segment,
    view: View,
    offset: int,
    end: int,
    *,
    low: Place | None = None,
    gaps_below: int = OFFSET_MAX,
) -> tuple[int, BatchHeader] | None:
    """(position, header) of the first batch that ends at or after `offset`; None if there is none
    before byte `end`. The walk begins at `low` or later, after known damage.

    A BadBatch names the offset that must be at its byte, because all batches before it follow from
    `low`.
    """
    first = low if low is not None else (0, segment.base_offset)
    indexed = _indexed(segment, view, offset, end)
    origins = [first] if indexed is None or indexed <= first else [indexed, first]
    for origin in origins:
        position, least = origin
        try:
            for at, header in walk(view.file, position, end, offset=least, gaps_below=gaps_below):
                if header.last_offset >= offset:
                    return at, header
        except BadBatch:
            if origin is first:
                raise
        else:
            break
    return None


def _indexed(segment: Segment, view: View, offset: int, end: int) -> Place | None:
    """The place of a batch at or before `offset` by the index, if a batch seems to be there."""
    position = view.offsets.floor(offset)
    data = view.file.read(HEADER_SIZE, position) if 0 < position <= end - HEADER_SIZE else b""
    if len(data) < HEADER_SIZE:
        return None
    base_offset = read_header(data).base_offset
    return (position, base_offset) if segment.base_offset <= base_offset <= offset else None


def find_run(
    segment: Segment,
    start: int,
    *,
    limit: int,
    max_bytes: int,
    recent: RecentBatches | None,
    low: Place | None = None,
    stop: Place | None = None,
    known: int | None = None,
    gaps_below: int = OFFSET_MAX,
) -> Run | None:
    """The whole batches from the one with `start`, below `limit`; at least one if one is there,
    else an empty run.

    None if no batch of this segment ends at or after `start`. `recent` belongs to the active
    segment. If the segment is damaged, the walk begins at `low` at the earliest and reads nothing
    beyond `stop`. `known` is the place of the batch with `start`, if an earlier read has found it.
    """
    view = segment.view()
    known_end, known_offset = (segment.size, segment.end_offset) if recent is None else recent.first
    bound = stop if stop is not None and stop[1] <= limit else None
    if bound is None and recent is not None:
        bound = recent.bound(limit)
    if bound is None and limit >= known_offset:
        bound = known_end, known_offset
    position = recent.position_of(start) if recent is not None else None
    if position is None:
        position = known
    if position is None:
        found = first_batch_to(segment, view, start, known_end, low=low, gaps_below=gaps_below)
        if found is None:
            if recent is None:
                return None
            position = known_end
        else:
            position = found[0]
    if bound is None:
        found = first_batch_to(segment, view, limit, known_end, low=low, gaps_below=gaps_below)
        bound = (known_end, known_offset) if found is None else (found[0], found[1].base_offset)
    if bound[0] <= position:
        return position, position, start
    if bound[0] - position <= max_bytes:
        return position, *bound
    return _cut(segment, view, position, end=bound[0], max_bytes=max_bytes)


def _cut(segment: Segment, view: View, position: int, *, end: int, max_bytes: int) -> Run:
    """The batches from `position` that fit into `max_bytes`, or the first alone."""
    target = position + max_bytes
    run = _cut_quickly(segment, view, position, target=target, end=end)
    if run is not None:
        return run
    for origin in dict.fromkeys((max(view.offsets.floor_position(target), position), position)):
        try:
            for at, header in walk(view.file, origin, end, offset=segment.base_offset):
                if at == position and at + header.size >= target:
                    return position, at + header.size, header.next_offset
                if at + header.size > target:
                    return position, at, header.base_offset
        except BadBatch:
            if origin == position:
                raise
    raise BadBatch(view.file.path, position, segment.base_offset, "no batch ends where one must")


def _cut_quickly(
    segment: Segment, view: View, position: int, *, target: int, end: int
) -> Run | None:
    """The run of `_cut`, found from length to length; None if a value is odd, which a walk then
    names.
    """
    read, at = view.file.read, max(view.offsets.floor_position(target), position)
    while at < end:
        data = read(SPAN.size, at)
        if len(data) < SPAN.size:
            return None
        base, length, magic, delta = SPAN.unpack(data)
        behind = at + length + LENGTH_OVERHEAD
        if magic != MAGIC or delta < 0 or not at + HEADER_SIZE <= behind <= end:
            return None
        if at > 0 and not 0 <= base - segment.base_offset <= RELATIVE_MAX:
            return None
        if behind >= target and at == position:
            return position, behind, base + delta + 1
        if behind > target:
            return position, at, base
        at = behind
    return None


def first_record_at(
    segment: Segment, timestamp: int, *, end: int, log_start: int, gaps_below: int, bound: Bound
) -> Steps[tuple[int, int, int] | None]:
    """(timestamp, offset, leader epoch) of the first record at or after `timestamp` before byte
    `end`.
    """
    view = segment.view()
    headers = _walk_from_time(segment, view, timestamp, end=end, gaps_below=gaps_below)
    for step in paced(headers, HEADERS_A_STEP):
        if step is None:
            yield
            continue
        at, header = step
        if header.max_timestamp < timestamp or header.last_offset < log_start:
            continue
        for record in paced(_records(view, at, header, bound), RECORDS_A_STEP):
            if record is None:
                yield
            elif record.timestamp >= timestamp and record.offset >= log_start:
                return record.timestamp, record.offset, header.leader_epoch
    return None


def latest_timestamp_from(
    segment: Segment, log_start: int, *, end: int, gaps_below: int, bound: Bound
) -> Steps[int]:
    """The largest timestamp of the records from `log_start` on, before byte `end`; -1 if there is
    none.

    All headers are read, so this is only for the one segment that holds the log's start.
    """
    view = segment.view()
    latest = -1
    headers = _walk_from(segment, view, log_start, end=end, gaps_below=gaps_below)
    for step in paced(headers, HEADERS_A_STEP):
        if step is None:
            yield
            continue
        at, header = step
        if header.base_offset >= log_start:
            latest = max(latest, header.max_timestamp)
        elif header.last_offset >= log_start:
            # A compacted batch may have no records left.
            for record in paced(_records(view, at, header, bound), RECORDS_A_STEP):
                if record is None:
                    yield
                elif record.offset >= log_start:
                    latest = max(latest, record.timestamp)
    return latest


def _walk_from_time(
    segment: Segment, view: View, timestamp: int, *, end: int, gaps_below: int
) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each batch from the one that the time index names. The walk begins at
    the first batch if the named one has another timestamp than its entry (I-78).
    """
    said, offset = view.times.floor(timestamp)
    found = first_batch_to(segment, view, offset, end, gaps_below=gaps_below)
    if found is not None and found[1].base_offset <= offset and found[1].max_timestamp == said:
        position, first = found
        yield from walk(view.file, position, end, offset=first.base_offset, gaps_below=gaps_below)
    else:
        offset = segment.base_offset
        yield from _walk_from(segment, view, offset, end=end, gaps_below=gaps_below)


def _walk_from(
    segment: Segment, view: View, offset: int, *, end: int, gaps_below: int
) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each batch from the first that ends at or after `offset`."""
    found = first_batch_to(segment, view, offset, end, gaps_below=gaps_below)
    if found is not None:
        position, first = found
        yield from walk(view.file, position, end, offset=first.base_offset, gaps_below=gaps_below)


def _records(
    view: View, position: int, header: BatchHeader, bound: Bound
) -> Iterator[DefaultRecordProtocol]:
    data = view.file.read(header.size, position)
    if len(data) < header.size or not crc_matches(data, 0, header):
        why = "the batch does not match its CRC-32C"
        raise BadBatch(view.file.path, position, header.base_offset, why)
    yield from raw_records(data, header, bound)


def is_contradicted(segment: Segment, view: View, timestamp: int, offset: int) -> bool:
    """True if `timestamp` is not the largest of the batch with `offset`."""
    if not segment.base_offset <= offset < segment.end_offset:
        return True
    try:
        found = first_batch_to(segment, view, offset, segment.size)
    except BadBatch:
        return False
    if found is None:
        return True
    position, header = found
    if header.base_offset <= offset and header.max_timestamp == timestamp:
        return False
    data = view.file.read(header.size, position)
    return len(data) == header.size and crc_matches(data, 0, header)
