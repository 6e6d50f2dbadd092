"""The tasks of a simulated process: the same order in every process that runs it."""

from __future__ import annotations

import asyncio
from typing import Any


class SimTask(asyncio.Task[Any]):
    """A task whose place in a set is its number, not its address."""

    def __init__(self, coro: Any, *, number: int, **options: Any) -> None:
        self.number = number
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self.number
