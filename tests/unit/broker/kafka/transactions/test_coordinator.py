"""AddPartitionsToTxn, AddOffsetsToTxn, EndTxn and InitProducerId with a transactional id, over
Kafka's protocol in each version.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from strandline_broker.core.internal_topics import CONSUMER_OFFSETS
from strandline_broker.hosts.serving.transactions import TransactionsService
from strandline_broker.kafka.transactions.coordinator import TransactionCoordinatorCalls
from strandline_broker.kafka.transactions.producer_ids import ProducerIdsCalls
from strandline_proto.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidGroupId,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidRequest,
    InvalidTransactionTimeout,
    InvalidTxnState,
    NotCoordinator,
    OperationNotAttempted,
    ProducerFenced,
    RequestTimedOut,
    UnknownTopicOrPartition,
    WireError,
)
from strandline_proto.ids import TopicId
from support.group_broker import ORDERS, ORDERS_ID, PARTITIONS
from support.kafka_calls import KafkaCalls
from support.transaction_broker import TransactionBroker, transaction_broker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

OFFSETS = TopicId(b"g" * 16)
NEW = {"producer_id": -1, "producer_epoch": -1}


class Rig:
    def __init__(self, broker: TransactionBroker) -> None:
        self.broker = broker
        self.service = TransactionsService(
            broker.txn.context.shared.runtime.clock,
            broker.transactions,
            broker.metadata,
            broker.ids,  # type: ignore[arg-type] # as far as the service needs it
        )
        unused = cast("Any", None)  # ids of producers without transactions
        self.calls = KafkaCalls(
            TransactionCoordinatorCalls(self.service), ProducerIdsCalls(unused, self.service)
        )

    async def ask(self, name: str, version: int, **fields: Any) -> Any:
        """The answer; the follower reads what the request has written."""
        asked = asyncio.ensure_future(self.calls(name, version, **fields))
        for _ in range(100):
            await asyncio.sleep(0)
            self.broker.replicate()
        return await asked

    async def init(self, version: int = 5, **fields: Any) -> tuple[int, int, int]:
        given = {"transactional_id": "x", "transaction_timeout_ms": 60_000, **NEW, **fields}
        found = await self.ask("InitProducerId", version, **given)
        return found.error_code, found.producer_id, found.producer_epoch

    async def add(
        self, version: int, producer: tuple[int, int], topics: dict[str, list[int]]
    ) -> dict[tuple[str, int], int]:
        found = await self.ask(
            "AddPartitionsToTxn",
            version,
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=[
                {"name": name, "partitions": partitions} for name, partitions in topics.items()
            ],
        )
        return {
            (topic.name, each.partition_index): each.partition_error_code
            for topic in found.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        }

    async def end(
        self, version: int, producer: tuple[int, int], *, committed: bool = True
    ) -> tuple[int, int, int]:
        found = await self.ask(
            "EndTxn",
            version,
            transactional_id="x",
            producer_id=producer[0],
            producer_epoch=producer[1],
            committed=committed,
        )
        if version < 5:
            return found.error_code, -1, -1
        return found.error_code, found.producer_id, found.producer_epoch

    async def finish(self) -> None:
        """All markers are written."""
        self.broker.replicate()
        await self.broker.turns()
        self.broker.sender.sent[-1].all_done()
        await self.broker.turns()
        self.broker.replicate()


@asynccontextmanager
async def rig(path: Path) -> AsyncIterator[Rig]:
    async with transaction_broker(path) as broker:
        await broker.lead(1)
        yield Rig(broker)


@pytest.mark.parametrize("version", range(6))
async def test_a_transactional_producer_gets_its_id_and_a_new_epoch(
    tmp_path: Path, version: int
) -> None:
    async with rig(tmp_path) as r:
        assert await r.init(version) == (0, 1000, 0)
        assert await r.init(version) == (0, 1000, 1)
        for field in ({"transactional_id": ""}, {"transaction_timeout_ms": 0}):
            error = InvalidRequest if "transactional_id" in field else InvalidTransactionTimeout
            assert await r.init(version, **field) == (error.code, -1, -1)
        if version >= 3:
            own = {"producer_id": 1000, "producer_epoch": 1}
            assert await r.init(version, **own) == (0, 1000, 2)
            fenced = ProducerFenced.code if version >= 4 else InvalidProducerEpoch.code
            stale = {"producer_id": 1000, "producer_epoch": 0}
            assert await r.init(version, **stale) == (fenced, -1, -1)
            half = {"producer_id": 1000, "producer_epoch": -1}
            assert await r.init(version, **half) == (InvalidRequest.code, -1, -1)


@pytest.mark.parametrize("version", range(4))
async def test_partitions_are_added_all_or_none(tmp_path: Path, version: int) -> None:
    async with rig(tmp_path) as r:
        _, *producer = await r.init()
        who = (producer[0], producer[1])
        wrong = {ORDERS: [0, PARTITIONS], "none": [0]}
        assert await r.add(version, who, wrong) == {
            (ORDERS, 0): OperationNotAttempted.code,
            (ORDERS, PARTITIONS): UnknownTopicOrPartition.code,
            ("none", 0): UnknownTopicOrPartition.code,
        }
        assert r.broker.state() == "Empty"
        assert await r.add(version, who, {ORDERS: [0, 1, 0]}) == {(ORDERS, 0): 0, (ORDERS, 1): 0}
        assert r.broker.state() == "Ongoing"
        assert await r.add(version, who, {}) == {}
        taking_over = asyncio.ensure_future(r.init())
        await r.broker.turns()
        await r.finish()
        assert await taking_over == (0, who[0], who[1] + 2)
        fenced = ProducerFenced.code if version >= 2 else InvalidProducerEpoch.code
        assert await r.add(version, who, {ORDERS: [0]}) == {(ORDERS, 0): fenced}
        other = InvalidProducerIdMapping.code
        assert await r.add(version, (7, 0), {ORDERS: [0, 1]}) == {
            (ORDERS, 0): other,
            (ORDERS, 1): other,
        }


@pytest.mark.parametrize("version", range(6))
async def test_the_version_of_the_end_says_whether_it_raises_the_epoch(
    tmp_path: Path, version: int
) -> None:
    async with rig(tmp_path) as r:
        _, producer_id, epoch = await r.init()
        who = (producer_id, epoch)
        nothing = await r.end(version, who)
        assert nothing[0] == InvalidTxnState.code
        for is_commit in (True, False):
            await r.add(3, who, {ORDERS: [0]})
            code, *after = await r.end(version, who, committed=is_commit)
            assert code == 0
            sent = r.broker.sender.sent[-1].marker
            if version >= 5:
                assert tuple(after) == (producer_id, who[1] + 1)
                assert (sent.producer_epoch, sent.transaction_version) == (who[1] + 1, 2)
                who = (after[0], after[1])
            else:
                assert sent.producer_epoch == who[1]
                assert sent.transaction_version < 2
            assert sent.is_commit is is_commit
            await r.finish()
        fenced = ProducerFenced.code if version >= 2 else InvalidProducerEpoch.code
        assert (await r.end(version, (producer_id, 20)))[0] == fenced


@pytest.mark.parametrize("version", range(5))
async def test_without_the_groups_topic_its_partition_cannot_be_added(
    tmp_path: Path, version: int
) -> None:
    async with rig(tmp_path) as r:
        _, producer_id, epoch = await r.init()
        given = {"transactional_id": "x", "producer_id": producer_id, "producer_epoch": epoch}
        found = await r.ask("AddOffsetsToTxn", version, **given, group_id="g")
        assert found.error_code == CoordinatorNotAvailable.code
        found = await r.ask("AddOffsetsToTxn", version, **given, group_id="")
        assert found.error_code == InvalidGroupId.code


async def test_the_next_transaction_of_a_client_waits_for_the_completion_of_the_last(
    tmp_path: Path,
) -> None:
    """Clients that get 51 ask again after 20 ms or more."""
    async with rig(tmp_path) as r:
        await r.broker.set_topics({OFFSETS: (CONSUMER_OFFSETS, 1), ORDERS_ID: (ORDERS, 1)})
        _, producer_id, epoch = await r.init()
        given = {"transactional_id": "x", "producer_id": producer_id, "producer_epoch": epoch}
        await r.add(3, (producer_id, epoch), {ORDERS: [0]})
        for begins in (
            r.add(3, (producer_id, epoch), {ORDERS: [0]}),
            r.ask("AddOffsetsToTxn", 3, **given, group_id="g"),
        ):
            await r.end(3, (producer_id, epoch))
            begun = asyncio.ensure_future(begins)
            await r.broker.turns()
            assert r.broker.state() == "PrepareCommit"
            assert not begun.done()
            await r.finish()
            await begun
            assert r.broker.state() == "Ongoing"


class Refusing:
    """A service that refuses everything with one error."""

    def __init__(self, error: WireError) -> None:
        self.error = error

    async def add_partitions(self, additions: list[Any]) -> list[WireError]:
        return [self.error for _ in additions]

    async def end(self, *_: object, **__: object) -> None:
        raise self.error

    add_offsets = init_producer_id = end


@pytest.mark.parametrize(
    ("error", "told", "init"),
    [
        (NotCoordinator("it moved"), NotCoordinator, NotCoordinator),
        (ConcurrentTransactions("busy"), ConcurrentTransactions, ConcurrentTransactions),
        (RequestTimedOut("late"), CoordinatorNotAvailable, CoordinatorNotAvailable),
        (CoordinatorLoadInProgress("soon"), CoordinatorLoadInProgress, CoordinatorLoadInProgress),
        (UnknownTopicOrPartition("gone"), UnknownTopicOrPartition, CoordinatorLoadInProgress),
    ],
)
async def test_errors_are_those_that_clients_know(
    error: WireError, told: type[WireError], init: type[WireError]
) -> None:
    service = cast("Any", Refusing(error))
    calls = KafkaCalls(
        TransactionCoordinatorCalls(service),
        ProducerIdsCalls(cast("Any", SimpleNamespace()), service),
    )
    who: dict[str, Any] = {"transactional_id": "x", "producer_id": 1, "producer_epoch": 0}
    ended = await calls("EndTxn", 5, **who, committed=True)
    assert (ended.error_code, ended.producer_id, ended.producer_epoch) == (told.code, -1, -1)
    assert (await calls("AddOffsetsToTxn", 4, **who, group_id="g")).error_code == told.code
    found = await calls("InitProducerId", 5, **who, transaction_timeout_ms=1)
    assert found.error_code == init.code
    added = await calls(
        "AddPartitionsToTxn",
        3,
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=1,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[{"name": "t", "partitions": [0]}],
    )
    (topic,) = added.results_by_topic_v3_and_below
    assert [each.partition_error_code for each in topic.results_by_partition] == [told.code]
