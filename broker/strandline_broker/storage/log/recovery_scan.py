"""The scan of a recovery: it reads every batch from the segment of the recovery point on (I-7).

A batch that fails a check above the recovery point (with flush.policy=always also below the
high-watermark checkpoint) ends the log. A bad batch below was durable, so it is damage: it is
marked, the scan continues after it, and nothing is cut. If no sound batch follows the damage, the
log continues in a new segment, at the first offset that was never promised.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from strandline_broker.storage.files.checkpoints import OFFSET_MAX
from strandline_broker.storage.files.damage import METADATA_REMEDY, BadBatch, DamagedLog
from strandline_broker.storage.segment.batch_walk import sound_batch_follows, walk
from strandline_broker.storage.segment.damage_walk import jumps, sound_batch_behind
from strandline_broker.storage.segment.damaged_ranges import NOWHERE, DamagedRange
from strandline_broker.storage.segment.recent_batches import RecentBatches
from strandline_broker.storage.segment.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_broker.storage.files.damage import Report
    from strandline_broker.storage.log.leader_epochs import LeaderEpochs
    from strandline_proto.batch import BatchHeader
    from strandline_runtime.runtime import FileSystem

PROGRESS_BYTES: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class Expectations:
    """The checkpoints' values for one partition, already within its checkpoint limits."""

    recovery_point: int = 0
    recovery_point_lost: bool = False
    """True if the checkpoint exists but cannot be trusted. Any batch may then have been durable:
    only bad bytes without a sound batch after them are a torn tail.
    """
    high_watermark: int = 0
    log_start: int = 0
    log_start_known: bool = False
    """True if the log start comes from a checkpoint and is no guess."""
    gaps_below: int = 0
    """Offset below which compaction may have left gaps between the batches that end at or
    below it.
    """
    cleaned_below: int = OFFSET_MAX
    """The same limit for gaps between two segments.

    A segment begins where the log ended, and our cleaner keeps the last batch of each segment. Only
    a log that Kafka has cleaned has such gaps.
    """
    cleaned_to: int = 0
    """Offset at which compaction continues."""
    clean: bool = False
    always: bool = False
    """True with flush.policy=always: batches below the high watermark were durable too."""
    flush_failed: bool = False
    """True after a failed fsync: data above the recovery point may be in the page cache only
    (P-24).
    """
    one_batch_at_a_time: bool = False
    """True if each batch was durable before the next was written.

    At most the last batch can then be torn. Such a log is useless with a hole, so damage refuses
    all of it.
    """

    @property
    def damage_below(self) -> int:
        return max(self.recovery_point, self.high_watermark if self.always else 0)

    def is_cleaned_to(self, base_offset: int) -> bool:
        """True if offsets may be missing before a segment that begins there, above the recovery
        point. If not, a loss of power has removed the end of the previous segment.
        """
        below = OFFSET_MAX if self.recovery_point_lost else self.cleaned_below
        return base_offset <= min(self.gaps_below, below)

    def ends_in_gap(self, end_offset: int) -> bool:
        """True if a log whose last batch ends there was cut inside a gap of the compaction.
        Everything promised was then cleaned, and cleaning never reaches the end of a log.
        """
        return end_offset < self.damage_below <= self.cleaned_to


class Scan:
    """The scan of one directory's segments, oldest first; call `run` once."""

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        expected: Expectations,
        segments: list[Segment],
        epochs: LeaderEpochs | None,
        *,
        index_interval: int,
        report: Report,
        mark: Callable[[DamagedRange], None],
        on_bytes: Callable[[int], None],
    ) -> None:
        self._fs = fs
        self._directory = directory
        self._expected = expected
        self._segments = segments
        self._epochs = epochs
        # A log that is restarting when power fails may have a checkpoint without entries.
        known = epochs.entries if epochs is not None else ()
        self._first_epoch = known[0] if known else (-1, 0)
        self._index_interval = index_interval
        self._report = report
        self._mark = mark
        self._on_bytes = on_bytes
        self.touched: list[Segment] = []
        """Scanned segments: their data may not be durable yet, and their indexes are new."""
        self.has_cut = False
        self.has_transactions = False
        """True if scanned batches belong to transactions, or end them."""
        self._latest_epoch = -1
        self._recent = RecentBatches(0, 0)

    @property
    def to_sync(self) -> list[Segment]:
        """The scanned segments that the disk may not hold as they are.

        A segment that ends at the recovery point and was read to its end is durable. An empty one
        may still lack its directory entry.
        """
        is_as_found = self.touched == self._segments[-1:] and not self.has_cut
        is_below = self._segments[-1].end_offset <= self._expected.recovery_point
        if is_as_found and is_below and not self._expected.one_batch_at_a_time:
            return []
        return self.touched

    def run(self, first: int) -> RecentBatches:
        """Check every batch from segment number `first` on; returns the recent batches, for
        appending.
        """
        end_offset = self._segments[first].base_offset
        for number in range(first, len(self._segments)):
            segment = self._segments[number]
            size = segment.log_size()
            try:
                if number > first:
                    self._follow(number, end_offset)
                self._segment(number, size)
            except BadBatch as bad:
                self._cut(number, bad, size)
                last = self._segments[-1]
                if segment is not last:
                    return last.activate(last.size, last.end_offset)
                return self._recent
            end_offset = segment.end_offset
        last = self._segments[-1]
        if self._expected.ends_in_gap(last.end_offset):
            return self.end_in_gap(last)
        if last.end_offset < self._expected.damage_below:
            missing = f"the log ends here, offsets up to {self._expected.damage_below} are missing"
            self.begin_behind(BadBatch(last.path(), last.size, last.end_offset, missing), last)
        return self._recent

    def _follow(self, number: int, end_offset: int) -> None:
        """Check that the segment begins where the previous one ends."""
        segment = self._segments[number]
        base = segment.base_offset
        if base == end_offset or self._expected.is_cleaned_to(base):
            return
        why = f"the segment should begin at offset {end_offset}"
        bad = BadBatch(segment.path(), 0, end_offset, why)
        torn = self._ends_log(end_offset) and not self._expected.recovery_point_lost
        if base < end_offset or torn:
            raise bad
        before = self._segments[number - 1]
        why = f"the segment that begins there is missing, the next one is {base:020d}.log"
        self._mark(DamagedRange(end_offset, base, before.base_offset, before.size, NOWHERE, why))

    def _ends_log(self, offset: int) -> bool:
        """True if bad bytes at `offset` are a torn tail: no promised offset reaches so far."""
        return offset >= self._expected.damage_below

    def _segment(self, number: int, size: int) -> None:
        segment = self._segments[number]
        is_last = number + 1 == len(self._segments)
        below = OFFSET_MAX if is_last else self._segments[number + 1].base_offset
        self._recent = RecentBatches(segment.base_offset, 0)
        file = segment.begin_scan()
        self.touched.append(segment)
        jumping = partial(jumps, file, base=segment.base_offset, end=size, below=below)
        position, offset, told = 0, segment.base_offset, 0
        while True:
            try:
                for at, header in walk(file, position, size, offset=offset, crc=True):
                    why = (
                        self._misplaced(header, offset)
                        or jumping(at, header, offset)
                        or self._wrong_epoch(header, offset)
                    )
                    if why is not None:
                        raise BadBatch(file.path, at, offset, why)
                    self._note(segment, at, header)
                    position, offset = at + header.size, header.next_offset
                    self._recent.append(header.last_offset, position)
                    if position - told >= PROGRESS_BYTES:
                        self._on_bytes(position - told)
                        told = position
                self._on_bytes(size - told)
                return
            except BadBatch as bad:
                expected, ends_log = self._expected, self._ends_log(bad.offset)
                torn = ends_log and not expected.recovery_point_lost
                if torn or expected.one_batch_at_a_time:
                    raise
                behind = sound_batch_behind(
                    file, bad.position, size, offset=bad.offset, below=below
                )
                if behind is None and is_last:
                    if ends_log:
                        raise
                    self.begin_behind(bad, segment)
                    return
                to = below if behind is None else behind[1]
                resume = NOWHERE if behind is None else behind[0]
                self._mark(
                    DamagedRange(bad.offset, to, segment.base_offset, bad.position, resume, bad.why)
                )
                if behind is None:
                    segment.size, segment.end_offset = size, below
                    return
                # The segment up to here, in case the rest is a torn tail.
                position, offset = segment.size, segment.end_offset = behind
                self._recent = RecentBatches(offset, position)

    def _note(self, segment: Segment, position: int, header: BatchHeader) -> None:
        segment.note_batch(position, header, header.last_offset)
        self.has_transactions |= header.is_transactional

    def end_in_gap(self, last: Segment) -> RecentBatches:
        """Continue the log where it was cut, not where its last batch ends: no offset is used
        twice.
        """
        last.end_offset = self._expected.damage_below
        return RecentBatches(last.end_offset, last.size)

    def begin_behind(self, bad: BadBatch, last: Segment) -> None:
        """Mark everything up to the promised end as damaged, because no sound batch is left there;
        continue after it.
        """
        if self._expected.one_batch_at_a_time:
            raise self.damage(bad)
        base = self._expected.damage_below
        self._mark(DamagedRange(bad.offset, base, last.base_offset, bad.position, NOWHERE, bad.why))
        assert base > last.base_offset, (base, bad)
        last.size, last.end_offset = last.log_size(), base
        segment = Segment.create(
            self._fs, self._directory, base, index_interval=self._index_interval
        )
        self._fs.fsync_dir(self._directory)
        self._segments.append(segment)
        self._recent = RecentBatches(base, 0)

    def _misplaced(self, header: BatchHeader, expected: int) -> str | None:
        """The reason why the batch's offset is wrong; None if it is right. Only a compaction leaves
        gaps.
        """
        if header.base_offset > max(expected, self._expected.gaps_below):
            return f"base offset {header.base_offset} where {expected} must follow"
        return None

    def _is_before_epochs(self, offset: int, header: BatchHeader) -> bool:
        """True if the batch begins below the log's start. The epoch checkpoint then gives only one
        bound: the batch's epoch is at most the first epoch listed (I-5).
        """
        epoch, start = self._first_epoch
        return offset < start and header.leader_epoch <= epoch

    def _wrong_epoch(self, header: BatchHeader, expected: int) -> str | None:
        offset = max(header.base_offset, expected)
        if self._epochs is not None and not self._is_before_epochs(offset, header):
            named = self._epochs.epoch_at(offset)
            if header.leader_epoch != named:
                return f"leader epoch {header.leader_epoch}, the epoch checkpoint says {named}"
        elif header.leader_epoch < self._latest_epoch:
            return f"leader epoch {header.leader_epoch} after {self._latest_epoch}"
        self._latest_epoch = max(self._latest_epoch, header.leader_epoch)
        return None

    def _cut(self, number: int, bad: BadBatch, size: int) -> None:
        """End the log before `bad`, in segment `number` of `size` bytes. Raises instead if this is
        damage and the log does not allow damage.
        """
        segment = self._segments[number]
        end_offset = bad.offset
        if not self._ends_log(end_offset):
            raise self.damage(bad)
        if self._expected.one_batch_at_a_time and (
            number + 1 < len(self._segments)
            or sound_batch_follows(segment.view().file, bad.position, size, offset=bad.offset)
        ):
            because = "A sound batch stands behind it, so this is no torn write."
            raise DamagedLog(bad, because, METADATA_REMEDY)
        self.has_cut = True
        lost = size - bad.position + sum(s.size for s in self._segments[number + 1 :])
        loud = ""
        if end_offset < self._expected.high_watermark:
            loud = (
                f" ATTENTION: the high watermark was {self._expected.high_watermark}: this replica "
                f"has lost acknowledged records and must copy them from another."
            )
        self._report(f"{bad}. The log is cut there: {lost} bytes of a torn tail go.{loud}")
        for later in reversed(self._segments[number + 1 :]):
            later.remove()
        del self._segments[number + 1 :]
        if bad.position == 0 and number > 0 and segment.base_offset != end_offset:
            segment.remove()
            del self._segments[number]
        else:
            segment.view().file.truncate(bad.position)
        self._fs.fsync_dir(self._directory)

    def damage(self, bad: BadBatch) -> DamagedLog:
        expected = self._expected
        if bad.offset < expected.recovery_point:
            return DamagedLog(
                bad, f"It lies below the recovery point {expected.recovery_point}: it was durable."
            )
        return DamagedLog(
            bad,
            f"It lies below the high watermark {expected.high_watermark}, and with "
            f"flush.policy=always that was durable.",
        )
