"""The opening of every log at the start: in each directory on a few threads
(`num.recovery.threads.per.data.dir`), with progress in the broker's log.

After a crash this reads all bytes above the recovery points, which takes time. After a clean stop
it only opens files.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from strandline_broker.hosts.common.dynamic_config import keep_everything
from strandline_broker.hosts.disks.blocking_work import to_the_end
from strandline_broker.hosts.disks.log_dirs import passes_with_room
from strandline_broker.hosts.disks.producer_loading import load_producers
from strandline_broker.storage.files.damage import BadBatch, DamagedLog
from strandline_proto.errors import WireError
from strandline_runtime.milliseconds import monotonic_ms, wall_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_broker.core.replication.producer_state import ProducerStates
    from strandline_broker.hosts.common.dynamic_config import DynamicConfig
    from strandline_broker.storage.directory.directory import DataDirectory
    from strandline_broker.storage.directory.partition_dirs import PartitionDir
    from strandline_broker.storage.log.log import Log
    from strandline_runtime.runtime import Runtime

PROGRESS_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Loaded:
    """One partition's directory, with its log or the reason why there is none."""

    directory: DataDirectory
    found: PartitionDir
    log: Log | None = None
    producers: ProducerStates | None = None
    refusal: str = ""
    lacked_space: bool = False
    """True if a full disk is the only reason."""


class LogLoader:
    def __init__(self, runtime: Runtime, config: DynamicConfig) -> None:
        self._runtime = runtime
        self._config = keep_everything(config)
        self._expiration_ms = config.current.producer_id_expiration_ms
        self._threads = config.current.num_recovery_threads_per_data_dir
        self._loaded: list[Loaded] = []
        self._total = 0
        self._bytes = 0

    async def load(self, directories: Sequence[DataDirectory]) -> list[Loaded]:
        """Open every log; blocking work runs on separate threads. A cancelled caller waits for the
        logs that are being opened, and no other is started: the directories may be released then
        (P-71).
        """
        begun_s = self._runtime.clock.monotonic()
        work = {directory: deque(directory.partitions()) for directory in directories}
        self._total = sum(map(len, work.values()))
        async with asyncio.TaskGroup() as group:
            telling = group.create_task(self._tell_progress(begun_s))
            async with asyncio.TaskGroup() as threads:
                for directory, waiting in work.items():
                    for number in range(min(self._threads, len(waiting))):
                        threads.create_task(self._on_thread(directory, waiting, number))
            telling.cancel()
        self._tell("logs loaded", begun_s)
        return self._loaded

    async def load_one(self, directory: DataDirectory, found: PartitionDir) -> Loaded:
        """Open that one log, to the end even if the caller is cancelled."""
        thread = self._runtime.serial_executor("recovery-late")
        try:
            return await to_the_end(thread, partial(self._open, directory, found))
        finally:
            thread.shutdown(wait=False)

    async def _on_thread(
        self, directory: DataDirectory, waiting: deque[PartitionDir], number: int
    ) -> None:
        thread = self._runtime.serial_executor(f"recovery-{number}")
        loop = asyncio.get_running_loop()
        job = loop.run_in_executor(thread, partial(self._drain, directory, waiting))
        try:
            await asyncio.shield(job)
        except asyncio.CancelledError:
            waiting.clear()
            while not job.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([job])
            raise
        finally:
            thread.shutdown(wait=False)

    def _drain(self, directory: DataDirectory, waiting: deque[PartitionDir]) -> None:
        while waiting:
            try:
                found = waiting.popleft()
            except IndexError:
                return  # another thread took the last one
            self._loaded.append(self._open(directory, found))

    def _open(self, directory: DataDirectory, found: PartitionDir) -> Loaded:
        try:
            log = directory.load_log(found, self._config, self._report, on_bytes=self._scanned)
            clock = self._runtime.clock
            producers = load_producers(
                log,
                expiration_ms=self._expiration_ms,
                now_ms=monotonic_ms(clock),
                wall_ms=wall_ms(clock),
            )
        except (DamagedLog, BadBatch, OSError, WireError) as error:
            why = f"{found.topic}:{found.partition} is out of service: {error}"
            full = passes_with_room(error)
            if full:
                why += "; it is opened again by itself once there is room"
            self._runtime.log.error("replica refused", reason=why)
            return Loaded(directory, found, refusal=why, lacked_space=full)
        return Loaded(directory, found, log, producers)

    def _report(self, message: str) -> None:
        self._runtime.log.warning("recovery", report=message)

    def _scanned(self, size: int) -> None:
        self._bytes += size  # a lost update would cost a figure in a log line, nothing else

    async def _tell_progress(self, begun_s: float) -> None:
        while True:
            await asyncio.sleep(PROGRESS_S)
            self._tell("loading logs", begun_s)

    def _tell(self, what: str, begun_s: float) -> None:
        self._runtime.log.info(
            what,
            partitions=f"{len(self._loaded)} of {self._total}",
            bytes_scanned=self._bytes,
            seconds=round(self._runtime.clock.monotonic() - begun_s, 2),
        )
