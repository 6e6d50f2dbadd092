"""One cleaning of one compacted log, in small steps: first the last offset of every key, then one
new segment after the other.

The cleaning is a generator. Its driver decides where each step runs, how fast, and whether to
continue. `Progress` means that about one I/O buffer was read or written. `Replace` asks for a new
segment in place of old ones; the driver carries it out with a `Swap` before the next step. Groups
are cleaned in the order of offsets, so a tombstone is never removed before the records that it
deletes. A generator that is closed leaves only finished replacements.

If the map cannot hold all keys, the cleaning ends at the first record without room. The next
cleaning begins there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from strandline_broker.storage.cleaner.batch_filter import (
    INT64_MAX,
    BatchFilter,
    Counts,
    keys_of,
)
from strandline_broker.storage.cleaner.cleaned_segment import CleanedSegment
from strandline_broker.storage.cleaner.groups import groups_of
from strandline_broker.storage.cleaner.offset_map import SLOT_BYTES, OffsetMap
from strandline_broker.storage.cleaner.swap import Swap
from strandline_broker.storage.cleaner.transactions import CleanedTransactions, aborted_of
from strandline_broker.storage.files.damage import BadBatch
from strandline_broker.storage.files.file import File
from strandline_broker.storage.segment.batch_walk import walk_whole
from strandline_proto.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from strandline_broker.storage.log.log import Log, LogConfig
    from strandline_broker.storage.segment.segment import Segment
    from strandline_proto.batch import BatchHeader
    from strandline_proto.decompression import Bound
    from strandline_runtime.runtime import FileSystem

DEDUPE_BYTES: Final = 32 << 20
LOAD_FACTOR: Final = 0.9
BUFFER_BYTES: Final = 512 << 10
RECORD_BYTES_MIN: Final = 4
"""Least size of a record. In a compressed batch a record may take fewer bytes. The map may then be
too small, and another pass follows.
"""
MAP_BYTES_MIN: Final = 64 << 10


class CannotClean(Exception):
    """The cleaner cannot read a part of the log; the message says which part and why."""

    def __init__(self, why: str, damaged_segment: int | None = None) -> None:
        super().__init__(why)
        self.damaged_segment = damaged_segment
        """Base offset of the segment whose content differs from what was written, if that is the
        reason.
        """


@dataclass(frozen=True, slots=True)
class Task:
    """The decided work on one log."""

    segments: tuple[Segment, ...]
    """The segments to clean, sealed and durable, oldest first: from the log's first to the last
    that may be cleaned.
    """
    first_dirty: int
    config: LogConfig
    live_producers: Mapping[int, int]
    """Producer id -> last offset of its last batch."""
    now_ms: int
    """The wall clock, for delete horizons."""
    live_markers: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """Producer id -> (offset of its last end marker, or -1 if that is unknown; its epoch)."""
    later: tuple[Segment, ...] = ()
    """The segments behind them. The markers of transactions may stand there."""


@dataclass(frozen=True, slots=True)
class Progress:
    bytes: int


@dataclass(slots=True)
class Replace:
    """A request to carry out a Swap of these segments; the driver sets `done` afterwards."""

    old: tuple[Segment, ...]
    new: Segment
    done: bool = False


@dataclass(frozen=True, slots=True)
class CleaningResult:
    cleaned_to: int
    is_whole: bool
    """False if the map was full before the last segment: more passes are needed."""
    counts: Counts


@dataclass(frozen=True, slots=True)
class Cleaner:
    """The cleaner of a broker; blocking. One cleaning at a time keeps within the given memory."""

    fs: FileSystem
    dedupe_bytes: int = DEDUPE_BYTES
    load_factor: float = LOAD_FACTOR
    buffer_bytes: int = BUFFER_BYTES

    def clean(self, log: Log, task: Task) -> CleaningResult:
        """Run all steps in a row, for tools and tests, where no other code uses the log."""
        log.gaps.expect()
        steps = self.steps(task)
        while True:
            try:
                step = next(steps)
            except StopIteration as end:
                result: CleaningResult = end.value
                log.clean_to(result.cleaned_to)
                return result
            if isinstance(step, Replace):
                swap = Swap(self.fs, log, step.old, step.new)
                step.done = swap.show()
                assert step.done, (log.path, step)
                swap.set_old_aside()
                swap.name()
                swap.settle(now_ms=task.now_ms)

    def steps(self, task: Task) -> Generator[Progress | Replace, None, CleaningResult]:
        """The steps of a cleaning. Raises CannotClean. An OSError of writing is for the directory's
        owner to handle.
        """
        counts = Counts()
        dirty = [s for s in task.segments if s.end_offset > task.first_dirty]
        if not dirty:
            return CleaningResult(task.first_dirty, True, counts)
        bytes_wanted = sum(s.size for s in dirty) // RECORD_BYTES_MIN * SLOT_BYTES
        memory = min(self.dedupe_bytes, MAP_BYTES_MIN + bytes_wanted)
        last_offsets = OffsetMap(memory, self.load_factor)
        end = dirty[-1].end_offset
        aborted = aborted_of((*task.segments, *task.later), end)
        transactions = CleanedTransactions(aborted)
        bound = yield from self._fill(last_offsets, dirty, task, end, transactions)
        batches = BatchFilter(
            last_offsets,
            first_dirty=task.first_dirty,
            bound=bound,
            now_ms=task.now_ms,
            delete_retention_ms=task.config.delete_retention_ms,
            live_producers=task.live_producers,
            live_markers=task.live_markers,
            transactions=transactions,
            counts=counts,
            unpacked=task.config.bound,
        )
        for group in groups_of(
            [s for s in task.segments if s.base_offset < bound],
            segment_bytes=task.config.segment_bytes,
            index_bytes=task.config.segment_index_bytes,
            index_interval=task.config.index_interval_bytes,
        ):
            yield from self._clean_group(group, batches, task.config, counts)
        return CleaningResult(bound, bound == end, counts)

    def _fill(
        self,
        last_offsets: OffsetMap,
        dirty: list[Segment],
        task: Task,
        end: int,
        transactions: CleanedTransactions,
    ) -> Generator[Progress, None, int]:
        """Fill the map; returns the offset up to which every key's last offset is known, at most
        `end`.
        """
        read, first_dirty, unpacked = 0, task.first_dirty, task.config.bound
        for segment in dirty:
            for header, data in self._batches(segment):
                if header.next_offset > first_dirty and not transactions.is_aborted(header):
                    refused = last_offsets.put_all(_keys(header, data, first_dirty, unpacked))
                    if refused is not None:
                        return refused
                read += len(data)
                if read >= self.buffer_bytes:
                    yield Progress(read)
                    read = 0
        yield Progress(read)
        return end

    def _clean_group(
        self, group: tuple[Segment, ...], batches: BatchFilter, config: LogConfig, counts: Counts
    ) -> Generator[Progress | Replace, None, None]:
        cleaned = CleanedSegment(
            self.fs,
            group,
            index_interval=config.index_interval_bytes,
            buffer_bytes=self.buffer_bytes,
        )
        replace = Replace(group, cleaned.segment)
        try:
            batches.aborted.clear()
            unchanged = yield from self._filter(group, cleaned, batches)
            cleaned.aborted = tuple(batches.aborted)
            unchanged &= cleaned.aborted == tuple(aborted_of(group, INT64_MAX))
            counts.bytes_read += sum(segment.size for segment in group)
            counts.bytes_written += cleaned.segment.size
            if len(group) > 1 or not unchanged:
                cleaned.finish()
                yield replace
        finally:
            if not replace.done:
                cleaned.discard()

    def _filter(
        self, group: tuple[Segment, ...], cleaned: CleanedSegment, batches: BatchFilter
    ) -> Generator[Progress, None, bool]:
        """Write the group's remaining records; returns True if every batch was kept unchanged."""
        unchanged, moved = True, 0
        last_dropped: BatchHeader | None = None
        for segment in group:
            for header, data in self._batches(segment):
                kept = _checked(batches, header, data)
                unchanged = unchanged and kept is not None and kept[1] is data
                last_dropped = header if kept is None else None
                moved += len(data)
                if kept is not None:
                    cleaned.append(*kept)
                    moved += len(kept[1])
                if moved >= self.buffer_bytes:
                    yield Progress(moved)
                    moved = 0
        if last_dropped is not None:
            cleaned.append(*batches.keep_emptied(last_dropped))
        yield Progress(moved)
        return unchanged

    def _batches(self, segment: Segment) -> Iterator[tuple[BatchHeader, bytes]]:
        try:
            file = File(self.fs, segment.path())
            yield from walk_whole(
                file, segment.size, offset=segment.base_offset, window_bytes=self.buffer_bytes
            )
        except BadBatch as bad:
            raise CannotClean(str(bad), segment.base_offset) from bad
        except OSError as error:
            raise CannotClean(str(error)) from error


def _checked(
    batches: BatchFilter, header: BatchHeader, data: bytes
) -> tuple[BatchHeader, bytes] | None:
    try:
        return batches.filter(header, data)
    except WireError as error:
        raise CannotClean(str(error)) from error


def _keys(
    header: BatchHeader, data: bytes, first_dirty: int, unpacked: Bound
) -> list[tuple[bytes, int]]:
    try:
        return keys_of(header, data, first_dirty, unpacked)
    except WireError as error:
        raise CannotClean(str(error)) from error
