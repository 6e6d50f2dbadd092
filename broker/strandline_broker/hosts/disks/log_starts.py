"""Durable log starts: one write of a directory's log-start checkpoint serves all requests that
arrived during the write before.

A log start counts in memory at once. Its checkpoint is durable before three events: any file below
it is removed (I-74), a follower reports it, DeleteRecords is answered. So no crash restores records
that a client knows to be deleted.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeAlias

from strandline_proto.errors import KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from strandline_broker.hosts.disks.log_dirs import LogDir, LogDirs
    from strandline_broker.storage.directory.shared_checkpoints import Taken
    from strandline_broker.storage.log.log import Log
    from strandline_runtime.runtime import Runtime

OnDone: TypeAlias = "Callable[[KafkaStorageError | None], None]"

RETRY_S: Final = 1.0


class LogStarts:
    """The log starts of one broker, owned by `LogUpkeep`, whose task group runs `run`. No directory
    waits for another one.
    """

    def __init__(self, runtime: Runtime, dirs: LogDirs) -> None:
        self._log = runtime.log
        self._dirs = dirs
        self._waiting: dict[LogDir, asyncio.Queue[tuple[Log, OnDone]]] = {
            each: asyncio.Queue() for each in dirs.all
        }

    def request(self, log: Log, on_done: OnDone) -> None:
        """Call `on_done` once the current log start is durable, or could not be written."""
        if log.state.durable_start >= log.log_start_offset:
            on_done(None)
            return
        self._waiting[self._dirs.of(log)].put_nowait((log, on_done))

    def persist(self, log: Log, on_durable: Callable[[], None]) -> None:
        """Does the same as `request`, and retries until the log start is durable: no other caller
        would request it.
        """

        def on_done(error: KafkaStorageError | None) -> None:
            if error is None:
                on_durable()
            elif not log.deleted and self._dirs.of(log).failure is None:
                loop = asyncio.get_running_loop()
                loop.call_later(RETRY_S, self.persist, log, on_durable)

        self.request(log, on_done)

    async def durable(self, log: Log) -> None:
        """Return once the current log start is durable; KafkaStorageError if that fails."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def on_done(error: KafkaStorageError | None) -> None:
            if done.done():
                return
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)

        self.request(log, on_done)
        await done

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for log_dir in self._waiting:
                group.create_task(self._run(log_dir), name=f"log starts {log_dir.path}")

    async def _run(self, log_dir: LogDir) -> None:
        asked = self._waiting[log_dir]
        while True:
            waiting = [await asked.get()]
            while not asked.empty():
                waiting.append(asked.get_nowait())
            logs = dict.fromkeys(log for log, _ in waiting)
            # The limits first: the limit of a log that restarts after this line stays (I-75).
            taken = {log: log.limits.current() for log in logs if not log.deleted}
            beginnings = {log: log.state.beginnings for log in taken}
            starts = {log: log.log_start_offset for log in taken}
            error = await self._save(log_dir, starts, taken)
            if error is None:
                for log, start in starts.items():
                    log.log_start_is_durable(start, beginnings[log])
            for _, on_done in waiting:
                on_done(error)

    async def _save(
        self, log_dir: LogDir, starts: Mapping[Log, int], taken: Taken
    ) -> KafkaStorageError | None:
        offsets = {(log.topic, log.partition): start for log, start in starts.items()}
        try:
            if log_dir.failure is None:
                await self._dirs.save_in(log_dir, lambda to: to.write_log_starts(offsets, taken))
        except OSError as error:
            self._log.warning("log starts not written", reason=str(error))
            return KafkaStorageError(
                f"the log start could not be written ({error.strerror or error}); no file"
                f" was removed: try again"
            )
        if log_dir.failure is not None:
            return KafkaStorageError(f"{log_dir.path} is out of service: {log_dir.failure}")
        return None
