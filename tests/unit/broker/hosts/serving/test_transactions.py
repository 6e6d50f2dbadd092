"""Requests about transactional ids as plain data: what is refused before a decision."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from strandline_broker.core.transactions.transaction import WITH_BUMP, TxnPartition
from strandline_broker.hosts.serving.transactions import Addition, TransactionsService
from strandline_proto.errors import (
    CoordinatorNotAvailable,
    InvalidRegularExpression,
    InvalidRequest,
    InvalidTransactionTimeout,
    InvalidTxnState,
    NotController,
    UnknownTopicId,
    WireError,
)
from strandline_proto.ids import ProducerEpoch, ProducerId
from support.group_broker import ORDERS, PARTITIONS
from support.transaction_broker import TransactionBroker, transaction_broker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable
    from pathlib import Path

    from strandline_broker.core.transactions.commands import Producer

KNOWN = TxnPartition(ORDERS, 0)
UNKNOWN = TxnPartition(ORDERS, PARTITIONS)


class Rig:
    def __init__(self, broker: TransactionBroker) -> None:
        self.broker = broker
        clock = broker.txn.context.shared.runtime.clock
        self.service = TransactionsService(
            clock,
            broker.transactions,
            broker.metadata,
            broker.ids,  # type: ignore[arg-type] # as far as the service needs it
        )

    async def committed(self, request: Awaitable[Any]) -> Any:
        """The answer; the follower reads what the request has written."""
        asked = asyncio.ensure_future(request)
        for _ in range(100):
            await asyncio.sleep(0)
            self.broker.replicate()
        return await asked


@asynccontextmanager
async def rig(path: Path) -> AsyncIterator[Rig]:
    async with transaction_broker(path) as broker:
        await broker.lead(1)
        yield Rig(broker)


def codes(result: WireError | tuple[WireError | None, ...]) -> list[int]:
    assert not isinstance(result, WireError), result
    return [0 if error is None else error.code for error in result]


async def test_a_transaction_from_its_begin_to_its_end(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        producer: Producer = await r.committed(r.service.init_producer_id("x", 60_000))
        addition = Addition("x", *producer, (KNOWN, UNKNOWN), version=WITH_BUMP)
        (result,) = await r.committed(r.service.add_partitions([addition]))
        assert codes(result) == [0, 3]
        following = await r.committed(
            r.service.end("x", *producer, is_commit=True, version=WITH_BUMP)
        )
        assert following == (producer.producer_id, producer.producer_epoch + 1)


async def test_what_no_producer_may_ask_for_is_refused(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        with pytest.raises(InvalidRequest, match="a new producer has -1 for both"):
            await r.service.init_producer_id("x", 60_000, ProducerId(5))
        with pytest.raises(InvalidTransactionTimeout, match="from 1 to 900000"):
            await r.service.init_producer_id("x", 900_001)
        with pytest.raises(InvalidRequest, match="is empty"):
            await r.service.init_producer_id("", 60_000)
        producer: Producer = await r.committed(r.service.init_producer_id("x", 60_000))
        with pytest.raises(InvalidTxnState, match="state Empty"):
            await r.committed(r.service.end("x", *producer, is_commit=True, version=WITH_BUMP))


async def test_a_client_gets_all_its_partitions_or_none(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        producer: Producer = await r.committed(r.service.init_producer_id("x", 60_000))
        both = Addition("x", *producer, (KNOWN, UNKNOWN), all_or_none=True)
        (result,) = await r.committed(r.service.add_partitions([both]))
        assert codes(result) == [55, 3]
        assert r.broker.state() == "Empty"


async def test_the_additions_of_one_request_are_independent(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        producer: Producer = await r.committed(r.service.init_producer_id("x", 60_000))
        stale = (producer.producer_id, ProducerEpoch(7))
        results = await r.committed(
            r.service.add_partitions(
                [
                    Addition("x", *stale, (KNOWN,), WITH_BUMP),
                    Addition("x", *producer, (UnknownTopicId("gone"), KNOWN), WITH_BUMP),
                    Addition("x", *producer, (KNOWN,), WITH_BUMP, verify_only=True),
                    Addition("x", *producer, (UnknownTopicId("gone"),), WITH_BUMP),
                ]
            )
        )
        assert results[0].code == 90
        assert [codes(each) for each in results[1:]] == [[100, 0], [0], [100]]


async def test_offsets_need_the_topic_of_groups(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        producer: Producer = await r.committed(r.service.init_producer_id("x", 60_000))
        with pytest.raises(CoordinatorNotAvailable, match="__consumer_offsets is not made yet"):
            await r.service.add_offsets("x", *producer, "g")


async def test_the_broker_gets_producer_ids_when_it_has_none(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        r.broker.ids.left = 0
        producer: Producer = await r.committed(r.service.init_producer_id("x", 60_000))
        assert producer == (1000, 0)
        assert r.broker.ids.asked == 1

        async def none(timeout_s: float) -> None:
            raise NotController("no block of producer ids came")

        r.broker.ids.left = 0
        r.broker.ids.until_some = none  # type: ignore[method-assign]
        with pytest.raises(CoordinatorNotAvailable, match="no block of producer ids"):
            await r.committed(r.service.init_producer_id("y", 60_000))


async def test_transactions_are_listed_by_each_filter_and_described(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        service = r.service
        x: Producer = await r.committed(service.init_producer_id("x", 60_000))
        y: Producer = await r.committed(service.init_producer_id("y", 60_000))
        await r.committed(service.add_partitions([Addition("x", *x, (KNOWN,), WITH_BUMP)]))

        async def names(*args: Any, **filters: Any) -> list[str]:
            listed = await service.list_transactions(*args, **filters)
            assert listed.error is None
            return [name for name, _ in listed.transactions]

        assert await names() == ["x", "y"]
        assert await names(["Ongoing"]) == ["x"]
        assert await names((), [y.producer_id]) == ["y"]
        assert await names(pattern="[xz]") == ["x"]
        assert await names(duration_ms=3_600_000) == []
        table = r.broker.txn.transactions.table
        table["x"] = replace(table["x"], started_ms=0)
        assert await names(duration_ms=3_600_000) == ["x"]
        unknown = await service.list_transactions(["Ongoing", "Odd"])
        assert unknown.unknown_states == ["Odd"]
        with pytest.raises(InvalidRegularExpression):
            await service.list_transactions(pattern="(")
        found = [each async for each in service.describe_transactions(["x", "z", ""])]
        transactions = [each for _, each in found if not isinstance(each, WireError)]
        assert [each.partitions for each in transactions] == [(KNOWN,)]
        assert [each.code for _, each in found if isinstance(each, WireError)] == [105, 42]
