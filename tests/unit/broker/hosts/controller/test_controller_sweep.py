"""Whom the controller's sweep fences, by what has been heard when its decision is taken; and what a
heartbeat is told whose sender has another decision waiting for the disk.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from strandline_broker.core.compatibility import Levels, Server
from strandline_broker.core.controller.brokers.heartbeat import Heartbeat, HeartbeatAnswer
from strandline_broker.core.controller.brokers.sessions import Sessions
from strandline_broker.core.controller.log.records import OfflineReplica
from strandline_broker.core.controller.log.state import ControllerState
from strandline_broker.core.controller.partitions.balance import BalanceSettings
from strandline_broker.core.replication.replica_condition import ReplicaCondition
from strandline_broker.hosts.controller.controller import Controller
from strandline_broker.hosts.controller.pipeline import QUEUE_MAX
from strandline_broker.hosts.controller.settings import ControllerSettings, Identity
from strandline_broker.storage.controller.metadata_log import NoRoom
from strandline_proto.errors import BrokerIdNotRegistered, UnsupportedVersion
from strandline_proto.ids import BrokerId, MetadataOffset, TopicId
from strandline_runtime.real import real_runtime
from support.controller_cluster import (
    B1,
    B2,
    CLUSTER,
    DEFAULTS,
    SERVER_KEYS,
    SESSION_MS,
    STORE,
    registration,
)
from support.hand_clock import HandClock
from support.memory_store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable

    from strandline_broker.core.controller.log.state import Broker


DAMAGED = OfflineReplica(TopicId(bytes(16)), 0, ReplicaCondition.DAMAGED)


class SlowStore(MemoryStore):
    """Writes wait while the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.may_write = threading.Event()
        self.may_write.set()
        self.then_hangs = False
        """After one more write."""
        self.is_full = False

    def append(self, *args: Any, **kwargs: Any) -> tuple[int, int]:
        assert self.may_write.wait(20)
        if self.is_full:
            raise NoRoom("free disk space")
        if self.then_hangs:
            self.may_write.clear()
        return super().append(*args, **kwargs)


class PatientSessions(Sessions):
    asked = 0

    def oldest_expired(self, now_ms: int) -> Any:
        self.asked += 1
        assert self.asked < 10, "it is asked again and again, and nobody else has a turn"
        return super().oldest_expired(now_ms)


async def turns() -> None:
    """Whoever waits for nothing but the event loop goes on."""
    for _ in range(20):
        await asyncio.sleep(0)


class Bench:
    """A controller whose decisions wait until the test has them taken, and one live broker."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.store = SlowStore()
        self.heartbeats = 0
        runtime = replace(real_runtime("controller"), clock=self.clock)
        identity = Identity(node_id=BrokerId(100), cluster_id=CLUSTER, store_id=STORE)
        settings = ControllerSettings(
            session_ms=SESSION_MS,
            min_insync_replicas=1,
            topic_defaults=DEFAULTS,
            server_keys=SERVER_KEYS,
            balance=BalanceSettings(enabled=False, interval_s=300, percentage=10),
        )
        self.controller = Controller(
            runtime, identity, settings, ControllerState(), self.store, cast("Any", None)
        )

    @property
    def broker(self) -> Broker:
        return self.controller.state.brokers[B1]

    async def set_up(self) -> None:
        await self.controller.start()
        await self.decided(self.controller.register(registration(B1, "one")))
        await self.decided(self.controller.heartbeat(self.hear(applied=0)))
        assert not self.broker.fenced

    async def decided(self, asked: Awaitable[Any]) -> None:
        """What was asked is answered, with all that it waits for."""
        deciding = asyncio.ensure_future(self.controller._pipeline.run())
        await asked
        deciding.cancel()
        await asyncio.wait([deciding])

    @asynccontextmanager
    async def writing(self, asked: Awaitable[Any]) -> AsyncIterator[None]:
        """What was asked is decided, and waits for the disk meanwhile."""
        self.store.may_write.clear()
        deciding = asyncio.ensure_future(self.controller._pipeline.run())
        asking = asyncio.ensure_future(asked)
        await turns()
        assert self.controller._pipeline.pending
        try:
            yield
            await asking
        finally:
            self.store.may_write.set()
            deciding.cancel()
            await asyncio.wait([deciding])

    async def told_once_written(self, heartbeat: Heartbeat) -> HeartbeatAnswer:
        """The answer to a heartbeat that arrives while something waits for the disk."""
        asking = asyncio.ensure_future(self.controller.heartbeat(heartbeat))
        await turns()
        assert not asking.done(), "what it would be told is not so any more"
        self.store.may_write.set()
        return await asking

    def hear(self, *, applied: int = 0, stops: bool = False, damaged: bool = False) -> Heartbeat:
        """A heartbeat that arrives."""
        self.heartbeats += 1
        heartbeat = Heartbeat(
            B1,
            self.broker.epoch,
            self.controller.state.last_offset,
            want_fence=False,
            want_shut_down=stops,
            applied_partitions=applied,
            number=self.heartbeats,
            offline_replicas=frozenset({DAMAGED} if damaged else ()),
        )
        self.controller.on_heartbeat(heartbeat)
        return heartbeat


@pytest.mark.parametrize("goes_on", [False, True])
async def test_a_leader_that_goes_on_while_its_end_waits_is_not_fenced(goes_on: bool) -> None:
    """I-94: the controller's disk may be slow."""
    bench = Bench()
    await bench.set_up()
    controller = bench.controller
    controller.applied.on_elected(
        B1, MetadataOffset(controller.state.last_offset + 1), controller.now_ms()
    )
    bench.clock.now_s += 1.1 * SESSION_MS / 1000
    bench.hear(applied=0)
    sweep = asyncio.ensure_future(controller._sweep_once(controller.now_ms()))
    await asyncio.sleep(0)
    assert not sweep.done(), "it is overdue, and the decision waits for its turn"
    if goes_on:
        bench.hear(applied=1)
    await bench.decided(sweep)
    assert bench.broker.fenced is not goes_on
    controller.close()


async def test_a_sweep_that_finds_the_pipeline_full_leaves_it_to_the_next_one() -> None:
    """I-88: whoever waits has to get turns for the pipeline to go on."""
    bench = Bench()
    await bench.set_up()
    controller = bench.controller
    controller.sessions = PatientSessions(SESSION_MS)
    controller.sessions.on_registered(B1, bench.broker.epoch, controller.now_ms())
    bench.clock.now_s += 1.1 * SESSION_MS / 1000
    waiting = [
        asyncio.ensure_future(controller.allocate_producer_ids(B1, bench.broker.epoch))
        for _ in range(QUEUE_MAX)
    ]
    await asyncio.sleep(0)
    await controller._sweep_once(controller.now_ms())
    assert not bench.broker.fenced
    await bench.decided(asyncio.gather(*waiting))
    await bench.decided(controller._sweep_once(controller.now_ms()))
    assert bench.broker.fenced
    controller.close()


@pytest.mark.parametrize("how", ["its session ended", "its process is gone"])
async def test_a_broker_whose_end_could_not_be_written_is_fenced_once_there_is_room(
    how: str,
) -> None:
    """P-61: its session is over all the same, unless it is heard."""
    bench = Bench()
    await bench.set_up()
    controller, epoch = bench.controller, bench.broker.epoch
    bench.store.is_full = True
    if how == "its session ended":
        bench.clock.now_s += 1.1 * SESSION_MS / 1000
        await bench.decided(controller._sweep_once(controller.now_ms()))
    else:
        await bench.decided(controller.fence_dead(B1, epoch, lambda: True))
    assert not bench.broker.fenced
    bench.store.is_full = False
    await bench.decided(controller._sweep_once(controller.now_ms()))
    assert bench.broker.fenced
    controller.close()


async def test_a_broker_that_is_heard_after_its_end_could_not_be_written_lives_on() -> None:
    bench = Bench()
    await bench.set_up()
    controller, epoch = bench.controller, bench.broker.epoch
    bench.store.is_full = True
    await bench.decided(controller.fence_dead(B1, epoch, lambda: True))
    bench.store.is_full = False
    bench.hear()
    await bench.decided(controller._sweep_once(controller.now_ms()))
    assert not bench.broker.fenced
    controller.close()


async def test_what_is_named_again_is_not_taken_for_known_while_it_is_taken_back() -> None:
    """I-15, I-41: a replica that is known to be damaged, and out of the ISR, may cut its log."""
    bench = Bench()
    await bench.set_up()
    await bench.decided(bench.controller.heartbeat(bench.hear(damaged=True)))
    async with bench.writing(bench.controller.heartbeat(bench.hear())):
        await bench.told_once_written(bench.hear(damaged=True))
        assert bench.broker.offline_replicas == {DAMAGED}
    bench.controller.close()


async def test_a_broker_that_is_being_fenced_is_told_so() -> None:
    """I-35: nor does it go on alone in its ISR as one that is sure."""
    bench = Bench()
    await bench.set_up()
    bench.clock.now_s += 1.1 * SESSION_MS / 1000
    async with bench.writing(bench.controller._sweep_once(bench.controller.now_ms())):
        answer = await bench.told_once_written(bench.hear())
        assert answer.is_fenced
    bench.controller.close()


async def test_a_full_pipeline_refuses_nobody_who_waits_for_what_is_decided() -> None:
    """Its answer needs no turn, and a heartbeat stream that is refused is suspected (P-81)."""
    bench = Bench()
    await bench.set_up()
    controller, epoch = bench.controller, bench.broker.epoch
    async with bench.writing(controller.fence_dead(B1, epoch, lambda: True)):
        waiting = [
            asyncio.ensure_future(controller.allocate_producer_ids(B2, epoch))
            for _ in range(QUEUE_MAX)
        ]
        await asyncio.sleep(0)
        answer = await bench.told_once_written(bench.hear())
        assert answer.is_fenced
        await asyncio.wait(waiting)
        assert {type(each.exception()) for each in waiting} == {BrokerIdNotRegistered}
    controller.close()


async def test_a_broker_is_told_that_it_is_being_fenced_behind_what_it_has_told() -> None:
    """I-35, as above: its own news have come to their turn, and the disk hangs behind them."""
    bench = Bench()
    await bench.set_up()
    controller = bench.controller
    asking = asyncio.ensure_future(controller.heartbeat(bench.hear(damaged=True)))
    await turns()
    bench.store.then_hangs = True
    async with bench.writing(controller.fence_dead(B1, bench.broker.epoch, lambda: True)):
        bench.store.may_write.set()
        while not bench.broker.offline_replicas:
            await controller._progress.wait()
        await turns()
        assert not asking.done(), "it is about to be fenced"
        bench.store.then_hangs = False
        bench.store.may_write.set()
        assert (await asking).is_fenced
    controller.close()


async def test_a_broker_that_is_being_unfenced_does_not_go_as_a_fenced_one() -> None:
    """I-84: it may lead by then."""
    bench = Bench()
    await bench.controller.start()
    await bench.decided(bench.controller.register(registration(B1, "one")))
    async with bench.writing(bench.controller.heartbeat(bench.hear())):
        answer = await bench.told_once_written(bench.hear(stops=True))
        assert not answer.should_shut_down, "nobody has applied its shutdown"
        assert bench.broker.in_controlled_shutdown
    bench.controller.close()


async def test_whoever_is_unfenced_after_its_session_can_be_fenced_again() -> None:
    """I-88: its session ended behind its own news, which waited for the controller's disk."""
    bench = Bench()
    controller = bench.controller
    await controller.start()
    await bench.decided(controller.register(registration(B1, "one")))
    async with bench.writing(controller.heartbeat(bench.hear(damaged=True))):
        bench.clock.now_s += 1.1 * SESSION_MS / 1000
        sweep = asyncio.ensure_future(controller._sweep_once(controller.now_ms()))
        await turns()
        bench.store.may_write.set()
        await sweep
    assert not bench.broker.fenced, "what it asked for came to its turn after that"
    bench.clock.now_s += 1.1 * SESSION_MS / 1000
    await bench.decided(controller._sweep_once(controller.now_ms()))
    assert bench.broker.fenced, "it has not been heard for two sessions"
    controller.close()


async def test_a_broker_that_this_build_cannot_follow_does_not_come_back_by_a_heartbeat() -> None:
    """It registered with a controller of another build, and was fenced when this one started."""
    bench = Bench()
    await bench.set_up()
    bench.controller.here = Server("this controller", "0.3.0+bbb", Levels(2, 3))
    with pytest.raises(UnsupportedVersion, match=r"broker 1 runs build test and speaks protocol"):
        await bench.controller.heartbeat(bench.hear(applied=0))
