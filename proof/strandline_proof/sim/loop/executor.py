"""A thread of a simulated process: functions run one after the other, each at once at a seeded
later time.

A submitted function that has not begun can still be cancelled, as in a real pool. One that has
begun runs to its end, even if its caller is gone. If an operation of it stands still
(`stalled_work.py`), the rest of the function comes later, and so do this thread's later functions.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any

from strandline_proof.sim.loop.owner import OWNER, Stopped
from strandline_proof.sim.loop.stalled_work import Aside

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from strandline_proof.sim.loop.loop import SimLoop


class SimExecutor(concurrent.futures.Executor):
    """A thread. `latency()` draws the duration of a function, in seconds; `may_stand_still` says
    whether a function that begins now may stand still in its middle.
    """

    def __init__(
        self,
        loop: SimLoop,
        latency: Callable[[], float],
        may_stand_still: Callable[[], bool] = lambda: False,
    ) -> None:
        self._loop = loop
        self._latency = latency
        self._may_stand_still = may_stand_still
        self._aside: Aside | None = None
        """The function that has begun and stands still, or may."""
        self._waiting: list[Callable[[], None]] = []
        """Work that is due behind it."""
        self._free_at = 0.0
        self._hangs_until = 0.0
        self._hang_s: float | None = None
        """The time for which operations of the running function hang."""
        self._known_then: list[Callable[[], None]] = []
        """Callbacks that are due with the outcome of the running function."""

    def hang(self, seconds: float) -> bool:
        """Delays the return of the running function's operation, and all later work of this thread.
        Returns False if no function of this thread runs. The event loop goes on.
        """
        if self._hang_s is None:
            return False
        self._hang_s += seconds
        return True

    @property
    def runs(self) -> bool:
        """True if its function runs now, and does not stand still."""
        return self._hang_s is not None

    @property
    def goes_aside(self) -> bool:
        """True if its function runs now, and may stand still."""
        return self._aside is not None and self._aside.goes_on

    def stand_still(self, seconds: float) -> bool:
        """Makes the running function, which calls this, go on so much later, while the event loop
        and other threads go on. Returns False if this thread's function does not run, or cannot
        stand still.
        """
        aside = self._aside
        if aside is None or not self.goes_aside:
            return False
        hang_s, self._hang_s = self._hang_s, None
        aside.stand_still(seconds)
        self._hang_s = hang_s
        return True

    def when_known(self, then: Callable[[], None]) -> None:
        """Calls `then` when the event loop gets the running function's outcome, after all its hangs
        and standstills.
        """
        self._known_then.append(then)

    def end(self) -> None:
        """Ends the thread with its process: a function that stands still ends at its next
        operation.
        """
        aside = self._aside
        if aside is None or aside.goes_on:
            return
        self._aside = None
        self._waiting.clear()
        with contextlib.suppress(Stopped):
            aside.go_on()

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
            except BaseException as error:  # noqa: BLE001 - its waiter gets it
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
            except BaseException as error:  # noqa: BLE001 - its waiter gets it
                return partial(future.set_exception, error)
            return partial(future.set_result, result)

        self._schedule(work)
        return future

    def _schedule(self, work: Callable[[], Callable[[], None] | None]) -> None:
        """Schedules `work`, which runs the function and returns a callback with its outcome."""
        now = self._loop.now
        done = max(now, self._free_at) + self._latency()
        self._free_at = done

        def on_thread() -> None:
            if self._aside is not None:
                self._waiting.append(on_thread)
                return
            if self._hangs_until > self._loop.now:
                self._post(self._hangs_until, on_thread)
                return
            self._hang_s = 0.0
            if self._may_stand_still():
                self._go_on(Aside(work))
                return
            try:
                tell = work()
            finally:
                hang_s, self._hang_s = self._hang_s, None
            self._tell(tell, hang_s)

        self._post(done, on_thread)

    def _go_on(self, aside: Aside) -> None:
        self._aside = aside
        pause_s: float | None = None
        try:
            pause_s = aside.go_on()
        finally:
            if pause_s is None:
                hang_s, self._hang_s = self._hang_s or 0.0, None
                self._aside = None
                waiting, self._waiting = self._waiting, []
        if pause_s is None:
            self._tell(aside.outcome, hang_s)
            for each in waiting:
                self._post(self._loop.now, each)
            return

        def on_thread() -> None:
            if self._aside is aside:
                self._go_on(aside)

        self._free_at = max(self._free_at, self._loop.now + pause_s)
        self._post(self._loop.now + pause_s, on_thread)

    def _tell(self, tell: Callable[[], None] | None, hang_s: float) -> None:
        known, self._known_then = self._known_then, []
        told = [*known, tell] if tell is not None else known
        if hang_s == 0.0:
            for each in told:
                each()
            return
        self._hangs_until = self._loop.now + hang_s
        self._free_at = max(self._free_at, self._hangs_until)
        if told:
            self._post(self._hangs_until, _named_as_of_a_thread(told))

    def _post(self, at_s: float, work: Callable[[], None]) -> None:
        self._loop.post(at_s - self._loop.now, OWNER.get(), work)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Does nothing: there is no thread to end."""


def _settle(future: asyncio.Future[Any], how: Callable[[Any], None], outcome: Any) -> None:
    if not future.cancelled():
        how(outcome)


def _named_as_of_a_thread(told: list[Callable[[], None]]) -> Callable[[], None]:
    """Gives the callback a name by which the loop knows what goes on while it stands still."""

    def on_thread() -> None:
        for each in told:
            each()

    return on_thread
