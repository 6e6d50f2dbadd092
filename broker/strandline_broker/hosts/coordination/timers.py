"""The timers of all shards of one coordinator topic on a broker, in one heap.

A broker that was paused has not read what members sent meanwhile. A sweep that is late lets what
waits in the sockets be read before anybody is taken for dead, and timers of which the lost time is
more than a quarter get it again (P-146, I-96). What is lost is all the time since the sweep before,
as the moment within it at which the pause began is not known.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

SWEEP_MS_MAX: Final = 125
"""Time between two looks at the clock. A pause that is no longer than this and LATE_MS may pass
unnoticed.
"""
LATE_MS: Final = 250
"""A busy loop is late by less."""
READS_MS: Final = (SWEEP_MS_MAX, SWEEP_MS_MAX)
"""After a pause, while what waits in the sockets is read: in looks as short as any other, so that
another pause in them is noticed too.
"""


class TimerOwner(Protocol):
    def on_timer(self, key: Hashable, epoch: int) -> None: ...


@dataclass(slots=True, eq=False)
class _Timer:
    owner: TimerOwner
    key: Hashable
    ms: int
    epoch: int
    deadline_ms: int
    queued_ms: int = -1
    """Where it stands in the heap: at its deadline or before it; -1: nowhere."""


class Timers:
    def __init__(self, now_ms: Callable[[], int]) -> None:
        """`now_ms`: monotonic."""
        self._now_ms = now_ms
        self._timers: dict[TimerOwner, dict[Hashable, _Timer]] = {}
        self._heap: list[tuple[int, int, _Timer]] = []
        self._pushed = 0
        self._wake = asyncio.Event()
        self._woken_ms = 0
        """When the first timer was started after there were none: a pause may begin right then."""
        self._has_looked = False
        """The first timer of all may have been started before `run` was."""
        self._counts: Counter[type] = Counter()

    def start(self, owner: TimerOwner, key: Hashable, ms: int, epoch: int = -1) -> None:
        """Starts a timer, replacing one with the same key; the owner gets `epoch` back with it."""
        timers = self._timers.setdefault(owner, {})
        timer, deadline_ms = timers.get(key), self._now_ms() + ms
        if timer is None:
            timer = timers[key] = _Timer(owner, key, ms, epoch, deadline_ms)
            self._counts[type(key)] += 1
        timer.ms, timer.epoch, timer.deadline_ms = ms, epoch, deadline_ms
        self._queue(timer)

    def renew(self, owner: TimerOwner, key: Hashable) -> None:
        """Give it its full time again, if it runs."""
        timer = self._timers.get(owner, {}).get(key)
        if timer is not None:
            timer.deadline_ms = self._now_ms() + timer.ms

    def stop(self, owner: TimerOwner, key: Hashable) -> None:
        if self._timers.get(owner, {}).pop(key, None) is not None:
            self._counts[type(key)] -= 1

    def stop_all(self, owner: TimerOwner) -> None:
        for key in self._timers.pop(owner, {}):
            self._counts[type(key)] -= 1

    def count(self, kind: type) -> int:
        """The number of running timers with a key of this type."""
        return self._counts[kind]

    def running(self, owner: TimerOwner) -> set[Hashable]:
        return set(self._timers.get(owner, ()))

    async def run(self) -> None:
        """Sweep until cancelled; nothing wakes a broker that has no timers."""
        while True:
            wait_ms = self._wait_ms()
            if wait_ms is None or not self._has_looked:
                if wait_ms is None:
                    self._wake.clear()
                await self._wake.wait()
                wait_ms, late_ms = 0, self._now_ms() - self._woken_ms
                self._has_looked = True
            else:
                late_ms = await self._sleep(wait_ms)
            # What was read and not looked at yet comes before a timer (P-154).
            looks: tuple[int, ...] = (0,)
            while looks:
                if late_ms > LATE_MS:
                    self.on_late(wait_ms + late_ms)
                    looks = (*READS_MS, 0)
                wait_ms, *rest = looks
                looks = tuple(rest)
                late_ms = await self._sleep(wait_ms)
                if late_ms > LATE_MS:
                    looks = (0,)  # all of them once more
            self.fire()

    async def _sleep(self, ms: int) -> int:
        """How much longer than that it took."""
        due_ms = self._now_ms() + ms
        await asyncio.sleep(ms / 1000)
        return self._now_ms() - due_ms

    def on_late(self, late_ms: int) -> None:
        """The loop stood still for so long: timers of which that is a large part get it again, but
        none more than its full time: what began after the pause has lost nothing.
        """
        now_ms = self._now_ms()
        for timers in self._timers.values():
            for timer in timers.values():
                if 4 * late_ms > timer.ms:
                    timer.deadline_ms = min(timer.deadline_ms + late_ms, now_ms + timer.ms)

    def fire(self) -> None:
        """Tell the owners of those that are due."""
        now_ms = self._now_ms()
        while self._heap and self._heap[0][0] <= now_ms:
            queued_ms, _, timer = heapq.heappop(self._heap)
            if queued_ms != timer.queued_ms:
                continue  # it stands elsewhere, for an earlier deadline
            timer.queued_ms = -1
            timers = self._timers.get(timer.owner)
            if timers is None or timers.get(timer.key) is not timer:
                continue
            if timer.deadline_ms > now_ms:
                self._queue(timer)
                continue
            self.stop(timer.owner, timer.key)
            timer.owner.on_timer(timer.key, timer.epoch)

    def _queue(self, timer: _Timer) -> None:
        if 0 <= timer.queued_ms <= timer.deadline_ms:
            return  # it is looked at in time, and moved then
        timer.queued_ms = timer.deadline_ms
        self._pushed += 1
        heapq.heappush(self._heap, (timer.deadline_ms, self._pushed, timer))
        if not self._wake.is_set():
            self._woken_ms = self._now_ms()
            self._wake.set()

    def _wait_ms(self) -> int | None:
        if not self._heap:
            return None
        return min(max(self._heap[0][0] - self._now_ms(), 0), SWEEP_MS_MAX)
