"""How often the event loop turns while something is done: its other work has as many turns."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


async def with_turns(work: Coroutine[object, object, T]) -> tuple[T, int]:
    """Its result, and the turns of the loop until it was there."""
    task = asyncio.create_task(work)
    turns = 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    return task.result(), turns
