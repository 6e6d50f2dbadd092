"""Whom the controller's sweep fences, by what has been heard when its decision is taken."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from strandline_broker.core.controller.balance import BalanceSettings
from strandline_broker.core.controller.heartbeat import Heartbeat
from strandline_broker.core.controller.state import ControllerState
from strandline_broker.hosts.controller.controller import Controller
from strandline_broker.hosts.controller.settings import ControllerSettings, Identity
from strandline_proto.ids import BrokerId, MetadataOffset
from strandline_runtime.real import real_runtime
from support.controller_cluster import (
    B1,
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
    from collections.abc import Awaitable

    from strandline_broker.core.controller.state import Broker


class Bench:
    """A controller whose decisions wait until the test has them taken, and one live broker."""

    def __init__(self) -> None:
        self.clock = HandClock()
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
            runtime, identity, settings, ControllerState(), MemoryStore(), cast("Any", None)
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

    def hear(self, *, applied: int) -> Heartbeat:
        """A heartbeat that arrives."""
        heartbeat = Heartbeat(
            B1,
            self.broker.epoch,
            self.controller.state.last_offset,
            want_fence=False,
            want_shut_down=False,
            applied_partitions=applied,
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
