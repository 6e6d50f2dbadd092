"""When a log is flushed: after `flush.ms`, after `flush.messages` records, or, under
flush.policy=always, after each append.

The first two bound what a machine that loses power loses here; that acknowledged records survive it
is the work of replication, or of flush.policy=always.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from strandline_runtime.milliseconds import monotonic_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from strandline_broker.config import BrokerConfig
    from strandline_broker.hosts.log_dirs import LogDirs
    from strandline_broker.hosts.partition import Partition
    from strandline_broker.storage.log import Log
    from strandline_runtime.runtime import Clock

SWEEP_S_MAX: Final = 0.5
SWEEP_S_MIN: Final = 0.01


class FlushSchedule:
    """Of all logs of a broker; owned by `LogUpkeep`, whose task group runs `run`."""

    def __init__(
        self,
        clock: Clock,
        config: BrokerConfig,
        dirs: LogDirs,
        partitions: Callable[[], Iterable[Partition]],
    ) -> None:
        self.always = config.flush_policy == "always"
        """What is acknowledged, or named in a fetch, is durable before."""
        self._clock = clock
        self._dirs = dirs
        self._partitions = partitions
        self._dirty_since_ms: dict[Log, int] = {}
        """When a log was first seen to hold what is not durable."""

    def on_append(self, log: Log, *, rolled: bool) -> None:
        """A leader has appended; `rolled`: to a new segment, which has sealed the one before."""
        if self.always or rolled:
            self._dirs.request(log)
        else:
            self.on_copied(log)

    def on_copied(self, log: Log) -> None:
        """A follower has appended: `flush.messages`. It asks for what it names by `holds_back`."""
        if log.log_end_offset - log.durable_offset >= log.config.flush_messages:
            self._dirs.request(log)

    def on_elected(self, log: Log) -> None:
        """Its leader counts what is durable of it."""
        if self.always:
            self._dirs.request(log)

    def holds_back(self, log: Log) -> bool:
        """Whether a fetch may not name the log's end yet, which it would thereby call durable
        (P-75); the flush is asked for.
        """
        if not self.always or log.durable_offset >= log.log_end_offset:
            return False
        self._dirs.request(log)
        return True

    async def before_fetch(self, log: Log) -> None:
        """Return once a fetch may name the log's end as it is now."""
        if self.always:
            await self._dirs.flushed(log)

    async def run(self) -> None:
        """`flush.ms`, until cancelled."""
        while True:
            pause_s = self.sweep(monotonic_ms(self._clock))
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
                self._dirs.request(log)
                since_ms = now_ms
            dirty[log] = since_ms
        self._dirty_since_ms = dirty
        return max(pause_s, SWEEP_S_MIN)
