"""Replicas that take too long for a new role.

Their envelope is answered without them, well within a session. So the controller elects other
leaders for these partitions only (P-79). It does not fence a broker because one of its replicas is
slow (I-94).

A late replica continues. Until it has taken its role, no newer state is applied to it, so that no
older role ever follows a newer one (I-34, I-44). The newest deferred role then follows at once: a
leader that was deposed meanwhile serves no client (I-83). Then the broker requests everything
again.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from strandline_proto.errors import KafkaStorageError, WireError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine
    from typing import Any

    from strandline_runtime.runtime import Runtime

Key = tuple[bytes, int]

SHARE: Final = 2 / 3
"""Share of a session within which the answer is sent: the controller's session must not end
first.
"""


class LateRoles:
    def __init__(
        self, runtime: Runtime, *, session_s: Callable[[], float], on_done: Callable[[], None]
    ) -> None:
        self._log = runtime.log
        self._session_s = session_s
        self._on_done = on_done
        self._late: dict[Key, asyncio.Task[WireError | None]] = {}
        self._put_off: dict[Key, Callable[[], Coroutine[Any, Any, None]]] = {}
        """The newest role of each late one, to be taken after the one that it is on the way to."""
        self._tasks: asyncio.TaskGroup | None = None

    @asynccontextmanager
    async def owned(self) -> AsyncIterator[None]:
        """Roles may be taken within this context; its end cancels those under way."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                yield
            finally:
                self._tasks = None
                for task in self._late.values():
                    task.cancel()

    def limit_s(self) -> float:
        """The longest time that an envelope waits for a role that a disk delays."""
        return SHARE * self._session_s()

    def why(self, key: Key) -> KafkaStorageError | None:
        """The reason why nothing may be applied to the replica now; None if something may."""
        if key not in self._late:
            return None
        return KafkaStorageError("it is still on the way to the role before")

    def put_off(self, key: Key, take: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Defer this role until the late replica has finished its current one. It replaces any role
        that was deferred before.
        """
        self._put_off[key] = take

    async def in_time(self, key: Key, take: Coroutine[Any, Any, None]) -> None:
        """Take the role. Raises what `take` raises, or KafkaStorageError after the limit."""
        assert self._tasks is not None, "roles are taken under `owned`"
        task = self._tasks.create_task(self._take(key, take))
        limit_s = self.limit_s()
        await asyncio.wait([task], timeout=limit_s)
        if not task.done():
            self._late[key] = task
            task.add_done_callback(lambda _: self._on_late_done(key))
            raise KafkaStorageError(f"it has not come to its role in {limit_s:.1f} s; it goes on")
        error = task.result()
        if error is not None:
            raise error

    async def end(self, key: Key) -> None:
        """End a replica's late role: the replica is removed."""
        task = self._late.get(key)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _take(self, key: Key, take: Coroutine[Any, Any, None]) -> WireError | None:
        """Take the role, and what is put off meanwhile. Returns why the last could not be taken."""
        error = await _outcome(take)
        while (newer := self._put_off.pop(key, None)) is not None:
            error = await _outcome(newer())
        return error

    def _on_late_done(self, key: Key) -> None:
        task = self._late.pop(key)
        self._put_off.pop(key, None)
        if not task.cancelled() and task.exception() is None:
            self._log.info("a late role is taken", partition=key[1], failed=task.result())
            self._on_done()


async def _outcome(take: Coroutine[Any, Any, None]) -> WireError | None:
    try:
        await take
    except WireError as error:
        return error
    return None
