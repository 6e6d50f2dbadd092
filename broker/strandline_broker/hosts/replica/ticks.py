"""Leaders that need ticks now: a member of their ISR is behind, or an ISR change is under way.

At rest there are none, however many partitions the broker leads. A broker that was paused does not
tick for the time that it missed: the followers' requests are still in its sockets (I-96).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from strandline_runtime.milliseconds import monotonic_ms

if TYPE_CHECKING:
    from strandline_broker.hosts.replica.leading import Leading
    from strandline_runtime.runtime import Clock

TICK_MS_MAX: Final = 250
STALL_MS: Final = 1_000


class Ticks:
    """Owned by the replica manager, whose task group runs `run`."""

    def __init__(self, clock: Clock, *, lag_ms_max: int) -> None:
        self._clock = clock
        self._tick_ms = min(TICK_MS_MAX, max(1, lag_ms_max // 2))
        self._ticked_ms = monotonic_ms(clock)
        self._watched: dict[Leading, None] = {}

    def __len__(self) -> int:
        return len(self._watched)

    def watch(self, leading: Leading) -> None:
        """Decide after each input of a leader whether it needs ticks."""
        if leading not in self._watched and leading.machine.awaits_time:
            self._watched[leading] = None

    async def run(self) -> None:
        self._ticked_ms = monotonic_ms(self._clock)
        while True:
            await asyncio.sleep(self._tick_ms / 1000)
            self.tick(monotonic_ms(self._clock))

    def tick(self, now_ms: int) -> None:
        """Tick the leaders, unless this process was paused meanwhile."""
        stalled = now_ms - self._ticked_ms > self._tick_ms + STALL_MS
        self._ticked_ms = now_ms
        if stalled:
            return  # what followers have sent since is still in our sockets (I-96)
        watched, self._watched = self._watched, {}
        for leading in watched:
            if not leading.is_over:
                leading.on_tick(now_ms)
