"""Group commit: what a round of flushes holds on to."""

from __future__ import annotations

import asyncio
import gc
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from strandline_broker.hosts.disks.flusher import Flusher
from strandline_broker.storage.log.log import FlushTicket
from support.storage import Store

if TYPE_CHECKING:
    from pathlib import Path


async def test_files_that_were_flushed_are_let_go(tmp_path: Path) -> None:
    """I-182: while a flusher waits, a log that is deleted can give its room back."""
    store = Store(tmp_path)
    store.append(b"v")
    log = store.log
    with ThreadPoolExecutor(1) as disk:
        flusher = Flusher(disk)
        running = asyncio.create_task(flusher.run(lambda _: None))
        await flusher.flushed(log)
        assert log.durable_offset == log.log_end_offset == 1
        await asyncio.get_running_loop().run_in_executor(disk, int)  # its thread has gone on
        held = [o for o in gc.get_objects() if isinstance(o, FlushTicket) and o.log is log]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert held == []
