"""Small gRPC scenarios, run against real grpc.aio and against the simulated network.

A scenario notes what its client and its handlers see; both worlds must note the same. `PAUSE_S` is
long against any latency here, so that an order by pauses is certain.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc.aio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from support.grpc_rig import Rig

    Scenario = Callable[[Rig], Awaitable[None]]

PAUSE_S = 0.1
LONG_S = 5.0

SCENARIOS: dict[str, Scenario] = {}


def scenario(run: Scenario) -> Scenario:
    SCENARIOS[run.__name__] = run
    return run


def pause() -> Awaitable[None]:
    return asyncio.sleep(PAUSE_S)


async def until_cancelled(rig: Rig, seconds: float = LONG_S) -> None:
    """A handler's long work, and how it ended."""
    rig.working.set()
    try:
        await asyncio.sleep(seconds)
        rig.handler.append("slept")
    except asyncio.CancelledError:
        rig.handler.append("cancelled")
        raise
    finally:
        rig.ended.set()


async def echo(rig: Rig, context: Any) -> None:
    """Answer each message until the client has finished."""
    while (message := await context.read()) is not grpc.aio.EOF:
        rig.handler.append(f"read {message.decode()}")
        await context.write(b"echo " + message)
    rig.handler.append("EOF")
