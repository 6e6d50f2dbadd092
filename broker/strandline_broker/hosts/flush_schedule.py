"""When a log is flushed: after `flush.ms`, after `flush.messages` records, or, under
flush.policy=always, after each append.

The first two bound what a machine that loses power loses here; that acknowledged records survive it
is the work of replication, or of flush.policy=always. A log is looked at from an append on until it
is durable: those at rest cost nothing, however many they are.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from strandline_runtime.milliseconds import monotonic_ms

if TYPE_CHECKING:
    from strandline_broker.config import BrokerConfig
    from strandline_broker.hosts.log_dirs import LogDirs
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
    ) -> None:
        self.always = config.flush_policy == "always"
        """What is acknowledged, or named in a fetch, is durable before."""
        self._clock = clock
        self._dirs = dirs
        self._dirty_since_ms: dict[Log, int] = {}
        """Since when a log holds what is not durable, or when its flush was asked for last."""
        self._pause_s = SWEEP_S_MAX
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
            self._dirty_since_ms[log] = monotonic_ms(self._clock)
            if len(self._dirty_since_ms) == 1 or _pause_s(log) < self._pause_s:
                self._wake.set()
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
            if not self._dirty_since_ms:
                await self._wake.wait()
            self._wake.clear()
            self._pause_s = self.sweep(monotonic_ms(self._clock))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._pause_s):
                    await self._wake.wait()

    def sweep(self, now_ms: int) -> float:
        """Ask for the flushes that are due; seconds until it is worth looking again."""
        pause_s = SWEEP_S_MAX
        for log, since_ms in list(self._dirty_since_ms.items()):
            if log.deleted or log.durable_offset >= log.log_end_offset:
                del self._dirty_since_ms[log]
                continue
            pause_s = min(pause_s, _pause_s(log))
            if now_ms - since_ms >= log.config.flush_ms:
                self._dirs.request(log)
                self._dirty_since_ms[log] = now_ms
        return pause_s


def _pause_s(log: Log) -> float:
    return max(log.config.flush_ms / 2000, SWEEP_S_MIN)
