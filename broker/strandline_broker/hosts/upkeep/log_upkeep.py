"""A broker's background work for its logs: log starts, retention, compaction, flushes by time,
checkpoints.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from strandline_broker.hosts.disks.flush_schedule import FlushSchedule
from strandline_broker.hosts.disks.log_starts import LogStarts
from strandline_broker.hosts.upkeep.log_checkpoints import LogCheckpoints
from strandline_broker.hosts.upkeep.log_cleaner import LogCleaner
from strandline_broker.hosts.upkeep.log_retention import LogRetention
from strandline_broker.hosts.upkeep.segment_removals import SegmentRemovals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from strandline_broker.hosts.common.dynamic_config import DynamicConfig
    from strandline_broker.hosts.disks.log_dirs import LogDirs
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_runtime.runtime import Runtime


class LogUpkeep:
    def __init__(
        self,
        runtime: Runtime,
        config: DynamicConfig,
        dirs: LogDirs,
        partitions: Callable[[], Iterable[Partition]],
    ) -> None:
        """`partitions`: all that this broker holds at the time of asking."""
        self.log_starts = LogStarts(runtime, dirs)
        self.removals = SegmentRemovals(runtime, dirs)
        self.retention = LogRetention(
            runtime, config, dirs, self.log_starts, self.removals, partitions
        )
        self.cleaner = LogCleaner(runtime, config, dirs, self.removals)
        self.flushes = FlushSchedule(runtime.clock, config.current, dirs)
        self.checkpoints = LogCheckpoints(runtime, config.current, dirs, partitions)

    def on_configured(self, partition: Partition) -> None:
        """Take over the partition's configuration, which may have changed."""
        self.flushes.on_configured(partition.log)
        self.cleaner.on_configured(partition)

    def on_flushed(self, partition: Partition) -> None:
        """Note that a flush of the log has ended."""
        self.flushes.on_flushed(partition.log)

    async def leave_alone(self, partition: Partition) -> None:
        """Returns once nothing of a cleaning of the log is left; the caller holds the gate."""
        await self.cleaner.abandon(partition)

    def forget(self, partition: Partition) -> None:
        """Drop the partition, which is no longer held."""
        self.flushes.forget(partition.log)
        self.removals.forget(partition.log)
        self.cleaner.forget(partition)

    async def run(self) -> None:
        """Do the background work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.log_starts.run(), name="log-starts")
            group.create_task(self.retention.run(), name="retention")
            group.create_task(self.removals.run(), name="deleted-segments")
            group.create_task(self.cleaner.run(), name="log-cleaner")
            group.create_task(self.flushes.run(), name="flush-interval")
            group.create_task(self.checkpoints.run(), name="checkpoints")
