"""Where records without a key go: to one partition for a batch's worth of bytes, then to another.

Whole batches to one partition make fewer, larger requests than one record to each (KIP-480,
KIP-794). The next partition is the less loaded of two drawn at random, so that a slow leader gets
less; one without a leader gets nothing while others have one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class StickyPartition:
    """The current partition of one topic."""

    def __init__(self, batch_size: int) -> None:
        self.current: int | None = None
        self._left = batch_size
        self._batch_size = batch_size

    def spend(self, size: int) -> None:
        """So many bytes went to the current partition."""
        self._left -= size
        if self._left <= 0:
            self.current = None

    def rotate(self) -> None:
        """The current partition's batch is full, or its leader is gone."""
        self.current = None

    def choose(
        self,
        usable: Sequence[int],
        load: Callable[[int], int],
        chances: tuple[float, float],
    ) -> int:
        """Settle on one of `usable` (not empty) for the next batch's worth of bytes."""
        first, second = (usable[int(chance * len(usable))] for chance in chances)
        self.current = first if load(first) <= load(second) else second
        self._left = self._batch_size
        return self.current
