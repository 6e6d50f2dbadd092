"""The shared checkpoint files with the durable state of every log, written now and then and at the
end.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from strandline_broker.config.keys import BrokerConfig
    from strandline_broker.hosts.disks.log_dirs import LogDirs
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_broker.storage.directory.directory import DataDirectory
    from strandline_runtime.runtime import Runtime

    Write = Callable[[DataDirectory], None]


class LogCheckpoints:
    """Owned by `LogUpkeep`, whose task group runs `run`."""

    def __init__(
        self,
        runtime: Runtime,
        config: BrokerConfig,
        dirs: LogDirs,
        partitions: Callable[[], Iterable[Partition]],
    ) -> None:
        self._log = runtime.log
        self._config = config
        self._dirs = dirs
        self._partitions = partitions

    async def run(self) -> None:
        config = self._config
        every_ms = config.replica_high_watermark_checkpoint_interval_ms
        async with asyncio.TaskGroup() as group:
            group.create_task(self._every(every_ms, self._watermarks))
            every_ms = config.log_flush_offset_checkpoint_interval_ms
            group.create_task(self._every(every_ms, self._recovery_points))

    async def _every(self, interval_ms: int, save: Callable[[], Write]) -> None:
        while True:
            await asyncio.sleep(interval_ms / 1000)
            try:
                await self._dirs.save(save())
            except OSError as error:
                # The former checkpoint stays; recovery then starts a little earlier.
                self._log.warning("checkpoint not written", reason=str(error))

    async def save(self) -> None:
        """Write all shared checkpoints now. Raises OSError if they could not be written."""
        await self._dirs.save(self._watermarks())
        await self._dirs.save(self._recovery_points())

    def _watermarks(self) -> Write:
        """The high watermark of every local log, whether it has a role or not (P-16)."""
        partitions = list(self._partitions())
        taken = {p.log: p.log.limits.current() for p in partitions}
        # A truncation counts at once, though the watermark may not have followed yet.
        offsets = {
            (p.log.topic, p.log.partition): min(p.high_watermark, p.log.log_end_offset)
            for p in partitions
        }
        return lambda directory: directory.write_high_watermarks(offsets, taken)

    def _recovery_points(self) -> Write:
        logs = [p.log for p in self._partitions()]
        taken = {log: log.limits.current() for log in logs}
        offsets = {(log.topic, log.partition): log.durable_offset for log in logs}
        starts = {(log.topic, log.partition): log.log_start_offset for log in logs}
        cleaned = {(log.topic, log.partition): log.cleaned_to for log in logs}

        def save(directory: DataDirectory) -> None:
            directory.write_recovery_points(offsets)
            directory.write_log_starts(starts, taken)
            directory.write_cleaned_offsets(cleaned)

        return save
