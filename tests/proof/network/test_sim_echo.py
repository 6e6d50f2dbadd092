"""Requests that arrive twice: what a server is asked, and what its client is told."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

import pytest

from strandline_proof.sim.loop.loop import SimLoop
from strandline_proof.sim.network import duplicates as echo
from strandline_proof.sim.network.duplicates import Echoes
from strandline_proof.sim.network.network import SimNetwork
from strandline_proof.sim.plan.plan import Fault, Plan
from strandline_proof.sim.run.run import run_plan
from strandline_proof.sim.topology.topology import Topology
from support.grpc_rig import Rig, outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    Story = Coroutine[Any, Any, None]

LATE_S = 0.5
APART = {"probability": 0.7, "late_s": 0.02}
SEEDS = range(6)


def run(seed: int, main: Callable[[SimLoop, SimNetwork, Rig], Story]) -> SimNetwork:
    loop = SimLoop()
    network = SimNetwork(random.Random(seed), now=lambda: loop.now, post=loop.post)
    rig = Rig(network.node("s"), network.node("c"), "s")
    loop.run(main(loop, network, rig))
    loop.close()
    assert loop.uncaught == []
    return network


def twice(network: SimNetwork, late_s: float = LATE_S) -> list[int]:
    """From here on every request from c to s is one that is asked again; it grows with each."""
    told: list[int] = []
    network.duplicate("c", "s", Echoes(1.0, late_s, lambda: told.append(1)))
    return told


@pytest.mark.parametrize("seed", SEEDS)
def test_the_answer_to_the_second_of_two_equal_requests_is_the_one_that_comes(seed: int) -> None:
    asked: list[bytes] = []

    async def count(request: bytes, context: Any) -> bytes:
        asked.append(request)
        return str(len(asked)).encode()

    async def main(loop: SimLoop, network: SimNetwork, rig: Rig) -> None:
        await rig.serve(UnaryUnary=count)
        told = twice(network)
        began_s = loop.now
        assert await outcome(rig.method("UnaryUnary")(b"add")) == "2"
        assert LATE_S < loop.now - began_s < LATE_S + 0.2
        assert (asked, told) == ([b"add", b"add"], [1])
        network.heal("c", "s")
        assert await outcome(rig.method("UnaryUnary")(b"add")) == "3"

    assert run(seed, main).echoer.counts == {"UnaryUnary": 1}


@pytest.mark.parametrize("seed", SEEDS)
def test_nobody_asks_again_whose_patience_has_ended(seed: int) -> None:
    asked: list[bytes] = []

    async def count(request: bytes, context: Any) -> bytes:
        asked.append(request)
        return b""

    async def main(loop: SimLoop, network: SimNetwork, rig: Rig) -> None:
        await rig.serve(UnaryUnary=count)
        twice(network)
        call = rig.method("UnaryUnary")(b"add", timeout=LATE_S / 2)
        assert await outcome(call) == "DEADLINE_EXCEEDED"
        await asyncio.sleep(2 * LATE_S)
        assert len(asked) == 1

    run(seed, main)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_first_request_of_a_stream_comes_again_in_a_stream_of_its_own(seed: int) -> None:
    streams: list[list[bytes]] = []

    async def say_again(requests: Any, context: Any) -> None:
        seen: list[bytes] = []
        streams.append(seen)
        async for message in requests:
            seen.append(message)
            await context.write(message)
        seen.append(b"end")

    async def main(loop: SimLoop, network: SimNetwork, rig: Rig) -> None:
        await rig.serve(StreamStream=say_again)
        twice(network)
        call = rig.method("StreamStream")()
        for text in (b"one", b"two"):
            await call.write(text)
            assert await call.read() == text
        await asyncio.sleep(2 * LATE_S)
        assert streams == [[b"one", b"two"], [b"one", b"end"]]
        await call.write(b"three")
        assert await call.read() == b"three"
        call.cancel()

    run(seed, main)


def test_of_some_the_first_is_answered_and_the_other_read_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(echo, "LATE", ("UnaryUnary",))
    answers: set[str] = set()
    asked: list[bytes] = []

    async def count(request: bytes, context: Any) -> bytes:
        asked.append(request)
        return str(len(asked)).encode()

    async def main(loop: SimLoop, network: SimNetwork, rig: Rig) -> None:
        await rig.serve(UnaryUnary=count)
        asked.clear()
        twice(network)
        answers.add(await outcome(rig.method("UnaryUnary")(b"add")))
        await asyncio.sleep(2 * LATE_S)
        assert len(asked) == 2

    for seed in range(12):
        run(seed, main)
    assert answers == {"1", "2"}


def test_a_registration_is_never_late() -> None:
    assert "BrokerRegistration" not in echo.LATE


def test_a_request_on_a_connection_that_is_gone_does_not_come_again() -> None:
    asked: list[bytes] = []

    async def say_again(requests: Any, context: Any) -> None:
        async for message in requests:
            asked.append(message)
            await context.write(message)

    async def main(loop: SimLoop, network: SimNetwork, rig: Rig) -> None:
        await rig.serve(StreamStream=say_again)
        twice(network)
        call = rig.method("StreamStream")()
        await call.write(b"one")
        assert await call.read() == b"one"
        network.reset("c", "s")
        await asyncio.sleep(2 * LATE_S)
        assert asked == [b"one"]

    run(1, main)


def test_servers_hold_when_all_that_they_ask_each_other_arrives_twice() -> None:
    """Registrations, heartbeats, ISR changes, pushes and fetches, as brokers come and go."""
    faults = [
        Fault(0.0, "duplicate", {"a": f"broker-{n}", "b": other, "for_s": 5.0} | APART)
        for n, other in ((1, "controller"), (2, "controller"), (3, "controller"), (1, "broker-2"))
    ]
    faults += [Fault(2.0, "kill", {"node": "broker-2", "restart_s": 0.3})]
    faults += [Fault(3.0, "pause", {"node": "broker-3", "for_s": 1.4})]
    outcome = run_plan(Plan(1, Topology(), tuple(faults), chaos_s=5.0))
    assert outcome.failure is None
    assert outcome.struck["duplicate"] == len(faults) - 2
    for method in ("BrokerRegistration", "BrokerHeartbeat", "LeaderAndIsr", "AlterPartition"):
        assert outcome.sometimes[f"arrived twice: {method}"] > 0, method


@pytest.mark.parametrize("seed", SEEDS)
def test_an_answer_that_is_lost_is_that_of_a_call_that_was_carried_out(seed: int) -> None:
    asked: list[bytes] = []

    async def count(request: bytes, context: Any) -> bytes:
        asked.append(request)
        return str(len(asked)).encode()

    async def main(loop: SimLoop, network: SimNetwork, rig: Rig) -> None:
        await rig.serve(UnaryUnary=count)
        network.echoer.lost_answers.append(
            lambda node, method: (node, method) == ("s", "UnaryUnary")
        )
        assert await outcome(rig.method("UnaryUnary")(b"add")) == "UNAVAILABLE"
        network.echoer.lost_answers.clear()
        assert await outcome(rig.method("UnaryUnary")(b"add")) == "2"

    run(seed, main)
    assert asked == [b"add", b"add"]
