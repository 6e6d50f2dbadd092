"""One replica's log: record batches in segments, appended at the end, readable anywhere.

Appends and truncations run one at a time, on the event loop or in the disk pool. `flush_snapshot`
and `flushed` run on the loop. Reads run anywhere at the same time. They use values that an append
only extends, and start over if the log's generation changed (P-34).

Offsets are dense (I-1) and epochs never fall (I-2). The epoch checkpoint contains an epoch before
the log holds a batch of it (I-47). An append is all or nothing: after a short write or on a full
disk the file is cut back, and the error is raised.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import takewhile
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from strandline_broker.storage.files.damage import BadBatch
from strandline_broker.storage.files.failed_flush import noting_failure
from strandline_broker.storage.files.gaps_marker import FirstGap, Gaps
from strandline_broker.storage.files.steps import in_a_row
from strandline_broker.storage.log.config import INT64_MAX, Appended, LogConfig
from strandline_broker.storage.log.follower_run import check_run, has_gap
from strandline_broker.storage.log.producer_snapshot import ProducerSnapshots
from strandline_broker.storage.log.reader import LogRead, LogReader, damage_met
from strandline_broker.storage.log.recovery import Expectations, Recovery
from strandline_broker.storage.log.state import LogState, Tail
from strandline_broker.storage.segment.deleted_segments import DeletedSegments
from strandline_broker.storage.segment.open_segments import OpenSegments
from strandline_broker.storage.segment.reader import Place, first_batch_to
from strandline_broker.storage.segment.segment import Segment
from strandline_broker.storage.segment.txn_index import SUFFIX, cut_entries
from strandline_proto.batch import CONTROL, prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from strandline_broker.storage.files.checkpoint_limits import CheckpointLimits
    from strandline_broker.storage.files.damage import Report
    from strandline_broker.storage.files.file import File
    from strandline_broker.storage.files.steps import Steps
    from strandline_broker.storage.log.producer_snapshot import Entry
    from strandline_broker.storage.log.recovery import Recovered
    from strandline_broker.storage.log.time_lookup import Found
    from strandline_broker.storage.segment.damaged_ranges import DamagedRanges
    from strandline_broker.storage.segment.recent_batches import RecentBatches
    from strandline_broker.storage.segment.txn_index import Aborted
    from strandline_proto.batch import BatchHeader
    from strandline_runtime.runtime import Buffer, FileSystem

    AbortedIn = Callable[[Buffer, Sequence[BatchHeader]], Sequence[Aborted]]
    """The transactions that a run of batches aborts, by its bytes and its headers. Their offsets
    follow the log's end.
    """

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
        """Open and recover the directory at `path`; a log that was `begun` just now needs no
        recovery.

        Raises DamagedLog if the log is damaged and `expected` does not allow damage.
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
        """The producers' state at the log's end; None while it is unknown."""
        self._aborted_in: AbortedIn | None = None
        self._keeps_lacking = False
        self.gaps = Gaps(fs, path, expected.gaps_below)
        self.limits = limits
        self.checkpointed_high_watermark = expected.high_watermark
        """High watermark of the checkpoint when the log was opened.

        Above the log's end if the data before it was lost. If the log is restarted here, its
        checkpoints are limited and the loss is reported (I-53).
        """
        self._reader = LogReader(self)
        if found.log_start > found.log_end:
            report(
                f"{path}: the log start {found.log_start} lies beyond its end {found.log_end}; the "
                f"log starts again there."
            )
            start_again(fs, self, found.log_start, is_deletion=True)
            self.damaged_ranges.save()

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments, in the order of offsets; the last one is active, the others are sealed."""
        return self.state.tail.segments

    @property
    def log_start_offset(self) -> int:
        return self.state.start

    @property
    def log_end_offset(self) -> int:
        return self.state.end

    @property
    def durable_offset(self) -> int:
        """End of the durable part: everything below survives a loss of power."""
        return self.state.durable_end

    @property
    def size_bytes(self) -> int:
        return self.state.size_bytes

    @property
    def cleaned_to(self) -> int:
        """Offset at which compaction continues; everything below was cleaned."""
        return self.state.cleaned_to

    @property
    def damaged(self) -> str | None:
        """The reason why the log is out of use; None if it is usable."""
        return self.state.unusable

    @property
    def damaged_ranges(self) -> DamagedRanges:
        return self.state.damaged_ranges

    @property
    def deleted(self) -> bool:
        return self.state.is_deleted

    @property
    def replay_lacks(self) -> bool:
        """True if the last `replay`, or that of the kept producers' state, skipped damage, so that
        its result may be incomplete.
        """
        return self._keeps_lacking or self._reader.lacks_from is not None

    @property
    def replay_lacks_from(self) -> int | None:
        """The first offset that the last `replay` skipped; None: it skipped none."""
        return self._reader.lacks_from

    def append_as_leader(
        self, batch: Buffer, header: BatchHeader, *, leader_epoch: int, now_ms: int = 0
    ) -> Appended:
        """Append one checked batch. On KafkaStorageError or OSError nothing was appended.

        `now_ms` is the wall clock, used to roll by time when records have no timestamp.
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
        buffers = assigned, memoryview(batch)[ASSIGNED:]
        if header.attributes & CONTROL:
            self._write_control(segment, batch, (header._replace(base_offset=base),), buffers)
        else:
            self._write(segment, buffers, size)
        segment.note_batch(position, header, last)
        recent.append(last, position + size)
        self.state.append(last + 1, size)
        return Appended(base, last + 1, position, rolled)

    def append_as_follower(
        self, records: Buffer, *, leader_epoch: int, gaps_below: int = 0, now_ms: int = 0
    ) -> list[BatchHeader]:
        """Append the batches of a leader's answer unchanged: all of them, or none and an error.

        Raises CorruptMessage if a batch is incomplete, damaged or out of order, or has an epoch
        that falls or is above `leader_epoch` (I-43). Raises FirstGap if offsets are missing while
        `gaps` are not expected; below `gaps_below` they may be missing.
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
            partition=f"{self.topic}:{self.partition}",
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
            if any(header.attributes & CONTROL for header in found):
                self._write_control(segment, records, found, (records,))
            else:
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
        """Begin a new segment if a run of `size` bytes exceeds the room or the time of the active
        one.
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

        The change is durable with the next flush. After an OSError the log continues in the old
        segment.
        """
        active = self.segments[-1]
        assert active.size > 0, self.path
        active.seal()
        active.unsynced += self._take_snapshot()
        interval = self.config.index_interval_bytes
        base = self.log_end_offset
        self.state.roll(Segment.create(self._fs, self.path, base, index_interval=interval))

    def _take_snapshot(self) -> tuple[File, ...]:
        """Write the producers' state at the log's end; the caller syncs the returned files.

        A state that lacks batches is not written: the next replay would begin after those batches.
        """
        if self.producers is None or self.replay_lacks:
            return ()
        return (self.snapshots.write(self.log_end_offset, self.producers()),)

    def _write_control(
        self,
        segment: Segment,
        records: Buffer,
        headers: Sequence[BatchHeader],
        buffers: tuple[Buffer, ...],
    ) -> None:
        """Write a run that may abort transactions: first the entries of the index, then the
        batches. No reader may find a marker whose entry is missing (I-153, P-108).
        """
        assert self._aborted_in is not None, f"{self.path}: the open transactions are not known"
        aborted = self._aborted_in(records, headers)
        if not aborted:
            self._write(segment, buffers, len(records))
            return
        before, is_new = segment.aborted().size, not segment.has_aborted
        try:
            segment.add_aborted(aborted)
            if is_new:
                self.state.add_name()
            self._write(segment, buffers, len(records))
        except OSError:
            try:
                segment.cut_aborted(before)
            except OSError as error:
                path = segment.path(SUFFIX)
                self.state.fail(f"{path}: a failed append could not be undone ({error})")
            raise

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
        """Record durably that this leader's epoch begins at the log's end (I-46)."""
        in_a_row(self.assigning_epoch(leader_epoch))

    def assigning_epoch(self, leader_epoch: int) -> Steps[None]:
        """Assign the epoch, in the steps of `replacing_files`."""
        self.state.check_usable()
        yield from self.leader_epochs.assigning([(leader_epoch, self.log_end_offset)])

    def is_hot(self, start: int) -> bool:
        """True if a read from `start` most likely finds its bytes in the page cache."""
        return self._reader.is_hot(start)

    def read(
        self,
        start: int,
        *,
        max_bytes: int,
        limit: int,
        checked: bool = False,
        committed: bool = False,
    ) -> LogRead:
        """Whole batches that end below `limit`, beginning with the one that holds `start`; at least
        one, if there is any.

        The first batch may begin before `start`, and may alone exceed `max_bytes`. The result is
        empty if `start` is at or above `limit` (I-95). Raises OffsetOutOfRange below the log's
        start or above its end. `committed` names the aborted transactions too.
        """
        return self._reader.read(
            start, max_bytes=max_bytes, limit=limit, checked=checked, committed=committed
        )

    def batch_headers(self, start: int) -> Iterator[BatchHeader]:
        """The header of each batch, from the one that holds `start` to the current end of
        the log.
        """
        return self._reader.batch_headers(start)

    def replay(self, start: int) -> Iterator[tuple[BatchHeader, int | None]]:
        """The `batch_headers`, each with the coordinator epoch of a transaction's end marker."""
        return self._reader.replay(start)

    def time_lookup(self, timestamp: int | None) -> Steps[Found | None]:
        """(timestamp, offset, leader epoch) of the first record at or after `timestamp`. With None:
        of the first record that has the largest timestamp.
        """
        return self._reader.time_lookup(timestamp)

    def offset_for_timestamp(self, timestamp: int) -> Found | None:
        return in_a_row(self.time_lookup(timestamp))

    def max_timestamp(self) -> Found | None:
        return in_a_row(self.time_lookup(None))

    def truncate_to(self, offset: int) -> None:
        """Cut log, indexes and epochs before the batch with `offset`, durably (I-47, P-34).

        At or beyond the log's end only an epoch without any batch is removed.
        """
        truncate_to(self._fs, self, offset)
        self.damaged_ranges.save()

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything and restart the log at `offset`; durable on return."""
        start_again(self._fs, self, offset)
        self.damaged_ranges.save()

    def replace_segments(
        self,
        old: Sequence[Segment],
        new: Sequence[Segment] = (),
        *,
        move_files: Callable[[], None] | None = None,
    ) -> bool:
        """Replace `old`, a run of sealed segments, with `new`, in one step on the event loop.

        The caller holds the partition's gate, so nothing else changes the log meanwhile. Without
        `new` (retention), `old` are the log's first segments, and the log start lies after them.
        Otherwise `new` are sealed and in order. They begin at or after the first of `old` and end
        where the last one ends. Returns False, and does nothing, if `old` is no longer in the log
        as it was: a truncation came between.

        Then `move_files` renames files where old and new segments share a name. It runs on the
        loop, so it must be quick and must not sync. If it raises OSError, the log is out of use.

        A reader that took the old segments continues with the files that it has open. If it must
        then open a renamed file, it fails or finds another file. It also sees that the log's
        generation has changed, and starts over on the new segments. Memory therefore changes first,
        then the files. The files of `old` may be renamed later, in the disk pool, unless `new`
        needs their names.
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
        """Remove the log's first segments from the log; their files go to
        `deleted_segments.add`.
        """
        return self.replace_segments(old)

    def raise_log_start(self, offset: int) -> bool:
        """Set the log start to `offset`, in memory; False if it is there or higher already.

        Three steps follow in the disk pool, in this order (I-74):

        1. Write the log-start checkpoint, durably.
        2. Truncate `leader_epochs` from its start.
        3. Delete files.
        """
        assert offset <= self.log_end_offset, (self.path, offset, self.log_end_offset)
        if offset <= self.log_start_offset:
            return False
        self.state.raise_start(offset)
        return True

    def log_start_is_durable(self, offset: int, beginnings: int) -> None:
        """Record that the log-start checkpoint on disk says `offset`, written after `beginnings`
        restarts of the log (`LogState.beginnings`).
        """
        self.state.start_is_durable(offset, beginnings)

    def clean_to(self, offset: int) -> None:
        """Set the offset at which compaction continues."""
        self.state.clean(offset)

    def configure(self, config: LogConfig) -> None:
        """Use `config` from now on."""
        self.config = config

    def keep_producers(
        self, entries: Callable[[], Iterable[Entry]] | None, aborted_in: AbortedIn | None = None
    ) -> None:
        """Set the source of the producers' state at the log's end, which is written beside new
        segments; None: the state is unknown. `aborted_in` finds the transactions that appended
        batches abort, by the same state.
        """
        self.producers = entries
        self._aborted_in = aborted_in
        self._keeps_lacking = entries is not None and self._reader.lacks_from is not None

    def flush_snapshot(self) -> FlushTicket:
        """The files to sync so that everything below the current end is durable; cheap, on the
        loop.
        """
        return take_ticket(self)

    def flushed(self, ticket: FlushTicket) -> None:
        """Record that `ticket.run()` returned: its data is durable, unless a truncation came
        between.
        """
        if not self.state.flush(ticket.generation, ticket.end_offset, ticket.rolls):
            return
        for segment, size in ticket.aborted:
            segment.aborted_is_durable(size)
        for segment in ticket.sealed:
            segment.flushed = True
            segment.unsynced = ()
            segment.release()

    def noting_failure(self) -> AbstractContextManager[None]:
        """A context for the code that syncs the log's batches; it notes a failure for the next
        process (P-24).
        """
        return noting_failure(self._fs, self.path)

    def sync_directory(self) -> None:
        try:
            self._fs.fsync_dir(self.path)
        except FileNotFoundError:
            if not self.deleted:
                raise

    def close(self) -> None:
        """Make everything durable, including the indexes. The log is not used afterwards."""
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
        """Mark the log as deleted, before its directory is removed: a reader that misses a file
        then knows the reason.
        """
        self.state.delete(f"{self.topic}:{self.partition} was removed from this broker")
        self.open_segments.give_up(self.segments)


@dataclass(frozen=True, slots=True)
class FlushTicket:
    log: Log
    generation: int
    """The state's `truncations` when the ticket was taken; another value invalidates the ticket."""
    rolls: int
    end_offset: int
    files: tuple[File, ...]
    sealed: tuple[Segment, ...]
    aborted: tuple[tuple[Segment, int], ...]
    """Segments with the bytes of their indexes of aborted transactions."""
    sync_directory: bool

    def run(self) -> None:
        """Sync the files; blocking. An OSError is final: the process must stop using this directory
        (P-24).
        """
        with self.log.noting_failure():
            for file in self.files:
                file.sync()
            if self.sync_directory:
                self.log.sync_directory()


def take_ticket(log: Log) -> FlushTicket:
    """A ticket that covers the log up to its current end.

    The disk pool may extend, roll and cut the log between any two of these reads, so their order
    matters. A cut after the generation was read invalidates the ticket. The segments and their
    count are read after the end, so they include all segments below it.
    """
    state = log.state
    generation = state.truncations
    end_offset = state.end
    segments = state.tail.segments
    rolls = state.rolls
    sealed = tuple(takewhile(lambda s: not s.flushed, reversed(segments[:-1])))
    aborted: list[tuple[Segment, int]] = []
    try:
        files = [file for s in sealed for file in (s.view().file, *s.unsynced)]
        if end_offset > state.durable_end:
            files.append(segments[-1].view().file)
        for segment in (*sealed, segments[-1]):
            if segment.has_aborted and (unsynced := segment.unsynced_aborted) is not None:
                files.append(unsynced[1])
                aborted.append((segment, unsynced[0]))
    except FileNotFoundError:
        if state.truncations == generation and not state.is_deleted:
            raise
        files, aborted = (
            [],
            [],
        )  # a cut came between and changed the generation first: the ticket is void
    return FlushTicket(
        log=log,
        generation=generation,
        rolls=rolls,
        end_offset=end_offset,
        files=tuple(files),
        sealed=sealed,
        aborted=tuple(aborted),
        sync_directory=rolls > state.rolls_synced,
    )


NOTHING: Final = -1
_base_of: Final = attrgetter("base_offset")


def truncate_to(fs: FileSystem, log: Log, offset: int) -> None:
    """Cut log, indexes and epochs before the batch with `offset`.

    At or beyond the log's end only an epoch without any batch is removed.
    """
    log.state.check_usable()
    if offset >= log.log_end_offset:
        log.leader_epochs.truncate_from_end(log.log_end_offset)
        return
    if offset < max(log.log_start_offset, log.segments[0].base_offset):
        start_again(fs, log, offset)
        return
    segments = log.segments
    i = bisect_right(segments, offset, key=_base_of) - 1
    end_offset = offset
    try:
        position, end_offset = _place_of(log, i, offset)
        if end_offset < log.log_start_offset:
            # The first batch begins before the log's start, and all of it must be removed.
            start_again(fs, log, log.log_start_offset)
            return
        # Readers still hold the old segment, so a new one describes the part that stays.
        kept = _kept(log, segments[i], position, end_offset)
    except BadBatch as bad:
        if end_offset <= log.log_start_offset:
            # No byte has to stay, so the unreadable part lies below the log's start.
            start_again(fs, log, log.log_start_offset)
            return
        # The part that should stay is unreadable, and nothing was cut. Healing cuts more, once
        # this replica is out of the ISR (I-15).
        raise damage_met(log, bad) from bad
    # A failure up to here, such as a full disk, leaves the log as it was.
    _limit_checkpoints(log, end_offset, log.log_end_offset)
    try:
        _cut(fs, log, i, end_offset, *kept)
    except OSError as error:
        log.state.fail(f"{log.path}: a truncation to {offset} failed half-way ({error})")
        raise


def _kept(
    log: Log, segment: Segment, position: int, end_offset: int
) -> tuple[Segment, RecentBatches]:
    """The part of `segment` that stays.

    Only batches above the log's start must be readable: dead batches need no healing.
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
    """The place where segment `i` is cut so that the log ends before the batch with `offset`.

    Raises BadBatch if a batch before that place is unreadable. Damage exactly at the place is
    removed with the cut.
    """
    segments, recent = log.state.tail
    segment, gaps_below = segments[i], log.gaps.below
    if offset == segment.base_offset:
        return 0, offset
    if segment is segments[-1] and gaps_below < offset:
        known = recent.bound(offset)
        if known is not None:  # the position is known from memory, so the disk is not asked
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
    # Before readers see the new end: otherwise the log could reach these offsets again with other
    # batches.
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
    if kept.has_aborted:
        cut_entries(fs, kept.path(SUFFIX), kept.aborted().size, durably=True)
    kept.write_indexes()
    log.leader_epochs.truncate_from_end(end_offset)


def start_again(fs: FileSystem, log: Log, offset: int, *, is_deletion: bool = False) -> None:
    """Drop everything and begin an empty log at `offset`.

    `is_deletion` means that the log reached `offset` and that everything below was deleted. Its
    epoch at that offset stays known, as after every deletion (I-5).
    """
    log.state.check_usable()
    segments = log.segments
    interval = log.config.index_interval_bytes
    # The checkpoints of an empty log at 0 promise too little, as if its first segment were
    # missing (I-75).
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
    """Limit the checkpoints so that none can reappear above `offset`, where other records will be
    appended (I-7, I-13).

    The current values of the checkpoints are no measure: until readers see the cut, a flush may
    still be recorded and written.
    """
    if offset < highest:
        log.limits.prepare(offset)
