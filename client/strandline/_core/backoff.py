"""The wait before a retry: short at first, because a failover takes milliseconds."""

from __future__ import annotations

from typing import Final

FIRST_MS: Final = 20.0
MAX_MS: Final = 1000.0
_GENTLE_TRIES: Final = 5
"""Retries that wait FIRST_MS to 2 * FIRST_MS, before the wait begins to double."""


class Backoff:
    """Counts consecutive failures and gives the wait after each."""

    def __init__(self, first_ms: float = FIRST_MS, max_ms: float = MAX_MS) -> None:
        self.failures = 0
        self._first_ms = first_ms
        self._max_ms = max_ms

    def next_ms(self, chance: float) -> float:
        """The wait after one more failure; `chance` in [0, 1) spreads clients apart."""
        doublings = max(0, self.failures - _GENTLE_TRIES)
        self.failures += 1
        wait = min(self._first_ms * 2.0 ** min(doublings, 30), self._max_ms)
        return min(wait * (1.0 + chance), self._max_ms)

    def reset(self) -> None:
        self.failures = 0
