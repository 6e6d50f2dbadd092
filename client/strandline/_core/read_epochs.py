"""Which leader epoch the record before an offset has, of what a consumer has been handed.

An application says which offset it is done with, seldom in which epoch the record before it was
written. A committed offset without that epoch can be asked of any leader, a deposed one too, whose
log may end before it (P-82); so what was read is remembered for as long as it can be named.
"""

from __future__ import annotations

from typing import Final

UNKNOWN: Final = -1
EPOCHS_MAX: Final = 100
"""Of older ones nothing is known any more."""


class ReadEpochs:
    """What lies behind a position, without a gap. The position has its own epoch."""

    __slots__ = ("_begin", "_ends")

    def __init__(self) -> None:
        self._begin = 0
        """Nothing is known of offsets before this one."""
        self._ends: list[tuple[int, int]] = []
        """Offsets in rising order, and the epoch of the records before each, back to the last."""

    def begin(self, offset: int) -> None:
        """The position is set to where nothing is known of what lies before it."""
        self._begin = offset
        self._ends.clear()

    def leave(self, offset: int, epoch: int) -> None:
        """From the position `offset` reading goes on in another epoch than `epoch`."""
        self._ends.append((offset, epoch))
        if len(self._ends) > EPOCHS_MAX:
            self._begin = self._ends.pop(0)[0] + 1

    def step_back(self, offset: int) -> None:
        """The position goes back to where it has been."""
        while self._ends and self._ends[-1][0] >= offset:
            self._ends.pop()

    def before(self, offset: int, position: tuple[int, int]) -> int:
        """The epoch of the record before `offset`, given the position and its epoch; UNKNOWN (-1)
        for what was not read.
        """
        if not self._begin <= offset <= position[0]:
            return UNKNOWN
        known = (epoch for end, epoch in self._ends if offset <= end)
        return next(known, position[1])

    def end_of(self, epoch: int, position: tuple[int, int]) -> int:
        """Up to where what was read is of `epoch` and older ones. Of what was not read the record
        before the position counts as newer, if that is.
        """
        offset, newest = position
        if newest <= epoch:
            return offset
        known = (end for end, before in reversed(self._ends) if before <= epoch)
        return next(known, max(0, min(self._begin, offset - 1)))
