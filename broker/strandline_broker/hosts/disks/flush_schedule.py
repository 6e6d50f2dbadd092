"""The schedule of log flushes: after `flush.ms`, after `flush.messages` records or, under
flush.policy=always, after each append.

The first two bound the records that a machine loses with its power. Replication or
flush.policy=always keeps acknowledged records. A log is checked when its time is due. So logs at
rest, and any number of waiting logs, cost nothing.
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
"""The shortest effective `flush.ms`: it leaves time for other work between two flushes."""


class FlushSchedule:
    """The flush schedule of all logs of a broker; owned by `LogUpkeep`, whose task group runs
    `run`.
    """

    def __init__(
        self,
        clock: Clock,
        config: BrokerConfig,
        dirs: LogDirs,
    ) -> None:
        self.always = config.flush_policy == "always"
        """True if records are durable before they are acknowledged, or named in a fetch."""
        self._clock = clock
        self._dirs = dirs
        self._dirty_since_ms: dict[Log, int] = {}
        """Time since which a log has undurable records, or of its last requested flush."""
        self._due: Deadlines[Log] = Deadlines()
        self._wake = asyncio.Event()

    def on_append(self, log: Log, *, rolled: bool) -> None:
        """Note a leader's append; `rolled`: it went to a new segment, which has sealed the one
        before.
        """
        if self.always or rolled:
            self._dirs.request(log)
        else:
            self.on_copied(log)

    def on_copied(self, log: Log) -> None:
        """Note a follower's append. The follower requests the flush that it needs by
        `holds_back`.
        """
        if log not in self._dirty_since_ms:
            self._wait_since(log, monotonic_ms(self._clock))
        if log.log_end_offset - log.durable_offset >= log.config.flush_messages:
            self._dirs.request(log)

    def on_flushed(self, log: Log) -> None:
        """Note that a flush has made the log, or part of it, durable."""
        if log.durable_offset >= log.log_end_offset:
            self.forget(log)

    def on_configured(self, log: Log) -> None:
        """Take over the log's `flush.ms`, which may have changed."""
        since_ms = self._dirty_since_ms.get(log)
        if since_ms is not None:
            self._wait_since(log, since_ms)

    def forget(self, log: Log) -> None:
        """Drop the log: none of its appends waits for a flush."""
        self._dirty_since_ms.pop(log, None)
        self._due.drop(log)

    def on_elected(self, log: Log) -> None:
        """Note the log's new leader, which counts the durable part of it."""
        if self.always:
            self._dirs.request(log)

    def holds_back(self, log: Log) -> bool:
        """True if a fetch may not name the log's end yet, because that would declare it durable
        (P-75). The flush is then requested.
        """
        if not self.always or log.durable_offset >= log.log_end_offset:
            return False
        self._dirs.request(log)
        return True

    async def before_fetch(self, log: Log) -> None:
        """Return once a fetch may name the log's current end."""
        if self.always:
            await self._dirs.flushed(log)

    def _wait_since(self, log: Log, since_ms: int) -> None:
        self._dirty_since_ms[log] = since_ms
        due_ms, next_ms = since_ms + max(log.config.flush_ms, FLUSH_MS_MIN), self._due.next_ms
        self._due.set(log, due_ms)
        if next_ms is None or due_ms < next_ms:
            self._wake.set()

    async def run(self) -> None:
        """Flush by `flush.ms` until cancelled."""
        while True:
            self._wake.clear()
            now_ms = monotonic_ms(self._clock)
            self.ask(now_ms)
            next_ms = self._due.next_ms
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if next_ms is None else (next_ms - now_ms) / 1000):
                    await self._wake.wait()

    def ask(self, now_ms: int) -> None:
        """Request the flushes that are due."""
        for log in self._due.due(now_ms):
            if log.deleted or log.durable_offset >= log.log_end_offset:
                self.forget(log)
            else:
                self._dirs.request(log)
                self._wait_since(log, now_ms)
