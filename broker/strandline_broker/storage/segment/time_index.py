"""The sparse time index of one segment: Kafka's 12-byte entries, timestamp i64 and relative offset
i32, big-endian.

An entry (t, o) makes two statements. No record up to offset o, nor up to the next entry, is later
than t. The first batch with a record at t ends at o. Timestamps rise strictly. Like the offset
index, memory holds two arrays that only grow.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from itertools import islice
from operator import le, lt
from typing import TYPE_CHECKING, Final

from strandline_broker.storage.files.file import File

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_runtime.runtime import FileSystem

ENTRY: Final = struct.Struct(">qi")
NO_TIMESTAMP: Final = -1


def read_last(fs: FileSystem, path: str, base_offset: int) -> tuple[int, int] | None:
    """The value of `TimeIndex.last`, from the last bytes of an index file; None if the file is
    lost, empty or does not end with an entry.
    """
    try:
        file = File(fs, path)
    except FileNotFoundError:
        return None
    size = file.size()
    data = file.read(ENTRY.size, size - ENTRY.size) if size >= ENTRY.size else b""
    if size % ENTRY.size != 0 or not any(data):
        return None
    timestamp, offset = ENTRY.unpack(data)
    return (timestamp, base_offset + offset) if timestamp >= 0 else None


class TimeIndex:
    __slots__ = ("_offsets", "_timestamps", "base_offset")

    def __init__(
        self, base_offset: int, timestamps: Iterable[int] = (), offsets: Iterable[int] = ()
    ) -> None:
        self.base_offset = base_offset
        self._timestamps = array("q", timestamps)
        self._offsets = array("i", offsets)

    @classmethod
    def parse(cls, base_offset: int, data: bytes) -> TimeIndex | None:
        """The index in `data`; None if the bytes are no index. Zeros at the end, which a killed
        Kafka leaves, are ignored.
        """
        if len(data) % ENTRY.size != 0:
            return None
        full = data.rstrip(b"\0")
        full += b"\0" * (-len(full) % ENTRY.size)
        index = cls(base_offset)
        for timestamp, offset in ENTRY.iter_unpack(full):
            index._timestamps.append(timestamp)
            index._offsets.append(offset)
        return index if index._rises() else None

    def _rises(self) -> bool:
        timestamps, offsets = self._timestamps, self._offsets
        return (
            all(map(lt, timestamps, islice(timestamps, 1, None)))
            and all(map(le, offsets, islice(offsets, 1, None)))
            and (not offsets or offsets[0] >= 0)
        )

    def serialize(self) -> bytes:
        return b"".join(map(ENTRY.pack, self._timestamps, self._offsets))

    def __len__(self) -> int:
        return len(self._timestamps)

    @property
    def last(self) -> tuple[int, int]:
        """(largest timestamp, last offset of the first batch that has it)."""
        return self._entry(len(self) - 1)

    def _entry(self, number: int) -> tuple[int, int]:
        if number < 0:
            return NO_TIMESTAMP, self.base_offset
        return self._timestamps[number], self.base_offset + self._offsets[number]

    def append(self, timestamp: int, offset: int) -> None:
        """Add an entry if `timestamp` is later than every one before."""
        if timestamp > self.last[0]:
            self._offsets.append(offset - self.base_offset)
            self._timestamps.append(timestamp)

    def floor(self, timestamp: int) -> tuple[int, int]:
        """The last entry that is not later than `timestamp`, as (its timestamp, offset). No record
        before that offset is at or after `timestamp`, except within its own batch.
        """
        return self._entry(bisect_right(self._timestamps, timestamp) - 1)

    def cut(self, offset: int) -> TimeIndex:
        """A new index of the entries below `offset`; readers may still hold this one."""
        keep = self._count_below(offset)
        return TimeIndex(self.base_offset, self._timestamps[:keep], self._offsets[:keep])

    def around(self, offset: int) -> list[tuple[int, int]]:
        """The last entry below `offset` and the first one at or above it, as far as they exist."""
        keep = self._count_below(offset)
        return [self._entry(i) for i in (keep - 1, keep) if 0 <= i < len(self)]

    def _count_below(self, offset: int) -> int:
        return bisect_left(self._offsets, offset - self.base_offset)
