"""The fast path of failure detection: what proves a broker dead, and what only shortens its
session.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from strandline_broker.hosts.controller import failure_detector
from strandline_broker.hosts.controller.failure_detector import FailureDetector
from strandline_broker.hosts.controller.settings import Identity
from strandline_broker.rpc.cluster.push_codec import PushTranslator
from strandline_broker.rpc.controller.broker_link import BrokerLinks
from strandline_proto.ids import BrokerId
from strandline_runtime.real import real_runtime
from strandline_runtime.runtime import Probe
from support.controller_cluster import B1, B2, Cluster
from support.grpc_only import GrpcOnly

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_proto.ids import BrokerEpoch


class Network(GrpcOnly):
    """Probes find what the test says, one after the other; the last one stays."""

    def __init__(self, *found: Probe) -> None:
        self.found = list(found)
        self.probes = 0
        self.before_probe: Callable[[], None] = lambda: None
        self.probes_until = len(failure_detector.PAUSES_S)
        self.over = asyncio.Event()

    async def probe(self, host: str, port: int, timeout_s: float) -> Probe:
        self.before_probe()
        self.probes += 1
        if self.probes == self.probes_until:
            self.over.set()
        return self.found.pop(0) if len(self.found) > 1 else self.found[0]

    async def resolves(self, host: str) -> bool:
        return True

    def channel(self, target: str, client_id: str | None = None) -> Any:
        raise AssertionError("nobody answered the probe")

    def server(self, connections_max: int = 0) -> Any:
        raise AssertionError("a detector serves nothing")


class Judge:
    def __init__(self, over: asyncio.Event) -> None:
        self.shortened = 0
        self.fenced: list[BrokerEpoch] = []
        self._over = over

    def shorten_session(self, broker_id: BrokerId, epoch: BrokerEpoch) -> None:
        self.shortened += 1

    async def fence_dead(
        self, broker_id: BrokerId, epoch: BrokerEpoch, still_broken: Callable[[], bool]
    ) -> None:
        if still_broken():
            self.fenced.append(epoch)
        self._over.set()


def dial(network: Any) -> BrokerLinks:
    """Nothing is pushed here."""
    translate = PushTranslator(Identity(BrokerId(100), "c", "s"))
    return BrokerLinks(network, translate, real_runtime("test").serial_executor("unused"))


async def investigate(network: Network, *, reopened_in_probe: bool = False) -> Judge:
    """Broker 1's stream opens and breaks; returns when the investigation is over."""
    judge = Judge(network.over)
    broker = Cluster([B1]).state.brokers[B1]
    runtime = replace(real_runtime("test"), network=network)
    detector = FailureDetector(runtime, judge, dial(network), cluster_id="c")
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(detector.run())
        await asyncio.sleep(0)
        generation = detector.on_stream_opened(B1)
        if reopened_in_probe:
            network.before_probe = lambda: void(detector.on_stream_opened(B1))
            network.probes_until = 1
        detector.on_stream_ended(broker, generation)
        async with asyncio.timeout(60):
            await network.over.wait()
        await asyncio.sleep(0)
        running.cancel()
    return judge


def void(_: object) -> None:
    """For a callback whose result nobody wants."""


async def test_a_refused_connection_fences_at_once() -> None:
    network = Network(Probe.REFUSED)
    judge = await investigate(network)
    assert len(judge.fenced) == 1
    assert network.probes == 1


async def test_silence_shortens_the_session_and_fences_nobody() -> None:
    judge = await investigate(Network(Probe.SILENT))
    assert judge.fenced == []
    assert judge.shortened == 1


async def test_a_process_that_is_still_dying_is_asked_again() -> None:
    network = Network(Probe.SILENT, Probe.SILENT, Probe.REFUSED)
    judge = await investigate(network)
    assert len(judge.fenced) == 1
    assert network.probes == 3


async def test_a_verdict_about_a_stream_that_was_replaced_does_not_count() -> None:
    judge = await investigate(Network(Probe.REFUSED), reopened_in_probe=True)
    assert judge.fenced == []


async def test_the_end_of_an_older_stream_is_no_hint() -> None:
    network = Network(Probe.REFUSED)
    judge = Judge(network.over)
    broker = Cluster([B1]).state.brokers[B1]
    runtime = replace(real_runtime("test"), network=network)
    detector = FailureDetector(runtime, judge, dial(network), cluster_id="c")
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(detector.run())
        await asyncio.sleep(0)
        older = detector.on_stream_opened(B1)
        detector.on_stream_opened(B1)
        detector.on_stream_ended(broker, older)
        await asyncio.sleep(0)
        running.cancel()
    assert (judge.shortened, network.probes) == (0, 0)


async def test_an_address_that_fails_in_an_unknown_way_ends_nothing() -> None:
    """An older version's registrations may hold anything."""

    class Broken(Network):
        async def probe(self, host: str, port: int, timeout_s: float) -> Probe:
            await super().probe(host, port, timeout_s)
            raise UnicodeError("label empty or too long")

    network = Broken(Probe.SILENT)
    judge = await investigate(network)
    assert judge.fenced == []
    assert network.probes == len(failure_detector.PAUSES_S)


async def start_alone(network: Network, *, calls: tuple[BrokerId, ...] = ()) -> Judge:
    """A controller starts with brokers 1 and 2 registered; returns when it has asked enough."""
    judge = Judge(network.over)
    brokers = Cluster([B1, B2]).state.brokers.values()
    runtime = replace(real_runtime("test"), network=network)
    detector = FailureDetector(runtime, judge, dial(network), cluster_id="c")

    def call() -> None:
        for broker_id in calls:
            detector.on_stream_opened(broker_id)

    if B2 in calls:
        network.before_probe = call
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(detector.run(brokers))
        await asyncio.sleep(0)
        if B2 not in calls:
            call()
        async with asyncio.timeout(60):
            await network.over.wait()
        await asyncio.sleep(0)
        running.cancel()
    return judge


async def test_who_does_not_call_a_controller_that_starts_is_asked_and_others_are_not() -> None:
    network = Network(Probe.REFUSED)
    judge = await start_alone(network, calls=(B1,))
    assert (judge.fenced, network.probes) == ([Cluster([B1, B2]).state.brokers[B2].epoch], 1)


async def test_who_does_not_call_and_says_nothing_keeps_its_session() -> None:
    network = Network(Probe.SILENT)
    network.probes_until *= 2
    judge = await start_alone(network)
    assert (judge.fenced, judge.shortened) == ([], 0)


async def test_who_calls_while_it_is_asked_is_not_fenced() -> None:
    network = Network(Probe.REFUSED)
    network.probes_until = 1
    judge = await start_alone(network, calls=(B1, B2))
    assert judge.fenced == []
