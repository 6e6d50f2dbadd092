"""The rules of a cleaning: what it keeps of each batch. It keeps the batch's place and order, the
last record of each key, and the last batch of each producer.

The map knows every key below a certain offset. In a batch below that offset a record is removed in
two cases. Either a later record has its key, or it is a tombstone and its batch's delete horizon
has passed. A batch with tombstones gets its horizon at the first cleaning that covers it, even if
it arrived from the leader with one. It gets none while only a part of it lies below that offset. A
tombstone's time therefore begins with the cleaning that has removed, on this replica, the records
that it deletes.

A record of a committed transaction is one like any other. The records of an aborted transaction go,
whatever their keys, and replace none: the map does not contain them. The end marker of a
transaction goes later. It gets a delete horizon at the first cleaning after which no batch of the
transaction is left, and is removed after that time (I-79). A reader that has read the batches then
meets their marker. The last marker of each producer stays, because it holds the epochs of the
producer and of the coordinator (I-155).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from strandline_broker.storage.cleaner.rebuilt_batch import (
    RawRecord,
    emptied,
    with_records,
)
from strandline_proto.batch import end_marker, raw_records

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from strandline_broker.storage.cleaner.offset_map import OffsetMap
    from strandline_broker.storage.cleaner.transactions import CleanedTransactions
    from strandline_broker.storage.segment.txn_index import AbortedTransaction
    from strandline_proto.batch import BatchHeader
    from strandline_proto.decompression import Bound

INT64_MAX: Final = 2**63 - 1

Kept = tuple["BatchHeader", bytes]


@dataclass(slots=True)
class Counts:
    """The counts of one cleaning."""

    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    keyless_dropped: int = 0
    """Records without a key: they were written before the topic was compacted, and cannot
    be kept.
    """


def keys_of(header: BatchHeader, data: bytes, first: int, bound: Bound) -> list[tuple[bytes, int]]:
    """(key, offset) of the records from offset `first` on that replace earlier ones."""
    if header.is_control or header.record_count == 0:
        return []
    records = [(record.key, record.offset) for record in raw_records(data, header, bound)]
    return [(key, offset) for key, offset in records if key is not None and offset >= first]


class BatchFilter:
    """The filter of one cleaning; the map knows the last offset of every key in [first dirty
    offset, `bound`).
    """

    def __init__(
        self,
        last_offsets: OffsetMap,
        *,
        first_dirty: int,
        bound: int,
        now_ms: int,
        delete_retention_ms: int,
        live_producers: Mapping[int, int],
        live_markers: Mapping[int, tuple[int, int]],
        transactions: CleanedTransactions,
        counts: Counts,
        unpacked: Bound,
    ) -> None:
        self._last_offsets_of = last_offsets.get_all
        self._first_dirty = first_dirty
        self._bound = bound
        self._now_ms = now_ms
        self._horizon_ms = min(now_ms + delete_retention_ms, INT64_MAX)
        self._live_producers = live_producers
        """Producer id -> last offset of its last batch."""
        self._live_markers = live_markers
        """Producer id -> (offset of its last end marker, or -1; its epoch)."""
        self._transactions = transactions
        self.aborted: list[AbortedTransaction] = []
        """The aborted transactions whose markers were passed, and of which batches stay."""
        self._counts = counts
        self._unpacked = unpacked

    def filter(self, header: BatchHeader, data: bytes) -> Kept | None:
        """The part of the batch to write; None if nothing is left."""
        self._counts.records_read += header.record_count
        if header.is_control:
            found = self._control(header, data)
            self._counts.records_kept += 0 if found is None else header.record_count
            return found
        if header.base_offset >= self._bound:
            self._counts.records_kept += header.record_count
            found = header, data
        elif self._transactions.is_aborted(header):
            found = self._emptied_if_needed(header)
        else:
            found = self._data(header, data)
        if found is not None:
            self._transactions.on_kept(header)
        return found

    def keep_emptied(self, header: BatchHeader) -> Kept:
        """The bare header of a batch of which `filter` left nothing."""
        self._transactions.on_kept(header)
        return emptied(header)

    def _control(self, header: BatchHeader, data: bytes) -> Kept | None:
        is_below = header.next_offset <= self._bound
        if end_marker(data, 0, header) is None:
            # An emptied one ends nothing any more.
            return None if is_below and header.record_count == 0 else (header, data)
        if self._transactions.on_marker(header):
            aborted = self._transactions.aborted_at(header)
            if aborted is not None:
                self.aborted.append(aborted)
            return header, data
        if not is_below:
            return header, data
        if self._takes_horizon(header):
            records = list(cast("Iterator[RawRecord]", raw_records(data, header, self._unpacked)))
            return with_records(header, records, delete_horizon_ms=self._horizon_ms)
        if header.base_timestamp <= self._now_ms and not self._is_live_marker(header):
            return None
        return header, data

    def _is_live_marker(self, header: BatchHeader) -> bool:
        offset, epoch = self._live_markers.get(header.producer_id, (-1, -1))
        return header.base_offset == offset or (offset < 0 and header.producer_epoch == epoch)

    def _data(self, header: BatchHeader, data: bytes) -> Kept | None:
        counts = self._counts
        kept, tombstones = self._survivors(header, data) if header.record_count > 0 else ([], False)
        counts.records_kept += len(kept)
        if not kept:
            return self._emptied_if_needed(header)
        horizon = None
        if tombstones and self._takes_horizon(header):
            horizon = self._horizon_ms
        elif len(kept) == header.record_count:
            return header, data
        return with_records(header, kept, delete_horizon_ms=horizon)

    def _takes_horizon(self, header: BatchHeader) -> bool:
        """True if the batch gets a new horizon. A horizon that arrived from the leader is ignored:
        it says nothing about this replica.
        """
        was_covered = header.has_delete_horizon and header.next_offset <= self._first_dirty
        return not was_covered and header.next_offset <= self._bound

    def _survivors(self, header: BatchHeader, data: bytes) -> tuple[list[RawRecord], bool]:
        """The records that stay, and True if tombstones are among them."""
        bound = self._bound
        over = (
            header.has_delete_horizon
            and header.next_offset <= self._first_dirty
            and header.base_timestamp <= self._now_ms
        )
        records = list(cast("Iterator[RawRecord]", raw_records(data, header, self._unpacked)))
        keys = [record.key for record in records]
        kept: list[RawRecord] = []
        tombstones = False
        for record, key, last_offset in zip(
            records, keys, self._last_offsets_of(keys), strict=True
        ):
            offset = record.offset
            if offset < bound:
                if last_offset > offset:
                    continue
                if key is None:
                    self._counts.keyless_dropped += 1
                    continue
                if record.value is None:
                    if over:
                        continue
                    tombstones = True
            kept.append(record)
        return kept, tombstones

    def _emptied_if_needed(self, header: BatchHeader) -> Kept | None:
        if self._live_producers.get(header.producer_id, -1) != header.last_offset:
            return None
        return emptied(header)
