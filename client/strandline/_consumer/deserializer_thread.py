"""A thread for the deserializers of the program: one that blocks ends a poll, not the event loop.

The thread is a daemon: a deserializer that never returns does not keep the process from its end.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

In = TypeVar("In")
Out = TypeVar("Out")

BLOCKED_MAX: Final = 8
"""Most threads of one consumer that blocked deserializers may hold."""


class Job(Generic[In, Out]):
    """Items to convert in order. The thread appends to `results`; the loop only reads them."""

    def __init__(
        self, items: Sequence[In], convert: Callable[[In], Out], is_last: Callable[[Out], bool]
    ) -> None:
        self.items = items
        self.results: list[Out] = []
        self.is_begun = False
        self.is_abandoned = False
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._convert, self._is_last = convert, is_last
        self._loop = asyncio.get_running_loop()

    def run(self) -> None:
        """Converts the items, on the thread."""
        self.is_begun = True
        for item in self.items:
            if self.is_abandoned:
                return
            result = self._convert(item)
            self.results.append(result)
            if self._is_last(result):
                break
        with suppress(RuntimeError):  # the loop was closed meanwhile
            self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


class DeserializerThread:
    """One thread at a time, replaced when a deserializer blocks it."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Job[object, object] | None] | None = None
        self._blocked = 0

    @property
    def is_used_up(self) -> bool:
        """True if blocked deserializers hold as many threads as they may."""
        return self._blocked >= BLOCKED_MAX

    async def run(
        self,
        items: Sequence[In],
        convert: Callable[[In], Out],
        is_last: Callable[[Out], bool],
        timeout_s: float,
    ) -> list[Out]:
        """Converts the items and returns the results, in their order.

        They are fewer than the items if one `is_last`, or if the conversion of the next item takes
        longer than `timeout_s`. `convert` raises nothing.
        """
        job = Job(items, convert, is_last)
        self._submit(job)
        try:
            while True:
                before = len(job.results), job.is_begun
                try:
                    async with asyncio.timeout(timeout_s):
                        await asyncio.shield(job.ended)
                    return job.results
                except TimeoutError:
                    if job.ended.done():
                        return job.results
                    if (len(job.results), job.is_begun) == before:
                        self._replace()
                        if job.is_begun:
                            return job.results[: len(job.results)]
                        job = Job(items, convert, is_last)  # behind an earlier one, which blocks
                        self._submit(job)
        finally:
            job.is_abandoned = True

    def _submit(self, job: Job[In, Out]) -> None:
        if self._jobs is None:
            self._jobs = SimpleQueue()
            serve = _serving(self._jobs)
            threading.Thread(target=serve, name="strandline-deserializer", daemon=True).start()
        self._jobs.put(job)  # type: ignore[arg-type]

    def _replace(self) -> None:
        self._blocked += 1
        self.close()

    def close(self) -> None:
        """Ends the thread once its job has ended."""
        if self._jobs is not None:
            self._jobs.put(None)
            self._jobs = None


def _serving(jobs: SimpleQueue[Job[object, object] | None]) -> Callable[[], None]:
    """The thread's function: it holds the queue alone, not its owner."""

    def serve() -> None:
        while (job := jobs.get()) is not None:
            job.run()

    return serve
