"""The index of aborted transactions, rebuilt from the batches when a log is opened (I-153).

The entries of a segment follow from its end markers, and from the transactions that are open where
it begins. The newest producer snapshot at or below that offset says where the oldest of them began:
it names all that were open there, because a state that lacks batches is never written (I-58).

The rest is read from the batches, each checked as a reader does. An end marker that is passed over
would let the next abort name the records of a committed transaction. If a batch does not read, all
are read again. Damage that lasts is healed later: the log is cut before it, and the index too.

Three kinds of indexes are rebuilt:

- Those of the segments that recovery has scanned. An entry is written before its marker, and
  neither was certainly durable (P-108).
- Those of the segments that recovery has put in place of others.
- An index that cannot be one of its segment.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from strandline_broker.storage.files.file import File, read_whole, write_whole
from strandline_broker.storage.log.batch_judge import BatchJudge
from strandline_broker.storage.log.producer_snapshot import ProducerSnapshots
from strandline_broker.storage.segment.damage_walk import walk_over_damage
from strandline_broker.storage.segment.damaged_ranges import DamagedRange
from strandline_broker.storage.segment.txn_index import SUFFIX, TxnIndex, is_sound, serialize
from strandline_proto.batch import crc_matches, end_marker

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence, Set

    from strandline_broker.storage.files.damage import Report
    from strandline_broker.storage.log.leader_epochs import LeaderEpochs
    from strandline_broker.storage.segment.segment import Segment
    from strandline_broker.storage.segment.txn_index import Aborted
    from strandline_proto.batch import BatchHeader
    from strandline_runtime.runtime import FileSystem


READS: Final = 5
"""How often the batches are read before damage counts as lasting."""


class AbortedRecovery:
    """The indexes of one log; call `run` once."""

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        segments: Sequence[Segment],
        report: Report,
        *,
        epochs: LeaderEpochs,
        gaps_below: int,
        damaged: Collection[DamagedRange],
    ) -> None:
        """`gaps_below` is that of `walk`. `damaged`: what is known to be damaged, and is not worth
        another reading.
        """
        self._fs = fs
        self._directory = directory
        self._segments = segments
        self._epochs = epochs
        self._gaps_below = gaps_below
        self._damaged = damaged
        self._report = report
        self._snapshots = ProducerSnapshots(fs, directory, report)
        self._names = set(fs.listdir(directory))

    def run(
        self, scanned: Collection[Segment], *, has_transactions: bool, swapped: Set[int]
    ) -> bool:
        """Make the indexes sound; True if the directory must be synced. `has_transactions`: batches
        of transactions are among the scanned ones. `swapped`: base offsets of the segments for
        which recovery has finished a cleaning.
        """
        rebuilt = [
            s for s in scanned if s in self._segments and self._may_have(s, has_transactions)
        ]
        for segment in self._segments:
            if segment in rebuilt:
                continue
            if segment.base_offset in swapped:
                rebuilt.append(segment)
            elif self._has_index(segment) and not self._is_sound(segment):
                self._report(f"{segment.path(SUFFIX)} is unsound and is rebuilt from the batches.")
                rebuilt.append(segment)
        entries = self._aborted(rebuilt) if rebuilt else {}
        changed = [self._write(segment, entries[segment]) for segment in rebuilt]
        for segment in self._segments:
            segment.has_aborted |= self._has_index(segment) and segment not in rebuilt
        self._segments[-1].aborted()  # appends need it in memory
        return any(changed)

    def _may_have(self, segment: Segment, has_transactions: bool) -> bool:
        return has_transactions or self._has_index(segment)

    def _has_index(self, segment: Segment) -> bool:
        return segment.path(SUFFIX).rpartition("/")[2] in self._names

    def _is_sound(self, segment: Segment) -> bool:
        data = read_whole(self._fs, segment.path(SUFFIX))
        return is_sound(data, base_offset=segment.base_offset, end_offset=segment.end_offset)

    def _write(self, segment: Segment, entries: Sequence[Aborted]) -> bool:
        path, has_index = segment.path(SUFFIX), self._has_index(segment)
        segment.has_aborted = bool(entries)
        if not entries:
            if has_index:
                self._fs.unlink(path)
            return has_index
        data = serialize(entries)
        if has_index and read_whole(self._fs, path) == data:
            File(self._fs, path).sync()
        else:
            write_whole(self._fs, path, data).sync()
        segment.set_aborted(TxnIndex(data))
        return not has_index

    def _aborted(self, wanted: Collection[Segment]) -> dict[Segment, list[Aborted]]:
        start = self._start_for(min(segment.base_offset for segment in wanted))
        for _ in range(READS):
            found: list[DamagedRange] = []
            entries = self._read_aborted(wanted, start, found.append)
            unread = [one for one in found if not self._is_known(one)]
            if not unread:
                return entries
        self._report(
            f"{self._directory}: {unread[0]} do not read, so the index of aborted transactions may"
            " name too much behind them."
        )
        return entries

    def _is_known(self, found: DamagedRange) -> bool:
        return any(known.start <= found.start < known.end for known in self._damaged)

    def _read_aborted(
        self, wanted: Collection[Segment], start: int, on_unread: Callable[[DamagedRange], None]
    ) -> dict[Segment, list[Aborted]]:
        """The entries as the batches give them now; calls `on_unread` for those that do not
        read.
        """
        begun: dict[int, int] = {}
        entries: dict[Segment, list[Aborted]] = {segment: [] for segment in wanted}
        for segment in self._segments:
            if segment.end_offset <= start and segment is not self._segments[-1]:
                continue
            judge = BatchJudge(
                self._epochs,
                base_offset=segment.base_offset,
                size=segment.size,
                end_offset=segment.end_offset,
                gaps_below=self._gaps_below,
            )
            for data, header in _transactional(segment, start, judge, on_unread):
                if (aborted := _fold(begun, data, header)) is not None and segment in entries:
                    entries[segment].append(aborted)
        return entries

    def _start_for(self, offset: int) -> int:
        """An offset from which the batches show every transaction that is open at `offset`: the
        first one of those that are open at a snapshot. The snapshot alone would name a transaction
        of which compaction has left nothing.
        """
        for found in reversed(self._snapshots.offsets()):
            if self._segments[0].base_offset <= found <= offset:
                with contextlib.suppress(ValueError, OSError):
                    firsts = (entry.txn_first_offset for entry in self._snapshots.read(found))
                    return min((first for first in firsts if first >= 0), default=found)
        return self._segments[0].base_offset


def _transactional(
    segment: Segment, start: int, judge: BatchJudge, on_unread: Callable[[DamagedRange], None]
) -> Iterator[tuple[bytes, BatchHeader]]:
    """The batches of transactions from `start` on; the bytes of control batches only. Calls
    `on_unread` for batches that do not read.
    """
    file = segment.view().file
    for at, header in walk_over_damage(
        file,
        0,
        segment.size,
        segment=segment.base_offset,
        offset=segment.base_offset,
        below=segment.end_offset,
        crc=True,
        found=on_unread,
        judge=judge,
    ):
        if header.is_transactional and header.producer_id >= 0 and header.last_offset >= start:
            data = file.read(header.size, at) if header.is_control else b""
            if header.is_control and not (
                len(data) == header.size and crc_matches(data, 0, header)
            ):
                why = "the batch was read twice, and differs"
                on_unread(
                    DamagedRange(
                        header.base_offset,
                        header.next_offset,
                        segment.base_offset,
                        at,
                        at + header.size,
                        why,
                    )
                )
                continue
            yield data, header


def _fold(begun: dict[int, int], data: bytes, header: BatchHeader) -> Aborted | None:
    """Take the next batch; returns the transaction that it aborts."""
    if not header.is_control:
        begun.setdefault(header.producer_id, header.base_offset)
        return None
    marker = end_marker(data, 0, header)
    first = None if marker is None else begun.pop(header.producer_id, None)
    if marker is None or first is None or marker.is_commit:
        return None
    last = header.last_offset
    return header.producer_id, first, last, min(begun.values(), default=last + 1)
