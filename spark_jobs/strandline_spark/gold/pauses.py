"""The times at which gold steps run although no batch came: a topic may be idle by then."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Pauses:
    """The pauses without a batch after which a step has something to decide."""

    def __init__(
        self, idle_after: Iterable[int | None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Prepares the pauses; `idle_after` are those of the steps, in microseconds."""
        self._lengths = {one / 1e6 for one in idle_after if one is not None}
        self._clock = clock
        self._ends: dict[float, list[float]] = {}
        """For each length the ends of a pause after an earlier batch and after the newest."""

    def batch(self) -> None:
        """Notes that a batch came."""
        now = self._clock()
        for length in self._lengths:
            first = [end for end in self._ends.get(length, ()) if end > now][:1]
            self._ends[length] = [*first, now + length]

    def is_due(self) -> bool:
        """True, once, if a pause is over."""
        now = self._clock()
        is_due = any(end <= now for ends in self._ends.values() for end in ends)
        if is_due:
            self._ends = {n: [end for end in ends if end > now] for n, ends in self._ends.items()}
        return is_due
