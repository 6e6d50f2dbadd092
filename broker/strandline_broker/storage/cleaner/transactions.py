"""The transactions in a log that is cleaned: which of its batches were aborted, and which markers
still have data before them (I-161).

Everything below the cleaned bound is decided, as the bound is at most the last stable offset. The
index names the aborted transactions; all others are committed. A marker stays while a batch of its
transaction stays, even an emptied one.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from strandline_broker.storage.segment.segment import Segment
    from strandline_broker.storage.segment.txn_index import AbortedTransaction
    from strandline_proto.batch import BatchHeader


def aborted_of(segments: Sequence[Segment], end: int) -> list[AbortedTransaction]:
    """The aborted transactions with batches below `end`; their markers may stand behind it."""
    found: list[AbortedTransaction] = []
    for segment in segments:
        if segment.has_aborted and segment.aborted().collect(0, end, found):
            break
    return found


class CleanedTransactions:
    """One pass over a log, in the order of offsets."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._by_producer: dict[int, tuple[list[int], list[int]]] = {}
        """Producer id -> (markers' offsets, first offsets), both rising."""
        self._by_marker = {each.last_offset: each for each in aborted}
        for marker_offset, each in sorted(self._by_marker.items()):
            markers, firsts = self._by_producer.setdefault(each.producer_id, ([], []))
            markers.append(marker_offset)
            firsts.append(each.first_offset)
        self._with_data: set[int] = set()

    def is_aborted(self, header: BatchHeader) -> bool:
        """True if the batch holds records of an aborted transaction."""
        if not header.is_transactional or header.is_control:
            return False
        known = self._by_producer.get(header.producer_id)
        if known is None:
            return False
        markers, firsts = known
        number = bisect_right(markers, header.last_offset)
        return number < len(firsts) and firsts[number] <= header.last_offset

    def on_kept(self, header: BatchHeader) -> None:
        """Record a batch that stays, whole or in part."""
        if header.is_transactional and not header.is_control:
            self._with_data.add(header.producer_id)

    def on_marker(self, header: BatchHeader) -> bool:
        """Record an end marker; True if batches of its transaction stay before it."""
        has_data = header.producer_id in self._with_data
        self._with_data.discard(header.producer_id)
        return has_data

    def aborted_at(self, header: BatchHeader) -> AbortedTransaction | None:
        """The transaction that this marker aborts, by the index."""
        return self._by_marker.get(header.last_offset)
