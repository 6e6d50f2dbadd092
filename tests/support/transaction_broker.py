"""The transactions' coordinator on one broker with a real log; the test is its controller, its one
follower, and the leaders of the partitions that markers go to.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from strandline_broker.core.internal_topics import TRANSACTION_STATE
from strandline_broker.core.transactions.commands import (
    AddPartitions,
    EndTransaction,
    InitProducer,
    Producer,
    VerifyPartitions,
)
from strandline_broker.core.transactions.transaction import TxnPartition
from strandline_broker.hosts.transactions.coordinator import CODE, transaction_shards
from strandline_proto.errors import WireError
from strandline_proto.ids import ProducerEpoch, ProducerId
from support.group_broker import ORDERS, WAIT_S, GroupBroker, broker_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection
    from pathlib import Path

    from strandline_broker.config.keys import BrokerConfig
    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.core.replication.end_marker import EndMarker
    from strandline_broker.hosts.common.events import Events
    from strandline_broker.hosts.coordination.registry import Shards
    from strandline_broker.hosts.transactions.parked_calls import Call
    from strandline_broker.hosts.transactions.transaction_context import Place
    from strandline_broker.hosts.transactions.transaction_shard import TransactionShard
    from strandline_proto.ids import LeaderEpoch
    from strandline_runtime.runtime import Runtime

TIMEOUT_MS = 60_000

CODE.load()  # as in `group_broker`


@dataclass
class Sent:
    transactional_id: str
    marker: EndMarker
    places: tuple[Place, ...]
    done: Callable[[Place], None]

    def all_done(self) -> None:
        for place in self.places:
            self.done(place)


class ScriptedSender:
    """A `MarkerSender` whose partitions the test plays."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.cancelled: list[tuple[str, int]] = []

    def send(
        self,
        transactional_id: str,
        marker: EndMarker,
        partitions: Collection[Place],
        done: Callable[[Place], None],
    ) -> None:
        self.sent.append(Sent(transactional_id, marker, tuple(partitions), done))

    def cancel(self, transactional_id: str, coordinator_epoch: LeaderEpoch) -> None:
        self.cancelled.append((transactional_id, coordinator_epoch))


class ScriptedIds:
    """`NewProducerIds` from a block that the test fills."""

    def __init__(self) -> None:
        self.next = 1000
        self.left = 100
        self.asked = 0

    def take(self) -> ProducerId | None:
        if self.left == 0:
            return None
        self.left -= 1
        self.next += 1
        return ProducerId(self.next - 1)

    async def have_some(self) -> None:
        self.asked += 1
        self.left = max(self.left, 10)

    async def until_some(self, timeout_s: float) -> None:
        await self.have_some()


@dataclass
class TransactionBroker(GroupBroker):
    coordinators_topic: str = TRANSACTION_STATE
    sender: ScriptedSender = field(default_factory=ScriptedSender)
    ids: ScriptedIds = field(default_factory=ScriptedIds)
    unsure: list[bool] = field(default_factory=list)

    @property
    def transactions(self) -> Shards[TransactionShard]:
        return self.shards  # type: ignore[return-value] # of the other coordinator

    @property
    def txn(self) -> TransactionShard:
        return self.transactions.of("x")

    def ask(self, command: Any) -> Call:
        return self.txn.ask(command)

    def init(self, name: str = "x", producer: Producer | None = None) -> Call:
        expected = producer or Producer(ProducerId(-1), ProducerEpoch(-1))
        return self.ask(
            InitProducer(
                transactional_id=name,
                timeout_ms=TIMEOUT_MS,
                producer_id=expected.producer_id,
                producer_epoch=expected.producer_epoch,
            )
        )

    def add(
        self,
        producer: Producer,
        *partitions: int,
        name: str = "x",
        version: int = 2,
        waits: bool = False,
    ) -> Call:
        wanted = tuple(TxnPartition(ORDERS, p) for p in partitions or (0,))
        return self.ask(AddPartitions(name, *producer, wanted, version, waits))

    def verify(self, producer: Producer, *, name: str = "x") -> Call:
        return self.ask(VerifyPartitions(name, *producer, (TxnPartition(ORDERS, 0),)))

    def end(
        self, producer: Producer, *, commit: bool = True, name: str = "x", version: int = 2
    ) -> Call:
        return self.ask(EndTransaction(name, *producer, commit, version))

    def replicated(self, call: Call) -> Any:
        """The answer, once everything is committed."""
        self.replicate()
        assert call.is_answered
        return call.reply

    def begun(self, *partitions: int, name: str = "x") -> Producer:
        """A producer with an open transaction."""
        producer: Producer = self.replicated(self.init(name))
        self.replicated(self.add(producer, *partitions, name=name))
        return producer

    async def serves_transactions(self) -> None:
        """Until the shard is loaded."""
        await self.txn.shard.settled(WAIT_S)
        assert self.txn.machine.refusal() is None

    def state(self, name: str = "x") -> str:
        return self.txn.transactions.table[name].state.text


@asynccontextmanager
async def transaction_broker(path: Path, **settings: str) -> AsyncIterator[TransactionBroker]:
    """Broker 1, which leads nothing yet."""
    sender, ids, unsure = ScriptedSender(), ScriptedIds(), [False]

    def make(
        runtime: Runtime, config: BrokerConfig, metadata: MetadataCache, _: Events
    ) -> Shards[TransactionShard]:
        return transaction_shards(
            runtime, config, metadata, lambda: not unsure[0], ids, lambda: sender
        )

    async with broker_of(TransactionBroker, make, path, fs=None, **settings) as broker:
        broker.sender, broker.ids, broker.unsure = sender, ids, unsure
        yield broker


def error_of(reply: object) -> WireError:
    assert isinstance(reply, WireError), reply
    return reply
