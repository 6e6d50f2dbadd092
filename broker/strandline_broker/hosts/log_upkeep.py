"""What a broker does for its logs in the background: log starts, retention,
compaction, flushes by time.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from strandline_broker.hosts.flush_schedule import FlushSchedule
from strandline_broker.hosts.log_cleaner import LogCleaner
from strandline_broker.hosts.log_retention import LogRetention
from strandline_broker.hosts.log_starts import LogStarts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from strandline_broker.hosts.partition import Partition
    from strandline_broker.hosts.replica_context import ReplicaContext


class LogUpkeep:
    def __init__(
        self,
        context: ReplicaContext,
        partitions: Callable[[], Iterable[Partition]],
    ) -> None:
        """`partitions`: all that this broker holds at the time of asking."""
        self.log_starts = LogStarts(context.runtime, context.dirs)
        self.retention = LogRetention(context, self.log_starts, partitions)
        self.cleaner = LogCleaner(context, partitions)
        self._flushes = FlushSchedule(context, partitions)

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.log_starts.run(), name="log-starts")
            group.create_task(self.retention.run(), name="retention")
            group.create_task(self.retention.purge(), name="deleted-segments")
            group.create_task(self.cleaner.run(), name="log-cleaner")
            group.create_task(self._flushes.run(), name="flush-interval")
