"""When a log is flushed: after `flush.ms`, after `flush.messages` records, or, under
flush.policy=always, after each append.

The first two bound what a machine that loses power loses here; that acknowledged records survive it
is the work of replication, or of flush.policy=always. A log is looked at when its time is over: one
at rest costs nothing, nor does one that waits, however many they are.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from strandline_broker.core.deadlines import Deadlines
from strandline_runtime.milliseconds import monotonic_ms

if TYPE_CHECKING:
    from strandline_broker.config.keys import BrokerConfig
    from strandline_broker.hosts.disks.log_dirs import LogDirs
    from strandline_broker.storage.log.log import Log
    from strandline_runtime.runtime import Clock

FLUSH_MS_MIN: Final = 10
"""A shorter `flush.ms` counts as this: between two flushes there is time for something else."""


class FlushSchedule:
    """Of all logs of a broker; owned by `LogUpkeep`, whose task group runs `run`."""

    def __init__(
        self,
        clock: Clock,
        config: BrokerConfig,
        dirs: LogDirs,
    ) -> None:
        self.always = config.flush_policy == "always"
        """What is acknowledged, or named in a fetch, is durable before."""
        self._clock = clock
        self._dirs = dirs
        self._dirty_since_ms: dict[Log, int] = {}
        """Since when a log holds what is not durable, or when its flush was asked for last."""
        self._due: Deadlines[Log] = Deadlines()
        self._wake = asyncio.Event()

    def on_append(self, log: Log, *, rolled: bool) -> None:
        """A leader has appended; `rolled`: to a new segment, which has sealed the one before."""
        if self.always or rolled:
            self._dirs.request(log)
        else:
            self.on_copied(log)

    def on_copied(self, log: Log) -> None:
        """A follower has appended. It asks for what it names by `holds_back`."""
        if log not in self._dirty_since_ms:
            self._wait_since(log, monotonic_ms(self._clock))
        if log.log_end_offset - log.durable_offset >= log.config.flush_messages:
            self._dirs.request(log)

    def on_flushed(self, log: Log) -> None:
        """A flush has made it durable, or some of it."""
        if log.durable_offset >= log.log_end_offset:
            self.forget(log)

    def on_configured(self, log: Log) -> None:
        """Its `flush.ms` may be another one."""
        since_ms = self._dirty_since_ms.get(log)
        if since_ms is not None:
            self._wait_since(log, since_ms)

    def forget(self, log: Log) -> None:
        """Nothing of it waits."""
        self._dirty_since_ms.pop(log, None)
        self._due.drop(log)

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

    def _wait_since(self, log: Log, since_ms: int) -> None:
        self._dirty_since_ms[log] = since_ms
        due_ms, next_ms = since_ms + max(log.config.flush_ms, FLUSH_MS_MIN), self._due.next_ms
        self._due.set(log, due_ms)
        if next_ms is None or due_ms < next_ms:
            self._wake.set()

    async def run(self) -> None:
        """`flush.ms`, until cancelled."""
        while True:
            self._wake.clear()
            now_ms = monotonic_ms(self._clock)
            self.ask(now_ms)
            next_ms = self._due.next_ms
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if next_ms is None else (next_ms - now_ms) / 1000):
                    await self._wake.wait()

    def ask(self, now_ms: int) -> None:
        """Ask for the flushes that are due."""
        for log in self._due.due(now_ms):
            if log.deleted or log.durable_offset >= log.log_end_offset:
                self.forget(log)
            else:
                self._dirs.request(log)
                self._wait_since(log, now_ms)
