"""A thread of a simulated process: functions run one after the other, each at once at a seeded
later time.

A function that has been submitted and has not begun can still be cancelled, as in a real pool; one
that has begun runs to its end, whoever waits for it.
"""

from __future__ import annotations

import concurrent.futures
from functools import partial
from typing import TYPE_CHECKING, Any

from strandline_proof.sim.owner import OWNER, Stopped

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from strandline_proof.sim.loop import SimLoop


class SimExecutor(concurrent.futures.Executor):
    """`latency()` draws how long a function takes, in seconds."""

    def __init__(self, loop: SimLoop, latency: Callable[[], float]) -> None:
        self._loop = loop
        self._latency = latency
        self._free_at = 0.0
        self._hangs_until = 0.0
        self._hang_s: float | None = None
        """While a function runs: for how long its operations hang."""

    def hang(self, seconds: float) -> bool:
        """An operation of the function that runs now comes back so much later, and with it all
        that this thread has to do; False if none of this thread's runs. The event loop goes on.
        """
        if self._hang_s is None:
            return False
        self._hang_s += seconds
        return True

    def run(self, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """The function's outcome, as the event loop gets it."""
        future: asyncio.Future[Any] = self._loop.create_future()

        def work() -> Callable[[], None] | None:
            if future.cancelled():
                return None
            try:
                result = func(*args)
            except Stopped:
                raise
            except BaseException as error:  # noqa: BLE001 - whoever waits for it gets it
                return partial(_settle, future, future.set_exception, error)
            return partial(_settle, future, future.set_result, result)

        self._schedule(work)
        return future

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()

        def work() -> Callable[[], None] | None:
            if not future.set_running_or_notify_cancel():
                return None
            try:
                result = fn(*args, **kwargs)
            except Stopped:
                raise
            except BaseException as error:  # noqa: BLE001 - whoever waits for it gets it
                return partial(future.set_exception, error)
            return partial(future.set_result, result)

        self._schedule(work)
        return future

    def _schedule(self, work: Callable[[], Callable[[], None] | None]) -> None:
        """`work` does what is asked for and returns what tells the outcome."""
        now = self._loop.now
        done = max(now, self._free_at) + self._latency()
        self._free_at = done

        def on_thread() -> None:
            if self._hangs_until > self._loop.now:
                self._post(self._hangs_until, on_thread)
                return
            self._hang_s = 0.0
            try:
                tell = work()
            finally:
                hang_s, self._hang_s = self._hang_s, None
            if hang_s == 0.0:
                if tell is not None:
                    tell()
                return
            self._hangs_until = self._loop.now + hang_s
            self._free_at = max(self._free_at, self._hangs_until)
            if tell is not None:
                self._post(self._hangs_until, _named_as_of_a_thread(tell))

        self._post(done, on_thread)

    def _post(self, at_s: float, work: Callable[[], None]) -> None:
        self._loop.post(at_s - self._loop.now, OWNER.get(), work)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """There is no thread to end."""


def _settle(future: asyncio.Future[Any], how: Callable[[Any], None], outcome: Any) -> None:
    if not future.cancelled():
        how(outcome)


def _named_as_of_a_thread(tell: Callable[[], None]) -> Callable[[], None]:
    """The loop knows by the name what goes on while it stands still."""

    def on_thread() -> None:
        tell()

    return on_thread
