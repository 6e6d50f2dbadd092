"""The transactions of one partition that hold back the last stable offset (LSO).

A transaction is unstable from its first batch until its end marker is committed. That includes an
ended transaction whose marker is at or above the high watermark: another leader may lack the
marker, and end the transaction otherwise (I-152, P-115).

The content is a function of the log's batches and the high watermark (I-159).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NONE_OPEN: Final = 2**63 - 1
"""`first_unstable` if no transaction is unstable."""


class OpenTransactions:
    __slots__ = ("_committed", "_ended", "_open", "first_unstable")

    def __init__(
        self,
        begun: Iterable[tuple[int, int]] = (),
        ended: Iterable[tuple[int, int]] = (),
        *,
        high_watermark: int = 0,
    ) -> None:
        """Begin with (producer id, first offset) of open transactions, and (first offset, marker's
        offset) of ended ones, each in any order.
        """
        self._committed = high_watermark
        self._open = dict(sorted(begun, key=lambda pair: pair[1]))
        """Producer id -> first offset, in the order of first offsets."""
        self._ended: deque[tuple[int, int]] = deque()
        """(first offset, marker's offset) of ended transactions, both rising. One that began after
        a transaction that ended later is left out: that one holds back more, and for longer.
        """
        self.first_unstable = NONE_OPEN
        """First offset of the oldest unstable transaction; `NONE_OPEN` without one."""
        for first, marker_offset in sorted(ended, key=lambda pair: pair[1]):
            self._add_ended(first, marker_offset)
        self.on_committed(high_watermark)

    @property
    def open(self) -> Mapping[int, int]:
        """Producer id -> first offset of its open transaction, in the order of first offsets."""
        return self._open

    @property
    def ended(self) -> Iterable[tuple[int, int]]:
        """(first offset, marker's offset) of ended transactions that hold back the LSO."""
        return self._ended

    def begin(self, producer_id: int, first_offset: int) -> None:
        """Record the first batch of a transaction; batches come in the order of offsets."""
        assert producer_id not in self._open, (producer_id, first_offset)
        self._open[producer_id] = first_offset
        self.first_unstable = min(first_offset, self.first_unstable)

    def end(self, producer_id: int, marker_offset: int) -> None:
        """Record the end marker of the producer's open transaction; without one, do nothing."""
        first = self._open.pop(producer_id, None)
        if first is None:
            return
        if marker_offset < self._committed:
            self.on_committed(self._committed)
        else:
            self._add_ended(first, marker_offset)

    def _add_ended(self, first: int, marker_offset: int) -> None:
        while self._ended and self._ended[-1][0] >= first:
            self._ended.pop()
        self._ended.append((first, marker_offset))

    def on_committed(self, high_watermark: int) -> None:
        """Drop the ended transactions whose markers are committed."""
        self._committed = high_watermark
        ended = self._ended
        while ended and ended[0][1] < high_watermark:
            ended.popleft()
        first = next(iter(self._open.values()), NONE_OPEN)
        self.first_unstable = min(first, ended[0][0]) if ended else first
