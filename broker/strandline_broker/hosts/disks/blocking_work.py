"""Blocking work on a thread that runs to its end even if its caller is cancelled."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

T = TypeVar("T")


class StillAtWorkError(Exception):
    """The thread has not finished within the limit. It continues, and its error is dropped."""


async def to_the_end(executor: Executor, work: Callable[[], T], limit_s: float | None = None) -> T:
    """Run blocking work on a thread to its end, however often the caller is cancelled. Its error is
    then the cause of a `CancelledError`. Raises StillAtWorkError after `limit_s` seconds.
    """
    loop = asyncio.get_running_loop()
    job, done = loop.run_in_executor(executor, work), loop.create_future()

    def tell(job: asyncio.Future[T]) -> None:
        if job.done() and not job.cancelled():
            job.exception()  # a cancelled caller need not retrieve it
        if not done.done():
            done.set_result(None)

    job.add_done_callback(tell)
    limit = None if limit_s is None else loop.call_later(limit_s, tell, job)
    try:
        await done
    except asyncio.CancelledError as cancelled:
        while not job.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([job])
        if not job.cancelled() and job.exception() is not None:
            raise cancelled from job.exception()
        raise
    finally:
        if limit is not None:
            limit.cancel()
    if not job.done():
        raise StillAtWorkError(f"it has not done so in {limit_s:.1f} s; it goes on")
    return job.result()
