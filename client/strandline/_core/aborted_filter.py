"""The records of aborted transactions in fetched batches, which a reader of committed ones skips.

A fetch at isolation level read_committed brings the aborted transactions of its very bytes, each by
producer id and first offset (P-122). From that offset on, the producer's transactional batches
belong to the aborted transaction, until its abort marker. Later transactions of the same producer
are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_proto.batch import end_marker

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_proto.batch import BatchHeader
    from strandline_proto.decompression import Buffer


class AbortedFilter:
    """Tells the batches of one fetched run, in order, from those of aborted transactions."""

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._ahead = sorted(((first, producer) for producer, first in aborted), reverse=True)
        """(first offset, producer id) of the transactions that begin later; the next one last."""
        self._open: set[int] = set()
        """Producers whose aborted transaction has begun and not ended."""

    def hides(self, data: Buffer, at: int, header: BatchHeader) -> bool:
        """True if the batch at byte `at` is in an aborted transaction. Takes each batch once."""
        while self._ahead and self._ahead[-1][0] <= header.last_offset:
            self._open.add(self._ahead.pop()[1])
        if header.producer_id not in self._open or not header.is_transactional:
            return False
        if header.is_control:
            marker = end_marker(data, at, header)
            if marker is not None and not marker.is_commit:
                self._open.discard(header.producer_id)
            return False
        return True
