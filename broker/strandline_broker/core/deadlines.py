"""Deadlines of many things at once: a check costs time for the things that are due, however many
wait.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

T = TypeVar("T")

STALE_MAX: Final = 64
"""Number of moved or dropped deadlines that the heap may keep, besides half of its size."""


class Deadlines(Generic[T]):
    """One deadline for each thing; among equal deadlines the first set is due first."""

    def __init__(self) -> None:
        self._at_ms: dict[T, int] = {}
        self._heap: list[tuple[int, int, T]] = []
        self._set = 0

    def __len__(self) -> int:
        return len(self._at_ms)

    @property
    def next_ms(self) -> int | None:
        """The earliest deadline; None if there is none."""
        while self._heap:
            at_ms, _, thing = self._heap[0]
            if self._at_ms.get(thing) == at_ms:
                return at_ms
            heappop(self._heap)
        return None

    def set(self, thing: T, at_ms: int) -> None:
        """Set the deadline of a thing, replacing an earlier one."""
        if self._at_ms.get(thing) == at_ms:
            return
        self._at_ms[thing] = at_ms
        self._set += 1
        heappush(self._heap, (at_ms, self._set, thing))
        if len(self._heap) > 2 * len(self._at_ms) + STALE_MAX:
            self._heap = [e for e in self._heap if self._at_ms.get(e[2]) == e[0]]
            heapify(self._heap)

    def drop(self, thing: T) -> None:
        """Remove the deadline of a thing, if it has one."""
        self._at_ms.pop(thing, None)

    def due(self, now_ms: int) -> list[T]:
        """Remove and return the things that are due at `now_ms`, soonest first."""
        found = []
        while (next_ms := self.next_ms) is not None and next_ms <= now_ms:
            thing = heappop(self._heap)[2]
            del self._at_ms[thing]
            found.append(thing)
        return found
