"""Room in a producer's buffer goes to whoever is next, whatever becomes of those before."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from strandline._producer.sender import Sender

if TYPE_CHECKING:
    from collections.abc import Callable

ROOM = 1000


@pytest.mark.parametrize(
    "end", [asyncio.Task.cancel, lambda _: None], ids=["cut off", "out of time"]
)
async def test_who_does_not_wait_for_room_any_more_is_in_nobodys_way(
    end: Callable[[asyncio.Task[bool]], object],
) -> None:
    cluster = SimpleNamespace(watchers=[])
    session = SimpleNamespace(
        runtime=None, connections=None, cluster=cluster, tasks=None, on_broken=[]
    )
    sender = Sender(
        cast("Any", session),
        options=cast("Any", None),
        request_timeout_ms=1000.0,
        buffer_memory=ROOM,
    )
    sender.buffered = ROOM - 100  # and nothing of it is acknowledged
    too_much = asyncio.create_task(sender.space(200, 10.0))
    await asyncio.sleep(0)
    fits = asyncio.create_task(sender.space(50, 5000.0))
    await asyncio.sleep(0)
    end(too_much)
    await asyncio.wait([too_much])
    assert await fits
    assert sender.buffered == ROOM - 100
    assert not sender._space
