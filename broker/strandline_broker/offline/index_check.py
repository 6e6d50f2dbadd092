"""A check of a segment's sparse indexes (I-78): each entry is compared with a walk over the
segment's batches.

One finding for each index is enough: the rest of the index is not read. If the segment itself is
damaged, its indexes are not judged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.offline.indexes import offset_entries, time_entries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_broker.offline.batches import Batch
    from strandline_broker.offline.disk import Disk
    from strandline_broker.offline.indexes import OffsetEntry, TimeEntry
    from strandline_broker.offline.layout import SegmentFiles


class IndexCheck:
    """The check of both indexes of one segment. `problems` then has (path, byte of the index,
    description).
    """

    def __init__(self, disk: Disk, segment: SegmentFiles, *, sealed: bool) -> None:
        self.problems: list[tuple[str, int, str]] = []
        self.entries: dict[str, int] = {}
        """Number of entries of each file that were checked."""
        self._checks: list[_OffsetCheck | _TimeCheck] = []
        base = segment.base_offset
        path = segment.index
        try:
            if path is not None:
                self._checks.append(_OffsetCheck(path, offset_entries(disk, path, base)))
        except ValueError as error:
            self._unreadable(path, error)
        path = segment.timeindex
        try:
            if path is not None:
                entries = time_entries(disk, path, base)
                self._checks.append(_TimeCheck(path, entries, sealed=sealed))
        except ValueError as error:
            self._unreadable(path, error)

    def _unreadable(self, path: str | None, error: ValueError) -> None:
        assert path is not None
        self.problems.append((path, 0, f"it does not read as an index ({error})"))

    def batch(self, batch: Batch) -> None:
        for check in list(self._checks):
            self._settle(check, check.batch(batch))

    def abandon(self) -> None:
        """Stop the check: the segment itself is damaged, so its indexes cannot be judged."""
        self._checks.clear()
        self.problems.clear()

    def end(self, size: int) -> None:
        """Finish the check, at a segment's end after `size` bytes."""
        for check in list(self._checks):
            self._settle(check, check.end(size))

    def _settle(self, check: _OffsetCheck | _TimeCheck, why: tuple[int, str] | None) -> None:
        self.entries[check.path] = check.seen
        if why is not None:
            self.problems.append((check.path, *why))
            self._checks.remove(check)


class _OffsetCheck:
    """The check of an offset index. An entry names the byte at which a batch begins, and that
    batch's last offset.

    Kafka writes one entry for batches that were appended together, with the last offset of the last
    one. A later batch may therefore have that offset, if it lies before the next entry's batch.
    """

    def __init__(self, path: str, entries: Iterator[OffsetEntry]) -> None:
        self.path = path
        self.seen = 0
        self._entries = entries
        self._entry = next(entries, None)
        self._awaited: OffsetEntry | None = None

    def batch(self, batch: Batch) -> tuple[int, str] | None:
        awaited, entry = self._awaited, self._entry
        if awaited is not None:
            passed = entry is not None and entry.position <= batch.position
            if passed or batch.last_offset > awaited.offset:
                return awaited.at, f"no batch ends at offset {awaited.offset}"
            if batch.last_offset == awaited.offset:
                self._awaited = None
        if entry is None or entry.position > batch.position:
            return None
        if entry.position < batch.position:
            return entry.at, f"no batch begins at byte {entry.position}"
        if entry.offset < batch.last_offset:
            why = f"offset {entry.offset}, the batch at byte {entry.position} ends at "
            return entry.at, f"{why}{batch.last_offset}"
        if entry.offset > batch.last_offset:
            self._awaited = entry
        return self._advance(entry)

    def _advance(self, entry: OffsetEntry) -> tuple[int, str] | None:
        self.seen += 1
        self._entry = after = next(self._entries, None)
        if after is not None and not (
            after.offset > entry.offset and after.position > entry.position
        ):
            return after.at, f"({after.offset}, byte {after.position}) does not rise"
        return None

    def end(self, size: int) -> tuple[int, str] | None:
        if self._awaited is not None:
            return self._awaited.at, f"no batch ends at offset {self._awaited.offset}"
        if self._entry is not None:
            where = f"byte {self._entry.position} of a segment of {size} bytes"
            return self._entry.at, f"no batch begins at {where}"
        return None


class _TimeCheck:
    """The check of a time index. An entry names a timestamp, and the last offset of the first batch
    that reaches it.
    """

    def __init__(self, path: str, entries: Iterator[TimeEntry], *, sealed: bool) -> None:
        self.path = path
        self.seen = 0
        self._sealed = sealed
        self._entries = entries
        self._entry = next(entries, None)
        self._last: TimeEntry | None = None
        self._latest = self._latest_header = -1

    def batch(self, batch: Batch) -> tuple[int, str] | None:
        while (entry := self._entry) is not None and entry.offset <= batch.last_offset:
            why = self._wrong(entry, batch)
            if why is not None:
                return entry.at, why
            self.seen += 1
            self._last, self._entry = entry, next(self._entries, None)
        # Compaction may leave only a header, which Kafka includes in an index that it rebuilds.
        self._latest_header = max(self._latest_header, batch.max_timestamp)
        if batch.count > 0:
            self._latest = max(self._latest, batch.max_timestamp)
        return None

    def _wrong(self, entry: TimeEntry, batch: Batch) -> str | None:
        last = self._last
        if last is not None and not (
            entry.timestamp > last.timestamp and entry.offset >= last.offset
        ):
            return f"({entry.timestamp}, offset {entry.offset}) does not rise"
        if entry.offset < batch.base_offset:
            return f"no batch holds offset {entry.offset}"
        if entry.timestamp != batch.max_timestamp:
            said = f"timestamp {entry.timestamp} for the batch up to offset {batch.last_offset}"
            return f"{said}, which has {batch.max_timestamp}"
        if self._latest >= entry.timestamp and not batch.is_log_append_time:
            return f"an earlier record than offset {entry.offset} is at {self._latest} already"
        return None

    def end(self, size: int) -> tuple[int, str] | None:
        del size
        entry = self._entry
        if entry is not None:
            return entry.at, f"offset {entry.offset} lies beyond the segment"
        if not self._sealed or self._latest < 0:
            return None
        if self._last is None:
            return 0, "it has no entry, and the segment is closed"
        if self._last.timestamp not in (self._latest, self._latest_header):
            said = f"the last timestamp is {self._last.timestamp}"
            return self._last.at, f"{said}, the segment's largest {self._latest}"
        return None
