"""A broker that may open no more files (I-99).

Descriptors belong to the process, not to a disk. So the first refused log stands for all: the next
heartbeat names every replica, as if all disks were full. Other brokers then lead where a sound
replica is in sync.

The replicas count again once some descriptors are spare, after a minimum delay. That delay doubles
each time the descriptors run out again soon.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from strandline_broker.hosts.disks.full_dirs import LOOK_S, Hold
from strandline_broker.storage.directory.meta_properties import FILE_NAME
from strandline_broker.storage.files.file import READ, File

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_broker.storage.directory.broker_directories import BrokerDirectories
    from strandline_runtime.runtime import Runtime

SPARE: Final = 32
"""Number of files that must open at the same time before replicas count again."""


class Descriptors:
    """The descriptors of one broker. Its `BrokerDirectories` hold the flag that they are
    exhausted.
    """

    def __init__(
        self, runtime: Runtime, directories: BrokerDirectories, on_change: Callable[[], None]
    ) -> None:
        """`on_change`: which replicas count has changed."""
        from prometheus_client import Gauge

        self._runtime = runtime
        self._directories = directories
        self._on_change = on_change
        self._hold = Hold()
        self._noted: OSError | None = None
        self._look = runtime.serial_executor("descriptors")
        self._gauge = Gauge(
            "strandline_lacks_descriptors",
            "Whether a log was refused a file descriptor, and there are none to spare yet.",
            registry=runtime.metrics,
        )

    def on_refused(self, why: OSError) -> None:
        """Note that no file could be opened for a log."""
        if self._directories.lacks_descriptors:
            return
        self._directories.lacks_descriptors = True
        self._hold.begin(self._runtime.clock.monotonic())
        self._gauge.set(1)
        self._runtime.log.error(
            "no file descriptors left: all replicas here leave their ISRs, and hand over what they"
            " lead, where another sound replica is in sync",
            why=why.strerror,
            limit=self._runtime.descriptors,
            next="close connections or raise the limit of open files (ulimit -Hn, LimitNOFILE=)"
            " and restart; with some to spare they come back by themselves",
        )
        self._on_change()

    def note(self, why: OSError) -> None:
        """Does the same as `on_refused`, from any thread: the next check finds it."""
        self._noted = why

    async def watch(self) -> None:
        """Check now and then, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(LOOK_S)
            noted, self._noted = self._noted, None
            if noted is not None:
                self.on_refused(noted)
            now_s = self._runtime.clock.monotonic()
            if not self._directories.lacks_descriptors or not self._hold.is_over(now_s):
                continue
            if await loop.run_in_executor(self._look, self._has_some):
                self._directories.lacks_descriptors = False
                self._hold.end(now_s)
                self._gauge.set(0)
                self._runtime.log.warning("there are file descriptors again")
                self._on_change()

    def _has_some(self) -> bool:
        path = f"{self._directories.online[0].path}/{FILE_NAME}"
        opened: list[File] = []
        try:
            for _ in range(SPARE):
                opened.append(File(self._runtime.fs, path, READ))
        except OSError:
            return False
        finally:
            for file in opened:
                file.close()
        return True
