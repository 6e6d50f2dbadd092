"""Group commit: what a round of flushes holds on to."""

from __future__ import annotations

import asyncio
import gc
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from strandline_broker.hosts.flusher import Flusher
from strandline_broker.storage.flush_ticket import FlushTicket
from strandline_proto.batch import build_batch
from support.storage import Store

if TYPE_CHECKING:
    from pathlib import Path


async def test_files_that_were_flushed_are_let_go(tmp_path: Path) -> None:
    """I-182: while a flusher waits, a log that is deleted can give its room back."""
    log = Store(tmp_path).log
    log.append_as_follower(build_batch([(b"k", b"v")], timestamp_ms=1), leader_epoch=0)
    with ThreadPoolExecutor(1) as disk:
        flusher = Flusher(disk)
        running = asyncio.create_task(flusher.run(lambda _: None))
        await flusher.flushed(log)
        assert log.durable_offset == log.log_end_offset == 1
        held = [o for o in gc.get_objects() if isinstance(o, FlushTicket) and o.log is log]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert held == []
