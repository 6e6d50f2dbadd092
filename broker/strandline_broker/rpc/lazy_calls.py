"""Calls of a subject whose code the first call imports, because most brokers never serve one. The
import takes processor time, so it runs off the event loop.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from strandline_runtime.runtime import Runtime

    Call = Callable[[Any, Any], Awaitable[Any]]


def imported(name: str) -> Callable[[LazyCalls, Any, Any], Awaitable[Any]]:
    """Returns the method of that name, which imports the calls if it is the first one."""

    async def call(self: LazyCalls, request: Any, context: Any) -> Any:
        return await (await self.calls())[name](request, context)

    return call


class LazyCalls:
    """The calls of one subject on one listener."""

    def __init__(self, runtime: Runtime, thread: str, parts: Callable[[], Iterable[Any]]) -> None:
        """`parts` imports the handlers and returns them."""
        self._runtime = runtime
        self._parts = parts
        self._thread = thread
        self._calls: dict[str, Call] | None = None
        self._loading = asyncio.Lock()

    async def calls(self) -> dict[str, Call]:
        """Returns the handlers' methods by name."""
        if self._calls is None:
            async with self._loading:
                if self._calls is None:
                    thread = self._runtime.serial_executor(self._thread)
                    loop = asyncio.get_running_loop()
                    self._calls = await loop.run_in_executor(thread, self._load)
        return self._calls

    def _load(self) -> dict[str, Call]:
        return {
            name: getattr(part, name)
            for part in self._parts()
            for name in vars(type(part))
            if name[0].isupper()
        }
