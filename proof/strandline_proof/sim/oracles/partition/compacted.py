"""The ghost of a compacted partition: every record that was ever committed, and those that may be
gone.

- Remaining records keep offset, timestamp and order (I-68).
- The last record of each key remains (I-69), and a tombstone until its time is over (I-70).
- So the last values are the same, read from any replica, however far it has compacted (I-71, I-77).
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from strandline_proof.sim.oracles.partition.committed import Committed
from strandline_proof.sim.oracles.partition.compacted_view import Batch, CompactedView, Record
from strandline_proof.sim.oracles.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

    from strandline_proof.sim.disk.disk import SimDisk
    from strandline_proof.sim.oracles.partition.compacted_view import Batches
    from strandline_proof.sim.oracles.replica.log_view import Entry, Identity, LogView


class CompactedCommitted(Committed):
    def __init__(self, index: int, **settings: Any) -> None:
        super().__init__(index, **settings)
        self.name = f"compacted partition {index}"
        self.truth: dict[int, Record] = {}
        """Every committed record by offset."""
        self.removed: set[int] = set()
        """Offsets of tombstones that a replica has removed when their time was over."""
        self._batches: Batches = {}
        self._whole: dict[Identity, Batch] = {}
        """Each batch as its first leader appended it."""
        self._by_key: dict[bytes | None, list[int]] = {}

    def view(self, disk: SimDisk, path: str) -> CompactedView:
        return CompactedView(disk, path, self._batches)

    def on_appended(self, entry: Entry, where: str) -> None:
        """I-3, and I-4 as far as both logs still hold the entry (I-77). A batch copied from a
        compacted log is a lawful remainder of the leader's.
        """
        known = self._ids.get(entry.identity)
        batch = self._batches[entry.identity, entry.crc]
        before = self._ids.get(entry.previous) if entry.previous is not None else None
        if known is None:
            self._ids[entry.identity], self._whole[entry.identity] = entry, batch
            if self.excused is None:
                self._check_gap(0 if before is None else before.end, entry.base, where)
            return
        if known.end != entry.end:
            raise Violation(
                "I-3", f"{where}: offset {entry.base} epoch {entry.epoch} names two batches"
            )
        self.check_copy(batch, where)
        if self.excused is not None or entry.previous == known.previous:
            return
        if before is not None and before.identity not in self._committed:
            raise Violation(
                "I-4",
                f"{where}: {entry.identity} (offset, epoch) follows {entry.previous} here and"
                f" {known.previous} elsewhere, and {entry.previous} is not committed",
            )
        self._check_gap(0 if before is None else before.end, entry.base, where)

    def _check_gap(self, low: int, high: int, where: str) -> None:
        """Offsets are missing in a log: each must have been removed lawfully somewhere."""
        if high > self.end and high > low:
            raise Violation(
                "I-1", f"{where}: offsets {low} to {high} are missing, committed is {self.end}"
            )
        for offset in range(low, high):
            self._check_missing(offset, where)

    def check_copy(self, batch: Batch, where: str) -> None:
        """I-68: the rest of a batch is unchanged, and in its order."""
        whole = self._whole[batch.identity]
        if batch is whole or self.excused is not None:
            return
        at = {record.offset: record for record in whole.records}
        if (
            batch.end != whole.end
            or batch.producer != whole.producer
            or any(at.get(record.offset) != record for record in batch.records)
            or [r.offset for r in batch.records] != sorted({r.offset for r in batch.records})
        ):
            raise Violation("I-68", f"{where}: {whole} was appended, and has become {batch}")
        kept = {record.offset for record in batch.records}
        for offset in at.keys() - kept:
            self._check_missing(offset, where)

    def _check_missing(self, offset: int, where: str) -> None:
        record = self.truth.get(offset)
        if record is None:
            raise Violation(
                "I-69", f"{where}: offset {offset} is gone, committed is up to {self.end}"
            )
        if self.later(record) is None and offset not in self.removed:
            raise Violation("I-69", f"{where}: {record} is gone, the last of its key")

    def whole(self, identity: Identity) -> Batch:
        return self._whole[identity]

    def is_committed(self, identity: Identity) -> bool:
        return identity in self._committed

    def later(self, record: Record) -> int | None:
        """The next committed offset with the same key."""
        offsets = self._by_key[record.key]
        at = bisect_right(offsets, record.offset)
        return offsets[at] if at < len(offsets) else None

    def is_last(self, record: Record) -> bool:
        """True if the record is the last committed one of its key."""
        return self.truth.get(record.offset) == record and self.later(record) is None

    @property
    def can_start_again(self) -> bool:
        return False

    def on_high_watermark(
        self, to: int, view: LogView, where: str, isr: Collection[int] | None = None
    ) -> None:
        known = len(self.entries)
        super().on_high_watermark(to, view, where, isr)
        for entry in self.entries[known:]:
            for record in self._whole[entry.identity].records:
                self.truth[record.offset] = record
                self._by_key.setdefault(record.key, []).append(record.offset)

    # Answers to clients

    def check_told(self, invariant: str, record: Record) -> None:
        """`record` is committed, at its offset; a timestamp of -1 is not compared."""
        if self.excused is not None:
            return
        known = self.truth.get(record.offset)
        if record.timestamp < 0 and known is not None:
            record = record._replace(timestamp=known.timestamp)
        if known != record:
            raise Violation(
                invariant, f"{self.name}: a client was told {record}, committed is {known}"
            )

    def check_state(self, newest: Mapping[bytes | None, int], who: str) -> None:
        """I-71: `newest` is the offset of the last record of each key in a whole reading. A reader
        may have missed a tombstone that was gone (I-70), and have an older value or none.
        """
        if self.excused is not None:
            return
        for key, offsets in self._by_key.items():
            last = offsets[-1]
            if newest.get(key) != last and last not in self.removed:
                raise Violation(
                    "I-71",
                    f"{self.name}: the last of key {key!r} is {self.truth[last]}, {who} has offset"
                    f" {newest.get(key)}",
                )

    def check_whole(self, view: CompactedView, who: str) -> None:
        """Checks the log of a replica that has every committed record (I-69, I-71)."""
        newest: dict[bytes | None, int] = {}
        for batch in view.batches:
            self.check_copy(batch, who)
            newest |= {record.key: record.offset for record in batch.records}
        self.check_state(newest, who)
