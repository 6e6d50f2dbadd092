"""The content of a replica's log, read from the bytes on its simulated disk without the storage
layer.

An entry is identified by its base offset and leader epoch and by the entry before it. By induction,
two logs that hold the same entry are equal up to it (log matching, I-4).
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from crc32c import crc32c

from strandline_proof.sim.disk.inode import Inode
from strandline_proof.sim.disk.parts import Directory
from strandline_proof.sim.oracles.violation import Violation

if TYPE_CHECKING:
    from strandline_proof.sim.disk.disk import SimDisk

HEADER: Final = struct.Struct(">qiibIhi")
OVERHEAD: Final = 12
CRC_FROM: Final = 21

Identity = tuple[int, int]
"""(base offset, leader epoch)."""


class Entry(NamedTuple):
    base: int
    end: int
    epoch: int
    crc: int
    previous: Identity | None
    """None for the first known entry of the log."""

    @property
    def identity(self) -> Identity:
        return self.base, self.epoch


BASE: Final = itemgetter(0)
END: Final = itemgetter(1)
"""The end of an entry; for searches, which are frequent."""


class LogView:
    """The entries from the first segment, as it was, up to the end of the last reading.

    Entries before `start` were removed, which only a raised log start may do (I-74). The first
    batch of a restarted log may reach back over it.
    """

    def __init__(self, disk: SimDisk, path: str) -> None:
        self._disk = disk
        self.path = path
        self.entries: list[Entry] = []
        self._places: list[tuple[int, int]] = []
        """The end of each entry: (base offset of the segment, position)."""
        segments = self._segments()
        self._segment = min(segments) if segments else 0
        self._position = 0
        self.start = self._segment

    @property
    def end(self) -> int:
        return self.entries[-1].end if self.entries else self.start

    def begins_at(self, epoch: int) -> int:
        """The end of the log when a leader began that epoch."""
        return next((entry.base for entry in self.entries if entry.epoch >= epoch), self.end)

    def directory(self) -> Directory | None:
        """The log's present directory; None: there is none."""
        try:
            node = self._disk.find(self.path)
        except OSError:
            return None
        return node if isinstance(node, Directory) else None

    def _segments(self) -> list[int]:
        directory = self.directory()
        names = {} if directory is None else directory.entries
        return sorted(int(n[:-4]) for n in names if n.endswith(".log"))

    def _bytes(self, segment: int) -> bytearray | None:
        try:
            node = self._disk.find(f"{self.path}/{segment:020d}.log")
        except OSError:
            return None
        return node.as_written() if isinstance(node, Inode) else None

    def read_to(self, end: int, where: str) -> list[Entry]:
        """The entries that have been appended up to offset `end`."""
        known = len(self.entries)
        while self.end < end:
            if not self._read_one():
                raise Violation(
                    "I-1", f"{where}: no batch at offset {self.end} on disk, its log end is {end}"
                )
        return self.entries[known:]

    def read_valid(self) -> None:
        """Reads everything up to the first batch that is not whole: what a recovery may keep."""
        while self._read_one(check=True):
            pass

    def _read_one(self, *, check: bool = False) -> bool:
        expected = self.end
        if expected != self._segment and self._bytes(expected) is not None:
            # The log has no part behind the end of the segment before: a start that finds damage
            # there cuts nothing, and goes on here (I-7).
            self._segment, self._position = expected, 0
        data, at = self._bytes(self._segment), self._position
        if data is None or at + HEADER.size > len(data):
            return False
        base, length, epoch, magic, crc, _, delta = HEADER.unpack_from(data, at)
        reaches_back = not self.entries and base < expected <= base + delta
        if (base != expected and not reaches_back) or magic != 2:
            return False
        stop = at + OVERHEAD + length
        if check and (
            stop > len(data) or crc32c(bytes(data[at + CRC_FROM : stop])) != crc or length < 49
        ):
            return False
        previous = self.entries[-1].identity if self.entries else None
        self.entries.append(Entry(base, base + delta + 1, epoch, crc, previous))
        self._position = stop
        self._places.append((self._segment, stop))
        return True

    def cut(self, end: int) -> list[Entry]:
        """The log now ends at `end`; returns the removed entries. The end lies within a batch only
        at the start of a restarted log.
        """
        keep = bisect_left(self.entries, end, key=BASE)
        splits = keep > 0 and self.entries[keep - 1].end > end
        if splits:
            keep -= 1
        gone = self.entries[keep:]
        del self.entries[keep:]
        del self._places[keep:]
        self._segment, self._position = self._places[-1] if self._places else (self.start, 0)
        is_gone = self._places and self._bytes(self._segment) is None
        if end < self.start or splits or is_gone:
            self.begin_at(end)
        return gone

    def begin_at(self, offset: int) -> None:
        """The log has restarted there."""
        self.entries.clear()
        self._places.clear()
        self.start = self._segment = offset
        self._position = 0

    def forget_removed(self) -> None:
        """Forgets entries that are no longer on the disk, as they lay before the log's start."""
        segments = self._segments()
        first = segments[0] if segments else self.start
        if first >= self.end:
            self.begin_at(max(first, self.start))
            return
        keep = bisect_left(self._places, first, key=itemgetter(0))
        del self.entries[:keep]
        del self._places[:keep]
        self.start = max(self.start, first)

    def kept_from(self, offset: int) -> int | None:
        """Bytes of the segments from the one that begins at `offset`; None if none does."""
        segments = self._segments()
        if offset not in segments:
            return None
        return sum(len(self._bytes(base) or b"") for base in segments if base >= offset)

    def holds(self, entry: Entry) -> bool:
        """True if this very entry is here, and by induction all before it, or was removed."""
        if entry.end <= self.start:
            return True
        at = bisect_left(self.entries, entry.base, key=BASE)
        return at < len(self.entries) and self.entries[at].identity == entry.identity

    def place(self, number: int) -> tuple[int, int, int]:
        """(base offset of the segment, first byte, end byte) of the entry of that number."""
        segment, stop = self._places[number]
        before = self._places[number - 1] if number > 0 else (segment, 0)
        return segment, before[1] if before[0] == segment else 0, stop

    def bytes_of(self, number: int) -> bytes:
        """The batch of that number as it was written; nothing if its file is gone."""
        segment, start, stop = self.place(number)
        data = self._bytes(segment)
        return b"" if data is None else bytes(data[start:stop])

    def is_durable(self, entry: Entry) -> bool:
        """True if a loss of power would leave an entry that is held, and the segment before it: to
        their last bytes, which are written last.
        """
        if entry.end <= self.start:
            return True
        at = bisect_left(self.entries, entry.base, key=BASE)
        segment, stop = self._places[at]
        if self._bytes(segment) is None:
            return True  # it was removed since, with all before it
        before = bisect_left(self._places, segment, key=itemgetter(0)) - 1
        if before < 0 or self._bytes(self._places[before][0]) is None:
            return self._reaches(segment, stop)
        return self._reaches(segment, stop) and self._reaches(*self._places[before])

    def _reaches(self, segment: int, stop: int) -> bool:
        """True if the platter has the bytes of a segment before `stop`, or everything that a
        cleaning has left of it since.
        """
        left = self._bytes(segment)
        stop = stop if left is None else min(stop, len(left))
        try:
            directory, name = self._disk.parent(f"{self.path}/{segment:020d}.log")
        except OSError:
            return False
        node = directory.durable.get(name)
        return isinstance(node, Inode) and node.is_durable_to(stop)
