"""What a broker does about a disk that has failed it."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from strandline_broker.hosts.disks.blocking_work import to_the_end
from strandline_broker.hosts.disks.flusher import Flusher
from strandline_broker.hosts.disks.log_dirs import LogDirs
from strandline_runtime.real import RealFileSystem
from support.storage import Store


class Failing(RealFileSystem):
    """A disk that stands still at a sync until `go`, and then has failed."""

    def __init__(self) -> None:
        self.is_failing = False
        self.reached, self.go = threading.Event(), threading.Event()

    def fdatasync(self, fd: Any) -> None:
        if not self.is_failing:
            super().fdatasync(fd)
            return
        self.reached.set()
        assert self.go.wait(10)
        raise OSError(5, "Input/output error")


@pytest.mark.parametrize("by_flusher", [True, False], ids=["flusher", "retention"])
async def test_a_flush_that_fails_when_nobody_waits_any_more_ends_the_process(
    tmp_path: Path, by_flusher: bool
) -> None:
    """P-24: a shutdown that goes on flushes the same log again, and would be told that all went
    well.
    """
    fs = Failing()
    store = Store(tmp_path, fs=fs)
    store.append(b"v")
    log, fs.is_failing = store.log, True

    def leave(why: str) -> None:
        raise RuntimeError(why)

    dirs = LogDirs.__new__(LogDirs)
    each: Any = SimpleNamespace(path=str(tmp_path), failure=None)
    runtime: Any = SimpleNamespace(exit=leave)
    dirs._runtime, dirs.all = runtime, [each]
    with ThreadPoolExecutor(1) as disk:
        if by_flusher:
            flusher = Flusher(disk)
            flusher.request(log)
            work = flusher.run(lambda _: None)
        else:
            work = to_the_end(disk, log.flush_snapshot().run)
        flushing = asyncio.create_task(dirs.flushing(each, work))
        await asyncio.to_thread(fs.reached.wait, 10)
        flushing.cancel()
        await asyncio.sleep(0)
        fs.go.set()
        with pytest.raises(RuntimeError, match="never tried again"):
            await flushing
