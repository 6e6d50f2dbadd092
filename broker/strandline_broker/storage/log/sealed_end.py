"""The end offset and the largest timestamp of a sealed segment, found from its last index entry and
the batches after it. A start can afford this for segments that it does not read.

The last entry of the time index is checked against the batch that it names (I-78), which is usually
one of those batches.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from strandline_broker.storage.files.damage import BadBatch
from strandline_broker.storage.files.file import File
from strandline_broker.storage.segment.batch_walk import walk
from strandline_broker.storage.segment.offset_index import ENTRY_SIZE
from strandline_broker.storage.segment.time_index import ENTRY, NO_TIMESTAMP

if TYPE_CHECKING:
    from strandline_broker.storage.segment.segment import Segment
    from strandline_runtime.runtime import FileSystem

_OFFSET_ENTRY: Final = struct.Struct(">II")
_FIRST_BATCH: Final = (-1, 0)


def end_by_index(fs: FileSystem, segment: Segment) -> int | None:
    """One past the last offset in the files; None if the indexes are missing or contradict the
    segment.
    """
    try:
        entry = _last_offset_entry(fs, segment)
        latest = _last_time_entry(fs, segment)
    except FileNotFoundError:
        return None
    if segment.size == 0:
        return segment.base_offset
    if entry is None:
        return None
    if latest is None:
        # Only a segment without records, with the headers that compaction left, may lack a
        # timestamp.
        if File(fs, segment.path("timeindex")).size() > 0:
            return None
        entry = _FIRST_BATCH
    try:
        end, largest = _walk_from(File(fs, segment.path()), segment, entry, latest)
    except BadBatch:
        return None
    if latest is not None and latest[0] >= 0:
        if largest != latest[0] and segment.is_contradicted([latest]):
            return None
        segment.know_latest(*latest)
    return end if end is not None and end <= segment.end_offset else None


def _walk_from(
    file: File, segment: Segment, entry: tuple[int, int], latest: tuple[int, int] | None
) -> tuple[int | None, int]:
    """(one past the last offset, largest timestamp of the batch that the time index names, if met).
    The first is None if a batch contradicts an index.
    """
    last_offset, position = entry
    end, largest = None, NO_TIMESTAMP
    for at, header in walk(file, position, segment.size, offset=segment.base_offset):
        if at == position and last_offset not in (-1, header.last_offset):
            return None, largest
        if latest is None and header.record_count > 0:
            return None, largest
        if latest is not None and header.base_offset <= latest[1] <= header.last_offset:
            largest = header.max_timestamp
        end = header.next_offset
    return end, largest


def _last_offset_entry(fs: FileSystem, segment: Segment) -> tuple[int, int] | None:
    """(last offset, position) of the last indexed batch; (-1, 0) if there is none; None if the
    entry is impossible.
    """
    file = File(fs, segment.path("index"))
    size = file.size()
    if size % ENTRY_SIZE != 0:
        return None
    if size == 0:
        return _FIRST_BATCH
    relative, position = _OFFSET_ENTRY.unpack(file.read(ENTRY_SIZE, size - ENTRY_SIZE))
    if position == 0:
        indexes = segment.read_indexes()  # zeros at the index's end, or no index at all
        if indexes is None:
            return None
        offsets = indexes[0]
        if len(offsets) == 0:
            return _FIRST_BATCH
        return offsets.last_offset, offsets.last_position
    if position >= segment.size:
        return None
    return segment.base_offset + relative, position


def _last_time_entry(fs: FileSystem, segment: Segment) -> tuple[int, int] | None:
    """(timestamp, offset) of the last entry of the time index, without a timestamp if zeros follow
    it; None if there is no entry or it is impossible.
    """
    file = File(fs, segment.path("timeindex"))
    size = file.size()
    if size == 0 or size % ENTRY.size != 0:
        return None
    timestamp, relative = ENTRY.unpack(file.read(ENTRY.size, size - ENTRY.size))
    if timestamp == 0 and relative == 0:
        indexes = segment.read_indexes()
        has_times = indexes is not None and len(indexes[1]) > 0
        return (NO_TIMESTAMP, segment.base_offset) if has_times else None
    batch = segment.base_offset + int(relative)
    return (timestamp, batch) if segment.base_offset <= batch < segment.end_offset else None
