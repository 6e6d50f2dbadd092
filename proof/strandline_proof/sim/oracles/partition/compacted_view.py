"""The log of a compacted partition in its files: with missing offsets, batches with fewer records,
and a cleaned segment that is not yet renamed (I-73).
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final, NamedTuple

from crc32c import crc32c

from strandline_proof.sim.disk.inode import Inode
from strandline_proof.sim.oracles.replica.log_view import CRC_FROM, HEADER, OVERHEAD, Entry, LogView
from strandline_proto.batch import raw_records, read_header

if TYPE_CHECKING:
    from strandline_proof.sim.disk.disk import SimDisk
    from strandline_proof.sim.oracles.replica.log_view import Identity

SWAP: Final = ".log.swap"


class Record(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


class Batch(NamedTuple):
    """One batch as a replica holds it."""

    identity: Identity
    end: int
    crc: int
    horizon_ms: int | None
    """The time from which its tombstones may go, once a cleaning has covered it."""
    producer: tuple[int, int, int]
    """(id, epoch, last sequence)."""
    records: tuple[Record, ...]


Batches = dict[tuple["Identity", int], Batch]
"""Batches by identity and CRC: the same bytes are read once for all replicas."""


class CompactedView(LogView):
    """The log. `batches` are those of the entries, in the same order."""

    def __init__(self, disk: SimDisk, path: str, known: Batches) -> None:
        super().__init__(disk, path)
        self.batches: list[Batch] = []
        self._known = known
        self._inodes: dict[int, Inode] = {}
        """The inode of each segment that entries were read from, by base offset."""
        self._cut_at = 0

    @property
    def end(self) -> int:
        """The end of the log. A truncation may leave it behind the last batch, where offsets are
        missing.
        """
        return max(self._read_to, self._cut_at)

    @property
    def _read_to(self) -> int:
        return self.entries[-1].end if self.entries else self.start

    def has_swap(self) -> bool:
        """True if a cleaned segment is not yet renamed."""
        return any(name.endswith(SWAP) for name in self._names())

    def _names(self) -> list[str]:
        directory = self.directory()
        return [] if directory is None else list(directory.entries)

    def _segments(self) -> list[int]:
        """The segments as the next start sees them: a whole cleaned segment replaces those that it
        covers.
        """
        names = self._names()
        found = {int(name[:20]) for name in names if name.endswith(".log")}
        for base in [int(name[:20]) for name in names if name.endswith(SWAP)]:
            end = self._end_of(base)
            found = {base, *(b for b in found if not base <= b < end)}
        return sorted(found)

    def _end_of(self, base: int) -> int:
        """The end of the cleaned segment."""
        data, at, end = self._bytes(base) or b"", 0, base + 1
        while at + HEADER.size <= len(data):
            first, length, _, _, _, _, delta = HEADER.unpack_from(data, at)
            at, end = at + OVERHEAD + length, first + delta + 1
        return end

    def _inode(self, segment: int) -> Inode | None:
        for ending in (SWAP, ".log"):
            try:
                node = self._disk.find(f"{self.path}/{segment:020d}{ending}")
            except OSError:
                continue
            if isinstance(node, Inode):
                return node
        return None

    def _bytes(self, segment: int) -> bytearray | None:
        node = self._inode(segment)
        return None if node is None else node.as_written()

    def _read_one(self, *, check: bool = False) -> bool:
        data, at, expected = self._bytes(self._segment), self._position, self._read_to
        if data is None or at + HEADER.size > len(data):
            later = [b for b in self._segments() if b > self._segment and b >= expected]
            if not later or (check and data is not None and at < len(data)):
                return False  # or the last batch of this segment is torn
            if check and self.entries and later[0] > expected:
                return False  # it is missing: a cleaning keeps the last one of each segment
            self._segment, self._position = later[0], 0
            return self._read_one(check=check)
        base, length, epoch, magic, crc, _, delta = HEADER.unpack_from(data, at)
        if (base < expected and (self.entries or base + delta < expected)) or magic != 2:
            return False
        stop = at + OVERHEAD + length
        if check and (
            stop > len(data) or crc32c(bytes(data[at + CRC_FROM : stop])) != crc or length < 49
        ):
            return False
        previous = self.entries[-1].identity if self.entries else None
        entry = Entry(base, base + delta + 1, epoch, crc, previous)
        batch = self._known.get((entry.identity, crc))
        if batch is None:
            batch = self._known[entry.identity, crc] = parse(bytes(data[at:stop]))
        if at == 0 or self._segment not in self._inodes:
            inode = self._inode(self._segment)
            assert inode is not None
            self._inodes[self._segment] = inode
        self.entries.append(entry)
        self.batches.append(batch)
        self._places.append((self._segment, stop))
        self._position = stop
        return True

    def cut(self, end: int) -> list[Entry]:
        gone = super().cut(end)
        del self.batches[len(self.entries) :]
        self._cut_at = end if self._read_to < end else 0
        return gone

    def begin_at(self, offset: int) -> None:
        super().begin_at(offset)
        self.batches.clear()
        self._inodes.clear()
        self._cut_at = 0

    def holds(self, entry: Entry) -> bool:
        """True for this very entry, or for a gap in its place between entries of its epoch or
        around it.
        """
        at = bisect_left(self.entries, entry.base, key=lambda other: other.base)
        if at == len(self.entries):
            return entry.base < self.start
        found = self.entries[at]
        if found.base == entry.base:
            return found.epoch == entry.epoch
        before = self.entries[at - 1] if at > 0 else None
        return (
            found.base >= entry.end
            and found.epoch >= entry.epoch
            and (before is None or (before.end <= entry.base and before.epoch <= entry.epoch))
        )

    def refresh(self) -> tuple[list[Batch], list[Batch]]:
        """Reads changed files again: (batches that were there, those that are)."""
        bases = sorted({segment for segment, _ in self._places})
        there = self._segments()
        same = [b in there and self._inode(b) is self._inodes.get(b) for b in bases]
        if all(same):
            return [], []
        first = same.index(False)
        behind = len(bases) - same[::-1].index(False)
        lo = bisect_left(self._places, (bases[first], 0))
        hi = len(self._places)
        if behind < len(bases):
            hi = bisect_left(self._places, (bases[behind], 0))
        reading, old = (self._segment, self._position), self.batches[lo:hi]
        tail = self.entries[hi:], self.batches[hi:], self._places[hi:]
        stop = tail[0][0].base if tail[0] else self._read_to
        del self.entries[lo:], self.batches[lo:], self._places[lo:]
        for base in bases[first:behind]:
            self._inodes.pop(base, None)
        until = bases[behind] if behind < len(bases) else reading[0] + 1
        for base in [b for b in there if bases[first] <= b < until]:
            self._segment, self._position = base, 0
            size = len(self._bytes(base) or b"")
            while self._position < size and self._read_to < stop and self._read_one():
                pass
        new = self.batches[lo:]
        self.entries += tail[0]
        self.batches += tail[1]
        self._places += tail[2]
        if tail[0] or reading[0] >= until:
            self._segment, self._position = reading
        return old, new

    def _reaches(self, segment: int, stop: int) -> bool:
        for ending in (SWAP, ".log"):
            try:
                directory, name = self._disk.parent(f"{self.path}/{segment:020d}{ending}")
            except OSError:
                continue
            node = directory.durable.get(name)
            if isinstance(node, Inode) and node.is_durable_to(stop):
                return True
        return False


def parse(data: bytes) -> Batch:
    """A whole batch."""
    header = read_header(data)
    records = () if header.record_count == 0 else raw_records(data, header)
    return Batch(
        (header.base_offset, header.leader_epoch),
        header.next_offset,
        header.crc,
        header.base_timestamp if header.has_delete_horizon else None,
        (header.producer_id, header.producer_epoch, header.last_sequence),
        tuple(Record(r.offset, r.timestamp, r.key, r.value) for r in records),
    )
