"""The threads that write to one data directory.

Each log always uses the same thread, so work on a log runs in the order of the requests. Logs on
different threads have no order between them. A disk makes several threads' requests durable
together. Steps that are requested while a thread is busy then run side by side
(`storage/files/steps.py`): many small files cost little more than one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from strandline_broker.hosts.disks.blocking_work import to_the_end
from strandline_broker.hosts.disks.flusher import Flusher
from strandline_broker.storage.files.steps import side_by_side

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from strandline_broker.storage.files.steps import Steps
    from strandline_runtime.runtime import Runtime

T = TypeVar("T")

LANES: Final = 4
SIDE_BY_SIDE_MAX: Final = 64
"""Works in one job; then other work that waits for the thread has its turn."""


class _Asked(Generic[T]):
    """Steps that wait for a thread, and what has become of them."""

    __slots__ = ("outcome", "steps")

    def __init__(self, steps: Steps[T]) -> None:
        self.steps = steps
        self.outcome: T | Exception = AssertionError("the group of these steps broke off")


class DiskLane:
    def __init__(self, thread: Executor) -> None:
        self.thread = thread
        self.flusher = Flusher(thread)
        self._asked: deque[_Asked[Any]] = deque()

    async def in_group(self, steps: Steps[T]) -> T:
        """Run the steps beside those of all other waiting callers, to their end, even if the caller
        is cancelled. Raises their OSError or KafkaStorageError; an OSError is then the cause of a
        `CancelledError`.
        """
        asked = _Asked(steps)
        self._asked.append(asked)
        # The first job runs all waiting steps; the other jobs find theirs done.
        try:
            await to_the_end(self.thread, self._take_all)
        except asyncio.CancelledError as cancelled:
            if isinstance(asked.outcome, OSError):
                raise cancelled from asked.outcome
            raise
        if isinstance(asked.outcome, Exception):
            raise asked.outcome
        return asked.outcome

    def _take_all(self) -> None:
        group: list[_Asked[Any]] = []
        while self._asked and len(group) < SIDE_BY_SIDE_MAX:
            group.append(self._asked.popleft())
        if group:
            found = side_by_side(each.steps for each in group)
            for each, outcome in zip(group, found, strict=True):
                each.outcome = outcome


class DiskLanes:
    """The writing threads of one data directory."""

    def __init__(self, runtime: Runtime, number: int) -> None:
        self.all = [DiskLane(runtime.serial_executor(f"disk-{number}-{i}")) for i in range(LANES)]

    def of(self, topic_id: bytes, partition: int) -> DiskLane:
        """The thread of that replica."""
        return self.all[(topic_id[-1] + partition) % LANES]
