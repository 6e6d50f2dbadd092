"""End positions of a log's newest batches, so that a read at the tail needs neither an index nor a
walk over headers.

The arrays only grow. Trimming and cutting replace them in one assignment, so a reader in another
thread works on one consistent set. Each batch's *end* is stored, so such a reader never depends on
a file size that an append has changed since (P-34).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import Final

KEPT: Final = 1024


class RecentBatches:
    """Last offsets and end positions of the batches from `first_offset`, at `first_position`, to
    the log's end.
    """

    __slots__ = ("_lasts", "_state")

    def __init__(self, first_offset: int, first_position: int) -> None:
        self._state = (first_offset, first_position, array("q"), array("q"))
        self._lasts = self._state[2]

    @property
    def first(self) -> tuple[int, int]:
        """(position, offset) at which the first of these batches begins."""
        return self._state[1], self._state[0]

    @property
    def end(self) -> tuple[int, int]:
        """(position, offset) after the last of these batches: the log's end."""
        first_offset, first_position, lasts, ends = self._state
        n = len(lasts)
        return (ends[n - 1], lasts[n - 1] + 1) if n > 0 else (first_position, first_offset)

    def append(self, last_offset: int, end: int) -> None:
        if len(self._lasts) >= 2 * KEPT:
            self._trim()
        _, _, lasts, ends = self._state
        ends.append(end)
        lasts.append(last_offset)

    def _trim(self) -> None:
        _, _, lasts, ends = self._state
        first = (lasts[-KEPT - 1] + 1, ends[-KEPT - 1])
        self._state = (*first, lasts[-KEPT:], ends[-KEPT:])
        self._lasts = self._state[2]

    def position_of(self, start: int) -> int | None:
        """Position of the first batch that ends at or after `start`; None if it is not
        among these.
        """
        first_offset, first_position, lasts, ends = self._state
        if start < first_offset:
            return None
        i = bisect_left(lasts, start)
        return ends[i - 1] if i > 0 else first_position

    def bound(self, limit: int) -> tuple[int, int] | None:
        """(position, offset) after the last batch that ends below `limit`; None if it lies before
        these.
        """
        first_offset, first_position, lasts, ends = self._state
        if limit < first_offset:
            return None
        i = bisect_left(lasts, limit)
        return (ends[i - 1], lasts[i - 1] + 1) if i > 0 else (first_position, first_offset)

    def run(self, start: int, *, limit: int, max_bytes: int) -> tuple[int, int, int] | None:
        """(position, end, next offset) of about `max_bytes` of whole batches from `start` below
        `limit`.

        The run has at least one batch if one is there; otherwise position = end. None if `start` is
        not among these batches.
        """
        first_offset, first_position, lasts, ends = self._state
        if start < first_offset:
            return None
        i = bisect_left(lasts, start)
        j = bisect_left(lasts, limit)
        position = ends[i - 1] if i > 0 else first_position
        if i >= j:
            return position, position, start
        if ends[j - 1] - position > max_bytes:
            j = max(bisect_right(ends, position + max_bytes), i + 1)
        return position, ends[j - 1], lasts[j - 1] + 1
