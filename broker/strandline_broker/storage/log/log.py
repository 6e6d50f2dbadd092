"""One replica's log: record batches in segments, appended at the end, read from anywhere.

Appends and truncations happen one at a time, on the event loop or in the disk pool;
`flush_snapshot` and `flushed` on the loop; reads anywhere meanwhile: they work on values that an
append only extends, and ask again if its generation moved (P-34). Offsets are dense (I-1), epochs
never fall (I-2), and the epoch checkpoint knows an epoch before the log holds a batch of it (I-47).
An append is all or nothing: after a short write or on a full disk the file is cut back, and the
error raised.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import takewhile
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from strandline_broker.storage.cleaner.gaps_marker import FirstGap, Gaps
from strandline_broker.storage.directory.failed_flush import noting_failure
from strandline_broker.storage.files.steps import in_a_row
from strandline_broker.storage.log.config import INT64_MAX, Appended, LogConfig
from strandline_broker.storage.log.follower_run import check_run, has_gap
from strandline_broker.storage.log.producer_snapshot import ProducerSnapshots
from strandline_broker.storage.log.reader import LogRead, LogReader, damage_met
from strandline_broker.storage.log.recovery import Expectations, Recovery
from strandline_broker.storage.log.state import LogState, Tail
from strandline_broker.storage.segment.damage import BadBatch
from strandline_broker.storage.segment.deleted_segments import DeletedSegments
from strandline_broker.storage.segment.open_segments import OpenSegments
from strandline_broker.storage.segment.reader import Place, first_batch_to
from strandline_broker.storage.segment.segment import Segment
from strandline_broker.storage.segment.txn_index import truncate_txn_index
from strandline_proto.batch import prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from strandline_broker.storage.directory.checkpoint_limits import CheckpointLimits
    from strandline_broker.storage.files.file import File
    from strandline_broker.storage.files.steps import Steps
    from strandline_broker.storage.log.damaged_ranges import DamagedRanges
    from strandline_broker.storage.log.producer_snapshot import Entry
    from strandline_broker.storage.log.recent_batches import RecentBatches
    from strandline_broker.storage.log.recovery import Recovered
    from strandline_broker.storage.log.time_lookup import Found
    from strandline_broker.storage.segment.damage import Report
    from strandline_proto.batch import BatchHeader
    from strandline_runtime.runtime import Buffer, FileSystem

__all__ = ["INT64_MAX", "Appended", "Log", "LogConfig"]

ASSIGNED: Final = 16
"""Bytes at the start of a batch that the leader writes: base offset, length, leader epoch."""


class Log:
    def __init__(
        self,
        fs: FileSystem,
        path: str,
        *,
        topic: str,
        topic_id: bytes,
        partition: int,
        config: LogConfig,
        expected: Expectations,
        limits: CheckpointLimits,
        report: Report,
        open_segments: OpenSegments | None = None,
        on_bytes: Callable[[int], None] = lambda _: None,
        begun: Recovered | None = None,
    ) -> None:
        """Open and recover the directory at `path`; DamagedLog where `expected` bears no damage.
        One that was `begun` just now is not recovered.
        """
        interval = config.index_interval_bytes
        found = begun or Recovery(fs, path, expected, interval, report, on_bytes).run()
        self._fs = fs
        self.path = path
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.config = config
        self.leader_epochs = found.epochs
        self.state = LogState(found, cleaned_to=expected.cleaned_to)
        self.deleted_segments = DeletedSegments(fs, path)
        self.open_segments = open_segments if open_segments is not None else OpenSegments()
        self.snapshots = ProducerSnapshots(fs, path, report)
        self.producers: Callable[[], Iterable[Entry]] | None = None
        """What the producers have appended up to the log's end; None while nobody knows."""
        self.gaps = Gaps(fs, path, expected.gaps_below)
        self.limits = limits
        self.checkpointed_high_watermark = expected.high_watermark
        """Beyond the log's end if what lay before it has been lost; as it was when it was opened:
        a log that begins anew here has its checkpoints limited, and its loss told (I-53).
        """
        self._reader = LogReader(self)
        if found.log_start > found.log_end:
            report(
                f"{path}: the log start {found.log_start} lies beyond its end {found.log_end}; the "
                f"log begins anew there."
            )
            begin_anew(fs, self, found.log_start, is_deletion=True)
            self.damaged_ranges.save()

    @property
    def segments(self) -> tuple[Segment, ...]:
        """In the order of offsets; the last one is active, the others are sealed."""
        return self.state.tail.segments

    @property
    def log_start_offset(self) -> int:
        return self.state.start

    @property
    def log_end_offset(self) -> int:
        return self.state.end

    @property
    def durable_offset(self) -> int:
        """Everything below survives a loss of power."""
        return self.state.durable_end

    @property
    def size_bytes(self) -> int:
        return self.state.size_bytes

    @property
    def cleaned_to(self) -> int:
        """Where compaction goes on: what lies below was cleaned."""
        return self.state.cleaned_to

    @property
    def damaged(self) -> str | None:
        """Why the log is out of use."""
        return self.state.unusable

    @property
    def damaged_ranges(self) -> DamagedRanges:
        return self.state.damaged_ranges

    @property
    def deleted(self) -> bool:
        return self.state.is_deleted

    @property
    def replay_lacks(self) -> bool:
        """The last `replay` passed over damage, so that what it has given may not be all."""
        return self._reader.replay_lacks

    def append_as_leader(
        self, batch: Buffer, header: BatchHeader, *, leader_epoch: int, now_ms: int = 0
    ) -> Appended:
        """Append one checked batch. KafkaStorageError or OSError: nothing was appended.

        `now_ms` is the wall clock, for rolling by time where records have no timestamp.
        """
        self._check_appendable()
        if leader_epoch != self.leader_epochs.latest():
            self.assign_epoch(leader_epoch)
        base = self.state.end
        last = base + header.last_offset_delta
        size = header.size
        assert size == len(batch), (size, len(batch))
        rolled = self._roll_for(size, last, timestamp=header.max_timestamp, now_ms=now_ms)
        segments, recent = self.state.tail
        segment = segments[-1]
        position = segment.size
        assigned = prefix(base, header.batch_length, leader_epoch)
        self._write(segment, (assigned, memoryview(batch)[ASSIGNED:]), size)
        segment.note_batch(position, header, last)
        recent.append(last, position + size)
        self.state.append(last + 1, size)
        return Appended(base, last + 1, position, rolled)

    def append_as_follower(
        self, records: Buffer, *, leader_epoch: int, gaps_below: int = 0, now_ms: int = 0
    ) -> list[BatchHeader]:
        """Append the batches of a leader's answer as they are: all of them, or none and an error.

        Raises CorruptMessage if one is not whole and sound, does not follow the one before, or has
        an epoch that falls or is above `leader_epoch` (I-43); FirstGap if offsets are missing, as
        they may be below `gaps_below`, and `gaps` are not expected.
        """
        self._check_appendable()
        end = self.state.end
        epochs = self.leader_epochs
        entries, latest = epochs.entries, epochs.latest()
        found = check_run(
            records,
            log_end_offset=end,
            begins_log=end == self.state.start and self.state.size_bytes == 0,
            latest_epoch=latest,
            leader_epoch=leader_epoch,
            partition=f"{self.topic}-{self.partition}",
            gaps_below=gaps_below,
        )
        if not found:
            return []
        if not self.gaps.expected and has_gap(found, end):
            raise FirstGap
        if found[-1].leader_epoch > latest:
            epochs.assign_all(
                (h.leader_epoch, max(h.base_offset, end)) for h in found if h.leader_epoch > latest
            )
        try:
            latest_timestamp = max(header.max_timestamp for header in found)
            self._roll_for(
                len(records), found[-1].last_offset, timestamp=latest_timestamp, now_ms=now_ms
            )
            segments, recent = self.state.tail
            segment = segments[-1]
            position = segment.size
            self._write(segment, (records,), len(records))
        except OSError:
            epochs.revert(entries)
            raise
        for header in found:
            segment.note_batch(position, header, header.last_offset)
            position += header.size
            recent.append(header.last_offset, position)
        self.state.append(found[-1].next_offset, len(records))
        return found

    def _roll_for(self, size: int, last_offset: int, *, timestamp: int, now_ms: int) -> bool:
        """Begin a new segment if the active one has no room, or no time left, for a run of `size`
        bytes.
        """
        config = self.config
        active = self.segments[-1]
        if not active.is_full_for(
            size,
            last_offset,
            segment_bytes=config.segment_bytes,
            index_bytes=config.segment_index_bytes,
        ) and not active.is_too_old_for(
            timestamp,
            now_ms=now_ms,
            segment_ms=config.segment_ms_of(self.topic, self.partition, active.base_offset),
        ):
            return False
        self.roll()
        return True

    def roll(self) -> None:
        """Seal the active segment, which is not empty, and begin a new one at the log's end.

        Durable with the next flush. OSError: the log goes on in the segment it had.
        """
        active = self.segments[-1]
        assert active.size > 0, self.path
        active.seal()
        active.unsynced += self._take_snapshot()
        interval = self.config.index_interval_bytes
        base = self.log_end_offset
        self.state.roll(Segment.create(self._fs, self.path, base, index_interval=interval))

    def _take_snapshot(self) -> tuple[File, ...]:
        """Keep the producers' state at the log's end; the file is the caller's to sync.

        Not one that lacks batches: the next replay would begin behind them.
        """
        if self.producers is None or self.replay_lacks:
            return ()
        return (self.snapshots.write(self.log_end_offset, self.producers()),)

    def _write(self, segment: Segment, buffers: tuple[Buffer, ...], size: int) -> None:
        file = segment.view().file
        try:
            file.write(buffers, size, segment.size)
        except OSError:
            try:
                file.truncate(segment.size)
            except OSError as error:
                self.state.fail(f"{file.path}: a failed append could not be undone ({error})")
            raise

    def _check_appendable(self) -> None:
        self.state.check_usable()
        if self.leader_epochs.unsettled:
            self.leader_epochs.write()

    def assign_epoch(self, leader_epoch: int) -> None:
        """Note durably that this leader's epoch begins at the log's end (I-46)."""
        in_a_row(self.assigning_epoch(leader_epoch))

    def assigning_epoch(self, leader_epoch: int) -> Steps[None]:
        """As `assign_epoch`, in the steps of `replacing_files`."""
        self.state.check_usable()
        yield from self.leader_epochs.assigning([(leader_epoch, self.log_end_offset)])

    def is_hot(self, start: int) -> bool:
        """Whether a read from `start` most likely finds its bytes in the page cache."""
        return self._reader.is_hot(start)

    def read(self, start: int, *, max_bytes: int, limit: int, checked: bool = False) -> LogRead:
        """Whole batches that end below `limit`, from the one with `start`; at least one, if any.

        The first may begin before `start`, and alone be larger than `max_bytes`. Empty if `start`
        is at or above `limit` (I-95). OffsetOutOfRange below the log's start or above its end.
        """
        return self._reader.read(start, max_bytes=max_bytes, limit=limit, checked=checked)

    def batch_headers(self, start: int) -> Iterator[BatchHeader]:
        """The header of each batch from the one that holds `start` to the log's present end."""
        return self._reader.batch_headers(start)

    def replay(self, start: int) -> Iterator[tuple[BatchHeader, int | None]]:
        """As `batch_headers`, with the coordinator epoch of each transaction's end marker."""
        return self._reader.replay(start)

    def time_lookup(self, timestamp: int | None) -> Steps[Found | None]:
        """(timestamp, offset, leader epoch) of the first record at or after `timestamp`; None: of
        the first one with the largest timestamp.
        """
        return self._reader.time_lookup(timestamp)

    def offset_for_timestamp(self, timestamp: int) -> Found | None:
        return in_a_row(self.time_lookup(timestamp))

    def max_timestamp(self) -> Found | None:
        return in_a_row(self.time_lookup(None))

    def truncate_to(self, offset: int) -> None:
        """Cut log, indexes and epochs before the batch with `offset`, durably (I-47, P-34).

        At or beyond the end only an epoch goes in which nothing was appended.
        """
        truncate_to(self._fs, self, offset)
        self.damaged_ranges.save()

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything and begin anew at `offset`; durable on return."""
        begin_anew(self._fs, self, offset)
        self.damaged_ranges.save()

    def replace_segments(
        self,
        old: Sequence[Segment],
        new: Sequence[Segment] = (),
        *,
        move_files: Callable[[], None] | None = None,
    ) -> bool:
        """Let `new` stand where `old` stood, a run of sealed segments; one step on the event loop.

        The caller holds the partition's gate: nothing else changes the log meanwhile. With no `new`
        (retention) `old` are the log's first segments and the log start lies behind them. Otherwise
        `new` are sealed, in order, begin at or after the first of `old` and end where the last
        ends. False, and nothing done, if `old` is not in the log as it was: a truncation came
        between.

        Then `move_files` gives files their new names, where old and new share one. It must be quick
        and not sync: it is on the loop. If it raises OSError, the log is out of use.

        A reader that took the old segments goes on with the files it has open. If it then has to
        open one that was renamed, it fails or finds another file; but it sees that the log's
        generation has moved and starts over on the new segments. So memory changes first,
        then the files, and those of `old` may be renamed any time later, in the disk pool, unless
        `new` needs their names.
        """
        segments = self.segments
        first = next((i for i, segment in enumerate(segments) if segment is old[0]), len(segments))
        behind = first + len(old)
        if behind >= len(segments) or segments[first:behind] != tuple(old):
            return False
        if new:
            assert new[0].base_offset >= old[0].base_offset, (self.path, new[0].base_offset)
            assert new[-1].end_offset == old[-1].end_offset, (self.path, new[-1].end_offset)
        else:
            assert first == 0, (self.path, first)
            assert self.log_start_offset >= old[-1].end_offset, (self.path, self.log_start_offset)
        with self.state.replaced((*segments[:first], *new, *segments[behind:])):
            self.open_segments.forget(old)
            try:
                if move_files is not None:
                    move_files()
            except OSError as error:
                self.state.fail(f"{self.path}: replacing segments failed half-way ({error})")
                raise
        return True

    def drop_segments(self, old: Sequence[Segment]) -> bool:
        """Take the log's first segments out of it; their files are for `deleted_segments.add`."""
        return self.replace_segments(old)

    def raise_log_start(self, offset: int) -> bool:
        """Let the log begin at `offset`, in memory; False if it begins there or behind already.

        Then, in the disk pool: the log-start checkpoint, durably, `leader_epochs` truncated from
        its start, and only then may files vanish (I-74).
        """
        assert offset <= self.log_end_offset, (self.path, offset, self.log_end_offset)
        if offset <= self.log_start_offset:
            return False
        self.state.raise_start(offset)
        return True

    def log_start_is_durable(self, offset: int, beginnings: int) -> None:
        """The log-start checkpoint on disk says `offset`, where the log began after so many
        beginnings (`LogState.beginnings`).
        """
        self.state.start_is_durable(offset, beginnings)

    def clean_to(self, offset: int) -> None:
        """Let compaction go on at `offset`."""
        self.state.clean(offset)

    def configure(self, config: LogConfig) -> None:
        """Go by this configuration from here on."""
        self.config = config

    def keep_producers(self, entries: Callable[[], Iterable[Entry]] | None) -> None:
        """Write what `entries` gives, the producers' state at the log's end, beside segments from
        here on; None: nobody knows it.
        """
        self.producers = entries

    def flush_snapshot(self) -> FlushTicket:
        """What must be synced so that all below the present end is durable; cheap, on the loop."""
        return take_ticket(self)

    def flushed(self, ticket: FlushTicket) -> None:
        """`ticket.run()` returned: what it covers is durable, unless a truncation came between."""
        if not self.state.flush(ticket.generation, ticket.end_offset, ticket.rolls):
            return
        for segment in ticket.sealed:
            segment.flushed = True
            segment.unsynced = ()
            segment.release()

    def noting_failure(self) -> AbstractContextManager[None]:
        """Around what syncs its batches: the next process has to know of a failure (P-24)."""
        return noting_failure(self._fs, self.path)

    def sync_directory(self) -> None:
        try:
            self._fs.fsync_dir(self.path)
        except FileNotFoundError:
            if not self.deleted:
                raise

    def close(self) -> None:
        """Make everything durable, indexes too. The log is not used afterwards."""
        self.state.check_usable()
        ticket = self.flush_snapshot()
        ticket.run()
        for file in (*self.segments[-1].write_indexes(), *self._take_snapshot()):
            file.sync()
        self.snapshots.remove_unneeded({segment.base_offset for segment in self.segments})
        self._fs.fsync_dir(self.path)
        self.flushed(ticket)
        self.open_segments.forget(self.segments)

    def retire(self) -> None:
        """The directory is about to be given up: a reader that finds no file knows why."""
        self.state.delete(f"{self.topic}-{self.partition} was removed from this broker")
        self.open_segments.give_up(self.segments)


@dataclass(frozen=True, slots=True)
class FlushTicket:
    log: Log
    generation: int
    """The state's `truncations` when the ticket was taken; another value makes the ticket void."""
    rolls: int
    end_offset: int
    files: tuple[File, ...]
    sealed: tuple[Segment, ...]
    sync_directory: bool

    def run(self) -> None:
        """Blocking. An OSError is final: the process must not go on with this directory (P-24)."""
        with self.log.noting_failure():
            for file in self.files:
                file.sync()
            if self.sync_directory:
                self.log.sync_directory()


def take_ticket(log: Log) -> FlushTicket:
    """Covers the log up to its present end.

    The log may grow, roll and be cut in the disk pool between any two of these reads, so their
    order is part of the promise: a cut after the generation makes the ticket void, and segments and
    their count, which are read after the end, are those of all that lies below it.
    """
    state = log.state
    generation = state.truncations
    end_offset = state.end
    segments = state.tail.segments
    rolls = state.rolls
    sealed = tuple(takewhile(lambda s: not s.flushed, reversed(segments[:-1])))
    try:
        files = [file for s in sealed for file in (s.view().file, *s.unsynced)]
        if end_offset > state.durable_end:
            files.append(segments[-1].view().file)
    except FileNotFoundError:
        if state.truncations == generation and not state.is_deleted:
            raise
        files = []  # cut away meanwhile, which was counted first: nobody goes by this ticket
    return FlushTicket(
        log=log,
        generation=generation,
        rolls=rolls,
        end_offset=end_offset,
        files=tuple(files),
        sealed=sealed,
        sync_directory=rolls > state.rolls_synced,
    )


NOTHING: Final = -1
_base_of: Final = attrgetter("base_offset")


def truncate_to(fs: FileSystem, log: Log, offset: int) -> None:
    """Cut log, indexes and epochs before the batch with `offset`.

    At or beyond the end only an epoch goes in which nothing was appended.
    """
    log.state.check_usable()
    if offset >= log.log_end_offset:
        log.leader_epochs.truncate_from_end(log.log_end_offset)
        return
    if offset < max(log.log_start_offset, log.segments[0].base_offset):
        begin_anew(fs, log, offset)
        return
    segments = log.segments
    i = bisect_right(segments, offset, key=_base_of) - 1
    end_offset = offset
    try:
        position, end_offset = _place_of(log, i, offset)
        if end_offset < log.log_start_offset:
            # The first batch reaches back over the log's start, and all of it has to go.
            begin_anew(fs, log, log.log_start_offset)
            return
        # Readers still hold the old segment: what stays is described by a new one.
        kept = _kept(log, segments[i], position, end_offset)
    except BadBatch as bad:
        if end_offset <= log.log_start_offset:
            # Nothing has to stay, so what does not read lies below the log's start.
            begin_anew(fs, log, log.log_start_offset)
            return
        # What should stay does not read, and nothing has been cut: it is for a healing to cut
        # more, once this replica does not count (I-15).
        raise damage_met(log, bad) from bad
    # What fails up to here, for want of room, leaves the log as it was.
    _limit_checkpoints(log, end_offset, log.log_end_offset)
    try:
        _cut(fs, log, i, end_offset, *kept)
    except OSError as error:
        log.state.fail(f"{log.path}: a truncation to {offset} failed half-way ({error})")
        raise


def _kept(
    log: Log, segment: Segment, position: int, end_offset: int
) -> tuple[Segment, RecentBatches]:
    """What stays of a segment. Only what lies above the log's start has to read: dead batches that
    do not are nobody's to heal.
    """
    gaps_below, start = log.gaps.below, log.log_start_offset
    try:
        return segment.cut(position, end_offset, gaps_below=gaps_below)
    except BadBatch as bad:
        if bad.offset >= start:
            raise
        low = log.damaged_ranges.resume_before(segment.base_offset, start)
        found = first_batch_to(
            segment, segment.view(), start, segment.size, low=low, gaps_below=gaps_below
        )
        if found is None or bad.offset >= found[1].base_offset:
            raise
        live = found[0], found[1].base_offset
        return segment.cut(position, end_offset, gaps_below=gaps_below, low=live)


def _place_of(log: Log, i: int, offset: int) -> Place:
    """Where segment `i` is cut so that the log ends before the batch with `offset`.

    BadBatch where something before that does not read. What is damaged at the very place goes with
    what is cut.
    """
    segments, recent = log.state.tail
    segment, gaps_below = segments[i], log.gaps.below
    if offset == segment.base_offset:
        return 0, offset
    if segment is segments[-1] and gaps_below < offset:
        known = recent.bound(offset)
        if known is not None:  # no disk can say anything else
            return known
    low = log.damaged_ranges.resume_before(segment.base_offset, offset)
    try:
        found = first_batch_to(
            segment, segment.view(), offset, segment.size, low=low, gaps_below=gaps_below
        )
    except BadBatch as bad:
        if bad.offset < offset:
            raise
        return bad.position, offset
    if found is None:
        return segment.size, min(offset, segment.end_offset)
    return found[0], max(min(offset, found[1].base_offset), segment.base_offset)


def _cut(
    fs: FileSystem, log: Log, i: int, end_offset: int, kept: Segment, recent: RecentBatches
) -> None:
    segments = log.segments
    # Before the new end shows: else the log could reach their offsets again with other batches.
    log.snapshots.remove_above(end_offset)
    log.state.cut(end_offset, Tail((*segments[:i], kept), recent))
    log.limits.count()
    log.open_segments.give_up(segments[i:])
    for removed in reversed(segments[i + 1 :]):
        removed.remove()
    if i + 1 < len(segments):
        fs.fsync_dir(log.path)
    file = kept.view().file
    file.truncate(kept.size)
    with log.noting_failure():
        file.sync()
    kept.write_indexes()
    truncate_txn_index(fs, kept.path("txnindex"), end_offset)
    log.leader_epochs.truncate_from_end(end_offset)


def begin_anew(fs: FileSystem, log: Log, offset: int, *, is_deletion: bool = False) -> None:
    """Drop everything and begin an empty log at `offset`.

    `is_deletion`: the log reached that far, and what lay below was deleted. The epoch in which it
    did stays known, as after every deletion (I-5).
    """
    log.state.check_usable()
    segments = log.segments
    interval = log.config.index_interval_bytes
    # Of an empty log at 0 they promise too little: as if its first segment were missing (I-75).
    _limit_checkpoints(log, 0, max(log.log_end_offset, offset))
    try:
        log.snapshots.remove_above(NOTHING)
        empty = Segment(fs, log.path, offset, size=0, end_offset=offset, index_interval=interval)
        log.state.empty(empty)
        log.limits.count()
        log.open_segments.give_up(segments)
        for segment in reversed(segments):
            segment.remove()
        log.deleted_segments.remove_behind()
        fs.fsync_dir(log.path)
        if is_deletion:
            log.leader_epochs.truncate_from_start(offset)
        else:
            log.leader_epochs.clear()
        begun = Segment.create(fs, log.path, offset, index_interval=interval)
        fs.fsync_dir(log.path)
        log.state.begin(begun)
    except OSError as error:
        log.state.fail(f"{log.path}: a full truncation failed half-way ({error})")
        raise


def _limit_checkpoints(log: Log, offset: int, highest: int) -> None:
    """No checkpoint may come back above what stays: other records are appended there (I-7, I-13).
    What they say by now is no measure: until the cut shows, a flush may be noted, and written.
    """
    if offset < highest:
        log.limits.prepare(offset)
