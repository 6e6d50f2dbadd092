"""What a broker does about a disk that has failed it."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from strandline_broker.hosts.log_dirs import LogDirs
from strandline_broker.storage.failed_flush import has_failed_flush
from strandline_runtime.real import RealFileSystem


async def test_a_failed_flush_is_noted_before_the_process_ends(tmp_path: Path) -> None:
    """P-24: the next process has to know, whoever it is that ends this one."""
    fs = RealFileSystem()

    async def run(_: object) -> None:
        raise OSError(5, "Input/output error")

    def leave(why: str) -> None:
        assert has_failed_flush(fs, str(tmp_path)), why
        raise SystemExit(why)

    runtime: Any = SimpleNamespace(fs=fs, exit=leave)
    dirs = LogDirs.__new__(LogDirs)
    with ThreadPoolExecutor(1) as disk:
        lane: Any = SimpleNamespace(thread=disk, flusher=SimpleNamespace(run=run))
        each: Any = SimpleNamespace(path=str(tmp_path), failure=None)
        dirs._runtime, dirs.all = runtime, [each]
        with pytest.raises(SystemExit, match="never tried again"):
            await dirs._flush(each, lane, lambda log: None)
