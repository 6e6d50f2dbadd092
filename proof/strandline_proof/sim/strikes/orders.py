"""An administrator's commands, each given by a client of its own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from strandline import Admin
from strandline.errors import StrandlineError, UnknownTopicOrPartition

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.strikes.scene import Scene
    from strandline_runtime.runtime import Runtime

REQUEST_MS: Final = 1000
RETRY_S: Final = 0.2


def give_order(scene: Scene, client: str, act: Callable[[Admin], Awaitable[None]]) -> bool:
    """Repeats the command until it is done or everything heals; False if another one of `client` is
    under way.
    """
    if scene.is_busy(client):
        return False

    async def main(node: Node, runtime: Runtime, stop: asyncio.Event) -> None:
        while not scene.over:
            try:
                async with Admin(
                    scene.world.topology.bootstrap,
                    request_timeout_ms=REQUEST_MS,
                    connect_timeout_ms=REQUEST_MS,
                    runtime=runtime,
                ) as admin:
                    await act(admin)
            except UnknownTopicOrPartition:
                return  # the topic does not exist yet
            except StrandlineError:
                await asyncio.sleep(RETRY_S)
            else:
                return

    scene.run_client(client, main)
    return True
