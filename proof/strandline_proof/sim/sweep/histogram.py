"""The spread of a measure over many runs, in little room: counts by fifty milliseconds."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

STEP_MS: Final = 50
STEPS_MAX: Final = 1200
"""The last step, which counts everything of a minute and more."""
SHARES: Final = {"p50_ms": 0.5, "p90_ms": 0.9}


class Spread:
    def __init__(self) -> None:
        self.count = 0
        self.max_ms = 0.0
        self._steps: Counter[int] = Counter()

    def add(self, values_ms: Iterable[float]) -> None:
        for value_ms in values_ms:
            self.count += 1
            self.max_ms = max(self.max_ms, value_ms)
            self._steps[min(int(value_ms // STEP_MS), STEPS_MAX)] += 1

    def below_ms(self, share: float) -> float:
        """The duration that this share of the values does not exceed; 0 if there are none."""
        seen = 0
        for step in sorted(self._steps):
            seen += self._steps[step]
            if seen >= share * self.count:
                return min(self.max_ms, float((step + 1) * STEP_MS))
        return 0.0

    def document(self) -> dict[str, float]:
        shares = {name: self.below_ms(share) for name, share in SHARES.items()}
        rounded = {name: round(ms, 1) for name, ms in {**shares, "max_ms": self.max_ms}.items()}
        return {"count": self.count, **rounded}
