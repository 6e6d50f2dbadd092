"""The rule for replacing a channel whose calls find no peer.

gRPC resolves a name again at growing intervals, up to two minutes, and tries the old address
meanwhile. A new channel resolves the name at once. A peer that was away for long and returns at
another address is therefore found within `RENEW_AFTER_S`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from strandline_runtime.runtime import Clock

RENEW_AFTER_S: Final = 1.0
PAUSE_S: Final = 10.0
"""Failures further apart than this are no series."""


class Renewal:
    """The failures of one channel."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since = self._last = float("-inf")

    def is_due(self) -> bool:
        """True if the call that has just found no peer ends `RENEW_AFTER_S` of such failures."""
        now = self._clock.monotonic()
        if now - self._last > PAUSE_S:
            self._since = now
        self._last = now
        if now - self._since < RENEW_AFTER_S:
            return False
        self._since = now
        return True
