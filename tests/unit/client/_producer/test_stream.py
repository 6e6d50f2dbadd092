"""A producer's stream to one broker: what becomes of what was offered while it is out of reach."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from strandline._producer.sender import Sender
from strandline.errors import BrokerUnreachable
from strandline_proof.sim.loop.loop import SimLoop
from support.partition_queues import add, make

if TYPE_CHECKING:
    from collections.abc import Coroutine

LOOKS_S = 1.0


def test_what_was_offered_to_a_broker_out_of_reach_is_offered_again() -> None:
    """Whether or not there is news of its leader meanwhile."""
    loop = SimLoop()
    tried_s: list[float] = []

    async def hello(address: str, timeout_s: float) -> None:
        tried_s.append(loop.now)
        raise BrokerUnreachable(f"{address}: as scripted")

    async def main() -> None:
        running: list[asyncio.Task[None]] = []

        def start(work: Coroutine[Any, Any, None], name: str) -> None:
            running.append(asyncio.get_running_loop().create_task(work, name=name))

        session: Any = SimpleNamespace(
            runtime=SimpleNamespace(
                clock=SimpleNamespace(monotonic=loop.time),
                rng=SimpleNamespace(random=lambda: 0.5),
                log=SimpleNamespace(info=lambda event, **fields: None),
            ),
            connections=SimpleNamespace(hello=hello),
            cluster=SimpleNamespace(
                watchers=[],
                view=SimpleNamespace(leader=lambda topic_id, partition: (1, 0)),
                address_of=lambda broker_id: "localhost:1",
                request_refresh=lambda: None,  # nobody answers
            ),
            tasks=SimpleNamespace(start=start),
            on_broken=[],
        )
        queue = make()
        add(queue)
        sender = Sender(
            session, options=queue.options, request_timeout_ms=1000.0, buffer_memory=1000
        )
        sender.dispatch(queue)
        await asyncio.wait(running, timeout=LOOKS_S)
        for task in running:
            task.cancel()

    loop.run(main())
    assert len(tried_s) > 1
