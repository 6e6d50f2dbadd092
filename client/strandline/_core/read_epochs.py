"""The leader epochs of the records that a consumer has delivered.

An application commits an offset, but seldom the epoch of the record before it. Without the epoch,
the next owner would accept any leader, also a deposed one whose log ends before the offset (P-82).
The epochs of delivered records are therefore kept as long as an application can commit them.
"""

from __future__ import annotations

from typing import Final

UNKNOWN: Final = -1
EPOCHS_MAX: Final = 100
"""Largest number of epochs kept; older ones are dropped."""


class ReadEpochs:
    """The epochs behind a position, without a gap. The position has its own epoch."""

    __slots__ = ("_begin", "_ends")

    def __init__(self) -> None:
        self._begin = 0
        """First offset whose epoch is known."""
        self._ends: list[tuple[int, int]] = []
        """Offsets in rising order, and the epoch of the records before each, back to the last."""

    def begin(self, offset: int) -> None:
        """Restarts at a position whose earlier epochs are unknown."""
        self._begin = offset
        self._ends.clear()

    def leave(self, offset: int, epoch: int) -> None:
        """Notes that `epoch` ends at the position `offset`."""
        self._ends.append((offset, epoch))
        if len(self._ends) > EPOCHS_MAX:
            self._begin = self._ends.pop(0)[0] + 1

    def step_back(self, offset: int) -> None:
        """Moves back to an earlier position."""
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
        """The end offset of the records read in `epoch` or older epochs.

        If the record before the position is newer than `epoch`, unread records count as newer too.
        """
        offset, newest = position
        if newest <= epoch:
            return offset
        known = (end for end, before in reversed(self._ends) if before <= epoch)
        return next(known, max(0, min(self._begin, offset - 1)))
