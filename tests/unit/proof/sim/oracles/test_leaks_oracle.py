"""What a process leaves behind when it ends in order, and what servers keep of others (I-182)."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from strandline_proof.sim.cluster.node import Node
from strandline_proof.sim.loop.loop import SimLoop
from strandline_proof.sim.loop.timeline import Timeline
from strandline_proof.sim.network.network import SimNetwork
from strandline_proof.sim.oracles.process.leaks import left_at_servers, left_by

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from strandline_runtime.runtime import Runtime

    Main = Callable[[Node, Runtime, asyncio.Event], Awaitable[None]]


async def for_ever() -> None:
    await asyncio.get_running_loop().create_future()


async def at_once() -> None:
    pass


class Machines:
    """Nodes without a cluster around them, for half a second."""

    def __init__(self) -> None:
        self.loop = SimLoop()
        self.network = SimNetwork(random.Random(1), now=lambda: self.loop.now, post=self.loop.post)
        self.left: list[str] = []

    def node(self, name: str, main: Main, *, is_server: bool = False) -> Node:
        timeline = Timeline(self.loop)
        node = Node(name, self.loop, random.Random(1), timeline, self.network, main)
        node.on_exit = lambda node, _: self.left.append(left_by(node, is_server=is_server))
        return node

    def run(self, *nodes: Node) -> None:
        async def look() -> None:
            for node in nodes:
                node.start()
            over = self.loop.create_future()
            self.loop.post(0.5, None, over.set_result, None)
            await over

        self.loop.run(look())


def test_who_ends_in_order_has_ended_its_tasks() -> None:
    machines, kept = Machines(), set[Any]()

    async def forgets(node: Node, runtime: Runtime, stop: asyncio.Event) -> None:
        kept.add(asyncio.create_task(for_ever()))

    async def ends(node: Node, runtime: Runtime, stop: asyncio.Event) -> None:
        task = asyncio.create_task(at_once())
        asyncio.get_running_loop().call_later(9, print).cancel()
        await task

    machines.run(machines.node("a", forgets, is_server=True), machines.node("b", ends))
    assert machines.left == ["task for_ever", ""]
    machines.loop.close()


def test_a_server_that_stops_does_not_wait_for_the_calls_that_it_cancels() -> None:
    machines = Machines()

    async def serves(node: Node, runtime: Runtime, stop: asyncio.Event) -> None:
        asked = asyncio.Event()

        async def handle(request: bytes, context: Any) -> bytes:
            asked.set()
            await for_ever()
            return request

        server = runtime.network.server()
        handlers: dict[str, Any] = {"Wait": grpc.unary_unary_rpc_method_handler(handle)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t", handlers),))
        server.add_insecure_port("a:1")
        await server.start()
        await asked.wait()
        await server.stop(0.1)

    async def asks(node: Node, runtime: Runtime, stop: asyncio.Event) -> None:
        async with runtime.network.channel("a:1") as channel:
            wait: Any = channel.unary_unary("/t/Wait")
            with pytest.raises(grpc.aio.AioRpcError):
                await wait(b"", wait_for_ready=True)

    server, client = machines.node("a", serves, is_server=True), machines.node("b", asks)
    machines.run(server, client)
    assert machines.left == ["", ""]
    machines.loop.close()


def test_a_client_that_ends_has_taken_its_timers_back() -> None:
    machines = Machines()

    async def forgets(node: Node, runtime: Runtime, stop: asyncio.Event) -> None:
        asyncio.get_running_loop().call_later(9, print)

    machines.run(machines.node("a", forgets), machines.node("b", forgets, is_server=True))
    assert machines.left == ["timer print", ""]
    machines.loop.close()


def test_a_server_has_no_more_tasks_than_others_have_a_part_in() -> None:
    machines = Machines()
    kept: set[Any] = set()

    async def serves(node: Node, runtime: Runtime, stop: asyncio.Event) -> None:
        node.process = SimpleNamespace()
        for _ in range(5):
            kept.add(asyncio.create_task(for_ever()))
        await stop.wait()

    nodes = {name: machines.node(name, serves) for name in ("controller", "broker-1")}
    machines.run(*nodes.values())
    world: Any = SimpleNamespace(
        nodes=nodes, controller=nodes["controller"], brokers=[nodes["broker-1"]]
    )
    assert left_at_servers(world).startswith("controller has 5 tasks for_ever; broker-1 has 5")
    machines.loop.close()
