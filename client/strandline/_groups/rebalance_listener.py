"""Calls of the rebalance listener: in polls of the application, one call at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, NoReturn

from strandline.errors import ClientMisused, ConfigurationError, describe

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline.types import TopicPartition
    from strandline_runtime.runtime import Runtime

REVOKED, ASSIGNED, LOST = (
    "on_partitions_revoked",
    "on_partitions_assigned",
    "on_partitions_lost",
)


class ConsumerRebalanceListener:
    """Base class of listeners for `subscribe(listener=...)`; methods may be coroutines or not.

    Methods run within a poll (`getone`, `getmany`, iteration, `wait_assigned`), `unsubscribe` or
    `stop`, never concurrently, and must not call these themselves. The poll raises the error of a
    method; the rebalance continues.
    """

    async def on_partitions_revoked(self, revoked: frozenset[TopicPartition]) -> None:
        """Runs before other members get these partitions: the last chance to commit them."""

    async def on_partitions_assigned(self, assigned: frozenset[TopicPartition]) -> None:
        """Runs before records of these new partitions arrive; `seek` may change their positions."""

    async def on_partitions_lost(self, lost: frozenset[TopicPartition]) -> None:
        """Runs if the group has reassigned these partitions already: their commits fail."""
        await self.on_partitions_revoked(lost)


def check_listener(listener: object) -> None:
    for method in (REVOKED, ASSIGNED):
        if listener is not None and not callable(getattr(listener, method, None)):
            raise ConfigurationError(
                f"listener={listener!r} has no {method}; derive it from ConsumerRebalanceListener"
            )


class Listening:
    """The application's listener, and the call that waits for a poll to run it."""

    def __init__(self, runtime: Runtime, call_for_poll: Callable[[], None]) -> None:
        self.listener: Any = None
        self.always = False
        """True if the application waits for the end of all calls: they need no poll."""
        self._runtime = runtime
        self._call_for_poll = call_for_poll
        self._allowed = asyncio.Event()
        self._ended = asyncio.Event()
        self._is_pending = False
        self._task: asyncio.Task[Any] | None = None
        """The task that runs the listener now."""
        self._failures: deque[Exception] = deque()

    @property
    def is_running(self) -> bool:
        return self._task is not None

    def require_outside(self, what: str) -> None:
        """Raises ClientMisused in the listener itself, which would wait for its own end."""
        if self._task is not None and self._task is asyncio.current_task():
            self.refuse(what)

    @staticmethod
    def refuse(what: str) -> NoReturn:
        raise ClientMisused(
            f"{what} was called in a rebalance listener, and would wait for itself; commit, seek, "
            "pause and ask there, and poll after it"
        )

    async def call(self, method: str, find: Callable[[], frozenset[TopicPartition]]) -> None:
        """Calls the listener in the next poll, with the partitions that `find` returns then.

        Returns at the end of that call.
        """
        function = getattr(self.listener, method, None)
        if function is None and method == LOST:
            function = getattr(self.listener, REVOKED, None)
        if function is None:
            return
        self._is_pending = True
        self._ended.clear()
        try:
            self._call_for_poll()
            if not self.always:
                self._allowed.clear()
                await self._allowed.wait()
            if partitions := find():
                await self._run(function, partitions)
        finally:
            self._is_pending = False
            self._ended.set()

    async def _run(self, function: Any, partitions: frozenset[TopicPartition]) -> None:
        task = self._task = asyncio.current_task()
        assert task is not None
        try:
            result = function(partitions)
            if isawaitable(result):
                await result
        except asyncio.CancelledError as error:
            if task.cancelling() > 0:
                raise
            self._note(ClientMisused(f"a rebalance listener was cancelled: {describe(error)}"))
        except Exception as error:  # noqa: BLE001 - its next poll raises it
            self._note(error)
        finally:
            self._task = None

    def _note(self, error: Exception) -> None:
        self._runtime.log.warning("a rebalance listener raised", error=describe(error))
        self._failures.append(error)

    def allow(self) -> None:
        """Lets a pending call run now, because the application waits."""
        self._allowed.set()

    async def attend(self) -> None:
        """Runs a pending call, and raises the error of an earlier one; part of a poll."""
        while self._is_pending:
            self._allowed.set()
            await self._ended.wait()
        if self._failures:
            raise self._failures.popleft()
