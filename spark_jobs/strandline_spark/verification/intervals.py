"""Sets of offsets as arrays of disjoint, rising intervals [start, end).

A partition may have millions of intervals, so each operation is one of arrays. A number of offsets
below another offset is a search in running sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """Offsets that something covers."""

    starts: Any
    ends: Any
    _sums: Any
    """Number of offsets in the intervals before each, and at the end that of all."""

    @classmethod
    def of(cls, starts: Any, ends: Any) -> Intervals:
        """Returns the offsets that the intervals cover, which may overlap, in any order."""
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
        reach = np.maximum.accumulate(ends)
        is_first = np.ones(len(starts), bool)
        is_first[1:] = starts[1:] > reach[:-1]
        firsts = np.flatnonzero(is_first)
        lasts = np.append(firsts[1:], len(starts))[: len(firsts)] - 1
        starts, ends = starts[firsts], reach[lasts]
        return cls(starts, ends, np.concatenate(([0], np.cumsum(ends - starts))))

    @classmethod
    def of_pairs(cls, pairs: Iterable[tuple[int, int]]) -> Intervals:
        found = np.array(list(pairs), np.int64).reshape(-1, 2)
        return cls.of(found[:, 0], found[:, 1])

    def __or__(self, other: Intervals) -> Intervals:
        return Intervals.of(
            np.concatenate((self.starts, other.starts)), np.concatenate((self.ends, other.ends))
        )

    @property
    def length(self) -> int:
        """Number of the offsets."""
        return int(self._sums[-1])

    def held_in(self, starts: Any, ends: Any) -> Any:
        """Returns how many of the offsets are in each of the intervals [start, end)."""
        return self._below(ends) - self._below(starts)

    def common(self, other: Intervals) -> int:
        """Returns the number of offsets in both."""
        return int(other.held_in(self.starts, self.ends).sum())

    def first_beyond(self, other: Intervals) -> int | None:
        """Returns the first offset that the other lacks; None if it has all."""
        lacks = other.held_in(self.starts, self.ends) < self.ends - self.starts
        if not lacks.any():
            return None
        start = int(self.starts[int(np.argmax(lacks))])
        place = int(np.searchsorted(other.starts, start, "right")) - 1
        return max(start, int(other.ends[place])) if place >= 0 else start

    def pairs(self) -> list[tuple[int, int]]:
        return list(zip(self.starts.tolist(), self.ends.tolist(), strict=True))

    def _below(self, offsets: Any) -> Any:
        """Returns how many of the offsets are less than each given one."""
        if len(self.starts) == 0:
            return np.zeros(len(offsets), np.int64)
        begun = np.searchsorted(self.starts, offsets, "right")
        beyond = np.maximum(self.ends[begun - 1] - offsets, 0)
        return self._sums[begun] - np.where(begun > 0, beyond, 0)
