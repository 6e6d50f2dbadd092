"""The reading side of a log, on the event loop or in the disk pool while the log changes.

A read takes segments and recent batches in one step and uses values that an append only extends. It
starts over if a truncation came between (P-34). Near the log's end a read costs one `pread`.
Elsewhere it also costs an index lookup and a short walk.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn, ParamSpec, TypeVar

from strandline_broker.storage.files.damage import BadBatch
from strandline_broker.storage.log.batch_judge import BatchJudge
from strandline_broker.storage.log.time_lookup import Found, TimeLookup
from strandline_broker.storage.segment.damage_walk import walk_over_damage
from strandline_broker.storage.segment.damaged_ranges import NOWHERE, DamagedRange, refusal
from strandline_broker.storage.segment.reader import Run, find_run, first_batch_to
from strandline_proto.batch import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    checked_end,
    crc_matches,
    end_marker_epoch,
    read_header,
)
from strandline_proto.errors import KafkaStorageError, OffsetOutOfRange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from strandline_broker.storage.files.steps import Steps
    from strandline_broker.storage.log.log import Log
    from strandline_broker.storage.segment.segment import Segment, View
    from strandline_broker.storage.segment.txn_index import AbortedTransaction
    from strandline_proto.batch import BatchHeader

HOT_BYTES: Final = 32 << 20

P = ParamSpec("P")
T = TypeVar("T")

_BASE_OFFSET: Final = struct.Struct(">q")
_HEAD: Final = struct.Struct(">qiib6xi")
"""Fields of a batch's header: base offset, length, leader epoch, magic, last offset delta."""
_base_of: Final = attrgetter("base_offset")


class LogRead(NamedTuple):
    """Whole batches; the next read continues at `next_offset`, which is the start if there are no
    records.
    """

    records: bytes
    base_offset: int
    next_offset: int
    aborted: Sequence[AbortedTransaction] = ()
    """The aborted transactions that may have records from the read's start to `next_offset`, in the
    order of their markers; found in the step that read the records (P-122).
    """


class LogReader:
    __slots__ = ("_behind", "_log", "_times", "lacks_from")

    def __init__(self, log: Log) -> None:
        self._log = log
        self._times = TimeLookup(log)
        self.lacks_from: int | None = None
        """The first offset that the last `replay` skipped as damaged; None: it skipped none."""
        self._behind: tuple[Segment | None, int, int] = (None, 0, 0)
        """(segment, offset, byte) after the last read of a cold place, where the next read
        continues.
        """

    def is_hot(self, start: int) -> bool:
        _, recent = self._log.state.tail
        position = recent.position_of(start)
        return position is not None and recent.end[0] - position <= HOT_BYTES

    def read(
        self,
        start: int,
        *,
        max_bytes: int,
        limit: int,
        checked: bool = False,
        committed: bool = False,
    ) -> LogRead:
        if committed:
            return self._steady(self._read_committed, start, max_bytes, limit, checked)
        return self._steady(self._read, start, max_bytes, limit, checked)

    def _read_committed(self, start: int, max_bytes: int, limit: int, checked: bool) -> LogRead:
        read = self._read(start, max_bytes, limit, checked)
        if not read.records:
            return read
        return read._replace(aborted=self._aborted_in(start, read.next_offset))

    def _aborted_in(self, start: int, end: int) -> Sequence[AbortedTransaction]:
        """The aborted transactions that reach into [start, end). The marker of one may stand in any
        later segment.
        """
        found: list[AbortedTransaction] = []
        segments = self._log.segments
        first = max(bisect_right(segments, start, key=_base_of) - 1, 0)
        for segment in segments[first:]:
            if segment.has_aborted and segment.aborted().collect(start, end, found):
                break
        return found

    def _steady(self, look: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of `look` in one state of the log.

        A truncation first shows the log's new end, then changes the generation, and only then
        removes bytes. A replacement of segments does the same before it renames files. A reader
        that took the old log and sees the same generation afterwards has therefore read consistent
        data.
        """
        while True:
            seen = self._see()
            try:
                found = look(*args, **kwargs)
            except (BadBatch, OSError) as error:
                if self._is_still(*seen):
                    self._complain(error)
                continue
            if self._is_still(*seen):
                return found

    def _steadily(self, look: Callable[[], Steps[T]]) -> Steps[T]:
        """The result of `look` in one state of the log, in steps."""
        while True:
            seen = self._see()
            try:
                found = yield from look()
            except (BadBatch, OSError) as error:
                if self._is_still(*seen):
                    self._complain(error)
                continue
            if self._is_still(*seen):
                return found

    def _see(self) -> tuple[tuple[int, int], tuple[Segment, ...]]:
        """The generation and segments to pass to `_is_still`."""
        state = self._log.state
        state.check_usable()
        return state.generation, state.tail.segments

    def _is_still(self, generation: tuple[int, int], segments: tuple[Segment, ...]) -> bool:
        """True if the log is still the one that was read.

        Otherwise the read may have reopened segments that have left the log; they are closed here,
        as no other code closes them (I-182).
        """
        log = self._log
        is_still = log.state.is_still(generation)
        if log.deleted or not is_still:
            held = () if log.deleted else log.segments
            log.open_segments.forget(set(segments).difference(held))
        return is_still

    def _complain(self, error: BadBatch | OSError) -> NoReturn:
        # A log that was removed meanwhile has no files, and this is no error.
        self._log.state.check_usable()
        if isinstance(error, BadBatch):
            raise damage_met(self._log, error) from error
        raise error

    def _read(self, start: int, max_bytes: int, limit: int, checked: bool) -> LogRead:
        log = self._log
        end_offset = log.log_end_offset
        if not log.log_start_offset <= start <= end_offset:
            raise self._out_of_range(start)
        limit = min(limit, end_offset)
        if start >= limit:
            return LogRead(b"", start, start)
        ranges, stop, stop_in = log.damaged_ranges, None, -1
        if ranges.entries:
            ranges.check(start, partition=f"{log.topic}:{log.partition}")
            damage = ranges.next_to(start)
            if damage is not None and damage.start < limit:
                limit, stop_in = damage.start, damage.segment
                stop = damage.position, damage.start
        segments, recent = log.state.tail
        run = recent.run(start, limit=limit, max_bytes=max_bytes)
        if run is not None:
            return self._served(segments[-1], start, run, checked)
        first = bisect_right(segments, start, key=_base_of) - 1
        if first < 0:
            # The log is restarting at a lower offset: its start is lowered before its segments
            # are removed.
            raise self._out_of_range(start)
        for i in range(first, len(segments)):
            segment, is_last = segments[i], i == len(segments) - 1
            if not is_last:
                log.open_segments.touch(segment)
            behind = self._behind
            run = find_run(
                segment,
                start,
                limit=limit,
                max_bytes=max_bytes,
                recent=recent if is_last else None,
                low=ranges.resume_before(segment.base_offset, start),
                stop=stop if stop_in == segment.base_offset else None,
                known=behind[2] if behind[0] is segment and behind[1] == start else None,
                gaps_below=log.gaps.below,
            )
            # None: compaction left a gap at the end of this segment, so the next segment has the
            # batch.
            if run is not None:
                read = self._served(segment, start, run, checked)
                self._behind = segment, read.next_offset, run[0] + len(read.records)
                return read
        return LogRead(b"", start, start)

    def _out_of_range(self, start: int) -> OffsetOutOfRange:
        log = self._log
        return OffsetOutOfRange(
            f"{log.topic}:{log.partition}: offset {start} is outside the log, which holds "
            f"{log.log_start_offset} to {log.log_end_offset}; reset the position"
        )

    def _served(self, segment: Segment, start: int, run: Run, checked: bool) -> LogRead:
        """The bytes of a run of whole batches, each checked to be at its offset."""
        read = whole_chain(_read_run(segment, start, run), segment, run, start, self._log)
        if checked:
            _check(read.records, segment.path(), run[0])
        return read

    def batch_headers(self, start: int) -> Iterator[BatchHeader]:
        return (header for _, _, header in self._walk(start, _no_matter, crc=False))

    def replay(self, start: int) -> Iterator[tuple[BatchHeader, int | None]]:
        """Batches for the producers' state: see `Log.replay`."""
        self.lacks_from = None

        def lacks(offset: int) -> None:
            self.lacks_from = offset if self.lacks_from is None else min(self.lacks_from, offset)
            self._log.state.found_wrong()

        # A producer id or sequence that the disk has changed must not be remembered: new batches
        # would be treated as its duplicates, and so lost.
        for view, at, header in self._walk(start, lacks, crc=True):
            marker = None
            if header.is_control:
                data = view.file.read(header.size, at)
                if len(data) < header.size or not crc_matches(data, 0, header):
                    lacks(header.base_offset)  # the walk has just read other bytes here
                    continue
                marker = end_marker_epoch(data, 0, header)
            yield header, marker

    def _walk(
        self, start: int, lacks: Callable[[int], None], *, crc: bool
    ) -> Iterator[tuple[View, int, BatchHeader]]:
        """Walk over the batches, skip damage and call `lacks` with its first offset. The damaged
        content is lost, the rest is known.
        """
        log = self._log
        log.state.check_usable()
        seen = log.state.generation
        segments, recent = log.state.tail
        end_position, end_offset = recent.end
        if start >= end_offset:
            return
        first = max(bisect_right(segments, start, key=_base_of) - 1, 0)
        ranges = log.damaged_ranges
        if damaged := ranges.above(start):
            lacks(max(damaged[0].start, start))
        for segment in segments[first:]:
            is_last = segment is segments[-1]
            if not is_last:
                log.open_segments.touch(segment)
            damage = ranges.next_to(start)
            if damage is not None and damage.start <= start:
                start = damage.end
            end, below = (
                (end_position, end_offset) if is_last else (segment.size, segment.end_offset)
            )
            yield from self._walk_segment(
                segment, max(start, segment.base_offset), end, below, seen, lacks, crc=crc
            )

    def _walk_segment(
        self,
        segment: Segment,
        start: int,
        end: int,
        below: int,
        seen: tuple[int, int],
        lacks: Callable[[int], None],
        *,
        crc: bool,
    ) -> Iterator[tuple[View, int, BatchHeader]]:
        """The batches from `start` to byte `end`, in a segment whose offsets end at `below`.

        `seen` is the log's generation before the walk. If a cut came between, bad bytes mean
        nothing.
        """
        log, view, gaps_below = self._log, segment.view(), self._log.gaps.below
        ranges = log.damaged_ranges
        low = ranges.resume_before(segment.base_offset, start)
        try:
            found = first_batch_to(segment, view, start, end, low=low, gaps_below=gaps_below)
        except BadBatch as bad:
            if seen == log.state.generation:
                damage_met(log, bad)
            lacks(start)
            return
        if found is None:
            return

        def mark(damage: DamagedRange) -> None:
            if seen == log.state.generation:
                ranges.add(damage)
            lacks(damage.start)

        for at, header in walk_over_damage(
            view.file,
            found[0],
            end,
            segment=segment.base_offset,
            offset=min(found[1].base_offset, start),
            below=below,
            crc=crc,
            found=mark,
            judge=BatchJudge(
                log.leader_epochs,
                base_offset=segment.base_offset,
                size=end,
                end_offset=below,
                gaps_below=gaps_below,
            ),
        ):
            if not ranges.covers(header.base_offset):
                yield view, at, header

    def time_lookup(self, timestamp: int | None) -> Steps[Found | None]:
        """The first record at or after `timestamp`; with None, the first one with the largest
        timestamp.
        """
        if timestamp is None:
            return self._steadily(self._times.latest)
        return self._steadily(partial(self._times.first_at, timestamp))


def _no_matter(_: int) -> None:
    pass


def damage_met(log: Log, bad: BadBatch) -> KafkaStorageError:
    """Mark the damage that a read met. All of the segment after it counts as damaged, until a check
    of the whole segment is more exact.
    """
    segments, recent = log.state.tail
    segment = next((s for s in segments if s.path() == bad.path), segments[-1])
    end = recent.end[1] if segment is segments[-1] else segment.end_offset
    # An offset outside the segment was read from it, so nothing of the segment is certain.
    start = bad.offset if segment.base_offset < bad.offset < end else segment.base_offset
    position = bad.position if start > segment.base_offset else 0
    found = DamagedRange(
        start, max(end, start + 1), segment.base_offset, position, NOWHERE, bad.why
    )
    log.damaged_ranges.add(found)
    return KafkaStorageError(refusal(f"{log.topic}:{log.partition}", found))


def _read_run(segment: Segment, start: int, run: Run) -> LogRead:
    position, end, next_offset = run
    if position == end:
        return LogRead(b"", start, start)
    file = segment.view().file
    records = file.read(end - position, position)
    if len(records) != end - position or len(records) < HEADER_SIZE:
        why = f"{len(records)} bytes where {max(end - position, HEADER_SIZE)} must be"
        raise BadBatch(file.path, position, start, why)
    return LogRead(records, _BASE_OFFSET.unpack_from(records)[0], next_offset)


def whole_chain(read: LogRead, segment: Segment, run: Run, start: int, log: Log) -> LogRead:
    """The part of `read` whose batches follow each other by offset, in the checkpoint's epochs;
    BadBatch if the first batch does not.

    No CRC covers a base offset or a leader epoch. A disk may also return sound batches from another
    place than requested (P-34, I-1, I-2). A batch must not be served at a wrong offset. Nor must a
    batch with a wrong epoch: readers use epochs to find where histories diverge.
    """
    records, at, offset = read.records, 0, start
    unpack, size, end_offset = _HEAD.unpack_from, len(records), run[2]
    last_head, gaps = size - HEADER_SIZE, log.gaps
    epochs, named, until = log.leader_epochs, -1, -1
    why = "no batch that begins at offset"
    while at <= last_head:
        base, length, epoch, magic, delta = unpack(records, at)
        if base != offset and not (at == 0 if base < offset else gaps.lawful(base)):
            break
        last, behind = base + delta, at + length + LENGTH_OVERHEAD
        if magic != MAGIC or not (
            offset <= last < end_offset and at + HEADER_SIZE <= behind <= size
        ):
            break
        if base >= until:
            named, until = epochs.reign_at(max(base, offset))
        # Epochs that begin below the log's start may be unknown.
        if 0 <= named != epoch:
            why = f"leader epoch {epoch}, and the epoch checkpoint says {named}, at offset"
            break
        offset, at = last + 1, behind
    if at == size and (offset == end_offset or gaps.lawful(end_offset)):
        return read
    if at == 0:
        raise BadBatch(segment.path(), run[0], start, f"{why} {start}")
    return LogRead(records[:at], read.base_offset, offset)


def _check(records: bytes, path: str, position: int) -> None:
    """Raise BadBatch at the first batch that does not match its CRC."""
    view, at, before = memoryview(records), 0, 0
    while at < len(view):
        end = checked_end(view, at)
        if end is None:
            header = read_header(records, before)
            offset = header.base_offset if at == 0 else header.next_offset
            why = "the batch does not match its CRC-32C"
            raise BadBatch(path, position + at, offset, why)
        before, at = at, end
