"""Timers of a broker that stands still for a while."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from strandline_broker.hosts.coordination.timers import Timers

if TYPE_CHECKING:
    from collections.abc import Callable


class HasTime(Protocol):
    now_ms: int


class StalledTimers(Timers):
    """Sleeps take no time; the next that is asked for takes `stall_ms` longer than it should."""

    def __init__(self, rig: HasTime, stall_ms: int, wakes: Callable[[], None]) -> None:
        """`wakes`: called when a sleep is over, and the rig's time has moved."""
        super().__init__(lambda: rig.now_ms)
        self.stall_ms = stall_ms
        self._rig = rig
        self._wakes = wakes

    async def _sleep(self, ms: int) -> int:
        await asyncio.sleep(0)
        late_ms, self.stall_ms = self.stall_ms, 0
        self._rig.now_ms += ms + late_ms
        self._wakes()
        return late_ms


async def swept(timers: Timers, turns: int) -> None:
    """So many turns of the loop."""
    sweeping = asyncio.get_running_loop().create_task(timers.run())
    for _ in range(turns):
        await asyncio.sleep(0)
    sweeping.cancel()
    await asyncio.gather(sweeping, return_exceptions=True)
