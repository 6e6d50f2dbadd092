"""The Fetch stream from its first request to its status."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from strandline_broker.hosts.common.request_times import RequestTimes
from strandline_broker.hosts.fetching.copy_throttle import LeaderThrottle
from strandline_broker.rpc.records.fetch import FetchRpc
from strandline_proto.hot_messages import FetchPartition, FetchRequest
from strandline_runtime.real import real_runtime
from support.pushed_broker import TOPIC_ID, broker
from support.scripted_context import ScriptedContext
from support.scripted_controller import WAIT_S

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

TURNS = 100
"""Of the event loop, in which a failure would have its effect."""


class Hostile:
    """Sends a request, and then what is none while the answer is being written."""

    def __init__(self) -> None:
        self.bad = asyncio.Event()

    async def requests(self) -> AsyncIterator[FetchRequest]:
        yield FetchRequest(7, partitions=[FetchPartition(TOPIC_ID, 0)], max_bytes=1000)
        await self.bad.wait()
        raise ValueError("no message")


async def test_a_request_that_is_none_does_not_cancel_the_answer_before_it(tmp_path: Path) -> None:
    """Cancelled in its first write, the call would end without a status, and its client wait."""
    peer, context = Hostile(), ScriptedContext()
    context.takes.clear()
    clock = real_runtime("broker-1").clock
    async with broker(tmp_path) as b:
        throttle = LeaderThrottle(clock, b.replicas.config)
        rpc = FetchRpc(clock, b.metadata, b.replicas, throttle, RequestTimes(clock))
        serving = asyncio.create_task(rpc.Fetch(peer.requests(), context))
        peer.bad.set()
        for _ in range(TURNS):
            await asyncio.sleep(0)
        ended_early = serving.done()
        context.takes.set()
        async with asyncio.timeout(WAIT_S):
            await asyncio.wait([serving])
    assert (ended_early, len(context.written)) == (False, 1)
    with pytest.raises(ValueError, match="no message"):
        serving.result()
