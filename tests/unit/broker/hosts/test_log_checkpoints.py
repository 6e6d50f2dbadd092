"""What is written in a directory's thread may be of logs as they were a while ago (I-13)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from strandline_broker.hosts.log_checkpoints import LogCheckpoints
from strandline_broker.storage.checkpoints import HIGH_WATERMARKS
from support.disk import Hurried
from support.storage import LARGE, Store

if TYPE_CHECKING:
    from pathlib import Path


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
        self.checkpoints = LogCheckpoints(runtime, nothing, dirs, lambda: held)

    async def save(self, write: Any) -> None:
        self.queued.append(write)

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
        return self.store.directory.checkpointed_high_watermark(log)


@pytest.mark.parametrize("shown", [False, True])
async def test_a_watermark_of_before_a_cut_does_not_count_behind_it(
    tmp_path: Path, shown: bool
) -> None:
    """`shown`: it was taken when the log showed its new end, and the watermark had not followed."""
    scene = Scene(tmp_path / "data")
    if not shown:
        await scene.checkpoints.save()
    scene.store.log.truncate_to(10, high_watermark=20)
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
    scene.store.log.truncate_to(10, high_watermark=20)
    scene.partition.high_watermark = 10
    scene.append(20)
    scene.partition.high_watermark = 25
    await scene.checkpoints.save()
    scene.write()
    assert scene.store.log.limits.lowest(HIGH_WATERMARKS) is None
    assert scene.restart() == 25
