"""What faults do to calls on the simulated network: these have no twin on loopback."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import pytest

from strandline_proof.sim.loop.loop import SimLoop
from strandline_proof.sim.network.network import (
    GIVEN_UP_LATE_S_MAX,
    KEEPALIVE_S,
    LATE_S_MAX,
    SimNetwork,
)
from strandline_proto.v1 import metadata_pb2, services_pb2_grpc
from strandline_runtime.runtime import Probe
from support.grpc_rig import Rig, outcome

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from strandline_proof.sim.loop.owner import Owner
    from strandline_proof.sim.network.network import NodeNetwork

SEEDS = range(20)
SOON_S = 0.3
PORT = 9000


class World:
    """A client `c` and a server `s`, whose code runs under owners of their own."""

    def __init__(self, seed: int) -> None:
        self.loop = SimLoop(steps_max=1_000_000)
        self.network = SimNetwork(
            random.Random(seed), now=lambda: self.loop.now, post=self.loop.post
        )
        self.owners: dict[str, Owner] = {}
        self.client = self.node("c")
        self.server = self.node("s")
        self.rig = Rig(self.server, self.client, "s")

    def node(self, name: str) -> NodeNetwork:
        self.owners[name] = self.loop.new_owner(name)
        return self.network.node(name, self.owners[name])

    def kill(self, name: str) -> None:
        self.network.kill(name)
        self.loop.kill(self.owners[name])

    def power_off(self, name: str) -> None:
        self.network.power_off(name)
        self.loop.kill(self.owners[name])

    async def serve(self, **methods: Callable[..., Any]) -> None:
        """Bind at PORT and start, as the server's own code."""
        server = self.rig.bound(PORT, **methods)
        started: asyncio.Future[None] = self.loop.create_future()

        async def start() -> None:
            await server.start()
            started.set_result(None)

        self.owners["s"].run(self.loop.create_task, start())
        await started

    async def took_s(self, step: Awaitable[Any]) -> tuple[str, float]:
        begun_s = self.loop.now
        return await outcome(step), self.loop.now - begun_s


@pytest.fixture(params=SEEDS)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    world = World(request.param)
    yield world
    world.loop.close()
    assert world.loop.uncaught == []


async def answer(request: bytes, context: Any) -> bytes:
    return b"answer"


async def hang(request: bytes, context: Any) -> bytes:
    await asyncio.sleep(1e6)
    return b""


async def echo(requests: Any, context: Any) -> None:
    async for message in requests:
        await context.write(message)


async def open_stream(world: World) -> Any:
    call = world.rig.method("StreamStream")()
    await call.write(b"hello")
    assert await call.read() == b"hello"
    return call


def test_a_killed_process_resets_its_calls_and_refuses_new_ones(world: World) -> None:
    async def main() -> None:
        await world.serve(UnaryUnary=hang)
        call = world.rig.method("UnaryUnary")(b"")
        await asyncio.sleep(1)
        world.kill("s")
        code, took_s = await world.took_s(call)
        assert (code, took_s < SOON_S) == ("UNAVAILABLE", True)
        assert await world.client.probe("s", PORT, 1.0) is Probe.REFUSED
        assert await outcome(world.rig.method("UnaryUnary")(b"")) == "UNAVAILABLE"

    world.loop.run(main())


def test_a_killed_client_cancels_its_handlers(world: World) -> None:
    ended: list[str] = []

    async def serve(request: bytes, context: Any) -> bytes:
        try:
            return await hang(request, context)
        finally:
            ended.append("cancelled")

    async def main() -> None:
        await world.serve(UnaryUnary=serve)
        call = world.rig.method("UnaryUnary")(b"")
        await asyncio.sleep(1)
        world.kill("c")
        await asyncio.sleep(SOON_S)
        assert ended == ["cancelled"]
        assert not call.done()

    world.loop.run(main())


def test_a_restarted_process_serves_at_its_old_address(world: World) -> None:
    async def main() -> None:
        await world.serve(UnaryUnary=answer)
        method = world.rig.method("UnaryUnary")
        assert await method(b"") == b"answer"
        world.kill("s")
        await asyncio.sleep(1)
        world.rig._server_side = world.node("s")
        await world.serve(UnaryUnary=answer)
        assert await method(b"") == b"answer"

    world.loop.run(main())


def test_a_machine_without_power_is_silent_until_keepalive_gives_up(world: World) -> None:
    async def main() -> None:
        await world.serve(UnaryUnary=hang, StreamStream=echo)
        bounded = world.rig.method("UnaryUnary")(b"", timeout=2)
        unbounded = await open_stream(world)
        await asyncio.sleep(1)
        world.power_off("s")
        assert await outcome(bounded) == "DEADLINE_EXCEEDED"
        code, took_s = await world.took_s(unbounded.read())
        assert code == "UNAVAILABLE"
        assert 3 <= took_s <= KEEPALIVE_S[1]
        verdict, took_s = await world.took_s(world.client.probe("s", PORT, 1.0))
        assert verdict == repr(Probe.SILENT)
        assert took_s == pytest.approx(1.0, abs=0.01)
        code, took_s = await world.took_s(world.rig.method("UnaryUnary")(b""))
        assert (code, took_s < 1.1) == ("UNAVAILABLE", True)

    world.loop.run(main())


def test_a_machine_that_is_back_resets_what_it_does_not_know(world: World) -> None:
    async def main() -> None:
        await world.serve(StreamStream=echo)
        call = await open_stream(world)
        world.power_off("s")
        await call.write(b"lost")
        world.network.power_on("s")
        assert await world.client.probe("s", PORT, 1.0) is Probe.REFUSED
        code, took_s = await world.took_s(call.read())
        assert (code, took_s < 1.1) == ("UNAVAILABLE", True)

    world.loop.run(main())


def test_a_partition_that_holds_delivers_late_and_in_order(world: World) -> None:
    async def main() -> None:
        await world.serve(StreamStream=echo)
        call = await open_stream(world)
        world.network.partition("c", "s", hold=True)
        for n in range(5):
            await call.write(b"%d" % n)
        await asyncio.sleep(2)
        world.network.heal()
        await call.write(b"5")
        begun_s = world.loop.now
        assert [await call.read() for _ in range(6)] == [b"%d" % n for n in range(6)]
        assert world.loop.now - begun_s < 2 * LATE_S_MAX

    world.loop.run(main())


def test_what_a_partition_held_takes_its_time_afterwards() -> None:
    async def delay_s(world: World) -> float:
        await world.serve(StreamStream=echo)
        call = await open_stream(world)
        world.network.partition("c", "s", hold=True)
        await call.write(b"held")
        world.network.heal()
        begun_s = world.loop.now
        await call.read()
        return world.loop.now - begun_s

    delays_s = [(world := World(seed)).loop.run(delay_s(world)) for seed in SEEDS]
    assert max(delays_s) > LATE_S_MAX / 2 > min(delays_s)


def test_a_partition_that_drops_ends_the_connection(world: World) -> None:
    async def main() -> None:
        await world.serve(StreamStream=echo)
        call = await open_stream(world)
        world.network.partition("c", "s")
        await call.write(b"lost")
        await asyncio.sleep(2)
        assert not call.done()
        world.network.heal()
        code, took_s = await world.took_s(call.read())
        assert (code, took_s < LATE_S_MAX + SOON_S) == ("UNAVAILABLE", True)
        assert (await open_stream(world)) is not None

    world.loop.run(main())


def test_an_idle_connection_outlives_a_short_partition(world: World) -> None:
    async def main() -> None:
        await world.serve(StreamStream=echo)
        call = await open_stream(world)
        world.network.partition("c", "s")
        await asyncio.sleep(KEEPALIVE_S[0] - 1)
        world.network.heal()
        await asyncio.sleep(60)
        await call.write(b"still")
        assert await call.read() == b"still"

    world.loop.run(main())


def test_a_long_partition_ends_calls_on_both_sides(world: World) -> None:
    ended: list[float] = []

    async def serve(requests: Any, context: Any) -> None:
        try:
            await echo(requests, context)
        finally:
            ended.append(world.loop.now)

    async def main() -> None:
        await world.serve(StreamStream=serve)
        call = await open_stream(world)
        world.network.partition("c", "s", hold=True)
        code, took_s = await world.took_s(call.read())
        assert code == "UNAVAILABLE"
        assert 3 <= took_s <= KEEPALIVE_S[1]
        await asyncio.sleep(KEEPALIVE_S[1])
        assert len(ended) == 1

    world.loop.run(main())


def test_a_process_that_dies_behind_a_partition_is_found_out(world: World) -> None:
    async def main() -> None:
        await world.serve(StreamStream=echo)
        call = await open_stream(world)
        world.network.partition("c", "s")
        world.kill("s")
        await asyncio.sleep(1)
        world.network.heal()
        code, took_s = await world.took_s(call.read())
        assert (code, took_s < KEEPALIVE_S[1]) == ("UNAVAILABLE", True)

    world.loop.run(main())


def test_a_server_that_says_nothing_finds_out_that_its_client_has_forgotten_it(
    world: World,
) -> None:
    """By keepalive, as a stream may rest for ever."""

    async def main() -> None:
        ended: list[float] = []

        async def rests(requests: Any, context: Any) -> AsyncIterator[bytes]:
            try:
                async for request in requests:
                    yield request
            finally:
                ended.append(world.loop.now)

        await world.serve(StreamStream=rests)
        await open_stream(world)
        forgot_s = world.loop.now
        world.network.forget("s", "c")
        await asyncio.sleep(KEEPALIVE_S[1] + 1)
        assert [at - forgot_s < KEEPALIVE_S[1] + 1 for at in ended] == [True]

    world.loop.run(main())


def test_a_one_way_partition_loses_the_answer_after_the_handler_ran(world: World) -> None:
    ran: list[bytes] = []

    async def serve(request: bytes, context: Any) -> bytes:
        ran.append(request)
        return b"answer"

    async def main() -> None:
        await world.serve(UnaryUnary=serve)
        method = world.rig.method("UnaryUnary")
        await method(b"first")
        world.network.partition("s", "c", one_way=True)
        assert await outcome(method(b"second", timeout=1)) == "DEADLINE_EXCEEDED"
        assert ran == [b"first", b"second"]

    world.loop.run(main())


def test_a_deadline_passes_on_each_side_though_nothing_passes_between_them(world: World) -> None:
    ended: list[float] = []

    async def serve(request: bytes, context: Any) -> bytes:
        try:
            return await hang(request, context)
        finally:
            ended.append(world.loop.now)

    async def main() -> None:
        await world.serve(UnaryUnary=serve)
        call = world.rig.method("UnaryUnary")(b"", timeout=2)
        await asyncio.sleep(1)
        world.network.partition("c", "s")
        assert await outcome(call) == "DEADLINE_EXCEEDED"
        await asyncio.sleep(SOON_S)
        assert ended == [pytest.approx(2.0, abs=0.1)]

    world.loop.run(main())


def test_what_is_stuck_in_a_stream_given_up_may_come_behind_a_newer_one() -> None:
    async def heard(world: World) -> list[tuple[bytes, float]]:
        arrived: list[tuple[bytes, float]] = []

        async def hear(requests: Any, context: Any) -> None:
            async for message in requests:
                arrived.append((message, world.loop.now))

        await world.serve(StreamStream=hear)
        old, new = [world.rig.method("StreamStream")() for _ in range(2)]
        for call in (old, new):
            await call.write(b"first")
        await asyncio.sleep(SOON_S)
        arrived.clear()
        world.network.partition("c", "s", hold=True)
        await old.write(b"old")
        old.cancel()
        await new.write(b"new")
        world.network.heal()
        await asyncio.sleep(LATE_S_MAX + GIVEN_UP_LATE_S_MAX + SOON_S)
        return arrived

    overtaken_s = []
    for seed in SEEDS:
        world = World(seed)
        found = dict(world.loop.run(heard(world)))
        assert b"new" in found
        overtaken_s.append(found.get(b"old", 0.0) - found[b"new"])
    late = [by_s for by_s in overtaken_s if by_s > SOON_S]
    assert len(SEEDS) / 5 < len(late) < len(SEEDS)
    assert max(late) < GIVEN_UP_LATE_S_MAX + SOON_S


def test_a_stream_given_up_over_a_sound_link_ends_at_once(world: World) -> None:
    ended: list[float] = []

    async def hear(requests: Any, context: Any) -> None:
        try:
            async for message in requests:
                await context.write(message)
        finally:
            ended.append(world.loop.now)

    async def main() -> None:
        await world.serve(StreamStream=hear)
        call = await open_stream(world)
        begun_s = world.loop.now
        await call.write(b"last")
        call.cancel()
        await asyncio.sleep(1)
        assert ended[0] - begun_s < SOON_S

    world.loop.run(main())


def test_slow_and_lossy_links_delay_and_keep_the_order(world: World) -> None:
    async def main() -> None:
        await world.serve(StreamStream=echo)
        call = await open_stream(world)
        world.network.slow("c", "s", 100)
        world.network.lossy("s", "c", 0.5)
        begun_s = world.loop.now
        for n in range(20):
            await call.write(b"%d" % n)
        assert [await call.read() for _ in range(20)] == [b"%d" % n for n in range(20)]
        assert world.loop.now - begun_s > 0.2
        world.network.heal()
        begun_s = world.loop.now
        await call.write(b"fast")
        await call.read()
        assert world.loop.now - begun_s < 0.1

    world.loop.run(main())


def test_a_paused_server_answers_probes_and_nothing_else(world: World) -> None:
    async def main() -> None:
        await world.serve(UnaryUnary=answer)
        method = world.rig.method("UnaryUnary")
        await method(b"")
        world.loop.pause(world.owners["s"])
        assert await world.client.probe("s", PORT, 1.0) is Probe.ANSWERED
        call = method(b"", timeout=60)
        await asyncio.sleep(1)
        assert not call.done()
        other = world.rig.method("UnaryUnary", world.rig.channel())
        assert await outcome(other(b"", timeout=60)) == "UNAVAILABLE"
        world.loop.resume(world.owners["s"])
        assert await call == b"answer"

    world.loop.run(main())


def test_a_connection_opens_for_a_call_whose_task_was_cancelled_at_that_moment(
    world: World,
) -> None:
    async def main() -> None:
        await world.serve(StreamStream=echo)
        core = world.rig.method("StreamStream")()._cython_call
        attach = core.attach

        def attach_at_that_moment(end: Any) -> None:
            core._attached.cancel()  # as its task does, a step before it ends the call
            attach(end)

        core.attach = attach_at_that_moment
        await asyncio.sleep(0.1)
        await open_stream(world)

    world.loop.run(main())


def test_generated_stubs_and_handlers_run_unchanged() -> None:
    world = World(1)

    class Servicer(services_pb2_grpc.BrokerServiceServicer):
        async def Metadata(self, request: Any, context: Any) -> Any:
            assert isinstance(request, metadata_pb2.MetadataRequest)
            return metadata_pb2.MetadataResponse(cluster_id=f"c{request.only_named}")

    async def main() -> None:
        server = world.server.server()
        servicer: Any = Servicer()  # type: ignore[abstract]
        services_pb2_grpc.add_BrokerServiceServicer_to_server(servicer, server)
        port = server.add_insecure_port("0.0.0.0:0")
        await server.start()
        async with world.client.channel(f"s:{port}") as channel:
            stub: Any = services_pb2_grpc.BrokerServiceStub(channel)
            response = await stub.Metadata(metadata_pb2.MetadataRequest(only_named=True), timeout=1)
            assert response == metadata_pb2.MetadataResponse(cluster_id="cTrue")
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await stub.CreateTopics(metadata_pb2.CreateTopicsRequest())
            assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
        await server.stop(1.0)

    world.loop.run(main())
    assert world.loop.uncaught == []


def test_names_and_addresses() -> None:
    world = World(1)

    async def main() -> None:
        server = world.server.server()
        assert server.add_insecure_port("s:7000") == 7000
        assert server.add_insecure_port("127.0.0.1:0") != server.add_insecure_port("[::]:0")
        for taken in ("s:7000", "0.0.0.0:7000", "elsewhere:1"):
            with pytest.raises(RuntimeError, match="Failed to bind"):
                server.add_insecure_port(taken)
        assert await world.server.probe("localhost", 7000, 1.0) is Probe.ANSWERED
        assert await world.client.probe("localhost", 7000, 1.0) is Probe.REFUSED
        assert await world.client.probe("nowhere", 7000, 1.0) is Probe.SILENT

    world.loop.run(main())
