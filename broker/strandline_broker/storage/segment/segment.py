"""One segment of a log: `<base offset>.log` with its two sparse indexes, and the index of the
transactions that were aborted in it.

The active segment is written to, and keeps its file and indexes open. A sealed segment opens them
at the first read and may release them again. Each reader holds a `View`, so nothing is closed while
it is read.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from strandline_broker.storage.files.checkpoints import OFFSET_MAX
from strandline_broker.storage.files.damage import BadBatch
from strandline_broker.storage.files.file import (
    CREATE_EMPTY,
    READ,
    WRITE,
    File,
    read_whole,
    write_whole,
)
from strandline_broker.storage.segment.batch_walk import walk
from strandline_broker.storage.segment.offset_index import ENTRY_SIZE, RELATIVE_MAX, OffsetIndex
from strandline_broker.storage.segment.reader import is_contradicted
from strandline_broker.storage.segment.recent_batches import RecentBatches
from strandline_broker.storage.segment.time_index import ENTRY, TimeIndex, read_last
from strandline_broker.storage.segment.txn_index import (
    SUFFIX,
    TxnIndex,
    append_entries,
    cut_entries,
)
from strandline_proto.batch import HEADER_SIZE, MAGIC, read_header

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_broker.storage.segment.txn_index import Aborted
    from strandline_proto.batch import BatchHeader
    from strandline_runtime.runtime import FileSystem

SEGMENT_NAME: Final = re.compile(r"(\d{20})\.log")
POSITION_MAX: Final = 2**31 - 1


_NONE_ABORTED: Final = TxnIndex()


class View(NamedTuple):
    """The file and indexes that a reader needs, alive as long as the reader holds them."""

    file: File
    offsets: OffsetIndex
    times: TimeIndex

    @property
    def index_bytes(self) -> int:
        return len(self.offsets) * ENTRY_SIZE + len(self.times) * ENTRY.size


class Segment:
    __slots__ = (
        "_aborted",
        "_aborted_synced",
        "_created_ms",
        "_first_timestamp",
        "_fs",
        "_index_interval",
        "_latest_is_known",
        "_unindexed",
        "_view",
        "base_offset",
        "directory",
        "end_offset",
        "ending",
        "flushed",
        "has_aborted",
        "latest_batch",
        "latest_timestamp",
        "size",
        "unsynced",
    )

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        base_offset: int,
        *,
        size: int,
        end_offset: int,
        index_interval: int,
        ending: str = "",
    ) -> None:
        self._fs = fs
        self.directory = directory
        self.base_offset = base_offset
        self.ending = ending
        """Suffix of the files' names while a cleaning creates them (`.cleaned`, `.swap`)."""
        self.size = size
        self.end_offset = end_offset
        """One past the last offset; for a sealed segment, the start of the next."""
        self.latest_timestamp = -1
        self.latest_batch = base_offset
        """Last offset of the first batch with the largest timestamp, for the time index."""
        self.flushed = True
        """True if log and indexes of a sealed segment are durable."""
        self.unsynced: tuple[File, ...] = ()
        """Index files that were written at sealing and are not yet durable."""
        self.has_aborted = False
        """True if transactions were aborted in this segment: `.txnindex` exists."""
        self._aborted: TxnIndex | None = None
        """None until it is read, if there is one."""
        self._aborted_synced = 0
        """Bytes of `.txnindex` that are durable."""
        self._index_interval = index_interval
        self._unindexed = 0
        self._view: View | None = None
        self._latest_is_known = False
        self._first_timestamp: int | None = None
        """Timestamp of the first batch; None until it is read."""
        self._created_ms = -1
        """Time of this process's first append to the segment, or of its creation."""

    @classmethod
    def create(
        cls,
        fs: FileSystem,
        directory: str,
        base_offset: int,
        *,
        index_interval: int,
        ending: str = "",
    ) -> Segment:
        """Create an empty, active segment; its directory entry is durable once the directory is
        synced.
        """
        segment = cls(
            fs,
            directory,
            base_offset,
            size=0,
            end_offset=base_offset,
            index_interval=index_interval,
            ending=ending,
        )
        for suffix in ("index", "timeindex"):
            File(fs, segment.path(suffix), CREATE_EMPTY)
        file = File(fs, segment.path(), CREATE_EMPTY)
        segment._view = View(file, OffsetIndex(base_offset), TimeIndex(base_offset))
        segment._latest_is_known = True
        return segment

    def path(self, suffix: str = "log") -> str:
        return f"{self.directory}/{self.base_offset:020d}.{suffix}{self.ending}"

    def log_size(self) -> int:
        """Size of the `.log` file on disk, in bytes."""
        return File(self._fs, self.path()).size()

    def open_log(self) -> File:
        """Open a separate descriptor, for a slow reader."""
        return File(self._fs, self.path(), READ)

    def view(self) -> View:
        view = self._view
        if view is None:
            view = self._view = self._open()
        return view

    def latest(self) -> tuple[int, int]:
        """(largest timestamp, last offset of the first batch with it); -1 if no batch has a
        timestamp.

        The value is read once from the end of the time index and checked against that batch.
        """
        if not self._latest_is_known:
            found = read_last(self._fs, self.path("timeindex"), self.base_offset)
            if found is None or self.is_contradicted([found]):
                found = self._scan_latest()
            self.know_latest(*found)
        return self.latest_timestamp, self.latest_batch

    def know_latest(self, timestamp: int, batch: int) -> None:
        """Set the value of `latest`; the caller has read the end of the time index."""
        self.latest_timestamp, self.latest_batch = timestamp, batch
        self._latest_is_known = True

    def _scan_latest(self) -> tuple[int, int]:
        """The value of `latest`, from the batches: the index is lost or has no entry."""
        latest, batch = -1, self.base_offset
        for _, header in walk(self.view().file, 0, self.size, offset=self.base_offset):
            if header.max_timestamp > latest and header.record_count > 0:
                latest, batch = header.max_timestamp, header.last_offset
        return latest, batch

    def is_contradicted(self, times: list[tuple[int, int]]) -> bool:
        """True if one of these entries of the time index differs from its batch (I-78)."""
        view = self._view or self._open()
        return any(is_contradicted(self, view, *entry) for entry in times)

    def modified_ms(self) -> int:
        """Time of the last write to the file, in milliseconds since the epoch."""
        file = File(self._fs, self.path())
        return int(self._fs.fstat(file.fd).mtime * 1000)

    def is_too_old_for(self, timestamp: int, *, now_ms: int, segment_ms: int) -> bool:
        """True if a run whose largest timestamp is `timestamp` comes more than `segment_ms` after
        this segment's first batch, so that it needs a new segment.

        If the first batch has no timestamp, the wall clock counts from when this process began to
        use the segment.
        """
        if self.size == 0:
            self._created_ms = now_ms
            return False
        first_timestamp = self.first_timestamp()
        if first_timestamp >= 0:
            return timestamp - first_timestamp > segment_ms
        if self._created_ms < 0:
            self._created_ms = now_ms
        return now_ms - self._created_ms > segment_ms

    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch, read once; -1 if there is none."""
        if self.size == 0:
            return -1
        if self._first_timestamp is None:
            self._first_timestamp = read_header(self.view().file.read(HEADER_SIZE, 0)).max_timestamp
        return self._first_timestamp

    def release(self) -> None:
        """Release the open file and the indexes of a sealed segment."""
        self._view = self._aborted = None

    def aborted(self) -> TxnIndex:
        """The transactions that were aborted in this segment. The active segment keeps them in
        memory from its beginning.
        """
        if not self.has_aborted:
            return _NONE_ABORTED
        found = self._aborted
        if found is None:
            found = self._aborted = TxnIndex(read_whole(self._fs, self.path(SUFFIX)))
        return found

    def add_aborted(self, entries: Sequence[Aborted]) -> None:
        """Append to the index, before the control batches of these entries are written (P-108).
        After an OSError an unknown part is written: see `cut_aborted`.
        """
        if not self.has_aborted:
            self._aborted, self.has_aborted = TxnIndex(), True
        index = self.aborted()
        append_entries(self._fs, self.path(SUFFIX), entries, at=index.size)
        index.add(entries)

    def cut_aborted(self, size: int) -> None:
        """Cut the index to `size` bytes: the batches were not written."""
        if self.has_aborted:
            cut_entries(self._fs, self.path(SUFFIX), size)
            self._aborted = TxnIndex(self.aborted().data[:size])

    def set_aborted(self, index: TxnIndex) -> None:
        """Use `index`, which the durable file holds."""
        self._aborted, self._aborted_synced, self.has_aborted = index, index.size, True

    @property
    def unsynced_aborted(self) -> tuple[int, File] | None:
        """(bytes, file) of the index, to make it durable; None if it is. The log was appended to by
        this process, so the index is in memory.
        """
        index = self._aborted
        if index is None or index.size <= self._aborted_synced:
            return None
        return index.size, File(self._fs, self.path(SUFFIX), WRITE)

    def sync_aborted(self) -> None:
        """Make the index durable."""
        if (unsynced := self.unsynced_aborted) is not None:
            unsynced[1].sync()
            self.aborted_is_durable(unsynced[0])

    def aborted_is_durable(self, size: int) -> None:
        self._aborted_synced = max(self._aborted_synced, size)

    def _open(self) -> View:
        indexes = self.read_indexes()
        file = File(self._fs, self.path(), READ)
        if indexes is None:
            # An index that is lost under a running broker costs time only: without entries a walk
            # begins at byte 0.
            indexes = OffsetIndex(self.base_offset), TimeIndex(self.base_offset)
        return View(file, *indexes)

    def read_indexes(self) -> tuple[OffsetIndex, TimeIndex] | None:
        """Both indexes from their files; None if one is missing or does not fit the segment."""
        try:
            offset_bytes = read_whole(self._fs, self.path("index"))
            time_bytes = read_whole(self._fs, self.path("timeindex"))
        except FileNotFoundError:
            return None
        offsets = OffsetIndex.parse(self.base_offset, offset_bytes)
        times = TimeIndex.parse(self.base_offset, time_bytes)
        if offsets is None or times is None:
            return None
        if len(offsets) > 0 and not (
            offsets.last_offset < self.end_offset
            and self._seems_at(File(self._fs, self.path()), offsets.last_position)
        ):
            return None
        if len(times) > 0 and times.last[1] >= self.end_offset:
            return None
        return offsets, times

    def _seems_at(self, file: File, position: int) -> BatchHeader | None:
        """The apparent header of a batch of this segment at `position`, which an index names."""
        data = file.read(HEADER_SIZE, position)
        if position + HEADER_SIZE > self.size or len(data) < HEADER_SIZE:
            return None  # or a cut came between, which the reader notices later
        header = read_header(data)
        seems = (
            header.magic == MAGIC
            and header.last_offset >= self.base_offset
            and header.base_offset < self.end_offset
            and position + header.size <= self.size
        )
        return header if seems else None

    def is_full_for(
        self, size: int, last_offset: int, *, segment_bytes: int, index_bytes: int
    ) -> bool:
        """True if a run of `size` bytes must go into a new segment. An empty segment takes
        any run.
        """
        if self.size == 0:
            return False
        _, offsets, times = self.view()
        return (
            self.size + size > min(segment_bytes, POSITION_MAX)
            or last_offset - self.base_offset > RELATIVE_MAX
            or (len(offsets) + 1) * ENTRY_SIZE > index_bytes
            or (len(times) + 2) * ENTRY.size > index_bytes  # sealing adds one more
        )

    def note_batch(self, position: int, header: BatchHeader, last_offset: int) -> None:
        """Record a batch at `position` in size, end and indexes."""
        # A batch with no records left after compaction has no record with its timestamp.
        if header.max_timestamp > self.latest_timestamp and header.record_count > 0:
            self.latest_timestamp = header.max_timestamp
            self.latest_batch = last_offset
        if self._unindexed > self._index_interval:
            _, offsets, times = self.view()
            offsets.append(last_offset, position)
            times.append(self.latest_timestamp, self.latest_batch)
            self._unindexed = 0
        size = header.size
        self._unindexed += size
        self.size = position + size
        self.end_offset = last_offset + 1

    def seal(self) -> None:
        """Write the indexes of a segment that gets no more appends. They are durable once
        `unsynced` is synced.
        """
        self.unsynced = self.write_indexes()
        self.flushed = False

    def write_indexes(self) -> tuple[File, ...]:
        _, offsets, times = self.view()
        if self.latest_timestamp >= 0:
            times.append(self.latest_timestamp, self.latest_batch)
        return (
            write_whole(self._fs, self.path("index"), offsets.serialize()),
            write_whole(self._fs, self.path("timeindex"), times.serialize()),
        )

    def begin_scan(self) -> File:
        """Reset what is known of the content; `note_batch` rebuilds it, batch by batch."""
        file = File(self._fs, self.path(), WRITE)
        self._view = View(file, OffsetIndex(self.base_offset), TimeIndex(self.base_offset))
        self.size, self.end_offset = 0, self.base_offset
        self.latest_timestamp, self.latest_batch = -1, self.base_offset
        self._latest_is_known = True
        self._unindexed = 0
        return file

    def cut(
        self, position: int, end_offset: int, *, gaps_below: int, low: tuple[int, int] | None = None
    ) -> tuple[Segment, RecentBatches]:
        """A new, active view of this segment that ends at `position`; the file is not yet cut.

        The remaining batches must be readable one by one, up to `position` and up to `end_offset`.
        Offsets may be missing as `gaps_below` of `walk` says. Otherwise BadBatch is raised. A place
        that a wrong reading found must not be cut. The CRCs of the last batches are checked too: a
        batch whose length was changed ends at a wrong byte.
        """
        kept = Segment(
            self._fs,
            self.directory,
            self.base_offset,
            size=self.size,
            end_offset=self.end_offset,
            index_interval=self._index_interval,
        )
        kept._view = self.view()
        if self.has_aborted:
            kept.set_aborted(self.aborted().cut(end_offset))
        recent = kept.activate(position, end_offset, crc=True, gaps_below=gaps_below, low=low)
        ends = kept.end_offset if kept.size > 0 else self.base_offset
        if kept.size != position or not (ends == end_offset or ends < end_offset <= gaps_below):
            why = f"its first {kept.size} bytes end at offset {ends}, not at {end_offset}"
            raise BadBatch(self.path(), 0, self.base_offset, why)
        return kept, recent

    def activate(
        self,
        position: int,
        end_offset: int | None = None,
        *,
        crc: bool = False,
        gaps_below: int = OFFSET_MAX,
        low: tuple[int, int] | None = None,
    ) -> RecentBatches:
        """Make this the segment that is appended to, with `position` bytes; they end at
        `end_offset` if that is known.

        The walk begins at the last index entry below, but not before `low`, a byte and the offset
        of the batch there. Raises BadBatch if the batches do not end at `position`.
        """
        _, offsets, known = self.view()
        offsets, times = offsets.cut(position), known
        doubted = known.around(OFFSET_MAX if end_offset is None else end_offset)
        if end_offset is None:
            end_offset = self.base_offset
        else:
            times = times.cut(end_offset)
        file = File(self._fs, self.path(), WRITE)
        start = offsets.last_position
        named = self._seems_at(file, start) if start > 0 and len(times) > 0 else None
        if (
            named is None
            or named.last_offset > offsets.last_offset
            or self.is_contradicted(doubted)
        ):
            offsets, start = OffsetIndex(self.base_offset), 0
            times = TimeIndex(self.base_offset)
        offset = self.base_offset if start == 0 or named is None else named.base_offset
        if low is not None and start < low[0] < position:
            start, offset = low
        self._view = View(file, offsets, times)
        self.latest_timestamp, self.latest_batch = times.last
        self._latest_is_known = True
        self._unindexed = 0
        self.size = start
        recent: RecentBatches | None = None
        for at, header in walk(
            file, start, position, offset=offset, crc=crc, gaps_below=gaps_below
        ):
            if header.last_offset - self.base_offset > RELATIVE_MAX:
                why = f"offset {header.last_offset} is beyond what the segment can hold"
                raise BadBatch(file.path, at, offset, why)
            if recent is None:
                recent = RecentBatches(header.base_offset, at)
            self.note_batch(at, header, header.last_offset)
            recent.append(header.last_offset, at + header.size)
            offset = header.next_offset
        if recent is None:
            recent = RecentBatches(end_offset, position)
            self.end_offset = end_offset
        return recent

    def remove(self) -> None:
        """Delete the files, the log first: an interrupted removal leaves indexes without a log."""
        self._view = None
        self._aborted, self.has_aborted = None, False
        for suffix in ("log", "index", "timeindex", SUFFIX):
            with contextlib.suppress(FileNotFoundError):
                self._fs.unlink(self.path(suffix))
