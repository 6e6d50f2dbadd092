"""What is written in a directory's thread may be of logs as they were a while ago (I-13, I-75)."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from strandline_broker.hosts.disks.log_starts import LogStarts
from strandline_broker.hosts.upkeep.log_checkpoints import LogCheckpoints
from strandline_broker.storage.files.checkpoints import HIGH_WATERMARKS, LOG_STARTS
from strandline_proto.batch import read_header
from strandline_proto.errors import KafkaStorageError
from strandline_runtime.real import RealFileSystem
from support.disk import Hurried
from support.replica_nodes import decide, run_node, state
from support.storage import LARGE, Store, batch_of, damaged

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from support.replica_nodes import Node


class InService:
    """A directory."""

    path, failure = "data", None


class Scene:
    """A log of 20 committed records; what is to be written waits for the directory's thread."""

    def __init__(self, path: Path) -> None:
        self.store = Store(path, LARGE, fs=Hurried())
        self.append(20)
        self.partition = SimpleNamespace(log=self.store.log, high_watermark=20)
        self.queued: list[Any] = []
        runtime: Any = SimpleNamespace(log=None)
        nothing: Any = None
        held: Any = [self.partition]
        dirs: Any = self
        self.all = [InService()]
        self.checkpoints = LogCheckpoints(runtime, nothing, dirs, lambda: held)
        self.starts = LogStarts(runtime, dirs)

    async def save(self, write: Any) -> None:
        self.queued.append(write)

    async def save_in(self, _: object, write: Any) -> None:
        await self.save(write)

    def of(self, _: object) -> Any:
        return self.all[0]

    async def save_start(self) -> None:
        running = asyncio.ensure_future(self.starts.run())
        await self.starts.durable(self.store.log)
        running.cancel()
        await asyncio.wait([running])

    def append(self, count: int) -> None:
        for _ in range(count):
            self.store.append(b"x")
        self.store.flush()

    def write(self) -> None:
        for write in self.queued:
            write(self.store.directory)
        self.queued.clear()

    def restart(self) -> int:
        """The high watermark that the next process begins with."""
        log = self.store.restart()
        return log.checkpointed_high_watermark


@pytest.mark.parametrize("shown", [False, True])
async def test_a_watermark_of_before_a_cut_does_not_count_behind_it(
    tmp_path: Path, shown: bool
) -> None:
    """`shown`: it was taken when the log showed its new end, and the watermark had not followed."""
    scene = Scene(tmp_path / "data")
    if not shown:
        await scene.checkpoints.save()
    scene.store.log.truncate_to(10)
    if shown:
        await scene.checkpoints.save()
    scene.partition.high_watermark = 10
    scene.append(20)
    scene.write()
    assert scene.restart() == 10


async def test_a_watermark_of_a_log_counts_for_no_other_of_its_name(tmp_path: Path) -> None:
    """No file has named that log yet, so nothing limits what they say of the next (P-51)."""
    scene = Scene(tmp_path / "data")
    await scene.checkpoints.save()
    scene.store.directory.delete_log(scene.store.log)
    scene.store.log = scene.store.create(bytes(16))
    scene.append(20)
    scene.write()
    assert scene.restart() == 0


async def test_a_cut_whose_watermark_was_written_is_limited_no_more(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "data")
    scene.store.log.truncate_to(10)
    scene.partition.high_watermark = 10
    scene.append(20)
    scene.partition.high_watermark = 25
    await scene.checkpoints.save()
    scene.write()
    assert scene.store.log.limits.lowest(HIGH_WATERMARKS) is None
    assert scene.restart() == 25


@pytest.mark.parametrize("save", [Scene.save_start, lambda scene: scene.checkpoints.save()])
async def test_a_log_start_of_before_a_log_began_anew_does_not_count_behind_it(
    tmp_path: Path, save: Callable[[Scene], Awaitable[None]]
) -> None:
    """Else what lies between the two seems to be missing: nobody has that any more (I-75, I-7)."""
    scene = Scene(tmp_path / "data")
    scene.store.log.raise_log_start(7)
    await save(scene)
    scene.store.log.truncate_fully_and_start_at(31)
    scene.append(1)
    scene.store.directory.write_recovery_points({("t", 0): 20})  # of before, and waited too
    scene.write()
    log = scene.store.restart()
    assert (log.log_start_offset, damaged(log), scene.store.values()) == (31, [], [b"x"])


@pytest.mark.parametrize("save", [Scene.save_start, lambda scene: scene.checkpoints.save()])
async def test_a_log_start_of_after_a_log_began_anew_is_limited_no_more(
    tmp_path: Path, save: Callable[[Scene], Awaitable[None]]
) -> None:
    scene = Scene(tmp_path / "data")
    scene.store.log.truncate_fully_and_start_at(31)
    scene.append(9)
    scene.store.log.raise_log_start(35)
    await save(scene)
    scene.write()
    assert scene.store.log.limits.lowest(LOG_STARTS) is None
    assert scene.store.restart().log_start_offset == 35


async def test_a_log_start_that_was_told_does_not_fall_in_its_file(tmp_path: Path) -> None:
    """All are taken a turn of the loop before they are on their way to the directory's thread, and
    one that was taken in between is there first (I-74, I-75).
    """
    scene = Scene(tmp_path / "data")
    scene.store.log.raise_log_start(5)
    await scene.checkpoints.save()
    overtaken, scene.queued = scene.queued, []
    scene.store.log.raise_log_start(15)
    await scene.save_start()
    scene.queued += overtaken
    assert scene.store.log.state.durable_start == 15
    scene.write()
    assert scene.store.restart().log_start_offset == 15


@pytest.mark.parametrize(("anew_at", "durable"), [(None, 15), (3, 3)])
async def test_a_log_start_counts_as_durable_for_the_log_that_began_there(
    tmp_path: Path, anew_at: int | None, durable: int
) -> None:
    """One write of it may take so long that the log begins anew lower, and rises past it again."""
    scene = Scene(tmp_path / "data")
    log = scene.store.log

    async def save(write: Any) -> None:
        if anew_at is not None:
            log.truncate_fully_and_start_at(anew_at)
            scene.append(17)
        log.raise_log_start(19)
        write(scene.store.directory)

    log.raise_log_start(15)
    scene.save = save  # type: ignore[method-assign]
    await scene.save_start()
    assert (log.log_start_offset, log.state.durable_start) == (19, durable)


class Failing(RealFileSystem):
    """Some directories' checkpoints meet an error each."""

    def __init__(self) -> None:
        self.errors: dict[str, int] = {}

    def replace(self, source: str, target: str) -> None:  # type: ignore[override]
        directory, _, name = target.rpartition("/")
        if directory in self.errors and name in (LOG_STARTS, HIGH_WATERMARKS):
            raise OSError(self.errors[directory], os.strerror(self.errors[directory]))
        super().replace(source, target)


@asynccontextmanager
async def with_two_directories(tmp_path: Path, fs: Failing) -> AsyncIterator[Node]:
    """A log in the first one that is read from offset 1 on, which no file says yet."""
    async with run_node(tmp_path, 2, fs, log_dirs=f"{tmp_path}/a,{tmp_path}/b") as node:
        await decide(state(1, epoch=1, isr=(1, 2)), node)
        log, batch = node.partition.log, batch_of(b"x", b"x")
        assert os.path.dirname(log.path) == f"{tmp_path}/a"
        log.append_as_leader(batch, read_header(batch), leader_epoch=1)
        node.partition.learn_high_watermark(2)
        assert node.partition.raise_log_start(1)
        yield node


async def test_a_log_start_is_not_durable_whose_directory_goes_out_of_service(
    tmp_path: Path,
) -> None:
    """The others go on, but no file below it may go (I-74)."""
    fs = Failing()
    async with with_two_directories(tmp_path, fs) as node:
        log = node.partition.log
        fs.errors = {f"{tmp_path}/a": errno.EIO}
        for _ in range(2):
            with pytest.raises(KafkaStorageError, match="out of service"):
                await node.replicas.upkeep.log_starts.durable(log)
        assert node.directory.failed.keys() == fs.errors.keys()
        assert log.state.durable_start == 0


@pytest.mark.parametrize("hangs", [False, True])
async def test_a_log_start_is_durable_whatever_another_directory_does(
    tmp_path: Path, hangs: bool
) -> None:
    """It has no room, or hangs: DeleteRecords, and what a follower tells, do not wait for it."""
    fs, goes_on = Failing(), threading.Event()
    async with with_two_directories(tmp_path, fs) as node:
        log = node.partition.log
        if hangs:
            node.replicas.dirs.all[1].disk.submit(goes_on.wait)
        else:
            fs.errors = {f"{tmp_path}/b": errno.ENOSPC}
        try:
            async with asyncio.timeout(60):
                await node.replicas.upkeep.log_starts.durable(log)
        finally:
            goes_on.set()
            fs.errors = {}
        assert log.state.durable_start == 1


async def test_each_directory_that_fails_in_a_write_goes_out_of_service(tmp_path: Path) -> None:
    """Whatever one before it has met."""
    fs = Failing()
    async with with_two_directories(tmp_path, fs) as node:
        fs.errors = {f"{tmp_path}/a": errno.ENOSPC, f"{tmp_path}/b": errno.EIO}
        with pytest.raises(OSError, match="No space"):
            await node.replicas.upkeep.checkpoints.save()
        assert node.directory.failed.keys() == {f"{tmp_path}/b"}
        fs.errors = {}
