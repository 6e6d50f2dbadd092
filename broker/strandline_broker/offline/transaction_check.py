"""A check of the transactions in a log: the index of aborted ones is compared with a scan of all
batches (I-153), the producer snapshots with the transactions that are open at their offsets
(I-159), and markers with those of the same producer epoch, in other logs too (I-163).

Compaction and deleted records take batches whose transaction the index still names. Only what the
batches that are there contradict is a finding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_broker.offline.control_records import ABORT, COMMIT, control_record
from strandline_broker.offline.indexes import (
    AbortedTransaction,
    ProducerEntry,
    aborted_transactions,
)
from strandline_broker.offline.records import records_of
from strandline_proto.decompression import Bound
from strandline_proto.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from strandline_broker.offline.batches import Batch
    from strandline_broker.offline.disk import Disk, OpenFile
    from strandline_broker.offline.layout import SegmentFiles

MARKER_BOUND: Final = Bound(64 << 10)

Problem = tuple[str, int, int, str]
"""(path, byte of the index, offset of the log, description)."""


class Decisions:
    """The types of end markers by producer id and epoch, over all logs of one verification.

    Only markers above the epoch of their transaction's batches are compared: that epoch names one
    transaction (I-166). The others are of transactions of version 1, which share an epoch.
    """

    def __init__(self) -> None:
        self._epochs: dict[str, dict[int, int]] = {ABORT: {}, COMMIT: {}}
        """By type and producer, a bit for each epoch."""

    def contradict(self, kind: str, producer_id: int, epoch: int) -> bool:
        """Takes a marker. True if one of the other type has the same producer and epoch."""
        bit = 1 << epoch
        own, other = self._epochs[kind], self._epochs[COMMIT if kind == ABORT else ABORT]
        own[producer_id] = own.get(producer_id, 0) | bit
        return other.get(producer_id, 0) & bit != 0


class TransactionCheck:
    """One walk over a log, oldest segment first."""

    def __init__(self, disk: Disk, decisions: Decisions) -> None:
        self._disk = disk
        self._decisions = decisions
        self._open: dict[int, int] = {}
        """Producer id -> first offset of its open transaction."""
        self._data_epochs: dict[int, int] = {}
        """Producer id -> epoch of the last batch of its open transaction."""
        self._first: int | None = None
        """Offset of the first batch."""
        self._aborted: list[AbortedTransaction] = []
        self._abort_markers: dict[int, int] = {}
        """Offset of each abort marker of the segment -> its producer."""
        self._is_sound = True

    def batch(self, file: OpenFile, batch: Batch) -> str | None:
        """Takes the next sound batch. Returns what contradicts another log; None if nothing."""
        if self._first is None:
            self._first = batch.base_offset
        if not batch.is_transactional or batch.producer_id < 0:
            return None
        if not batch.is_control:
            self._open.setdefault(batch.producer_id, batch.base_offset)
            self._data_epochs[batch.producer_id] = batch.producer_epoch
            return None
        kind = _kind_of(file, batch)
        if kind is None:
            return None
        begun = self._open.pop(batch.producer_id, None)
        last = batch.last_offset
        if kind == ABORT:
            self._abort_markers[last] = batch.producer_id
            if begun is not None:
                stable = min(self._open.values(), default=last + 1)
                self._aborted.append(AbortedTransaction(batch.producer_id, begun, last, stable))
        return self._contradiction(batch, kind)

    def _contradiction(self, batch: Batch, kind: str) -> str | None:
        """The other end of the transaction that the marker ends (I-163)."""
        producer_id, epoch = batch.producer_id, batch.producer_epoch
        data_epoch = self._data_epochs.pop(producer_id, epoch)
        if not self._is_sound or epoch <= data_epoch:
            return None
        if not self._decisions.contradict(kind, producer_id, epoch):
            return None
        here, there = ("commits", "aborts") if kind == COMMIT else ("aborts", "commits")
        return (
            f"the marker of producer {producer_id} and epoch {epoch} {here} the transaction, and"
            f" one in another log {there} it (lawful only if the coordinator's records were lost)"
        )

    def abandon(self) -> None:
        """Stop to judge: batches are missing or damaged."""
        self._is_sound = False

    def end(self, segment: SegmentFiles, *, is_compacted: bool) -> Iterator[Problem]:
        """Compare the segment's index with its batches, at the segment's end."""
        expected = {each.last_offset: each for each in self._aborted}
        markers, self._aborted, self._abort_markers = self._abort_markers, [], {}
        path = segment.txnindex or segment.log.removesuffix("log") + "txnindex"
        try:
            found = [] if segment.txnindex is None else aborted_transactions(self._disk, path)
        except ValueError as error:
            yield path, 0, segment.base_offset, f"it does not read as an index ({error})"
            return
        if not self._is_sound:
            return
        size, before = 34, -1
        for number, entry in enumerate(found):
            at, last = number * size, entry.last_offset
            if last <= before:
                yield path, at, last, f"the marker at offset {last} does not rise"
                return
            before = last
            why = self._wrong(entry, expected.pop(last, None), markers, is_compacted=is_compacted)
            if why is not None:
                yield path, at, last, why
        for entry in expected.values():
            why = f"it lacks the transaction of producer {entry.producer_id} from offset "
            why += f"{entry.first_offset}, aborted at {entry.last_offset}"
            yield path, len(found) * size, entry.last_offset, why

    def _wrong(
        self,
        entry: AbortedTransaction,
        scanned: AbortedTransaction | None,
        markers: dict[int, int],
        *,
        is_compacted: bool,
    ) -> str | None:
        of = f"producer {entry.producer_id} from offset {entry.first_offset}"
        if markers.get(entry.last_offset) != entry.producer_id:
            return f"{of}: no marker at offset {entry.last_offset} aborts it"
        may_lack = is_compacted or entry.first_offset < (self._first or 0)
        if scanned is None:
            return None if may_lack else f"{of}: no batch of that transaction is there"
        if entry.first_offset != scanned.first_offset and not (
            may_lack and entry.first_offset < scanned.first_offset
        ):
            return f"{of}: its first batch has offset {scanned.first_offset}"
        stable = entry.last_stable_offset
        if stable != scanned.last_stable_offset and not (
            (is_compacted or (self._first or 0) > 0) and stable < scanned.last_stable_offset
        ):
            return f"{of}: last stable offset {stable}, where {scanned.last_stable_offset} follows"
        return None

    def snapshot(self, entries: Iterable[ProducerEntry], *, is_compacted: bool) -> str | None:
        """The fault of a producer snapshot at the present offset; None if there is none."""
        if not self._is_sound:
            return None
        named = {
            entry.producer_id: entry.first_offset_of_transaction
            for entry in entries
            if entry.first_offset_of_transaction >= 0
        }
        for producer_id, first in self._open.items():
            if producer_id not in named:
                return f"producer {producer_id} has an open transaction from offset {first}"
        for producer_id, first in named.items():
            scanned = self._open.get(producer_id)
            if first != scanned and not (
                is_compacted or (first < (self._first or 0) and first < (scanned or first + 1))
            ):
                there = "none is open" if scanned is None else f"it begins at {scanned}"
                return f"an open transaction of producer {producer_id} from {first}: {there}"
        return None


def _kind_of(file: OpenFile, batch: Batch) -> str | None:
    """ABORT or COMMIT; None for a batch that ends no transaction."""
    try:
        for record in records_of(file, batch, MARKER_BOUND):
            kind = control_record(record).kind
            if kind in (ABORT, COMMIT):
                return kind
    except (WireError, ValueError):
        pass
    return None
