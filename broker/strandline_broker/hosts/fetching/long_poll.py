"""The wait of a stream until there is content for the answer to its request.

One task waits at a time. The timer for its deadline is kept from wait to wait. Deadlines mostly
rise, so the timer is set again when it fires, and not for each request.
"""

from __future__ import annotations

import asyncio


class LongPoll:
    __slots__ = ("_alarm", "_alarm_at", "_is_over", "_loop", "_until", "_waiter")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_over = False
        self._waiter: asyncio.Future[None] | None = None
        self._until: float | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0

    @property
    def is_asleep(self) -> bool:
        """True if a task waits that no event has woken yet."""
        return self._waiter is not None and not self._waiter.done()

    def begin(self) -> None:
        """Start to count events: one that arrives from here on ends the wait, even before the wait
        begins.
        """
        self._is_over = False
        self._until = None

    def end(self) -> None:
        self._is_over = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def until(self, when: float) -> None:
        """End the wait at `when` by the loop's clock at the latest; without `when`, the wait has no
        deadline.
        """
        self._until = when
        if self._alarm is None or when < self._alarm_at:
            self._set_alarm(when)

    async def ended(self) -> None:
        """Return when `end` is called, or was called since `begin`."""
        if self._is_over:
            return
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def close(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _set_alarm(self, when: float) -> None:
        self.close()
        self._alarm_at = when
        self._alarm = self._loop.call_at(when, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        if self._until is None:
            return
        if self._loop.time() < self._until:
            self._set_alarm(self._until)
        else:
            self.end()
