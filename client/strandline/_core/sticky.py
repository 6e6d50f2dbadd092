"""The partition of records without a key: one for the size of a batch, then another.

Whole batches to one partition make fewer, larger requests than one record to each (KIP-480,
KIP-794). The next partition is the less loaded of two drawn at random, so that a slow leader gets
less; one without a leader gets nothing while others have one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Q = TypeVar("Q")
"""A queue that takes a partition's records."""


class StickyPartition(Generic[Q]):
    """The current partition of one topic."""

    __slots__ = ("_batch_size", "current", "left")

    def __init__(self, batch_size: int) -> None:
        self.current: Q | None = None
        self.left = batch_size
        """Bytes until another is chosen."""
        self._batch_size = batch_size

    def spend(self, size: int) -> None:
        """Counts bytes that went to the current partition."""
        self.left -= size
        if self.left <= 0:
            self.current = None

    def rotate(self) -> None:
        """Ends the use of the current partition: its batch is full."""
        self.current = None

    def choose(
        self,
        usable: Sequence[int],
        load: Callable[[int], int],
        chances: tuple[float, float],
        queue_of: Callable[[int], Q],
    ) -> Q:
        """Chooses one of `usable` (not empty) for the next batch."""
        first, second = (usable[int(chance * len(usable))] for chance in chances)
        self.current = queue_of(first if load(first) <= load(second) else second)
        self.left = self._batch_size
        return self.current
