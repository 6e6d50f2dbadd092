"""What is due when, for many things at once: a look costs what is due, however much waits."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

T = TypeVar("T")

STALE_MAX: Final = 64
"""So many deadlines that were moved or dropped may stand in the heap beside half of it."""


class Deadlines(Generic[T]):
    """One for each thing; of equal ones the first that was set is due first."""

    def __init__(self) -> None:
        self._at_ms: dict[T, int] = {}
        self._heap: list[tuple[int, int, T]] = []
        self._set = 0

    def __len__(self) -> int:
        return len(self._at_ms)

    @property
    def next_ms(self) -> int | None:
        """The earliest; None without any."""
        while self._heap:
            at_ms, _, thing = self._heap[0]
            if self._at_ms.get(thing) == at_ms:
                return at_ms
            heappop(self._heap)
        return None

    def set(self, thing: T, at_ms: int) -> None:
        """In the place of the one that it has."""
        if self._at_ms.get(thing) == at_ms:
            return
        self._at_ms[thing] = at_ms
        self._set += 1
        heappush(self._heap, (at_ms, self._set, thing))
        if len(self._heap) > 2 * len(self._at_ms) + STALE_MAX:
            self._heap = [e for e in self._heap if self._at_ms.get(e[2]) == e[0]]
            heapify(self._heap)

    def drop(self, thing: T) -> None:
        """It is not due any more, if it was."""
        self._at_ms.pop(thing, None)

    def due(self, now_ms: int) -> list[T]:
        """Whatever is due at `now_ms`, soonest first; its deadlines are over."""
        found = []
        while (next_ms := self.next_ms) is not None and next_ms <= now_ms:
            thing = heappop(self._heap)[2]
            del self._at_ms[thing]
            found.append(thing)
        return found
