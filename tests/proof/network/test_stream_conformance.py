"""Simulated byte streams behave as TCP: the same scenarios on both; and what faults do to them."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import pytest
import uvloop

from strandline_proof.sim.loop.loop import SimLoop
from strandline_proof.sim.network.network import SimNetwork
from strandline_runtime.real import RealNetwork
from support.stream_scenarios import MUCH, SCENARIOS, StreamRig, read_to_the_end, write_all

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from strandline_runtime.runtime import Network

SCENARIO_S = 30.0
SEEDS = 5

Seen = tuple[list[str], list[str]]


async def play(name: str, server_side: Network, client_side: Network, host: str) -> Seen:
    rig = StreamRig(server_side, client_side, host)
    try:
        async with asyncio.timeout(SCENARIO_S):
            await SCENARIOS[name](rig)
    finally:
        await rig.close()
    return rig.client, rig.server


def simulated(main: Callable[[SimNetwork, StreamRig], Awaitable[None]], seed: int = 1) -> StreamRig:
    loop = SimLoop(steps_max=500_000)
    network = SimNetwork(random.Random(seed), now=lambda: loop.now, post=loop.post)
    server_side = network.node("server", loop.new_owner("server"))
    client_side = network.node("client", loop.new_owner("client"))
    rig = StreamRig(server_side, client_side, "server")

    async def whole() -> None:
        await main(network, rig)
        network.heal()
        await rig.close()

    try:
        loop.run(whole())
        assert loop.uncaught == []
    finally:
        loop.close()
    return rig


def play_simulated(name: str, seed: int) -> tuple[Seen, str]:
    """What was seen, and the fingerprint of the run."""
    loop = SimLoop(steps_max=1_000_000)
    network = SimNetwork(random.Random(seed), now=lambda: loop.now, post=loop.post)
    server_side = network.node("server", loop.new_owner("server"))
    client_side = network.node("client", loop.new_owner("client"))
    try:
        seen = loop.run(play(name, server_side, client_side, "server"))
        assert loop.uncaught == []
        assert network.connections("server") == network.connections("client") == 0
        return seen, loop.digest()
    finally:
        loop.close()


@pytest.mark.parametrize("name", SCENARIOS)
def test_both_worlds_see_the_same(name: str) -> None:
    network = RealNetwork()
    real = []
    for new_loop in (asyncio.new_event_loop, uvloop.new_event_loop):
        with asyncio.Runner(loop_factory=new_loop) as runner:
            real.append(runner.run(play(name, network, network, "127.0.0.1")))
    assert ([], []) not in real, "a scenario that notes nothing compares nothing"
    assert real[0] == real[1]
    assert [play_simulated(name, seed)[0] for seed in range(SEEDS)] == real[:1] * SEEDS


def test_a_seed_gives_the_same_run_again() -> None:
    name = "much_both_ways_at_once"
    assert play_simulated(name, 3) == play_simulated(name, 3)
    assert play_simulated(name, 3)[1] != play_simulated(name, 4)[1]


def test_a_write_arrives_in_pieces_for_some_seeds() -> None:
    async def first_piece(network: SimNetwork, rig: StreamRig) -> None:
        near, far = await rig.pair()
        near.write(bytes(100))
        rig.server.append(str(len(await far.read(100))))

    found = {simulated(first_piece, seed).server[0] for seed in range(20)}
    assert "100" in found
    assert len(found) > 3


def test_what_a_partition_holds_arrives_after_it() -> None:
    async def held(network: SimNetwork, rig: StreamRig) -> None:
        near, far = await rig.pair()
        network.partition("client", "server", hold=True)
        near.write(b"late")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2):
                await far.read(4)
        network.heal()
        rig.server.append((await far.read_exactly(4)).decode())

    assert simulated(held).server == ["late"]


def test_a_connection_that_lost_bytes_breaks_and_delivers_none_behind_them() -> None:
    async def lost(network: SimNetwork, rig: StreamRig) -> None:
        near, far = await rig.pair()
        network.partition("client", "server")
        near.write(b"gone")
        network.heal()
        near.write(b"behind")
        with pytest.raises(ConnectionError):
            async with asyncio.timeout(60):
                await far.read_exactly(6)
        with pytest.raises(ConnectionError):
            await near.read(1)

    simulated(lost)


def test_silence_ends_with_keepalive() -> None:
    async def silent(network: SimNetwork, rig: StreamRig) -> None:
        near, far = await rig.pair()
        network.partition("client", "server")
        for stream in (near, far):
            with pytest.raises(ConnectionAbortedError):
                async with asyncio.timeout(30):
                    await stream.read(1)

    simulated(silent)


def test_nobody_answers_a_connection_over_a_cut_link() -> None:
    async def cut(network: SimNetwork, rig: StreamRig) -> None:
        await rig.listen()
        network.partition("client", "server")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await rig.connect()

    simulated(cut)


def test_a_killed_process_resets_its_connections() -> None:
    async def killed(network: SimNetwork, rig: StreamRig) -> None:
        near, _ = await rig.pair()
        network.kill("server")
        with pytest.raises(ConnectionResetError):
            async with asyncio.timeout(5):
                await near.read(1)

    simulated(killed)


def test_a_slow_link_delays_and_keeps_the_order() -> None:
    async def slow(network: SimNetwork, rig: StreamRig) -> None:
        near, far = await rig.pair()
        network.slow("client", "server", 500)
        start = asyncio.get_running_loop().time()
        near.write(b"first")
        network.heal()
        near.write(b"second")
        assert await far.read_exactly(11) == b"firstsecond"
        assert asyncio.get_running_loop().time() - start >= 0.5

    simulated(slow)


def test_a_reader_on_a_lossy_link_gets_everything() -> None:
    async def lossy(network: SimNetwork, rig: StreamRig) -> None:
        near, far = await rig.pair()
        network.lossy("client", "server", 0.2)
        async with asyncio.TaskGroup() as tasks:
            writing = tasks.create_task(write_all(near, MUCH))
            writing.add_done_callback(lambda _: near.close())
            assert await read_to_the_end(far) == MUCH

    simulated(lossy)
