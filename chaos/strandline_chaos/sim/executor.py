"""A thread of a simulated process: functions run one after the other, each at once at a seeded
later time.

A function that has been submitted and has not begun can still be cancelled, as in a real pool; one
that has begun runs to its end, whoever waits for it.
"""

from __future__ import annotations

import concurrent.futures
from typing import TYPE_CHECKING, Any

from strandline_chaos.sim.owner import OWNER, Stopped

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from strandline_chaos.sim.loop import SimLoop


class SimExecutor(concurrent.futures.Executor):
    """`latency()` draws how long a function takes, in seconds."""

    def __init__(self, loop: SimLoop, latency: Callable[[], float]) -> None:
        self._loop = loop
        self._latency = latency
        self._free_at = 0.0

    def run(self, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """The function's outcome, as the event loop gets it."""
        future: asyncio.Future[Any] = self._loop.create_future()

        def on_thread() -> None:
            if future.cancelled():
                return
            try:
                result = func(*args)
            except Stopped:
                raise
            except BaseException as error:  # noqa: BLE001 - whoever waits for it gets it
                if not future.cancelled():
                    future.set_exception(error)
            else:
                if not future.cancelled():
                    future.set_result(result)

        self._schedule(on_thread)
        return future

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()

        def on_thread() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(fn(*args, **kwargs))
            except Stopped:
                raise
            except BaseException as error:  # noqa: BLE001 - whoever waits for it gets it
                future.set_exception(error)

        self._schedule(on_thread)
        return future

    def _schedule(self, work: Callable[[], None]) -> None:
        now = self._loop.now
        done = max(now, self._free_at) + self._latency()
        self._free_at = done
        self._loop.post(done - now, OWNER.get(), work)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """There is no thread to end."""
