"""The removal of files of segments that have left their logs, each when its `file.delete.delay.ms`
is over.

A log is checked when one of its files is due: logs without such files cost nothing, however many
they are.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from strandline_broker.core.deadlines import Deadlines
from strandline_runtime.milliseconds import monotonic_ms

if TYPE_CHECKING:
    from strandline_broker.hosts.disks.log_dirs import LogDirs
    from strandline_broker.storage.log.log import Log
    from strandline_runtime.runtime import Runtime


class SegmentRemovals:
    """The removals of all logs of a broker; owned by `LogUpkeep`, whose task group runs `run`."""

    def __init__(self, runtime: Runtime, dirs: LogDirs) -> None:
        self._clock = runtime.clock
        self._log = runtime.log
        self._dirs = dirs
        self._due: Deadlines[Log] = Deadlines()
        self._wake = asyncio.Event()

    def on_deleted(self, log: Log) -> None:
        """Note that some segments of `log` were renamed."""
        due_ms = log.deleted_segments.next_ms
        if due_ms is not None:
            self._due.set(log, due_ms)
            self._wake.set()

    def forget(self, log: Log) -> None:
        """Drop the log, whose directory is removed as a whole."""
        self._due.drop(log)

    async def run(self) -> None:
        while True:
            self._wake.clear()
            now_ms = monotonic_ms(self._clock)
            for log in self._due.due(now_ms):
                await self._purge(log, now_ms)
            next_ms = self._due.next_ms
            pause_s = None if next_ms is None else (next_ms - monotonic_ms(self._clock)) / 1000
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._wake.wait()

    async def _purge(self, log: Log, now_ms: int) -> None:
        try:
            await self._dirs.in_disk_pool(log, lambda: log.deleted_segments.purge(now_ms))
        except OSError as error:
            self._log.warning("a deleted file stays", reason=str(error))
        self.on_deleted(log)
