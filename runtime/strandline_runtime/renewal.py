"""When a channel whose calls find no peer is to give way to a new one.

gRPC looks up a name that it could not resolve ever more rarely, at intervals of up to two minutes,
and keeps trying the old address meanwhile. A new channel looks the name up at once. So a peer that
was away for long, and comes back at another address, is found within `RENEW_AFTER_S`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from strandline_runtime.runtime import Clock

RENEW_AFTER_S: Final = 1.0
PAUSE_S: Final = 10.0
"""Failures further apart than this do not follow each other."""


class Renewal:
    """The failures of one channel."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since = self._last = float("-inf")

    def is_due(self) -> bool:
        """Whether the call that has just found no peer is one of a second of such calls."""
        now = self._clock.monotonic()
        if now - self._last > PAUSE_S:
            self._since = now
        self._last = now
        if now - self._since < RENEW_AFTER_S:
            return False
        self._since = now
        return True
