"""How fast the replicas that a reassignment adds may be copied, in or out of one broker (KIP-73).

What was copied is a debt in bytes, which time pays off at the rate; while there is any, no more is
admitted. A batch is admitted whole, however large, so that every rate is one at which copies end:
the debt is never worth more than WAIT_MS_MAX, and a batch passes at least that often.

Only replicas that are being added and not in the ISR yet are asked about: nobody waits for those.
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
        """How long until more may be copied, at `rate` bytes a second; 0: now."""
        self._pay(rate, now_ms)
        return math.ceil(self._debt * 1000 / rate)

    def on_copied(self, size: int, *, rate: int, now_ms: int) -> None:
        """`size` bytes have been copied."""
        self._pay(rate, now_ms)
        self._debt = min(self._debt + size, rate * WAIT_MS_MAX / 1000)

    def _pay(self, rate: int, now_ms: int) -> None:
        elapsed_ms, self._paid_ms = max(0, now_ms - self._paid_ms), max(now_ms, self._paid_ms)
        if rate >= UNLIMITED:
            self._debt = 0.0
        else:
            # Also if the rate was lowered: what was copied faster before is not paid at this one.
            self._debt = min(self._debt, rate * WAIT_MS_MAX / 1000)
            self._debt = max(0.0, self._debt - rate * elapsed_ms / 1000)


def chunk(rate: int, max_bytes: int) -> int:
    """How much may be read at once: a second's worth, so that the rate is smooth."""
    return max(1, min(rate, max_bytes))
