"""Other brokers, as the callers about transactions meet them, and the metadata that names them.

A test runs in virtual time: a minute costs nothing.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from strandline_broker.core.metadata_cache import MetadataCache
from strandline_proof.sim.loop.loop import SimLoop
from strandline_proto.errors import NetworkException, WireError
from strandline_proto.ids import NO_LEADER, TopicId
from strandline_runtime.real import real_runtime
from support.envelopes import CLUSTER, applied, envelope, live_broker, partition, topic
from support.hand_clock import HandClock

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from strandline_broker.core.addresses import Endpoint
    from strandline_broker.hosts.transactions.broker_calls import (
        MarkerToWrite,
        PartitionsToAdd,
        Results,
    )
    from strandline_runtime.runtime import Runtime

LISTENER = "INTERNAL"
PORTS = 9100
"""Ports of `live_broker`, of broker 0."""
Asked = TypeVar("Asked")


def in_virtual_time(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    loop = SimLoop()
    loop.run(main())
    assert loop.uncaught == []


async def passes(seconds: float) -> None:
    """So much virtual time."""
    await asyncio.sleep(seconds)


def quiet_runtime() -> Runtime:
    return replace(real_runtime("broker-1"), clock=HandClock())


class Cluster:
    """The metadata of brokers 1 to 3, whose topics a test changes."""

    def __init__(self, *, knows: bool = True) -> None:
        self.cache = MetadataCache(cluster_id=CLUSTER)
        self._offset = 0
        if knows:
            brokers = tuple(live_broker(each) for each in (1, 2, 3))
            applied(self.cache, envelope(0, full=True, live_brokers=brokers))

    def lead(self, name: str, number: int, *leaders: int | None) -> None:
        """The topic's partitions have these leaders from now on."""
        self._offset += 1
        epoch = self._offset
        partitions = [
            partition(
                index,
                leader=NO_LEADER if leader is None else leader,
                leader_epoch=epoch,
                partition_epoch=epoch,
            )
            for index, leader in enumerate(leaders)
        ]
        applied(self.cache, envelope(self._offset, topics=(topic(name, number, *partitions),)))

    def delete(self, topic_id: TopicId) -> None:
        self._offset += 1
        applied(self.cache, envelope(self._offset, deleted_topic_ids=(topic_id,)))


@dataclass(eq=False)
class Call(Generic[Asked]):
    broker_id: int
    asked: Sequence[Asked]
    answer: asyncio.Future[Results]
    at_s: float

    def succeed(self, *errors: WireError | None) -> None:
        """Answers with these results of its partitions in order, or with success for all."""
        rest = iter(errors)
        self.answer.set_result(
            [
                [next(rest) if errors else None for _ in each.partitions]  # type: ignore[attr-defined]
                for each in self.asked
            ]
        )


@dataclass
class ScriptedPeers:
    """`BrokerCalls`: keeps the calls. An answer that does not come in time is lost."""

    markers: list[Call[MarkerToWrite]] = field(default_factory=list)
    additions: list[Call[PartitionsToAdd]] = field(default_factory=list)

    async def write_markers(
        self, broker: Endpoint, markers: Sequence[MarkerToWrite], *, timeout_s: float
    ) -> Results:
        return await _called(self.markers, broker, markers, timeout_s)

    async def add_partitions(
        self, broker: Endpoint, transactions: Sequence[PartitionsToAdd], *, timeout_s: float
    ) -> Results:
        return await _called(self.additions, broker, transactions, timeout_s)


async def _called(
    calls: list[Call[Asked]], broker: Endpoint, asked: Sequence[Asked], timeout_s: float
) -> Results:
    assert broker.listener == LISTENER
    loop = asyncio.get_running_loop()
    call = Call(broker.port - PORTS, asked, loop.create_future(), loop.time())
    calls.append(call)
    try:
        async with asyncio.timeout(timeout_s):
            return await call.answer
    except TimeoutError:
        raise NetworkException("no answer") from None
