"""Waiters for offsets to be committed, in the order in which they can be answered.

The structure contains no epochs or deadlines. A host keeps one for each leadership and drains it
when that ends. No waiter of an earlier epoch can therefore be answered by a later one (P-25).
"""

import heapq
from collections.abc import Callable
from typing import Generic, TypeVar

from strandline_proto.ids import Offset

T = TypeVar("T")


class AckWaiters(Generic[T]):
    """Items that become due when the high watermark reaches the end offset they require."""

    def __init__(self) -> None:
        # The second field keeps arrival order among equal offsets, and excludes items from
        # comparisons.
        self._heap: list[tuple[Offset, int, T]] = []
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self._heap)

    def items(self) -> list[T]:
        """All waiting items, in no particular order."""
        return [item for _, _, item in self._heap]

    def lowest(self, count: int) -> list[tuple[Offset, T]]:
        """The items that are released first, at most `count`, with the offsets they require."""
        return [(entry[0], entry[2]) for entry in heapq.nsmallest(count, self._heap)]

    def add(self, required_offset: Offset, item: T) -> None:
        self._arrivals += 1
        heapq.heappush(self._heap, (required_offset, self._arrivals, item))

    def release(self, high_watermark: Offset) -> list[T]:
        """Remove all items that waited for `high_watermark` or less, lowest requirement first."""
        due: list[T] = []
        while self._heap and self._heap[0][0] <= high_watermark:
            due.append(heapq.heappop(self._heap)[2])
        return due

    def drop(self, unwanted: Callable[[T], bool]) -> None:
        """Remove items that were answered in another way, for example by their deadline."""
        self._heap = [entry for entry in self._heap if not unwanted(entry[2])]
        heapq.heapify(self._heap)

    def drain(self) -> list[T]:
        """Remove all items, in the order in which they would have been released."""
        rest = [item for _, _, item in sorted(self._heap, key=lambda entry: entry[:2])]
        self._heap = []
        return rest
