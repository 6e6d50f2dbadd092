"""The rate limit for copies of replicas that a reassignment adds, in or out of one broker (KIP-73).

Copied bytes are a debt, which decreases over time at the rate. While there is debt, no more is
admitted. A batch is admitted whole, however large. The debt never exceeds WAIT_MS_MAX at the rate,
so a batch passes at least that often, and every copy ends at any rate.

The limit applies only to replicas that are being added and are not in the ISR yet: no producer
waits for those.
"""

import math
from typing import Final

UNLIMITED: Final = 2**63 - 1
WAIT_MS_MAX: Final = 10_000


class CopyQuota:
    def __init__(self) -> None:
        self._debt = 0.0
        self._paid_ms = 0

    def wait_ms(self, *, rate: int, now_ms: int) -> int:
        """Time until more may be copied, at `rate` bytes a second; 0: now."""
        self._pay(rate, now_ms)
        return math.ceil(self._debt * 1000 / rate)

    def on_copied(self, size: int, *, rate: int, now_ms: int) -> None:
        """Add `size` copied bytes to the debt."""
        self._pay(rate, now_ms)
        self._debt = min(self._debt + size, rate * WAIT_MS_MAX / 1000)

    def _pay(self, rate: int, now_ms: int) -> None:
        elapsed_ms, self._paid_ms = max(0, now_ms - self._paid_ms), max(now_ms, self._paid_ms)
        if rate >= UNLIMITED:
            self._debt = 0.0
        else:
            # The bound also holds after the rate was lowered: bytes copied at a higher rate are not
            # paid at the lower one.
            self._debt = min(self._debt, rate * WAIT_MS_MAX / 1000)
            self._debt = max(0.0, self._debt - rate * elapsed_ms / 1000)


def chunk(rate: int, max_bytes: int) -> int:
    """The number of bytes to read at once: a second's worth, so that the rate is smooth."""
    return max(1, min(rate, max_bytes))
