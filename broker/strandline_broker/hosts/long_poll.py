"""The wait of a request for what it would be answered with.

One task waits at a time. The alarm for its deadline is kept from wait to wait: deadlines mostly
rise, so it is set anew when it rings, and not for each request.
"""

from __future__ import annotations

import asyncio


class LongPoll:
    __slots__ = ("_alarm", "_alarm_at", "_is_over", "_until", "_waiter")

    def __init__(self) -> None:
        self._is_over = False
        self._waiter: asyncio.Future[None] | None = None
        self._until = 0.0
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0

    def begin(self) -> None:
        """What ends the wait from here on counts, even before it begins."""
        self._is_over = False

    def end(self) -> None:
        self._is_over = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def ended(self, until: float) -> None:
        """Return when `end` is called, or was since `begin`; at `until` by the loop's clock at the
        latest.
        """
        if self._is_over:
            return
        loop = asyncio.get_running_loop()
        self._until = until
        if self._alarm is None or until < self._alarm_at:
            self._set_alarm(loop)
        self._waiter = loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def close(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _set_alarm(self, loop: asyncio.AbstractEventLoop) -> None:
        self.close()
        self._alarm_at = self._until
        self._alarm = loop.call_at(self._until, self._ring, loop)

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        self._alarm = None
        if self._waiter is None:
            return
        if loop.time() < self._until:
            self._set_alarm(loop)
        else:
            self.end()
