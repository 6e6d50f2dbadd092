"""A limit on log lines about a trouble that lasts, such as a peer that is gone.

Retries go on, and each of them would be a line. The first line comes at once, the next one after
`QUIET_S`. The lines between are debug lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from strandline_runtime.runtime import Clock

QUIET_S: Final = 10.0


class Quiet:
    """The limit for one kind of trouble with one peer."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until_s: float | None = None

    def is_due(self) -> bool:
        """True if a line may be written now; the lines of the next `QUIET_S` may not."""
        now_s = self._clock.monotonic()
        if self._until_s is not None and now_s < self._until_s:
            return False
        self._until_s = now_s + QUIET_S
        return True
