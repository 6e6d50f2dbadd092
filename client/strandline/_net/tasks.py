"""The tasks of one client object, with one owner.

A producer may be entered in one task and left in another (a test fixture, the blocking façade),
which a TaskGroup does not allow. The group therefore lives in a root task of its own; the object
holds that task and waits for its end.

A failure in any of the tasks ends all of them, calls `on_failure` at once, and is raised again by
`close`. A cancellation that does not come from `close` also ends all of them, but `close` then has
nothing to raise.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from strandline.errors import ClientClosed

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


class Tasks:
    """A TaskGroup that outlives the call which opened it."""

    def __init__(self, name: str, on_failure: Callable[[BaseException], None]) -> None:
        self._name = name
        self._on_failure = on_failure
        self._root: asyncio.Task[None] | None = None
        self._group: asyncio.TaskGroup | None = None
        self._running: set[asyncio.Task[None]] = set()
        self._ending = False

    async def open(self) -> None:
        opened = asyncio.get_running_loop().create_future()
        self._root = asyncio.get_running_loop().create_task(self._run(opened), name=self._name)
        await opened

    async def _run(self, opened: asyncio.Future[None]) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                if not opened.cancelled():
                    opened.set_result(None)
                await asyncio.get_running_loop().create_future()  # until close() cancels
        except BaseExceptionGroup as failures:
            self._on_failure(failures.exceptions[0])
            raise
        except asyncio.CancelledError:
            if self._root is not None:
                self._on_failure(
                    ClientClosed("its background tasks were cancelled from outside; stop it first")
                )
            raise
        finally:
            self._group = None

    def start(self, coroutine: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None] | None:
        """Runs `coroutine` in the group; returns None if the group has ended already."""
        if self._group is None:
            coroutine.close()
            return None
        task = self._group.create_task(coroutine, name=f"{self._name}: {name}")
        self._running.add(task)
        task.add_done_callback(self._on_end)
        return task

    def _on_end(self, task: asyncio.Task[None]) -> None:
        """Cancels the other tasks after a cancelled one; no task ends by itself.

        The group itself cancels them after a failure.
        """
        self._running.discard(task)
        if task.cancelled() and self._root is not None and not self._ending:
            self._root.cancel()
        self._ending = True

    async def close(self) -> None:
        """Cancels every task and waits for them. Raises the error of a failed one."""
        root, self._root = self._root, None
        if root is None:
            return
        root.cancel()
        for task in self._running:  # before it takes another step, in an object that is closed
            task.cancel()
        await asyncio.wait([root])
        if not root.cancelled() and (failure := root.exception()) is not None:
            raise failure
