"""The offline verification of one partition: offsets, epochs, CRCs, indexes and checkpoints on
disk, by an independent reader.

It checks that offsets follow each other, that epochs never fall (I-1, I-2), and that the epoch
checkpoint matches the batches (I-5). Indexes must find the batches that they name (I-78). It
distinguishes the traces of a crash from damage (I-7).

It reports how a broker will react to each finding, but derives that from the files, not from the
broker's code. Memory is bounded: one window of a file, and a limited number of findings.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from strandline_broker.offline.batches import Batch, Stretch, scan
from strandline_broker.offline.checkpoints import (
    INT64_MAX,
    SEAL,
    damage_of_seal,
    epochs_of,
    topic_id_of,
)
from strandline_broker.offline.compacted import after_swaps, cleaned_batch, lawful_gaps
from strandline_broker.offline.disk import OpenFile
from strandline_broker.offline.findings import Expected, PartitionReport, Severity
from strandline_broker.offline.index_check import IndexCheck
from strandline_broker.offline.indexes import producer_entries
from strandline_broker.offline.layout import partition_files
from strandline_broker.offline.state_snapshots import check_state_snapshots
from strandline_broker.offline.transaction_check import Decisions, TransactionCheck

if TYPE_CHECKING:
    from strandline_broker.offline.checkpoints import EpochStart
    from strandline_broker.offline.disk import Disk
    from strandline_broker.offline.layout import PartitionFiles, SegmentFiles

RELATIVE_MAX: Final = 2**31 - 1
"""Limit on the distance of a segment's offsets from its base: an index has 32 bits for each."""


def verify_partition(
    disk: Disk,
    path: str,
    expected: Expected,
    *,
    compacted: bool = False,
    decisions: Decisions | None = None,
) -> PartitionReport:
    """Verify a partition's directory; the report lists every fault. Raises OSError if it cannot be
    read. `decisions` has the markers of the partitions before.
    """
    files = after_swaps(disk, partition_files(disk, path))
    report = PartitionReport(path, expected)
    gaps_below, report.compacted = lawful_gaps(files, expected, told=compacted)
    _Verification(disk, files, report, gaps_below, decisions or Decisions()).run()
    return report


class _Verification:
    """One walk over one partition; call `run` once."""

    def __init__(
        self,
        disk: Disk,
        files: PartitionFiles,
        report: PartitionReport,
        gaps_below: int,
        decisions: Decisions,
    ) -> None:
        self._disk = disk
        self._files = files
        self._report = report
        self._durable_to = report.expected.durable_to
        self._epochs: list[EpochStart] | None = None
        self._starts: list[int] = []
        self._latest_epoch = -1
        self._next = 0
        """The offset that must follow."""
        self._bad: tuple[str, int, int, str, str] | None = None
        """(invariant, byte, offset, path, why) of bad bytes, until the content after them
        is known.
        """
        self._cut: tuple[str, int, int, str, str] | None = None
        """(invariant, byte, offset, path, why) of the place where the next start ends the log; the
        rest is only counted.
        """
        self._behind = 0
        """Number of sound batches after the cut."""
        self._index_check: IndexCheck | None = None
        self._jumped: tuple[str, int, int, int] | None = None
        """(path, byte, expected offset, actual offset) of a batch after missing offsets, while it
        is the last batch read.
        """
        self._epochs_told: set[tuple[int, int]] = set()
        self._gaps_below = gaps_below
        self._segment_base = 0
        self._transactions = TransactionCheck(disk, decisions)
        self._file: OpenFile | None = None
        """The segment that is read."""

    def run(self) -> None:
        report, files = self._report, self._files
        if files.metadata is None and not files.segments:
            what = "a creation that broke off: there is no log, and the next one takes its place"
            report.add(Severity.NOTE, "I-36", files.path, what)
            return
        self._look_at_names()
        self._read_epochs()
        segments = files.segments
        report.segments = len(segments)
        start = report.expected.log_start or 0
        self._next = segments[0].base_offset if segments else start
        report.log_start = max(self._next, start)
        for i, segment in enumerate(segments):
            self._segment(segment, sealed=i + 1 < len(segments), first=i == 0)
        self._settle_bad(follows=None)
        self._end()
        if self._next not in self._starts_of_segments():
            self._check_open(self._next)
        for path in files.snapshots:
            self._snapshot(path)
        check_state_snapshots(self._disk, files.states, report)

    def _starts_of_segments(self) -> set[int]:
        return {segment.base_offset for segment in self._files.segments}

    def _look_at_names(self) -> None:
        report, files = self._report, self._files
        for path in files.foreign:
            report.add(Severity.NOTE, "", path, "a foreign file: a broker leaves it alone")
        start = report.expected.log_start
        if files.segments and start is not None and files.segments[0].base_offset > start:
            what = f"the log starts at offset {start} by its checkpoint, the first segment at "
            what += f"{files.segments[0].base_offset}: files are missing, or were removed before "
            what += "the checkpoint was written"
            report.add(Severity.SUSPECT, "I-74", files.path, what, offset=start)
        for path in files.orphans:
            what = "an index of no segment: what a removal that was cut off left"
            report.add(Severity.NOTE, "", path, what)
        for path in files.swaps:
            what = "a cleaned segment that waits to be swapped in: done at the next start"
            report.add(Severity.NOTE, "I-73", path, what)
        if files.damaged is not None:
            what = "the broker has met damage here before, and does not serve it"
            report.add(Severity.NOTE, "I-7", files.damaged, what)
        if files.metadata is None:
            what = "there is no partition.metadata: a broker writes it again only if it has held "
            what += "this replica before and no other directory can be it"
            report.add(Severity.DAMAGE, "I-36", files.path, what)
            return
        try:
            topic_id_of(self._disk, files.metadata)
        except ValueError as error:
            report.add(Severity.DAMAGE, "I-36", files.metadata, f"it does not read: {error}")
        damaged = damage_of_seal(self._disk, files.metadata)
        if damaged is not None:
            report.add(Severity.REPAIR, "I-36", files.metadata + SEAL, damaged)

    def _read_epochs(self) -> None:
        report, path = self._report, self._files.epochs
        if path is None:
            return
        try:
            self._epochs = epochs_of(self._disk, path) or None
        except ValueError as error:
            what = f"it does not read ({error}); the epochs are read from the batches then"
            report.add(Severity.REPAIR, "I-8", path, what)
        damaged = damage_of_seal(self._disk, path)
        if damaged is not None:
            report.add(Severity.REPAIR, "I-8", path + SEAL, damaged)
        self._starts = [entry.start_offset for entry in self._epochs or ()]

    def _segment(self, segment: SegmentFiles, *, sealed: bool, first: bool) -> None:
        report = self._report
        self._unbelieve_jump(segment.base_offset)
        if segment.base_offset != self._next:
            self._jump(segment.log, 0, segment.base_offset, "the segment begins at offset")
            if self._cut is None and self._bad is None:
                self._next = segment.base_offset
        for kind, path in (("index", segment.index), ("timeindex", segment.timeindex)):
            if path is None and sealed:
                missing = segment.log.removesuffix("log") + kind
                report.add(Severity.REPAIR, "I-78", missing, "it is missing")
        self._segment_base = segment.base_offset
        self._check_open(segment.base_offset)
        check = IndexCheck(self._disk, segment, sealed=sealed)
        self._index_check = check
        with OpenFile(self._disk, segment.log) as file:
            self._file = file
            report.size_bytes += file.size
            for found in scan(file):
                if isinstance(found, Stretch):
                    self._note_bad("I-7", segment.log, found.position, found.why)
                else:
                    self._batch(segment.log, found, reaches_back=first and found.position == 0)
            check.end(file.size)
        if self._cut is None and self._bad is None:
            for path, position, what in check.problems:
                report.add(Severity.REPAIR, "I-78", path, what, position=position)
            self._end_of_transactions(segment)

    def _end_of_transactions(self, segment: SegmentFiles) -> None:
        """Report where the index of aborted transactions differs. The next start scans the segment
        of the recovery point and those behind it, and rebuilds their indexes.
        """
        report, durable_to = self._report, self._durable_to
        is_scanned = not report.expected.clean and (durable_to is None or self._next > durable_to)
        severity = Severity.REPAIR if is_scanned else Severity.DAMAGE
        is_compacted = self._gaps_below > 0
        for path, at, offset, what in self._transactions.end(segment, is_compacted=is_compacted):
            report.add(severity, "I-153", path, what, position=at, offset=offset)

    def _check_open(self, offset: int) -> None:
        """Compare the producer snapshot at `offset` with the transactions that are open there."""
        path = f"{self._files.path}/{offset:020d}.snapshot"
        if path not in self._files.snapshots or self._cut is not None or self._bad is not None:
            return
        try:
            entries = producer_entries(self._disk, path)
        except ValueError:
            return  # reported with the other snapshots
        what = self._transactions.snapshot(entries, is_compacted=self._gaps_below > 0)
        if what is not None:
            self._report.add(Severity.DAMAGE, "I-159", path, what, offset=offset)

    def _batch(self, path: str, batch: Batch, *, reaches_back: bool) -> None:
        if not batch.valid:
            self._note_bad("I-7", path, batch.position, "the batch does not match its CRC-32C")
            return
        if self._cut is not None:
            self._behind += 1
            return
        offset = batch.base_offset
        self._unbelieve_jump(offset)
        if offset < self._next and not (reaches_back and batch.last_offset >= self._next):
            why = f"base offset {offset}, where {self._next} or more must follow"
            self._note_bad("I-1", path, batch.position, why)
            return
        if batch.last_offset - self._segment_base > RELATIVE_MAX:
            why = f"offsets {offset} to {batch.last_offset} cannot be of this segment"
            self._note_bad("I-1", path, batch.position, why)
            return
        if self._bad is None and offset > self._next:
            self._jump(path, batch.position, offset, "base offset")
        self._settle_bad(follows=max(offset, self._next))
        if self._cut is not None:
            self._behind += 1
            return
        if self._jumped is None or offset <= self._gaps_below:
            # The epoch checkpoint says nothing about a batch at a doubtful offset.
            self._check_epoch(path, batch)
        if self._cut is not None:
            self._behind += 1
            return
        if self._index_check is not None:
            self._index_check.batch(batch)
        self._take_transactions(path, batch)
        self._next = batch.last_offset + 1
        self._report.batches += 1
        self._report.records += batch.count

    def _take_transactions(self, path: str, batch: Batch) -> None:
        assert self._file is not None
        what = self._transactions.batch(self._file, batch)
        if what is not None:
            at, offset = batch.position, batch.base_offset
            self._report.add(Severity.SUSPECT, "I-163", path, what, position=at, offset=offset)

    def _jump(self, path: str, position: int, offset: int, what: str) -> None:
        """Report that `offset` follows instead of `_next`: it is too low, or there is a gap."""
        if self._cut is not None or self._bad is not None:
            return
        if offset < self._next:
            self._note_bad(
                "I-1", path, position, f"{what} {offset}, where {self._next} must follow"
            )
            return
        why = f"{what} {offset}, where {self._next} must follow: offsets {self._next} to "
        why += f"{offset - 1} are missing"
        self._jumped = path, position, self._next, offset
        if offset <= self._gaps_below:
            return
        said = self._report.compacted
        shown = cleaned_batch(self._disk, self._files) if said is None else None
        if shown is None:
            why += f" ({said} only)" if said is not None else " (lawful only if it was compacted)"
            self._note_bad("I-1", path, position, why)
            return
        self._gaps_below = INT64_MAX
        self._report.compacted = shown
        why += f"; a cleaning may have taken them, for {shown}"
        self._report.add(Severity.SUSPECT, "I-1", path, why, position=position, offset=self._next)

    def _unbelieve_jump(self, offset: int) -> None:
        """Handle a batch at `offset` after a batch with a gap before it. If `offset` lies in that
        gap, the other batch's base offset was changed.
        """
        jumped, self._jumped = self._jumped, None
        if jumped is None or not jumped[2] < offset < self._next:
            return
        path, position, expected, found = jumped
        self._next = expected
        if found <= self._gaps_below:
            why = f"base offset {found}, and offset {offset} behind it"
            self._note_bad("I-1", path, position, why)
            self._settle_bad(follows=offset)
        self._next = offset

    def _check_epoch(self, path: str, batch: Batch) -> None:
        epoch, offset = batch.leader_epoch, max(batch.base_offset, self._next)
        why = None
        named = -1
        invariant = "I-5"
        if self._epochs is not None:
            i = bisect_right(self._starts, offset)
            named = self._epochs[i - 1].epoch if i > 0 else -1
            lawful = epoch == named if i > 0 else self._is_before_epochs(batch, offset)
            if not lawful:
                why = f"leader epoch {epoch}, the epoch checkpoint says {named}"
            elif 0 < i < len(self._starts) and self._starts[i] <= batch.last_offset:
                why = f"epoch {self._epochs[i].epoch} begins at {self._starts[i]}, within the batch"
        elif epoch < self._latest_epoch:
            invariant, why = "I-2", f"leader epoch {epoch} after {self._latest_epoch}"
        if why is not None and (epoch, named) not in self._epochs_told:
            # One finding covers all batches with the same fault.
            self._epochs_told.add((epoch, named))
            self._note_bad(invariant, path, batch.position, why, offset=offset)
            self._settle_bad(follows=offset)
        if why is None:
            self._latest_epoch = max(epoch, self._latest_epoch)

    def _is_before_epochs(self, batch: Batch, offset: int) -> bool:
        """True if the batch begins below the log's start, where the checkpoint has no entries. Only
        one rule applies there: epochs do not fall (I-5, I-2).
        """
        if not self._epochs or batch.leader_epoch < self._latest_epoch:
            return False
        first, start = self._epochs[0], self._report.expected.log_start
        if start is not None and first.start_offset > start:
            return False
        if batch.last_offset < first.start_offset:
            return offset < first.start_offset and batch.leader_epoch <= first.epoch
        return batch.leader_epoch == first.epoch

    def _note_bad(
        self, invariant: str, path: str, position: int, why: str, *, offset: int | None = None
    ) -> None:
        """Record bad bytes. The content after them decides how they are reported."""
        if self._index_check is not None:
            self._index_check.abandon()
        self._transactions.abandon()
        if self._cut is None and self._bad is None:
            at = self._next if offset is None else offset
            self._bad = (invariant, position, at, path, why)
        if self._durable_to is not None and self._next >= self._durable_to:
            self._settle_bad(follows=None)

    def _settle_bad(self, *, follows: int | None) -> None:
        """Report the recorded bytes: a sound batch of offset `follows` is after them, or none."""
        if self._bad is None:
            return
        invariant, position, offset, path, why = self._bad
        self._bad = None
        durable_to = self._durable_to
        torn = offset >= durable_to if durable_to is not None else follows is None
        if torn:
            self._cut = (invariant, position, offset, path, why)
            return
        lost = ""
        if follows is None:
            lost = "; nothing that follows is sound"
        elif follows > offset:
            lost = f"; offsets {offset} to {follows - 1} cannot be read"
        self._report.add(
            Severity.DAMAGE, invariant, path, why + lost, position=position, offset=offset
        )

    def _end(self) -> None:
        report, expected = self._report, self._report.expected
        end = self._next if self._cut is None else self._cut[2]
        durable_to, cleaned_to = self._durable_to, expected.cleaned_to
        if self._cut is None and durable_to is not None and cleaned_to is not None:
            # All missing offsets were cleaned: the log was cut in a gap, and continues there.
            end = max(end, durable_to) if durable_to <= cleaned_to else end
        report.log_end = end
        if self._cut is not None:
            self._report_cut(*self._cut)
        elif self._durable_to is not None and end < self._durable_to:
            where = self._files.segments[-1].log if self._files.segments else self._files.path
            what = f"the log ends at offset {end}, and was durable up to {self._durable_to}"
            report.add(Severity.DAMAGE, "I-7", where, what, offset=end)
        high_watermark = expected.high_watermark
        if self._cut is None and high_watermark is not None and end < high_watermark:
            what = f"the log ends at offset {end}, the high watermark was {high_watermark}: "
            what += "acknowledged records are not here (lawful after a loss of power)"
            report.add(Severity.SUSPECT, "I-7", self._files.path, what, offset=end)
        if expected.log_start is not None and expected.log_start > end:
            what = f"the log starts at offset {expected.log_start} and ends at {end}"
            if not expected.clean:
                what += ": what was behind the start is not here (lawful after a loss of power); "
                what += "the log starts again at its start offset"
            severity = Severity.DAMAGE if expected.clean else Severity.SUSPECT
            report.add(severity, "I-6", self._files.path, what, offset=end)
        self._end_of_epochs(end)

    def _report_cut(self, invariant: str, position: int, offset: int, path: str, why: str) -> None:
        what = f"{why}. The log will be cut here at the next start"
        if self._behind:
            what += f", with {self._behind} sound batches behind it"
        mark = self._report.expected.high_watermark
        if mark is not None and offset < mark:
            what += f". The high watermark was {mark}: acknowledged records go"
        self._report.add(Severity.CUT, invariant, path, what, position=position, offset=offset)

    def _end_of_epochs(self, end: int) -> None:
        report = self._report
        if self._epochs is None:
            if report.batches and not any(f.path == self._files.epochs for f in report.findings):
                path = self._files.epochs or f"{self._files.path}/leader-epoch-checkpoint"
                what = "it is missing or empty; the epochs are read from the batches then"
                report.add(Severity.REPAIR, "I-5", path, what)
            return
        beyond = [entry for entry in self._epochs if entry.start_offset > end]
        if beyond and self._cut is None:
            what = f"epoch {beyond[0].epoch} begins at offset {beyond[0].start_offset}, "
            what += f"the log ends at {end}; it is dropped"
            assert self._files.epochs is not None
            report.add(Severity.REPAIR, "I-5", self._files.epochs, what, offset=end)

    def _snapshot(self, path: str) -> None:
        base = int(path.rpartition("/")[2].partition(".")[0])
        try:
            beyond = [e for e in producer_entries(self._disk, path) if e.last_offset >= base]
        except ValueError as error:
            what = f"it does not read ({error}); the state is read from the batches then"
            self._report.add(Severity.REPAIR, "I-58", path, what)
            return
        if beyond:
            what = f"producer {beyond[0].producer_id} is at offset {beyond[0].last_offset}, "
            what += f"the snapshot's own is {base}"
            self._report.add(Severity.REPAIR, "I-58", path, what)
