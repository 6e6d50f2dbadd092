"""Targets of groups: computed at once if that is quick, else beside the event loop (P-149).

A target is followed by a pause in proportion to what it took, and whatever happened to the group
meanwhile shares the next one: thousands who join a large group at once cost tens of targets. (Of a
small one each has its target with its own joining.)
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from strandline_proto.errors import CoordinatorNotAvailable, WireError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Executor

    from strandline_broker.core.groups.commands import Assigned, Command, Reply
    from strandline_broker.core.groups.consumer.target import ToAssign
    from strandline_broker.core.groups.groups import Groups
    from strandline_runtime.runtime import Clock

PAUSE_FACTOR: Final = 10
PAUSE_S_MAX: Final = 1.0
QUICK_MAX: Final = 1_000
"""Members and partitions that an assignor divides in a few milliseconds."""
RETRY_S: Final = 0.5
"""After a target could not be written for want of replicas in sync."""


class Shard(Protocol):
    """The part of a shard that its targets need."""

    groups: Groups

    def to_assign(self, group_id: str) -> ToAssign | None: ...
    def run(self, command: Command) -> Reply: ...


Key = tuple[Shard, str]


class Assigning:
    def __init__(
        self,
        clock: Clock,
        new_executor: Callable[[], Executor],
        spawn: Callable[[Coroutine[None, None, None]], None],
    ) -> None:
        self._clock = clock
        self._new_executor = new_executor
        self._spawn = spawn
        self._executor: Executor | None = None
        self._wanted: set[Key] = set()
        """Since the last target of the group was begun."""
        self._busy: set[Key] = set()
        """A target is computed, or the pause after it lasts."""

    def want(self, host: Shard, group_id: str) -> None:
        """Computes a target for the group; the step of the shard is complete but for this."""
        key = (host, group_id)
        if key in self._busy:
            self._wanted.add(key)
            return
        wish = host.to_assign(group_id)
        if wish is None:
            return
        self._busy.add(key)
        began_s = self._clock.monotonic()
        done = _size(wish) <= QUICK_MAX and self._hand_in(host, wish.compute())
        took_s = self._clock.monotonic() - began_s
        self._spawn(self._go_on(key, None if done else wish, took_s))

    def forget(self, host: Shard) -> None:
        """Drops the requests of a shard that is loaded again or gone; a computation under way then
        has no effect.
        """
        self._wanted = {key for key in self._wanted if key[0] is not host}

    async def _go_on(self, key: Key, wish: ToAssign | None, took_s: float) -> None:
        """Until the group wants no target any more."""
        host, group_id = key
        groups = host.groups
        try:
            while True:
                if wish is not None:
                    began_s = self._clock.monotonic()
                    await self._compute(host, wish)
                    took_s = self._clock.monotonic() - began_s
                await asyncio.sleep(min(PAUSE_FACTOR * took_s, PAUSE_S_MAX))
                if key not in self._wanted or host.groups is not groups:
                    return
                self._wanted.discard(key)
                wish = host.to_assign(group_id)
        finally:
            self._busy.discard(key)
            if key in self._wanted and host.groups is not groups:
                # The shard was loaded again meanwhile, and has had to wait for this.
                self._wanted.discard(key)
                self.want(host, group_id)

    async def _compute(self, host: Shard, wish: ToAssign) -> None:
        groups = host.groups
        if _size(wish) <= QUICK_MAX:
            target = wish.compute()
        else:
            if self._executor is None:
                self._executor = self._new_executor()
            loop = asyncio.get_running_loop()
            target = await loop.run_in_executor(self._executor, wish.compute)
        while host.groups is groups:
            if self._hand_in(host, target):
                return
            await asyncio.sleep(RETRY_S)

    def _hand_in(self, host: Shard, target: Assigned) -> bool:
        """False: try again later."""
        try:
            taken = host.run(target)
        except CoordinatorNotAvailable:
            return False
        except WireError:
            return True  # the shard is thrown away, or the target too large for the topic
        if not taken:
            self._wanted.add((host, target.group_id))
        return True


def _size(wish: ToAssign) -> int:
    return len(wish.spec.members) + sum(wish.spec.partitions.values())
