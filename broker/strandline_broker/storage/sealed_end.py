"""Where a sealed segment's offsets end, found by the last entry of its index and the batches behind
it: what a start can afford to know of each segment that it need not read.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from strandline_broker.storage.batch_walk import walk
from strandline_broker.storage.damage import BadBatch
from strandline_broker.storage.file import File
from strandline_broker.storage.offset_index import ENTRY_SIZE
from strandline_broker.storage.time_index import ENTRY

if TYPE_CHECKING:
    from strandline_broker.storage.segment import Segment
    from strandline_runtime.runtime import FileSystem

_OFFSET_ENTRY: Final = struct.Struct(">II")
_FIRST_BATCH: Final = (-1, 0)


def end_by_index(fs: FileSystem, segment: Segment) -> int | None:
    """One past the last offset that the files hold; None if the indexes are missing or contradict
    the segment.
    """
    try:
        entry = _last_offset_entry(fs, segment)
        timed = _has_times(fs, segment)
    except FileNotFoundError:
        return None
    if segment.size == 0:
        return segment.base_offset
    if entry is None:
        return None
    last_offset, position = entry
    if not timed:
        # Only a segment without any record, of headers that compaction left, may have no time.
        if File(fs, segment.path("timeindex")).size() > 0:
            return None
        last_offset, position = _FIRST_BATCH
    end = None
    try:
        file = File(fs, segment.path())
        for at, header in walk(file, position, segment.size, offset=segment.base_offset):
            if at == position and last_offset not in (-1, header.last_offset):
                return None
            if not timed and header.record_count > 0:
                return None
            end = header.next_offset
    except BadBatch:
        return None
    return end if end is not None and end <= segment.end_offset else None


def _last_offset_entry(fs: FileSystem, segment: Segment) -> tuple[int, int] | None:
    """(last offset, position) of the last indexed batch, (-1, 0) if there is none; None if that
    cannot be.
    """
    file = File(fs, segment.path("index"))
    size = file.size()
    if size % ENTRY_SIZE != 0:
        return None
    if size == 0:
        return _FIRST_BATCH
    relative, position = _OFFSET_ENTRY.unpack(file.read(ENTRY_SIZE, size - ENTRY_SIZE))
    if position == 0:
        indexes = segment.read_indexes()  # zeros at its end, or no index at all
        if indexes is None:
            return None
        offsets = indexes[0]
        if len(offsets) == 0:
            return _FIRST_BATCH
        return offsets.last_offset, offsets.last_position
    if position >= segment.size:
        return None
    return segment.base_offset + relative, position


def _has_times(fs: FileSystem, segment: Segment) -> bool:
    """Whether the time index has entries, and the last names an offset of this segment."""
    file = File(fs, segment.path("timeindex"))
    size = file.size()
    if size == 0 or size % ENTRY.size != 0:
        return False
    timestamp, relative = ENTRY.unpack(file.read(ENTRY.size, size - ENTRY.size))
    if timestamp == 0 and relative == 0:
        indexes = segment.read_indexes()
        return indexes is not None and len(indexes[1]) > 0
    batch = segment.base_offset + int(relative)
    if relative < 0 or batch >= segment.end_offset:
        return False
    if timestamp >= 0:
        segment.know_latest(timestamp, batch)
    return True
