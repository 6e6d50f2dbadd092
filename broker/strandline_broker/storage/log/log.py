"""One replica's log: record batches in segments, appended at the end, read from anywhere.

Appends and truncations happen one at a time, on the event loop or in the disk pool;
`flush_snapshot` and `flushed` on the loop; reads anywhere meanwhile: they work on values that an
append only extends, and ask again if its generation moved (P-34). Offsets are dense (I-1), epochs
never fall (I-2), and the epoch checkpoint knows an epoch before the log holds a batch of it (I-47).
An append is all or nothing: after a short write or on a full disk the file is cut back, and the
error raised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_broker.storage.cleaner.gaps_marker import FirstGap, Gaps
from strandline_broker.storage.directory.failed_flush import noting_failure
from strandline_broker.storage.files.steps import in_a_row
from strandline_broker.storage.log.config import INT64_MAX, Appended, LogConfig
from strandline_broker.storage.log.cut import begin_anew, truncate_to
from strandline_broker.storage.log.flush_ticket import FlushTicket, take_ticket
from strandline_broker.storage.log.follower_run import check_run, has_gap
from strandline_broker.storage.log.producer_snapshot import ProducerSnapshots
from strandline_broker.storage.log.reader import LogRead, LogReader
from strandline_broker.storage.log.recovery import Expectations, Recovery
from strandline_broker.storage.log.state import LogState
from strandline_broker.storage.segment.deleted_segments import DeletedSegments
from strandline_broker.storage.segment.open_segments import OpenSegments
from strandline_broker.storage.segment.segment import Segment
from strandline_proto.batch import prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from strandline_broker.storage.directory.checkpoint_limits import CheckpointLimits
    from strandline_broker.storage.files.file import File
    from strandline_broker.storage.files.steps import Steps
    from strandline_broker.storage.log.damaged_ranges import DamagedRanges
    from strandline_broker.storage.log.producer_snapshot import Entry
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
