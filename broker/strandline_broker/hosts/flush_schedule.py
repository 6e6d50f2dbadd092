"""When a log is flushed in the background: after `flush.ms`, or `flush.messages` records.

This bounds what a machine that loses power loses here; that acknowledged records survive it is the
work of replication, or of flush.policy=always.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from strandline_broker.hosts.partition import Partition
    from strandline_broker.hosts.replica_context import ReplicaContext
    from strandline_broker.storage.log import Log

SWEEP_S_MAX: Final = 0.5
SWEEP_S_MIN: Final = 0.01


def flush_if_many(context: ReplicaContext, log: Log) -> None:
    """After an append: `flush.messages`."""
    if log.log_end_offset - log.durable_offset >= log.config.flush_messages:
        context.flusher.request(log)


class FlushSchedule:
    """`flush.ms` of all logs; owned by `LogUpkeep`, whose task group runs `run`."""

    def __init__(
        self, context: ReplicaContext, partitions: Callable[[], Iterable[Partition]]
    ) -> None:
        self._context = context
        self._partitions = partitions
        self._dirty_since_ms: dict[Log, int] = {}
        """When a log was first seen to hold what is not durable."""

    async def run(self) -> None:
        while True:
            pause_s = self.sweep(self._context.now_ms())
            await asyncio.sleep(pause_s)

    def sweep(self, now_ms: int) -> float:
        """Ask for the flushes that are due; seconds until it is worth looking again."""
        dirty: dict[Log, int] = {}
        pause_s = SWEEP_S_MAX
        for partition in self._partitions():
            log = partition.log
            pause_s = min(pause_s, log.config.flush_ms / 2000)
            if log.durable_offset >= log.log_end_offset:
                continue
            since_ms = self._dirty_since_ms.get(log, now_ms)
            if now_ms - since_ms >= log.config.flush_ms:
                self._context.flusher.request(log)
                since_ms = now_ms
            dirty[log] = since_ms
        self._dirty_since_ms = dirty
        return max(pause_s, SWEEP_S_MIN)
