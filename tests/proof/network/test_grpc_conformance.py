"""The simulated gRPC behaves as the real one: the same scenarios on both, and the same seen."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import pytest

from strandline_proof.sim.loop.loop import SimLoop
from strandline_proof.sim.network.network import SimNetwork
from strandline_runtime.real import RealNetwork
from support.grpc_rig import Rig
from support.grpc_scenarios import SCENARIOS

from support import (  # isort: skip
    grpc_scenarios_bidi,
    grpc_scenarios_servers,
    grpc_scenarios_streams,
    grpc_scenarios_unary,
)

if TYPE_CHECKING:
    from strandline_runtime.runtime import Network

TABLES = (
    grpc_scenarios_bidi,
    grpc_scenarios_servers,
    grpc_scenarios_streams,
    grpc_scenarios_unary,
)
SCENARIO_S = 8.0
SEEDS = 5

Seen = tuple[list[str], list[str]]


async def play(name: str, server_side: Network, client_side: Network, host: str) -> Seen:
    rig = Rig(server_side, client_side, host)
    try:
        async with asyncio.timeout(SCENARIO_S):
            await SCENARIOS[name](rig)
    finally:
        await rig.close()
    return rig.client, rig.handler


def play_simulated(name: str, seed: int) -> tuple[Seen, str]:
    """What was seen, and the fingerprint of the run."""
    loop = SimLoop(steps_max=100_000)
    network = SimNetwork(random.Random(seed), now=lambda: loop.now, post=loop.post)
    server_side = network.node("server", loop.new_owner("server"))
    client_side = network.node("client", loop.new_owner("client"))
    try:
        seen = loop.run(play(name, server_side, client_side, "server"))
        assert loop.uncaught == []
        return seen, loop.digest()
    finally:
        loop.close()


def test_no_scenario_is_left_out() -> None:
    found = [name for table in TABLES for name in vars(table) if name in SCENARIOS]
    assert len(found) == len(SCENARIOS) >= 60


@pytest.mark.parametrize("name", SCENARIOS)
async def test_both_worlds_see_the_same(name: str) -> None:
    network = RealNetwork()
    real = await play(name, network, network, "127.0.0.1")
    assert real != ([], []), "a scenario that notes nothing compares nothing"
    assert _simulated(name) == [real] * SEEDS


def _simulated(name: str) -> list[Seen]:
    # A loop of its own must not meet the one that runs this test.
    running = asyncio.get_running_loop()
    asyncio._set_running_loop(None)
    try:
        return [play_simulated(name, seed)[0] for seed in range(SEEDS)]
    finally:
        asyncio._set_running_loop(running)


@pytest.mark.parametrize("name", ["bidi_echo", "server_stopped_with_grace", "concurrent_calls"])
def test_a_seed_gives_the_same_run_again(name: str) -> None:
    assert play_simulated(name, 3) == play_simulated(name, 3)
    assert play_simulated(name, 3)[1] != play_simulated(name, 4)[1]
