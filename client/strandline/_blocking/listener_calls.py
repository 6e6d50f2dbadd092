"""Runs a blocking consumer's rebalance listener on the thread that polls.

The listener may therefore call the consumer, as in Kafka's clients.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from inspect import isawaitable, iscoroutine
from typing import TYPE_CHECKING, Any, TypeVar

from strandline._groups.rebalance_listener import ASSIGNED, LOST, REVOKED, Listening
from strandline.errors import ClientMisused, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from strandline.types import TopicPartition

T = TypeVar("T")


class Job:
    """One call of a listener, which the application's thread runs."""

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function
        self._loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = self._loop.create_future()

    def run(self) -> None:
        error: Exception | None = None
        try:
            result = self._function()
            if isawaitable(result):
                if iscoroutine(result):
                    result.close()
                error = ConfigurationError(
                    "the listener of a blocking consumer has plain methods; derive it from "
                    "strandline.sync.ConsumerRebalanceListener"
                )
        except Exception as raised:  # noqa: BLE001 - the application's; its poll raises it
            error = raised
        except BaseException:
            error = ClientMisused("a rebalance listener was interrupted")
            raise
        finally:
            self._loop.call_soon_threadsafe(self._settle, error)

    def _settle(self, error: Exception | None) -> None:
        if self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)


class Serving:
    """The jobs of one blocking consumer, and the threads that wait for it."""

    def __init__(self) -> None:
        self._jobs: deque[Job] = deque()
        self._news = threading.Condition()
        self._running_in: int | None = None
        """The thread that runs a listener."""

    def require_outside(self, what: str) -> None:
        if self._running_in == threading.get_ident():
            Listening.refuse(what)

    async def run(self, function: Callable[[], object]) -> None:
        """Passes the function to a thread that waits for the consumer; called on the loop."""
        job = Job(function)
        with self._news:
            self._jobs.append(job)
            self._news.notify_all()
        await job.done

    def wait(self, future: Future[T]) -> T:
        """Waits for a call, and runs its jobs meanwhile; called on the application's thread."""
        future.add_done_callback(self._notify)
        try:
            while (job := self._next(future)) is not None:
                self._running_in = threading.get_ident()
                try:
                    job.run()
                finally:
                    self._running_in = None
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _notify(self, _: object) -> None:
        with self._news:
            self._news.notify_all()

    def _next(self, future: Future[Any]) -> Job | None:
        with self._news:
            while not self._jobs:
                if future.done():
                    return None
                self._news.wait()
            return self._jobs.popleft()


class Served:
    """A listener of plain methods, wrapped for the asynchronous consumer."""

    def __init__(self, listener: Any, serving: Serving) -> None:
        self._listener = listener
        self._serving = serving

    async def on_partitions_revoked(self, revoked: frozenset[TopicPartition]) -> None:
        await self._serving.run(lambda: getattr(self._listener, REVOKED)(revoked))

    async def on_partitions_assigned(self, assigned: frozenset[TopicPartition]) -> None:
        await self._serving.run(lambda: getattr(self._listener, ASSIGNED)(assigned))

    async def on_partitions_lost(self, lost: frozenset[TopicPartition]) -> None:
        function = getattr(self._listener, LOST, None) or getattr(self._listener, REVOKED)
        await self._serving.run(lambda: function(lost))
