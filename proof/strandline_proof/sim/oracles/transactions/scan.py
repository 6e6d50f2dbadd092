"""The transactions of one replica's log, read from the bytes on its simulated disk.

A batch is transactional by its attributes. A transaction of a producer begins with its first such
batch, and ends with the producer's next control batch.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from strandline_proof.sim.oracles.violation import Violation
from strandline_proto.batch import iter_headers, read_records

if TYPE_CHECKING:
    from strandline_proof.sim.oracles.replica.log_view import Entry, LogView

ATTRIBUTES: Final = 21
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
MARKER_KEY: Final = struct.Struct(">hh")
MARKER_VALUE: Final = struct.Struct(">hi")
COMMIT: Final = 1
ABORTED_ENTRY: Final = struct.Struct(">hqqqq")
"""Version, producer id, first offset, offset of the marker, and LSO (4.4)."""
BASE: Final = itemgetter(0)


class Batch(NamedTuple):
    base: int
    end: int
    producer_id: int
    epoch: int
    is_transactional: bool
    records: tuple[tuple[int, bytes | None, bytes | None], ...] = ()
    """Offset, key and value of each record of data."""
    marker: tuple[bool, int] | None = None
    """True for a commit, and the coordinator's epoch; None for data."""


@dataclass(slots=True)
class Transaction:
    producer_id: int
    first: int
    epochs: set[int]
    marker: int | None = None
    """The offset of the control batch that ends it."""
    is_committed: bool = False


class Parsed:
    """The batches of one partition, each parsed once for all replicas."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, int], Batch] = {}

    def batch(self, view: LogView, number: int) -> Batch:
        entry = view.entries[number]
        key = entry.base, entry.epoch, entry.crc
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = _parse(view.bytes_of(number), entry)
        return found


def _parse(data: bytes, entry: Entry) -> Batch:
    for at, header in iter_headers(data):
        records = tuple((r.offset, r.key, r.value) for r in read_records(data, at, header))
        is_transactional = bool(header.attributes & TRANSACTIONAL)
        batch = Batch(
            entry.base, entry.end, header.producer_id, header.producer_epoch, is_transactional
        )
        if not header.attributes & CONTROL:
            return batch._replace(records=records)
        ((_, key, value),) = records
        _, kind = MARKER_KEY.unpack(key or b"")
        _, coordinator_epoch = MARKER_VALUE.unpack((value or b"")[: MARKER_VALUE.size])
        return batch._replace(marker=(kind == COMMIT, coordinator_epoch))
    return Batch(entry.base, entry.end, -1, -1, False)


class Scan:
    """The transactions of one replica, as far as its log was read."""

    def __init__(self, view: LogView, parsed: Parsed, where: str) -> None:
        self.view = view
        self.batches: list[Batch] = []
        self.transactions: list[Transaction] = []
        self.aborted: list[bytes] = []
        """What `.txnindex` must have, entry by entry."""
        self._parsed = parsed
        self._where = where
        self._open: dict[int, Transaction] = {}
        self._epochs: dict[int, int] = {}
        """The coordinator epoch of each producer's last marker."""
        self._last: Entry | None = None

    def update(self) -> list[tuple[Entry, Batch]]:
        """Reads on; returns what is new, all of it after a truncation. Raises a violation."""
        entries, known = self.view.entries, len(self.batches)
        if known > len(entries) or (known > 0 and entries[known - 1] != self._last):
            self.__init__(self.view, self._parsed, self._where)  # type: ignore[misc]
            known = 0
        found = []
        for number in range(known, len(entries)):
            batch = self._parsed.batch(self.view, number)
            self._add(batch)
            found.append((entries[number], batch))
        self._last = entries[-1] if entries else None
        return found

    def _add(self, batch: Batch) -> None:
        self.batches.append(batch)
        if batch.marker is not None:
            self._end(batch, *batch.marker)
        elif batch.is_transactional:
            found = self._open.get(batch.producer_id)
            if found is None:
                found = Transaction(batch.producer_id, batch.base, set())
                self._open[batch.producer_id] = found
                self.transactions.append(found)
            found.epochs.add(batch.epoch)
            if len(found.epochs) > 1:
                raise Violation(
                    "I-160",
                    f"{self._where}: the transaction of producer {batch.producer_id} that begins"
                    f" at offset {found.first} has data of epochs {sorted(found.epochs)}",
                )
        elif batch.producer_id in self._open:
            raise Violation(
                "I-160",
                f"{self._where}: a plain batch at offset {batch.base} lies in the transaction of"
                f" its producer {batch.producer_id}",
            )

    def _end(self, batch: Batch, is_committed: bool, coordinator_epoch: int) -> None:
        before = self._epochs.get(batch.producer_id, -1)
        if coordinator_epoch < before:
            raise Violation(
                "I-155",
                f"{self._where}: the marker at offset {batch.base} has the coordinator epoch"
                f" {coordinator_epoch}, one before it has {before}",
            )
        self._epochs[batch.producer_id] = coordinator_epoch
        found = self._open.pop(batch.producer_id, None)
        if found is None:
            return
        found.marker, found.is_committed = batch.base, is_committed
        if not is_committed:
            others = [each.first for each in self._open.values()]
            stable = min(others, default=batch.base + 1)
            self.aborted.append(
                ABORTED_ENTRY.pack(0, batch.producer_id, found.first, batch.base, stable)
            )

    @property
    def open(self) -> list[Transaction]:
        return list(self._open.values())

    def stable_to(self, end: int) -> int:
        """The last stable offset, if `end` is the high watermark (I-152)."""
        return min(
            (
                each.first
                for each in self.transactions
                if each.first < end and (each.marker is None or each.marker >= end)
            ),
            default=end,
        )

    def batch_at(self, offset: int) -> Batch | None:
        at = bisect_right(self.batches, offset, key=BASE) - 1
        if at < 0 or self.batches[at].end <= offset:
            return None
        return self.batches[at]

    def holds(self, entry: Entry) -> bool:
        """True if the log has this batch. A batch of another leader at the same offsets is another
        one, and so is the history up to it.
        """
        entries = self.view.entries
        at = bisect_right(entries, entry.base, key=BASE) - 1
        return at >= 0 and entries[at].identity == entry.identity

    def transaction_of(self, batch: Batch) -> Transaction | None:
        """The transaction of a transactional batch of data."""
        return next(
            (
                each
                for each in reversed(self.transactions)
                if each.producer_id == batch.producer_id and each.first <= batch.base
            ),
            None,
        )

    def is_committed(self, batch: Batch) -> bool:
        """True for data that readers of committed records must be given."""
        if not batch.is_transactional:
            return True
        found = self.transaction_of(batch)
        return found is not None and found.marker is not None and found.is_committed
