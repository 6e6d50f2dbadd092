"""Recovery of a partition's directory: its content is checked and made sound when it is opened
(I-7).

After a clean shutdown only the last segment's tail is walked. Otherwise every batch is read, from
the segment of the recovery point on. Each is checked for format, size and CRC. Its offset must
follow without a gap, and its leader epoch must be that of the epoch checkpoint (epochs are durable
before data, I-47). A batch that fails a check is handled by its place:

- Below the recovery point (with flush.policy=always also below the high-watermark checkpoint) it
  was durable once, so this is damage. The range is marked (`damaged_ranges`), never served and
  never cut.
- Above it this is a torn tail. The log is cut there, and the cut is reported.

In the other segments only the last index entry and the batches after it are checked. This detects a
missing segment file, and an index that contradicts its segment; such an index is rebuilt. The scrub
checks the rest of these segments.

The result is durable, and a second recovery finds the same. The log relies on this: all its data
counts as durable from the start. Its next recovery point includes the data, and so does a fetch
with flush.policy=always (P-75). Data above the recovery point is therefore synced. A log without
such data is not synced, so an idle log costs no sync at start.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from strandline_broker.storage.files.checkpoint_limits import NAME as LIMIT_NAME
from strandline_broker.storage.files.checkpoints import METADATA_SNAPSHOT, OFFSET_MAX
from strandline_broker.storage.files.damage import BadBatch
from strandline_broker.storage.files.failed_flush import noting_failure
from strandline_broker.storage.files.file import File, read_whole
from strandline_broker.storage.files.gaps_marker import NAME as MARKER_NAME
from strandline_broker.storage.files.gaps_marker import Gaps
from strandline_broker.storage.files.partition_metadata import FILE_NAME as METADATA_NAME
from strandline_broker.storage.files.sealed_file import SUFFIX as SEAL
from strandline_broker.storage.log.aborted_recovery import AbortedRecovery
from strandline_broker.storage.log.epochs_check import is_contradicted
from strandline_broker.storage.log.epochs_read import read_epochs
from strandline_broker.storage.log.interrupted_swap import finish_swaps
from strandline_broker.storage.log.leader_epochs import FILE_NAME as EPOCHS_NAME
from strandline_broker.storage.log.leader_epochs import LeaderEpochs
from strandline_broker.storage.log.recovery_rewrite import rewrite_from
from strandline_broker.storage.log.recovery_scan import Expectations, Scan
from strandline_broker.storage.log.sealed_end import end_by_index
from strandline_broker.storage.segment.damage_walk import walk_over_damage
from strandline_broker.storage.segment.damaged_ranges import FILE_NAME as DAMAGED_NAME
from strandline_broker.storage.segment.damaged_ranges import NOWHERE, DamagedRange, DamagedRanges
from strandline_broker.storage.segment.deleted_segments import DELETED_NAME
from strandline_broker.storage.segment.recent_batches import RecentBatches
from strandline_broker.storage.segment.segment import SEGMENT_NAME, Segment

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_broker.storage.files.damage import Report
    from strandline_proto.batch import BatchHeader
    from strandline_runtime.runtime import FileSystem

__all__ = ["Expectations", "Recovered", "Recovery"]

KNOWN_NAMES: Final = re.compile(
    rf"\d{{20}}\.(log|index|timeindex|snapshot|txnindex)|({re.escape(METADATA_NAME)}|{EPOCHS_NAME})"
    rf"({re.escape(SEAL)})?|{LIMIT_NAME.pattern}|{DAMAGED_NAME}|{MARKER_NAME}|{METADATA_SNAPSHOT.pattern}"
)
TEMPORARY_NAMES: Final = re.compile(r".*\.tmp")


def _nothing(_: int) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Recovered:
    segments: list[Segment]
    recent: RecentBatches
    epochs: LeaderEpochs
    damaged: DamagedRanges
    log_start: int
    log_end: int
    names_durable: bool = True
    """False if the next flush must sync the directory."""


class Recovery:
    """One opening of one directory; call `run` once."""

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        expected: Expectations,
        index_interval: int,
        report: Report,
        on_bytes: Callable[[int], None] = _nothing,
    ) -> None:
        """Prepare the recovery; `on_bytes` is called now and then with the number of further bytes
        that were read and checked.
        """
        self._fs = fs
        self._directory = directory
        if Gaps(fs, directory).expected:
            expected = replace(expected, gaps_below=OFFSET_MAX, cleaned_below=expected.gaps_below)
        self._expected = expected
        self._index_interval = index_interval
        self._report = report
        self._on_bytes = on_bytes
        self._segments: list[Segment] = []
        self._epochs_known: LeaderEpochs | None = None
        self._damaged = DamagedRanges(fs, directory)
        self._marked: dict[int, list[DamagedRange]] = {}
        self._has_changed_names = False
        self._swapped: set[int] = set()

    def run(self) -> Recovered:
        self._epochs_known = LeaderEpochs.load(self._fs, self._directory, self._report)
        self._swapped = finish_swaps(self._fs, self._directory, self._report)
        self._segments = self._list_segments()
        if not self._segments:
            return self._begin_empty()
        if not self._epochs_known or not self._epochs_known.entries:
            self._epochs_known = None
        self._damaged = DamagedRanges.load(self._fs, self._directory, self._report)
        self._check_epochs()
        for segment, following in pairwise(self._segments):
            segment.end_offset = following.base_offset
        recent = self._open_clean_tail() if self._expected.clean else None
        first = len(self._segments) - 1
        scan = self._scan()
        if recent is None:
            first = self._segment_of_recovery_point()
            recent = scan.run(first)
        for segment in self._segments[:first]:
            self._check_sealed(segment)
        return self._finish(recent, scan, first)

    def _check_epochs(self) -> None:
        epochs = self._epochs_known
        if epochs is None or not is_contradicted(
            epochs, self._segments, below=self._expected.recovery_point
        ):
            return
        self._report(
            f"{self._directory}/{EPOCHS_NAME} says {epochs.entries}, which batches that were"
            " durable contradict; it is treated as absent."
        )
        self._epochs_known = None

    def _scan(self) -> Scan:
        return Scan(
            self._fs,
            self._directory,
            self._expected,
            self._segments,
            self._epochs_known,
            index_interval=self._index_interval,
            report=self._report,
            mark=self._mark,
            on_bytes=self._on_bytes,
        )

    def _mark(self, found: DamagedRange) -> None:
        self._marked.setdefault(found.segment, []).append(found)
        self._report(
            f"{self._directory}: {found} are damaged. They were durable, so nothing is cut; they "
            f"are not served until they are copied from another replica."
        )

    def _list_segments(self) -> list[Segment]:
        bases = []
        for name in sorted(self._fs.listdir(self._directory)):
            match = SEGMENT_NAME.fullmatch(name)
            if match is not None:
                bases.append(int(match[1]))
            elif TEMPORARY_NAMES.fullmatch(name) or DELETED_NAME.fullmatch(name):
                self._fs.unlink(f"{self._directory}/{name}")
                self._has_changed_names = True
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
        start, base = expected.log_start, max(expected.damage_below, expected.log_start)
        scan = self._scan()
        if base > start:
            bad = BadBatch(self._directory, 0, start, "there is no segment file")
            if expected.one_batch_at_a_time:
                raise scan.damage(bad)
            self._mark(DamagedRange(start, base, base, 0, 0, bad.why))
        segment = Segment.create(
            self._fs, self._directory, base, index_interval=self._index_interval
        )
        self._fs.fsync_dir(self._directory)
        epochs = self._epochs_known
        if epochs is None:
            epochs = LeaderEpochs(self._fs, self._directory)
            epochs.is_whole = False
        epochs.drop_above(base)
        self._segments = [segment]
        self._keep_marks(0)
        return Recovered([segment], RecentBatches(base, 0), epochs, self._damaged, start, base)

    def _segment_of_recovery_point(self) -> int:
        point = self._expected.recovery_point
        below = sum(segment.base_offset <= point for segment in self._segments)
        return max(below - 1, 0)

    def _check_sealed(self, segment: Segment) -> None:
        """Find where the offsets of a segment below the recovery point end, and check its
        indexes.
        """
        end = end_by_index(self._fs, segment)
        known = [r for r in self._damaged.entries if r.segment == segment.base_offset]
        if end is None and not known:
            self._report(f"{segment.path()}: its indexes are missing or unsound and are rebuilt.")
            end = self._rebuild_indexes(segment)
        if end is None or end >= segment.end_offset or known or segment.base_offset in self._marked:
            return
        # The cleaner gives an empty segment an empty index. Any other empty segment has lost its
        # batches.
        lost = segment.size == 0 and read_whole(self._fs, segment.path("index")).strip(b"\0") != b""
        if lost or segment.end_offset > self._expected.gaps_below:
            if self._expected.one_batch_at_a_time:
                why = f"the segment ends at offset {end}"
                raise self._scan().damage(BadBatch(segment.path(), segment.size, end, why))
            why = f"the next segment begins at offset {segment.end_offset}, between them is nothing"
            self._mark(
                DamagedRange(
                    end, segment.end_offset, segment.base_offset, segment.size, NOWHERE, why
                )
            )

    def _rebuild_indexes(self, segment: Segment) -> int:
        """Rebuild the segment's indexes; returns the end of its last sound batch."""
        size, below = segment.size, segment.end_offset
        file = segment.begin_scan()

        def mark(found: DamagedRange) -> None:
            if self._expected.one_batch_at_a_time:
                bad = BadBatch(file.path, found.position, found.start, found.why)
                raise self._scan().damage(bad)
            self._mark(found)

        for at, header in walk_over_damage(
            file,
            0,
            size,
            segment=segment.base_offset,
            offset=segment.base_offset,
            below=below,
            crc=False,
            found=mark,
            judge=partial(self._displaced, below=below),
        ):
            segment.note_batch(at, header, header.last_offset)
        end = segment.end_offset
        segment.size, segment.end_offset = size, below
        for index_file in segment.write_indexes():
            index_file.sync()
        segment.release()
        return end

    def _displaced(
        self, file: File, at: int, header: BatchHeader, offset: int, *, below: int
    ) -> str | None:
        if header.next_offset > below:
            return f"offsets {header.base_offset} to {header.last_offset} are of a later segment"
        if header.base_offset > max(offset, self._expected.gaps_below):
            return f"base offset {header.base_offset} where {offset} must follow"
        return None

    def _open_clean_tail(self) -> RecentBatches | None:
        """The tail after a clean shutdown; None if it is not as the shutdown left it, so that it
        must be scanned.
        """
        expected = self._expected
        if expected.recovery_point == 0:
            return None
        last = self._segments[-1]
        try:
            recent = last.activate(last.size, crc=True, gaps_below=expected.gaps_below)
        except BadBatch:
            return None
        if expected.ends_in_gap(last.end_offset):
            return self._scan().end_in_gap(last)
        return recent if last.end_offset == expected.recovery_point else None

    def _finish(self, recent: RecentBatches, scan: Scan, first: int) -> Recovered:
        touched, to_sync = scan.touched, scan.to_sync
        for segment in to_sync:
            if segment in self._segments:
                self._make_durable(segment)
                if segment is not self._segments[-1]:
                    for file in segment.write_indexes():
                        file.sync()
                    segment.release()
        for segment, following in pairwise(self._segments):
            segment.end_offset = following.base_offset
        last = self._segments[-1]
        if to_sync or last.size == 0:
            self._sync_snapshots(touched)
        self._has_changed_names |= self._rebuild_aborted(scan)
        log_start = self._log_start()
        if not touched and log_start > last.end_offset:
            # After a clean stop the log is whole, so the checkpoint is wrong. Trusting it would
            # remove every record.
            self._report(
                f"{self._directory}: the log start {log_start} of the checkpoint lies beyond the "
                f"log's end {last.end_offset} and is not believed."
            )
            log_start = self._segments[0].base_offset
        epochs = self._settle_epochs(last.end_offset, log_start)
        if (
            to_sync or self._has_changed_names
        ):  # or else a segment that retention removed may reappear
            self._fs.fsync_dir(self._directory)
        self._keep_marks(first if touched else len(self._segments))
        return Recovered(
            self._segments,
            recent,
            epochs,
            self._damaged,
            log_start,
            last.end_offset,
            names_durable=touched == to_sync,
        )

    def _rebuild_aborted(self, scan: Scan) -> bool:
        """Make the indexes of aborted transactions sound; True if the directory must be synced."""
        epochs = self._epochs_known
        if epochs is None:
            epochs = LeaderEpochs(self._fs, self._directory)
        indexes = AbortedRecovery(
            self._fs,
            self._directory,
            self._segments,
            self._report,
            epochs=epochs,
            gaps_below=self._expected.gaps_below,
            damaged=[
                *self._damaged.entries,
                *(r for found in self._marked.values() for r in found),
            ],
        )
        return indexes.run(
            scan.touched, has_transactions=scan.has_transactions, swapped=self._swapped
        )

    def _make_durable(self, segment: Segment) -> None:
        expected = self._expected
        if expected.always or expected.flush_failed or expected.one_batch_at_a_time:
            rewrite_from(segment, expected.recovery_point)
        with noting_failure(self._fs, self._directory):
            segment.view().file.sync()

    def _sync_snapshots(self, scanned: list[Segment]) -> None:
        """Sync the producer snapshots: a killed process may have written them without a sync, and
        the next recovery point passes them.
        """
        for segment in scanned:
            with contextlib.suppress(FileNotFoundError):
                File(self._fs, f"{self._directory}/{segment.base_offset:020d}.snapshot").sync()

    def _log_start(self) -> int:
        """The offset where the log begins. Files below it are removed only after a checkpoint
        contains it (I-74).
        """
        expected, base = self._expected, self._segments[0].base_offset
        if not expected.log_start_known:
            return max(base, expected.log_start, self._first_of_epochs(base))
        if expected.log_start >= base or expected.damage_below <= expected.log_start:
            return max(base, expected.log_start)
        if expected.one_batch_at_a_time:
            bad = BadBatch(self._directory, 0, expected.log_start, "the first segment is missing")
            raise self._scan().damage(bad)
        why = f"the segment that begins there is missing, the first one is {base:020d}.log"
        self._mark(DamagedRange(expected.log_start, base, base, 0, 0, why))
        return expected.log_start

    def _first_of_epochs(self, base: int) -> int:
        """The start of the first epoch, which is the log's start. The epochs therefore still give
        the start if the checkpoint of log starts is lost (I-75). A log with gaps may begin before
        its first batch.
        """
        if self._epochs_known is None or self._expected.gaps_below > base:
            return base
        return self._epochs_known.entries[0][1]

    def _keep_marks(self, first_scanned: int) -> None:
        """Keep the damage found now, and the damage known before of segments that were not read."""
        here = {segment.base_offset: segment for segment in self._segments}
        scanned = {segment.base_offset for segment in self._segments[first_scanned:]}
        kept = [
            r
            for r in self._damaged.entries
            if r.segment in here
            and r.segment not in scanned
            and r.segment not in self._marked
            and r.start < self._segments[-1].end_offset
        ]
        self._damaged.set([*kept, *(r for found in self._marked.values() for r in found)])
        self._damaged.save()

    def _settle_epochs(self, log_end: int, log_start: int) -> LeaderEpochs:
        """The epoch checkpoint, corrected by the log; read from the batches if it was lost.

        If the log is to restart beyond its end, only the checkpoint knows the epochs there.
        """
        epochs = self._epochs_known
        if epochs is not None:
            epochs.drop_above(max(log_end, log_start))
            return epochs
        found = read_epochs(self._segments) if log_start <= log_end else []
        epochs = LeaderEpochs(self._fs, self._directory, found)
        epochs.is_whole = False
        if found:
            self._report(f"{self._directory}: the leader epochs were read from the batches.")
            epochs.write()
        return epochs
