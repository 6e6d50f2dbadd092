"""A scripted cluster on a thread of its own, for clients that block or live in another process."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from support.scripted_broker import ScriptedCluster, scripted_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def threaded_cluster() -> Iterator[ScriptedCluster]:
    """Two brokers, for callers that block."""
    ready: list[ScriptedCluster] = []
    started, stop = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        async with scripted_cluster(2) as cluster:
            ready.append(cluster)
            loops.append(asyncio.get_running_loop())
            started.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert started.wait(10)
    try:
        yield ready[0]
    finally:
        loops[0].call_soon_threadsafe(stop.set)
        thread.join(10)
