"""What of ours follows a peer to another address under the same name, and how soon: run by
`test_moved_names_process.py` in a mount namespace of its own, whose /etc/hosts it writes.

    python moved_names.py GAP_S NAMELESS HOSTS PORT

A peer answers at 127.0.0.2, is gone for GAP_S seconds, and comes back at 127.0.0.3. With NAMELESS=1
its name has no address meanwhile, as that of a pod. Writes one JSON object: seconds for each kind.
`bare` is a channel that nothing replaces.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import grpc
import grpc.aio

from strandline._net.connections import Connections
from strandline.errors import StrandlineError
from strandline_broker.core.addresses import Endpoint
from strandline_broker.rpc.cluster.controller_link import ControllerLink
from strandline_broker.rpc.records.fetch_client import FetchClient
from strandline_proto.ids import BrokerEpoch, BrokerId
from strandline_runtime.real import RealNetwork, client_runtime

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

NAME: Final = "broker-of-the-test"
HOSTS: Final = Path("/etc/hosts")
DEADLINE_S: Final = 60.0


class Peer(grpc.GenericRpcHandler):
    """Answers every call, as unimplemented if not otherwise: it is there."""

    def service(self, details: Any) -> Any:
        return None


async def serve(host: str, port: int) -> grpc.aio.Server:
    server = RealNetwork().server()
    server.add_generic_rpc_handlers((Peer(),))
    assert server.add_insecure_port(f"{host}:{port}") == port
    await server.start()
    return server


def name(address: str | None) -> None:
    HOSTS.write_text("127.0.0.1 localhost\n" + (f"{address} {NAME}\n" if address else ""))


def is_there(error: grpc.aio.AioRpcError) -> bool:
    return error.code() is grpc.StatusCode.UNIMPLEMENTED


def kinds(port: int) -> dict[str, Callable[[], Awaitable[bool]]]:
    """One question for each kind of channel: whether the peer answers."""
    runtime = client_runtime()
    target = f"{NAME}:{port}"
    connections = Connections(runtime)
    link = ControllerLink(runtime, target)
    fetches = FetchClient(runtime.network)

    async def client() -> bool:
        try:
            await connections.hello(target, 1.0)
        except StrandlineError as error:
            return type(error).__name__ == "CallNotServed"
        return True

    async def controller() -> bool:
        try:
            await link.allocate_producer_ids(BrokerId(1), BrokerEpoch(1), timeout_s=1.0)
        except grpc.aio.AioRpcError as error:
            link.failure(error)
            return is_there(error)
        return True

    async def follower() -> bool:
        async with fetches(Endpoint("", NAME, port)) as call:
            try:
                await call.read()
            except grpc.aio.AioRpcError as error:
                return is_there(error)
        return True

    channel = runtime.network.channel(target)
    call: Any = channel.unary_unary("/any/call")

    async def bare() -> bool:
        try:
            await call(b"", timeout=1.0)
        except grpc.aio.AioRpcError as error:
            return is_there(error)
        return True

    return {"bare": bare, "client": client, "to the controller": controller, "follower": follower}


async def first(question: Callable[[], Awaitable[bool]], since: float) -> float:
    while not await question():
        assert time.monotonic() - since < DEADLINE_S
        await asyncio.sleep(0.05)
    return time.monotonic() - since


async def until(question: Callable[[], Awaitable[bool]], end: float) -> None:
    """Ask on, as whatever misses its peer does."""
    while time.monotonic() < end:
        await question()
        await asyncio.sleep(0.05)


async def main(gap_s: float, port: int, *, nameless: bool) -> None:
    name("127.0.0.2")
    server = await serve("127.0.0.2", port)
    asked = kinds(port)
    for question in asked.values():
        assert await question()
    await server.stop(None)
    if nameless:
        name(None)
    end = time.monotonic() + gap_s
    await asyncio.gather(*(until(question, end) for question in asked.values()))
    server = await serve("127.0.0.3", port)
    name("127.0.0.3")
    since = time.monotonic()
    took = await asyncio.gather(*(first(question, since) for question in asked.values()))
    sys.stdout.write(json.dumps(dict(zip(asked, took, strict=True))))
    await server.stop(None)


if __name__ == "__main__":
    subprocess.run(["mount", "--bind", sys.argv[3], str(HOSTS)], check=True)
    asyncio.run(main(float(sys.argv[1]), int(sys.argv[4]), nameless=sys.argv[2] == "1"))
