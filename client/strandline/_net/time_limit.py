"""The time limit of one call."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from strandline._net.arguments import milliseconds
from strandline.errors import OperationTimedOut

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


@asynccontextmanager
async def time_limit(timeout_ms: float | None, late: Callable[[], str]) -> AsyncIterator[None]:
    """Raises OperationTimedOut with `late()` once the block has taken `timeout_ms`; None: no limit.

    A TimeoutError of the block's own, such as of a program's iterable, passes.
    """
    seconds = None if timeout_ms is None else milliseconds("timeout_ms", timeout_ms) / 1000
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise OperationTimedOut(late()) from None
