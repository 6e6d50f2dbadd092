"""Data directories that refuse writes as their file system is full (I-99).

The first refusal marks the directory: the next heartbeat names every replica in it, so that its
followers leave their ISRs and its leaders hand over where a sound replica is in sync. It counts
again when there is room, with a margin, and not before a while that doubles each time it fills up
again soon: a quota refuses what the file system has room for.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_broker.hosts.log_dirs import LogDir
    from strandline_broker.storage.directory.broker_directories import BrokerDirectories
    from strandline_runtime.runtime import Runtime

LOOK_S: Final = 1.0
ROOM_BYTES: Final = 16 << 20
"""So much must be free before a full directory counts again."""
HOLD_S_MIN: Final = 2.0
HOLD_S_MAX: Final = 300.0
AGAIN_S: Final = 60.0
"""A directory that is full again so soon after it had room stays out for longer."""


class FullDirs:
    """Of one broker. Which ones are full stands in its `BrokerDirectories`, with how long each is
    left out at least.
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
        self._since_s: dict[str, float] = {}
        self._had_room_s: dict[str, float] = {}
        self._hold_s: dict[str, float] = {}
        self._on_change = on_change
        self._gauge = Gauge(
            "strandline_full_log_dirs",
            "Data directories that have refused a write for want of room, and have none yet.",
            registry=runtime.metrics,
        )

    def on_refused(self, each: LogDir) -> None:
        """It has refused a write for want of room."""
        path, now_s = each.path, self._clock.monotonic()
        if path in self._full:
            return
        hold_s = HOLD_S_MIN
        if path in self._had_room_s and now_s - self._had_room_s[path] < AGAIN_S:
            hold_s = min(2 * self._hold_s[path], HOLD_S_MAX)
        self._hold_s[path], self._since_s[path] = hold_s, now_s
        self._full.add(path)
        self._gauge.set(len(self._full))
        names = sorted(f"{log.topic}-{log.partition}" for log in each.directory.logs())
        self._log.warning(
            "data directory full: its replicas leave their ISRs, and hand over what they lead,"
            " where another sound replica is in sync",
            path=path,
            partitions=",".join(names),
            next=f"free disk space: with {ROOM_BYTES >> 20} MiB they come back by themselves",
        )
        self._on_change()

    def look(self, each: LogDir) -> None:
        """Let it count again if it may; blocking."""
        path, now_s = each.path, self._clock.monotonic()
        if path not in self._full or now_s - self._since_s[path] < self._hold_s[path]:
            return
        try:
            free = self._fs.free_space(path)
        except OSError as error:
            self._log.warning("free space not known", path=path, reason=str(error))
            return
        if free >= ROOM_BYTES:
            self._full.discard(path)

    async def watch(self, each: LogDir) -> None:
        """Look now and then, on the directory's own thread, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(LOOK_S)
            if each.path not in self._full:
                continue
            await loop.run_in_executor(each.disk, self.look, each)
            if each.path not in self._full:
                self.on_room(each)

    def on_room(self, each: LogDir) -> None:
        """A look has found that it has room again."""
        self._had_room_s[each.path] = self._clock.monotonic()
        self._gauge.set(len(self._full))
        self._log.warning("data directory has room again", path=each.path)
        self._on_change()
