"""What a partition's directory holds when it is opened, made sound (I-7).

After a clean shutdown only the last segment's tail is walked. Otherwise every batch from the
segment of the recovery point on is read and checked: format, size, CRC, an offset that follows
without a gap, and the leader epoch that the epoch checkpoint has for that offset (epochs are
durable before data, I-47). What does not hold ends the log:

- below the recovery point (with flush.policy=always also below the high-watermark checkpoint) the
  bytes were durable once, so this is damage: DamagedLog, nothing is touched;
- above it this is a torn tail: the log is cut there and the cut reported.

Indexes of scanned segments are rebuilt, those of the others if they are missing or contradict their
segment. The result is durable, and opening it again finds the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from strandline_broker.storage.batch_walk import sound_batch_follows, walk
from strandline_broker.storage.checkpoint_limits import NAME as LIMIT_NAME
from strandline_broker.storage.damage import METADATA_REMEDY, BadBatch, DamagedLog
from strandline_broker.storage.deleted_segments import DELETED_NAME
from strandline_broker.storage.gaps_marker import NAME as MARKER_NAME
from strandline_broker.storage.gaps_marker import Gaps
from strandline_broker.storage.interrupted_swap import finish_swaps
from strandline_broker.storage.leader_epochs import FILE_NAME as EPOCHS_NAME
from strandline_broker.storage.leader_epochs import LeaderEpochs
from strandline_broker.storage.recent_batches import RecentBatches
from strandline_broker.storage.segment import SEGMENT_NAME, Segment

if TYPE_CHECKING:
    from strandline_broker.storage.damage import Report
    from strandline_proto.batch import BatchHeader
    from strandline_runtime.runtime import FileSystem

OFFSET_MAX: Final = 2**63 - 1
KNOWN_NAMES: Final = re.compile(
    rf"\d{{20}}\.(log|index|timeindex|snapshot|txnindex)|partition\.metadata|{EPOCHS_NAME}"
    rf"|{LIMIT_NAME.pattern}|{MARKER_NAME}"
)
TEMPORARY_NAMES: Final = re.compile(r".*\.tmp")


@dataclass(frozen=True, slots=True)
class Expectations:
    """What the checkpoints say of one partition, already within its checkpoint limits."""

    recovery_point: int = 0
    high_watermark: int = 0
    log_start: int = 0
    clean: bool = False
    always: bool = False
    """flush.policy=always: what the high watermark covers was durable too."""
    one_batch_at_a_time: bool = False
    """Each batch was durable before the next was written, so at most the last can be torn."""

    @property
    def damage_below(self) -> int:
        return max(self.recovery_point, self.high_watermark if self.always else 0)


@dataclass(frozen=True, slots=True)
class Recovered:
    segments: list[Segment]
    recent: RecentBatches
    epochs: LeaderEpochs
    log_start: int
    log_end: int
    scanned: bool


class Recovery:
    """One opening of one directory; `run` once."""

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        expected: Expectations,
        *,
        index_interval: int,
        report: Report,
    ) -> None:
        self._fs = fs
        self._directory = directory
        self._expected = expected
        self._index_interval = index_interval
        self._report = report
        self._segments: list[Segment] = []
        self._touched: list[Segment] = []
        """Scanned segments: their data may not be durable yet, their indexes are new."""
        self._found_epochs: list[tuple[int, int]] = []
        self._epochs_known: LeaderEpochs | None = None
        self._may_have_gaps = Gaps(fs, directory).expected

    def run(self) -> Recovered:
        self._epochs_known = LeaderEpochs.load(self._fs, self._directory, self._report)
        finish_swaps(self._fs, self._directory, self._report)
        self._segments = self._list_segments()
        if not self._segments:
            return self._begin_empty()
        if not self._epochs_known or not self._epochs_known.entries:
            self._epochs_known = None
        for segment, following in pairwise(self._segments):
            segment.end_offset = following.base_offset
        recent = None
        if self._expected.clean and self._expected.recovery_point > 0:
            for segment in self._segments[:-1]:
                self._check_sealed(segment)
            recent = self._open_clean_tail()
        if recent is not None:
            return self._finish(recent, scanned=False)
        first = self._segment_of_recovery_point()
        for segment in self._segments[:first]:
            self._check_sealed(segment)
        return self._finish(self._scan(first), scanned=True)

    def _list_segments(self) -> list[Segment]:
        bases = []
        for name in sorted(self._fs.listdir(self._directory)):
            match = SEGMENT_NAME.fullmatch(name)
            if match is not None:
                bases.append(int(match[1]))
            elif TEMPORARY_NAMES.fullmatch(name) or DELETED_NAME.fullmatch(name):
                self._fs.unlink(f"{self._directory}/{name}")
            elif not KNOWN_NAMES.fullmatch(name):
                self._report(f"{self._directory}/{name} is not a file of this log and is ignored.")
        segments = []
        for base in bases:
            segment = Segment(
                self._fs,
                self._directory,
                base,
                size=0,
                end_offset=OFFSET_MAX,
                index_interval=self._index_interval,
            )
            segment.size = segment.log_size()
            segments.append(segment)
        return segments

    def _begin_empty(self) -> Recovered:
        expected = self._expected
        if expected.damage_below > expected.log_start:
            bad = BadBatch(self._directory, 0, expected.log_start, "there is no segment file")
            raise self._damage(bad)
        segment = Segment.create(
            self._fs, self._directory, expected.log_start, index_interval=self._index_interval
        )
        self._fs.fsync_dir(self._directory)
        epochs = self._epochs_known or LeaderEpochs(self._fs, self._directory)
        epochs.drop_above(expected.log_start)
        base = expected.log_start
        return Recovered([segment], RecentBatches(base, 0), epochs, base, base, scanned=False)

    def _segment_of_recovery_point(self) -> int:
        point = self._expected.recovery_point
        below = sum(segment.base_offset <= point for segment in self._segments)
        return max(below - 1, 0)

    def _check_sealed(self, segment: Segment) -> None:
        """A segment that lies below the recovery point: only its indexes are looked at."""
        indexes = segment.read_indexes()
        if indexes is not None and (segment.size == 0 or len(indexes[1]) > 0):
            return
        self._report(f"{segment.path()}: its indexes are missing or unsound and are rebuilt.")
        size, end_offset = segment.size, segment.end_offset
        file = segment.begin_scan()
        try:
            for at, header in walk(file, 0, size, offset=segment.base_offset):
                segment.note_batch(at, header, header.last_offset)
            if segment.end_offset > end_offset:
                raise BadBatch(file.path, size, end_offset, "it reaches into the next segment")
        except BadBatch as bad:
            raise self._damage(bad) from bad
        segment.end_offset = end_offset
        for index_file in segment.write_indexes():
            index_file.sync()
        segment.release()

    def _open_clean_tail(self) -> RecentBatches | None:
        """The tail after a clean shutdown; None if the log goes on above the recovery point: then
        it is scanned.
        """
        last = self._segments[-1]
        try:
            recent = last.activate(last.size, crc=True)
        except BadBatch as bad:
            if bad.offset >= self._expected.damage_below:
                return None
            raise self._damage(bad) from bad
        return recent if last.end_offset == self._expected.recovery_point else None

    def _scan(self, first: int) -> RecentBatches:
        """Check every batch from segment number `first` on; cut at the first that does not hold."""
        recent = RecentBatches(self._segments[first].base_offset, 0)
        dense = False
        end_offset = self._segments[first].base_offset
        for number in range(first, len(self._segments)):
            segment = self._segments[number]
            size = segment.log_size()
            try:
                if dense and segment.base_offset != end_offset:
                    why = f"the segment should begin at offset {end_offset}"
                    raise BadBatch(segment.path(), 0, end_offset, why)
                recent = RecentBatches(segment.base_offset, 0)
                self._scan_segment(segment, size, recent)
            except BadBatch as bad:
                self._cut(number, bad, size)
                if segment not in self._segments:
                    last = self._segments[-1]
                    return last.activate(last.size, last.end_offset)
                return recent
            end_offset = segment.end_offset
            dense = end_offset >= self._expected.recovery_point and not self._may_have_gaps
        if end_offset < self._expected.damage_below:
            last = self._segments[-1]
            missing = f"the log ends here, offsets up to {self._expected.damage_below} are missing"
            raise self._damage(BadBatch(last.path(), last.size, end_offset, missing))
        return recent

    def _scan_segment(self, segment: Segment, size: int, recent: RecentBatches) -> None:
        file = segment.begin_scan()
        self._touched.append(segment)
        at = 0
        for at, header in walk(file, 0, size, offset=segment.base_offset, crc=True):
            expected = segment.end_offset
            why = self._misplaced(header, expected) or self._wrong_epoch(header, expected)
            if why is not None:
                raise BadBatch(file.path, at, expected, why)
            segment.note_batch(at, header, header.last_offset)
            recent.append(header.last_offset, at + header.size)

    def _misplaced(self, header: BatchHeader, expected: int) -> str | None:
        """Only a compaction leaves a gap; unless it is known to have, below the recovery point."""
        point = self._expected.recovery_point
        if self._may_have_gaps:
            return None  # the walk has seen that the offset does not fall
        if header.base_offset > expected and (expected >= point or header.next_offset > point):
            return f"base offset {header.base_offset} where {expected} must follow"
        return None

    def _wrong_epoch(self, header: BatchHeader, expected: int) -> str | None:
        offset = max(header.base_offset, expected)
        found = self._found_epochs
        latest = found[-1][0] if found else -1
        if self._epochs_known is not None:
            named = self._epochs_known.epoch_at(offset)
            if header.leader_epoch != named:
                return f"leader epoch {header.leader_epoch}, the epoch checkpoint says {named}"
        elif header.leader_epoch < latest:
            return f"leader epoch {header.leader_epoch} after {latest}"
        if header.leader_epoch > latest:
            found.append((header.leader_epoch, offset))
        return None

    def _cut(self, number: int, bad: BadBatch, size: int) -> None:
        """End the log before `bad`, which stands in segment `number` of `size` bytes, unless that
        is damage.
        """
        segment = self._segments[number]
        end_offset = bad.offset
        if end_offset < self._expected.damage_below:
            raise self._damage(bad)
        if self._expected.one_batch_at_a_time and (
            number + 1 < len(self._segments)
            or sound_batch_follows(segment.view().file, bad.position, size, offset=bad.offset)
        ):
            because = "A sound batch stands behind it, so this is no torn write."
            raise DamagedLog(bad, because, METADATA_REMEDY)
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

    def _damage(self, bad: BadBatch) -> DamagedLog:
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

    def _finish(self, recent: RecentBatches, scanned: bool) -> Recovered:
        for segment in self._touched:
            if segment in self._segments:
                segment.view().file.sync()
                if segment is not self._segments[-1]:
                    for file in segment.write_indexes():
                        file.sync()
                    segment.release()
        last = self._segments[-1]
        log_start = max(self._segments[0].base_offset, self._expected.log_start)
        epochs = self._settle_epochs(last.end_offset, scanned)
        if scanned:
            self._fs.fsync_dir(self._directory)
        return Recovered(self._segments, recent, epochs, log_start, last.end_offset, scanned)

    def _settle_epochs(self, log_end: int, scanned: bool) -> LeaderEpochs:
        """The epoch checkpoint as the log bears it out; read from the batches if it was lost."""
        epochs = self._epochs_known
        if epochs is not None:
            epochs.drop_above(log_end)
            return epochs
        found: list[tuple[int, int]] = []
        for segment in self._segments:
            view = segment.view()
            try:
                for _, header in walk(view.file, 0, segment.size, offset=segment.base_offset):
                    if not found or header.leader_epoch > found[-1][0]:
                        begin = max(header.base_offset, segment.base_offset)
                        found.append((header.leader_epoch, begin))
            except BadBatch as bad:
                raise self._damage(bad) from bad
            if segment is not self._segments[-1]:
                segment.release()
        epochs = LeaderEpochs(self._fs, self._directory, found)
        if found:
            self._report(f"{self._directory}: the leader epochs were read from the batches.")
            epochs.write()
        return epochs
