"""Data directories that refuse writes because their file system is full (I-99).

The first refusal marks the directory. The next heartbeat names every replica in it, so that its
followers leave their ISRs and its leaders hand over where a sound replica is in sync. The directory
counts again once there is room with a margin, after a minimum delay. That delay doubles each time
it fills up again soon: a quota refuses writes for which the file system has room.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_broker.hosts.disks.log_dirs import LogDir
    from strandline_broker.storage.directory.broker_directories import BrokerDirectories
    from strandline_runtime.runtime import Runtime

LOOK_S: Final = 1.0
ROOM_BYTES: Final = 16 << 20
"""Bytes that must be free before a full directory counts again."""
HOLD_S_MIN: Final = 2.0
HOLD_S_MAX: Final = 300.0
AGAIN_S: Final = 60.0
"""A directory that fills up again within this time stays out of use for longer."""


class Hold:
    """The minimum time that an exhausted resource stays out of use."""

    def __init__(self) -> None:
        self._since_s = 0.0
        self._ended_s: float | None = None
        self._hold_s = HOLD_S_MIN

    def begin(self, now_s: float) -> None:
        soon = self._ended_s is not None and now_s - self._ended_s < AGAIN_S
        self._hold_s = min(2 * self._hold_s, HOLD_S_MAX) if soon else HOLD_S_MIN
        self._since_s = now_s

    def is_over(self, now_s: float) -> bool:
        return now_s - self._since_s >= self._hold_s

    def end(self, now_s: float) -> None:
        """Record that the resource is in use again."""
        self._ended_s = now_s


class FullDirs:
    """The full directories of one broker. Its `BrokerDirectories` hold which ones are full; this
    holds the minimum time that each stays out of use.
    """

    def __init__(
        self, runtime: Runtime, directories: BrokerDirectories, on_change: Callable[[], None]
    ) -> None:
        """`on_change`: which replicas count may have changed."""
        from prometheus_client import Gauge

        self._fs = runtime.fs
        self._log = runtime.log
        self._clock = runtime.clock
        self._full = directories.full
        self._holds: defaultdict[str, Hold] = defaultdict(Hold)
        self._on_change = on_change
        self._gauge = Gauge(
            "strandline_full_log_dirs",
            "Data directories that have refused a write for want of room, and have none yet.",
            registry=runtime.metrics,
        )

    def on_refused(self, each: LogDir) -> None:
        """Mark the directory, which has refused a write for lack of room."""
        path = each.path
        if path in self._full:
            return
        self._holds[path].begin(self._clock.monotonic())
        self._full.add(path)
        self._gauge.set(len(self._full))
        names = sorted(f"{log.topic}:{log.partition}" for log in each.directory.logs())
        self._log.warning(
            "data directory full: its replicas leave their ISRs, and hand over what they lead,"
            " where another sound replica is in sync",
            path=path,
            partitions=",".join(names),
            next=f"free disk space: with {ROOM_BYTES >> 20} MiB they come back by themselves",
        )
        self._on_change()

    def look(self, each: LogDir) -> None:
        """Put the directory back into use if it has room; blocking."""
        path = each.path
        if path not in self._full or not self._holds[path].is_over(self._clock.monotonic()):
            return
        try:
            free = self._fs.free_space(path)
        except OSError as error:
            self._log.warning("free space not known", path=path, reason=str(error))
            return
        if free >= ROOM_BYTES:
            self._full.discard(path)

    async def watch(self, each: LogDir) -> None:
        """Check now and then, on the directory's own thread, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(LOOK_S)
            if each.path not in self._full:
                continue
            await loop.run_in_executor(each.disk, self.look, each)
            if each.path not in self._full:
                self.on_room(each)

    def on_room(self, each: LogDir) -> None:
        """Note that a check has found room again."""
        self._holds[each.path].end(self._clock.monotonic())
        self._gauge.set(len(self._full))
        self._log.warning("data directory has room again", path=each.path)
        self._on_change()
