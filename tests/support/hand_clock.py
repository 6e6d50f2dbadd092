"""A clock that stands still until a test moves it."""

from dataclasses import dataclass


@dataclass
class HandClock:
    now_s: float = 1_000.0

    def monotonic(self) -> float:
        return self.now_s

    def time(self) -> float:
        return self.now_s
