"""Blocking work on a thread that whoever waits for it cannot leave half done."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

T = TypeVar("T")


async def to_the_end(executor: Executor, work: Callable[[], T]) -> T:
    """Run blocking work on a thread to its end, however often the caller is cancelled; its error
    is the cause of a `CancelledError` then.
    """
    loop = asyncio.get_running_loop()
    job, done = loop.run_in_executor(executor, work), loop.create_future()

    def tell(job: asyncio.Future[T]) -> None:
        if not job.cancelled():
            job.exception()  # whoever was cancelled need not look at it
        if not done.done():
            done.set_result(None)

    job.add_done_callback(tell)
    try:
        await done
    except asyncio.CancelledError as cancelled:
        while not job.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([job])
        if not job.cancelled() and job.exception() is not None:
            raise cancelled from job.exception()
        raise
    return job.result()
