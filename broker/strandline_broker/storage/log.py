"""One replica's log: segments of record batches, appended at the end, read from anywhere, cut only
by truncation.

Appends, truncations, tickets and `flushed` happen on the event loop, one at a time. `read` and its
kin may run in the disk pool meanwhile: they work on values that an append only extends, and ask
again if `truncations` moved (P-34). Offsets are dense (I-1), epochs never fall (I-2), and the epoch
checkpoint knows an epoch before the log holds a batch of it (I-47). An append is all or nothing:
after a short write or a full disk the file is cut back before the error is raised.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from strandline_broker.storage.damage import BadBatch, DamagedLog
from strandline_broker.storage.flush_ticket import FlushTicket
from strandline_broker.storage.follower_run import check_run
from strandline_broker.storage.log_reader import LogRead, LogReader
from strandline_broker.storage.recent_batches import RecentBatches
from strandline_broker.storage.recovery import Expectations, Recovery
from strandline_broker.storage.segment import Segment
from strandline_broker.storage.segment_reader import first_batch_to
from strandline_proto.batch import prefix
from strandline_proto.errors import KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_broker.storage.checkpoint_limits import CheckpointLimits
    from strandline_broker.storage.damage import Report
    from strandline_proto.batch import BatchHeader
    from strandline_runtime.runtime import Buffer, FileSystem

ASSIGNED: Final = 16
"""Bytes at the start of a batch that the leader writes: base offset, length, leader epoch."""
_base_of: Final = attrgetter("base_offset")


@dataclass(frozen=True, slots=True)
class LogConfig:
    segment_bytes: int
    index_interval_bytes: int
    segment_index_bytes: int


@dataclass(frozen=True, slots=True)
class Appended:
    base_offset: int
    next_offset: int
    position: int
    """Byte of the active segment at which the batch begins."""
    rolled: bool
    """A new segment was begun, so the one before waits to be flushed."""


class Log:
    __slots__ = (
        "_active",
        "_directory_dirty",
        "_fs",
        "_reader",
        "_recent",
        "_rolls",
        "_segments",
        "_unflushed",
        "config",
        "damaged",
        "deleted",
        "durable_offset",
        "leader_epochs",
        "limits",
        "log_end_offset",
        "log_start_offset",
        "partition",
        "path",
        "size_bytes",
        "tail",
        "topic",
        "topic_id",
        "truncations",
    )

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
    ) -> None:
        """Open the directory at `path`, recovering what is there; DamagedLog if it cannot be
        trusted.
        """
        found = Recovery(
            fs, path, expected, index_interval=config.index_interval_bytes, report=report
        ).run()
        self._fs = fs
        self.path = path
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.config = config
        self.leader_epochs = found.epochs
        self.log_start_offset = found.log_start
        self.log_end_offset = found.log_end
        self.durable_offset = found.log_end
        self.size_bytes = sum(segment.size for segment in found.segments)
        self.truncations = 0
        self.damaged: str | None = None
        self.deleted = False
        self.limits = limits
        self._publish(tuple(found.segments), found.recent)
        self._unflushed: list[Segment] = []
        self._rolls = 0
        self._directory_dirty = False
        self._reader = LogReader(self)
        if found.log_start > found.log_end:
            report(
                f"{path}: the log start {found.log_start} lies beyond its end {found.log_end}; the "
                f"log begins anew there."
            )
            self.truncate_fully_and_start_at(found.log_start)

    def append_as_leader(self, batch: bytes, header: BatchHeader, *, leader_epoch: int) -> Appended:
        """Append one checked batch under the next offset. KafkaStorageError or OSError: nothing was
        appended.
        """
        self.check_usable()
        if leader_epoch != self.leader_epochs.latest():
            self.assign_epoch(leader_epoch)
        base = self.log_end_offset
        last = base + header.last_offset_delta
        size = header.size
        assert size == len(batch), (size, len(batch))
        rolled = self._roll_for(size, last)
        segment = self._active
        position = segment.size
        assigned = prefix(base, header.batch_length, leader_epoch)
        self._write(segment, (assigned, memoryview(batch)[ASSIGNED:]), size)
        segment.note_batch(position, header, last)
        self._recent.append(last, position + size)
        self.size_bytes += size
        self.log_end_offset = last + 1
        return Appended(base, last + 1, position, rolled)

    def append_as_follower(self, records: bytes, *, leader_epoch: int) -> list[BatchHeader]:
        """Append the batches of a leader's answer as they are: all of them, or none and an error.

        Raises CorruptMessage if one is not whole and sound, does not follow the one before, or has
        an epoch that falls or is above `leader_epoch` (I-43).
        """
        self.check_usable()
        end = self.log_end_offset
        epochs = self.leader_epochs
        latest = epochs.latest()
        found = check_run(
            records,
            log_end_offset=end,
            begins_log=end == self.log_start_offset and self.size_bytes == 0,
            latest_epoch=latest,
            leader_epoch=leader_epoch,
            partition=f"{self.topic}-{self.partition}",
        )
        if not found:
            return []
        if found[-1].leader_epoch > latest:
            epochs.assign_all(
                (h.leader_epoch, max(h.base_offset, end)) for h in found if h.leader_epoch > latest
            )
        try:
            self._roll_for(len(records), found[-1].last_offset)
            segment = self._active
            position = segment.size
            self._write(segment, (records,), len(records))
        except OSError:
            epochs.drop_above(end)
            raise
        for header in found:
            segment.note_batch(position, header, header.last_offset)
            position += header.size
            self._recent.append(header.last_offset, position)
        self.size_bytes += len(records)
        self.log_end_offset = found[-1].next_offset
        return found

    def _roll_for(self, size: int, last_offset: int) -> bool:
        """Begin a new segment if the active one has no room for a run of `size` bytes."""
        config = self.config
        if not self._active.is_full_for(
            size,
            last_offset,
            segment_bytes=config.segment_bytes,
            index_bytes=config.segment_index_bytes,
        ):
            return False
        sealed = self._active
        sealed.seal()
        self._directory_dirty = True
        self._rolls += 1
        base = self.log_end_offset
        segment = Segment.create(
            self._fs, self.path, base, index_interval=config.index_interval_bytes
        )
        self._unflushed.append(sealed)
        self._publish((*self._segments, segment), RecentBatches(base, 0))
        return True

    def _publish(self, segments: tuple[Segment, ...], recent: RecentBatches) -> None:
        """Readers take segments and recent batches in one step, so that the two always fit each
        other.
        """
        self._segments = segments
        self._active = segments[-1]
        self._recent = recent
        self.tail = segments, recent

    def _write(self, segment: Segment, buffers: tuple[Buffer, ...], size: int) -> None:
        file = segment.view().file
        try:
            file.write(buffers, size, segment.size)
        except OSError:
            try:
                file.truncate(segment.size)
            except OSError as error:
                self.damaged = f"{file.path}: a failed append could not be undone ({error})"
            raise

    def check_usable(self) -> None:
        if self.damaged is not None:
            raise KafkaStorageError(self.damaged)

    def assign_epoch(self, leader_epoch: int) -> None:
        """Note durably that this leader's epoch begins at the log's end (I-46)."""
        self.check_usable()
        self.leader_epochs.assign(leader_epoch, self.log_end_offset)

    def is_hot(self, start: int) -> bool:
        """Whether a read from `start` most likely finds its bytes in the page cache and needs no
        walk.
        """
        return self._reader.is_hot(start)

    def read(self, start: int, *, max_bytes: int, limit: int) -> LogRead:
        """Whole batches that end below `limit`, from the one that holds `start`; at least one if
        one is there.

        The first may begin before `start`, and alone be larger than `max_bytes`. Empty if `start`
        is at or above `limit` (I-95). OffsetOutOfRange below the log's start or above its end.
        """
        return self._reader.read(start, max_bytes=max_bytes, limit=limit)

    def batch_headers(self, start: int) -> Iterator[BatchHeader]:
        """The header of each batch from the one that holds `start` to the log's end, as it was at
        the call.
        """
        return self._reader.batch_headers(start)

    def offset_for_timestamp(self, timestamp: int) -> tuple[int, int, int] | None:
        """(timestamp, offset, leader epoch) of the first record at or after `timestamp`; it may be
        above the HW.
        """
        return self._reader.offset_for_timestamp(timestamp)

    def max_timestamp(self) -> tuple[int, int, int] | None:
        """(timestamp, offset, leader epoch) of the first record with the largest timestamp."""
        return self._reader.max_timestamp()

    def damage(self, bad: BadBatch) -> DamagedLog:
        """Put the log out of use: a read met bytes that are not what was written."""
        damage = DamagedLog(bad, "It was found while reading what the log holds.")
        self.damaged = str(damage)
        return damage

    def truncate_to(self, offset: int) -> None:
        """Cut log, indexes and epochs before the batch that holds `offset`; durable on return
        (I-47, P-34).

        At or beyond the end only an epoch goes in which nothing was appended.
        """
        self.check_usable()
        if offset >= self.log_end_offset:
            self.leader_epochs.truncate_from_end(self.log_end_offset)
            return
        if offset < self._segments[0].base_offset:
            self.truncate_fully_and_start_at(offset)
            return
        self.truncations += 1
        try:
            self._limit_checkpoints(offset)
            self._cut_to(offset)
        except BadBatch as bad:
            raise self.damage(bad) from bad
        except OSError as error:
            self.damaged = f"{self.path}: a truncation to {offset} failed half-way ({error})"
            raise
        finally:
            self.truncations += 1

    def _limit_checkpoints(self, offset: int) -> None:
        self.limits.forget_spent()
        if offset < self.durable_offset:
            self.limits.add(offset)

    def _cut_to(self, offset: int) -> None:
        i = bisect_right(self._segments, offset, key=_base_of) - 1
        segment, later = self._segments[i], self._segments[i + 1 :]
        found = first_batch_to(segment, segment.view(), offset, segment.size)
        position, end_offset = segment.size, min(offset, segment.end_offset)
        if found is not None:
            position, end_offset = found[0], min(offset, found[1].base_offset)
        end_offset = max(end_offset, segment.base_offset)
        for removed in reversed(later):
            removed.remove()
        if later:
            self._fs.fsync_dir(self.path)
        recent = segment.activate(position, end_offset)
        file = segment.view().file
        file.truncate(position)
        file.sync()
        segment.write_indexes()
        self.leader_epochs.truncate_from_end(end_offset)
        self._unflushed = [s for s in self._unflushed if s.base_offset < segment.base_offset]
        self._publish(self._segments[: i + 1], recent)
        self._ended_at(end_offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything and begin anew at `offset`; durable on return."""
        self.check_usable()
        self.truncations += 1
        try:
            self._limit_checkpoints(0)
            for segment in reversed(self._segments):
                segment.remove()
            self._fs.fsync_dir(self.path)
            self.leader_epochs.clear()
            segment = Segment.create(
                self._fs, self.path, offset, index_interval=self.config.index_interval_bytes
            )
            self._fs.fsync_dir(self.path)
            self._unflushed = []
            self._publish((segment,), RecentBatches(offset, 0))
            self.log_start_offset = offset
            self.durable_offset = offset
            self._ended_at(offset)
        except OSError as error:
            self.damaged = f"{self.path}: a full truncation failed half-way ({error})"
            raise
        finally:
            self.truncations += 1

    def _ended_at(self, offset: int) -> None:
        self.log_end_offset = offset
        self.durable_offset = min(self.durable_offset, offset)
        self.size_bytes = sum(segment.size for segment in self._segments)

    def flush_snapshot(self) -> FlushTicket:
        """What must be synced so that everything below the present end is durable; cheap, on the
        event loop.
        """
        sealed = tuple(self._unflushed)
        files = [file for s in sealed for file in (s.view().file, *s.unsynced)]
        if self.log_end_offset > self.durable_offset:
            files.append(self._active.view().file)
        return FlushTicket(
            log=self,
            generation=self.truncations,
            rolls=self._rolls,
            end_offset=self.log_end_offset,
            files=tuple(files),
            sealed=sealed,
            sync_directory=self._directory_dirty,
        )

    def flushed(self, ticket: FlushTicket) -> None:
        """`ticket.run()` returned: what it covers is durable, unless a truncation came between."""
        if ticket.generation != self.truncations:
            return
        self.durable_offset = max(self.durable_offset, ticket.end_offset)
        for segment in ticket.sealed:
            if segment in self._unflushed:
                self._unflushed.remove(segment)
                segment.unsynced = ()
                segment.release()
        if ticket.rolls == self._rolls:
            self._directory_dirty = False

    def sync_directory(self) -> None:
        try:
            self._fs.fsync_dir(self.path)
        except FileNotFoundError:
            if not self.deleted:
                raise

    def close(self) -> None:
        """Make everything durable, the active segment's indexes too. The log is not used
        afterwards.
        """
        self.check_usable()
        ticket = self.flush_snapshot()
        ticket.run()
        for file in self._active.write_indexes():
            file.sync()
        self._fs.fsync_dir(self.path)
        self.flushed(ticket)
        self._release()

    def moved_to(self, path: str) -> None:
        """The directory was renamed, for deletion or as a stray: the log is not used any more."""
        self.deleted = True
        self.damaged = f"{self.topic}-{self.partition} was removed from this broker"
        self.path = path
        self._release()

    def _release(self) -> None:
        for segment in self._segments:
            segment.release()
