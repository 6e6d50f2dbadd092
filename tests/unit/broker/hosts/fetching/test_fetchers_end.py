"""A role that is taken while a broker's replicas stop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from strandline_broker.hosts.fetching.fetchers import Fetchers
from strandline_broker.hosts.replica.following import Following

if TYPE_CHECKING:
    from strandline_broker.hosts.replica.partition import Partition


class Role(Following):
    """A follower of broker 2."""

    def __init__(self) -> None:
        self.machine = cast("Any", type("Machine", (), {"may_fetch": True, "leader": 2}))


class Replica:
    role = Role()


async def test_nothing_is_fetched_once_the_tasks_of_the_broker_have_ended() -> None:
    anything = cast("Any", None)
    fetchers = Fetchers(
        anything, anything, anything, flushes=anything, truncations=anything, copies=anything
    )

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            fetchers.run_in(group)

    running = asyncio.create_task(run())
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait([running])
    fetchers.fetch(cast("Partition", Replica()))
