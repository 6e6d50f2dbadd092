"""What an application is told when partitions come and go: in its polls, one call at a time."""

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
    """Derive from it what `subscribe(listener=...)` takes; methods may be coroutines or not.

    They run within a poll (`getone`, `getmany`, iteration, `wait_assigned`), `unsubscribe` or
    `stop`, never beside one another, and must not call these themselves. What one raises comes out
    of the poll; the rebalance goes on.
    """

    async def on_partitions_revoked(self, revoked: frozenset[TopicPartition]) -> None:
        """These go to other members once this returns; until then they can be committed."""

    async def on_partitions_assigned(self, assigned: frozenset[TopicPartition]) -> None:
        """These are new. Their positions are set, and may be changed by `seek`."""

    async def on_partitions_lost(self, lost: frozenset[TopicPartition]) -> None:
        """These are other members' already: nothing of them can be committed any more."""
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
        """The application waits for the end of all calls: they need no poll."""
        self._runtime = runtime
        self._call_for_poll = call_for_poll
        self._allowed = asyncio.Event()
        self._ended = asyncio.Event()
        self._is_pending = False
        self._task: asyncio.Task[Any] | None = None
        """Runs the listener at the moment."""
        self._failures: deque[Exception] = deque()

    @property
    def is_running(self) -> bool:
        return self._task is not None

    def require_outside(self, what: str) -> None:
        """Raise ClientMisused in the listener itself, which would wait for its own end."""
        if self._task is not None and self._task is asyncio.current_task():
            self.refuse(what)

    @staticmethod
    def refuse(what: str) -> NoReturn:
        raise ClientMisused(
            f"{what} was called in a rebalance listener, and would wait for itself; commit, seek, "
            "pause and ask there, and poll after it"
        )

    async def call(self, method: str, find: Callable[[], frozenset[TopicPartition]]) -> None:
        """Tell the application, as soon as it polls, of what is found then; returns when it has
        heard.
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
        except Exception as error:  # noqa: BLE001 - the application's; its next poll raises it
            self._note(error)
        finally:
            self._task = None

    def _note(self, error: Exception) -> None:
        self._runtime.log.warning("a rebalance listener raised", error=describe(error))
        self._failures.append(error)

    def allow(self) -> None:
        """The application waits: what is to be told may be told now."""
        self._allowed.set()

    async def attend(self) -> None:
        """Within a poll: have the listener run if it waits, and raise what one has raised."""
        while self._is_pending:
            self._allowed.set()
            await self._ended.wait()
        if self._failures:
            raise self._failures.popleft()
