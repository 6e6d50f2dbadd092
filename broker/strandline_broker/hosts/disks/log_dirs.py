"""The data directories in use: each has threads for its disk, flushers, and fails alone.

An I/O error takes the directory out of service (KIP-112): its replicas serve nothing, the
controller learns of it, and the other directories continue. A failed fsync is never retried (P-24).
The process ends with its last directory. A full disk is no such error: a write that does not fit is
refused, and everything else continues, see `full_dirs`.
"""

from __future__ import annotations

import asyncio
import os.path
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from strandline_broker.hosts.disks.blocking_work import to_the_end
from strandline_broker.hosts.disks.descriptors import Descriptors
from strandline_broker.hosts.disks.disk_lanes import DiskLanes
from strandline_broker.hosts.disks.full_dirs import FullDirs
from strandline_broker.storage.files.file import NO_DESCRIPTORS, NO_SPACE, PASSING
from strandline_proto.errors import KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Executor

    from strandline_broker.hosts.disks.disk_lanes import DiskLane
    from strandline_broker.hosts.disks.flusher import OnFlushed
    from strandline_broker.storage.directory.broker_directories import BrokerDirectories
    from strandline_broker.storage.directory.directory import DataDirectory
    from strandline_broker.storage.files.steps import Steps
    from strandline_broker.storage.log.log import Log
    from strandline_runtime.runtime import Runtime

T = TypeVar("T")

FULL_DISK_RETRY_S: Final = 5.0
"""Time until an operation that a full disk refused is tried again."""


def passes_with_room(error: BaseException | None) -> bool:
    """True if the cause is a full disk, or too many open files: the failure ends once there is
    room.
    """
    while error is not None:
        if isinstance(error, OSError) and error.errno in NO_SPACE | NO_DESCRIPTORS:
            return True
        error = error.__cause__
    return False


class LogDir:
    """One directory that is, or was, in service."""

    def __init__(self, runtime: Runtime, directory: DataDirectory, number: int) -> None:
        self.directory = directory
        self.lanes = DiskLanes(runtime, number)
        self.disk: Executor = self.lanes.all[0].thread
        """The thread for work on the directory that concerns no log."""
        self.cold: Executor = runtime.serial_executor(f"cold-reads-{number}")
        self.failure: str | None = None

    @property
    def path(self) -> str:
        return self.directory.path


class LogDirs:
    """The directories of one broker. `request` and `flushed` are those of the flusher to which the
    log belongs.
    """

    def __init__(
        self,
        runtime: Runtime,
        directories: BrokerDirectories,
        *,
        on_failed: Callable[[LogDir], None],
        on_full: Callable[[], None],
    ) -> None:
        """`on_failed`: the replicas of that directory serve nothing from now on. `on_full`: which
        directories refuse writes for want of room has changed.
        """
        self._runtime = runtime
        self.directories = directories
        self.all = [LogDir(runtime, d, number) for number, d in enumerate(directories.online)]
        self._by_path = {each.path: each for each in self.all}
        self.full = FullDirs(runtime, directories, on_full)
        self.descriptors = Descriptors(runtime, directories, on_full)
        self._registry = runtime.serial_executor("directories")
        self._on_failed = on_failed

    def of(self, log: Log) -> LogDir:
        return self._by_path[os.path.dirname(log.path)]

    def why_full(self, log: Log) -> str | None:
        """The reason why `log` accepts no writes: its directory refused a write and has no room
        yet, or descriptors ran out.
        """
        if self.directories.lacks_descriptors:
            return "no file descriptors are left"
        return "its disk is full" if self.of(log).path in self.directories.full else None

    def logs_without_room(self) -> list[Log]:
        """The logs that accept no writes, see `why_full`."""
        found: list[Log] = []
        everywhere = self.directories.lacks_descriptors
        for path in sorted(self._by_path if everywhere else self.directories.full):
            found += self._by_path[path].directory.logs()
        return found

    def online(self) -> list[LogDir]:
        return [each for each in self.all if each.failure is None]

    def for_new_logs(self, count: int) -> list[LogDir]:
        """A directory for each new log: the one in service that then has the fewest partitions."""
        held = {each: len(each.directory.logs()) for each in self.online()}
        chosen = []
        for _ in range(count):
            fewest = min(held, key=held.__getitem__)
            held[fewest] += 1
            chosen.append(fewest)
        return chosen

    # Work on the disks' threads

    async def in_registry(self, work: Callable[[], T], limit_s: float | None = None) -> T:
        """Run work that changes the set of replicas or the broker's remembered state, one at a
        time.
        """
        return await to_the_end(self._registry, work, limit_s)

    async def in_turns(self, log: Log, steps: Steps[T]) -> T:
        """Run cold reads that may take long. After each step, other work that waits for the
        directory's thread has its turn.
        """
        loop, thread = asyncio.get_running_loop(), self.of(log).cold
        while True:
            ended, found = await loop.run_in_executor(thread, partial(_step, steps))
            if ended:
                return cast("T", found)

    def lane(self, log: Log) -> DiskLane:
        return self.of(log).lanes.of(log.topic_id, log.partition)

    async def in_disk_pool(self, log: Log, work: Callable[[], T]) -> T:
        return await to_the_end(self.lane(log).thread, work)

    def request(self, log: Log) -> None:
        self.lane(log).flusher.request(log)

    async def flushed(self, log: Log) -> None:
        await self.lane(log).flusher.flushed(log)

    async def remember(self, limit_s: float | None = None, **changes: Any) -> None:
        """Persist what the controller pushed, one request at a time. Raises OSError if no directory
        can store it, StillAtWorkError if none has within `limit_s` seconds.
        """
        while True:
            first = self.online()[0]
            try:
                await self.in_registry(partial(self.directories.update_state, **changes), limit_s)
            except OSError as error:
                if not self.suffers(first, error):
                    raise
            else:
                return

    async def forget_hosted(self, topic_id: bytes, partition: int) -> None:
        """Remove the note that this replica is hosted here. A directory that cannot store this goes
        out of service, while others are in service. OSError: the error is a passing one, or it is
        the last directory.
        """
        key = (topic_id, partition)
        while True:
            try:
                await self.in_registry(partial(self.directories.forget_hosted, *key))
            except OSError as error:
                behind = [d for d in self.online() if key in d.directory.state.hosted]
                if not behind or not self.suffers(behind[0], error):
                    raise
            else:
                return

    async def recorded(self) -> None:
        """Return once every request to `remember` is done, whichever caller waits for it."""
        await self.in_registry(lambda: None)

    async def run(self, on_flushed: OnFlushed) -> None:
        async with asyncio.TaskGroup() as group:
            for each in self.all:
                for lane in each.lanes.all:
                    flushing = self._flush(each, lane, on_flushed)
                    group.create_task(flushing, name=f"flusher {each.path}")
                group.create_task(self.full.watch(each), name=f"free space {each.path}")
            group.create_task(self.descriptors.watch(), name="descriptors")

    async def _flush(self, each: LogDir, lane: DiskLane, on_flushed: OnFlushed) -> None:
        try:
            await self.flushing(each, lane.flusher.run(on_flushed))
        except OSError as error:
            over = KafkaStorageError(f"{each.path} is out of service: {error}")
            for other in each.lanes.all:
                other.flusher.give_up(over)

    async def flushing(self, each: LogDir, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` and raise its errors. A failed flush takes the directory out of service, even
        if no caller waits for it any more: a retry might succeed wrongly (P-24).
        """
        try:
            await work
        except (OSError, asyncio.CancelledError) as error:
            refused = error if isinstance(error, OSError) else error.__cause__
            if isinstance(refused, OSError):
                self.fail(each, f"a flush failed and is never tried again: {refused}")
            raise

    async def save(self, write: Callable[[DataDirectory], None]) -> None:
        """Does `save_in` for each directory in service."""
        saving = [self.save_in(each, write) for each in self.online()]
        for error in await asyncio.gather(*saving, return_exceptions=True):
            if error is not None:
                raise error

    async def save_in(self, each: LogDir, write: Callable[[DataDirectory], None]) -> None:
        """Write a shared checkpoint file of a directory, on its own thread. OSError if it could not
        be written, and the directory stays in service.
        """
        try:
            await to_the_end(each.disk, partial(write, each.directory))
        except OSError as error:
            if not self.suffers(each, error):
                raise

    # Failure

    def refuse_write(self, log: Log, error: OSError, where: str) -> KafkaStorageError:
        """The answer to a failed write to `log`. The directory goes out of service, unless the
        failure is a passing one.
        """
        why = f"{where}: {error.strerror or error}; nothing was written"
        if error.errno in NO_SPACE:
            self.full.on_refused(self.of(log))
            return KafkaStorageError(f"{why}: free disk space in {log.path}")
        if error.errno in NO_DESCRIPTORS:
            self.descriptors.on_refused(error)
        if error.errno not in PASSING:
            self.fail(self.of(log), f"a write failed: {where}: {error}")
        return KafkaStorageError(why)

    def passes(self, error: OSError) -> bool:
        """True if a failed read, in any thread, is no fault of the disk."""
        if error.errno in NO_DESCRIPTORS:
            self.descriptors.note(error)
        return error.errno in PASSING

    def suffers(self, each: LogDir, error: OSError) -> bool:
        """Handle a failed operation that can wait: take the directory out of service, unless the
        error is a passing one, or it is the last directory.
        """
        if error.errno in PASSING or len(self.online()) == 1 or each.failure is not None:
            return False
        self.fail(each, str(error))
        return True

    def fail(self, each: LogDir, why: str) -> None:
        """Take the directory out of service; the process ends with the last one."""
        if each.failure is not None:
            return
        if len(self.online()) == 1:
            self._runtime.exit(f"{why} (in {each.path}, the last data directory in service)")
        each.failure = why
        self.directories.take_out(each.directory, why)
        self._runtime.log.error(
            "data directory out of service",
            path=each.path,
            reason=why,
            left=",".join(other.path for other in self.online()),
        )
        self._on_failed(each)


def _step(steps: Steps[T]) -> tuple[bool, T | None]:
    try:
        next(steps)
    except StopIteration as end:  # which no future can carry
        return True, end.value
    return False, None
