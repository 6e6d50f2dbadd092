"""Consume, transform, produce against scripted brokers, in both forms."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from strandline import Consumer, ConsumeTransformProduce, Producer, TopicPartition, sync
from strandline.errors import (
    AbortableTransactionError,
    CommitOutcomeUnknown,
    ConfigurationError,
    ProducerFenced,
    WrongTransactionState,
)
from strandline_proto import errors as wire
from support.replica_nodes import eventually
from support.scripted_broker import ScriptedCluster, scripted_cluster
from support.scripted_log import Act
from support.scripted_transactions import Reply

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TP = TopicPartition("orders", 0)


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[ScriptedCluster]:
    async with scripted_cluster(2) as scripted:
        scripted.create("orders", 2)
        scripted.create("bills", 1)
        async with Producer(scripted.bootstrap) as producer:
            for number in range(6):
                await producer.send_and_wait("orders", b"%d" % number, partition=number % 2)
        yield scripted


class Rig:
    """A consumer and a producer, and what readers of committed transactions get."""

    def __init__(self, cluster: ScriptedCluster, consumer: Consumer, producer: Producer) -> None:
        self.cluster, self.consumer, self.producer = cluster, consumer, producer

    def batches(self, max_records: int | None = None) -> ConsumeTransformProduce[bytes, bytes]:
        return ConsumeTransformProduce(self.consumer, self.producer, max_records=max_records)

    async def work(self, batch: Any) -> None:
        async with batch as records:
            for record in records:
                await self.producer.send("bills", record.value)

    async def bills(self) -> list[bytes]:
        async with Consumer(
            "bills",
            bootstrap_servers=self.cluster.bootstrap,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        ) as reader:
            found = await reader.getmany(timeout_ms=200)
        return sorted(r.value or b"" for records in found.values() for r in records)

    @property
    def committed(self) -> dict[int, int]:
        offsets = self.cluster.groups.group("g").offsets
        return {key[1]: at[0] for key, at in offsets.items()}


def consumer_of(cluster: ScriptedCluster, **options: Any) -> Consumer:
    given: dict[str, Any] = {
        "group_id": "g",
        "auto_offset_reset": "earliest",
        "isolation_level": "read_committed",
        "enable_auto_commit": False,
        "request_timeout_ms": 2_000,
    }
    return Consumer("orders", bootstrap_servers=cluster.bootstrap, **given | options)


@pytest_asyncio.fixture
async def rig(cluster: ScriptedCluster) -> AsyncIterator[Rig]:
    async with AsyncExitStack() as stack:
        consumer = await stack.enter_async_context(consumer_of(cluster))
        producer = await stack.enter_async_context(
            Producer(cluster.bootstrap, transactional_id="copy", request_timeout_ms=1_500)
        )
        yield Rig(cluster, consumer, producer)


ALL = [b"%d" % number for number in range(6)]


async def test_each_batch_is_a_transaction_with_its_offsets(rig: Rig) -> None:
    seen = 0
    async for batch in rig.batches(max_records=2):
        await rig.work(batch)
        assert batch.is_committed
        seen += len(batch.records)
        assert sum(rig.committed.values()) == seen
        if seen == 6:
            break
    assert await rig.bills() == ALL
    assert rig.cluster.transactions.calls.count("commit") >= 3


async def test_an_error_in_the_block_aborts_and_the_records_come_again(rig: Rig) -> None:
    batches = rig.batches()
    batch = await anext(batches)

    async def work() -> None:
        async with batch as records:
            await rig.producer.send("bills", records[0].value)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await work()
    assert batch.is_committed is False
    assert rig.committed == {}
    while sum(rig.committed.values()) < 6:
        await rig.work(await anext(batches))
    assert await rig.bills() == ALL


async def test_after_an_abort_the_positions_are_the_committed_ones(rig: Rig) -> None:
    batches = rig.batches(max_records=1)
    await rig.work(await anext(batches))
    batch = await anext(batches)
    [tp] = batch.by_partition
    topic_id = rig.cluster.topics["orders"][0]
    rig.cluster.groups.group("g").offsets[topic_id, tp.partition] = (1, -1, "")

    async def work() -> None:
        async with batch:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await work()
    assert await rig.consumer.position(tp) == 1


@pytest.mark.parametrize("code", [wire.IllegalGeneration.code, wire.UnknownMemberId.code])
async def test_a_group_that_has_moved_on_aborts_cleanly(rig: Rig, code: int) -> None:
    batches = rig.batches()
    batch = await anext(batches)
    rig.cluster.transactions.offset_commits.append(Reply(code))
    await rig.work(batch)
    assert batch.is_committed is False
    while sum(rig.committed.values()) < 6:
        await rig.work(await anext(batches))
    assert await rig.bills() == ALL


async def test_partitions_lost_in_the_block_abort_it_even_if_they_come_back(rig: Rig) -> None:
    batches = rig.batches()
    batch = await anext(batches)
    group = rig.cluster.groups
    [member] = group.group("g").members
    async with batch as records:
        await rig.producer.send("bills", records[0].value)
        group.expire("g", member)
        group.sessions[member].end(0, wire.UnknownMemberId.code)
        await eventually(lambda: rig.consumer.group_metadata().generation_id > 1, "it joins again")
    assert batch.is_committed is False
    assert rig.committed == {}
    while sum(rig.committed.values()) < 6:
        await rig.work(await anext(batches))
    assert await rig.bills() == ALL


async def test_a_rebalance_waits_for_the_end_of_the_transaction(
    cluster: ScriptedCluster, rig: Rig
) -> None:
    batches = rig.batches()
    batch = await anext(batches)
    async with consumer_of(cluster) as other:
        async with batch as records:
            for record in records:
                await rig.producer.send("bills", record.value)
            waiting = asyncio.create_task(other.wait_assigned(timeout_ms=10_000))
            await asyncio.sleep(0.3)
            assert not waiting.done()
        assert batch.is_committed
        done = rig.committed
        polling = asyncio.create_task(anext(batches))
        [theirs] = await waiting
        if theirs.partition in done:
            assert await other.position(theirs) == done[theirs.partition]
        polling.cancel()
        await asyncio.wait([polling])


async def test_a_fenced_instance_ends_with_producer_fenced(rig: Rig) -> None:
    batches = rig.batches()
    batch = await anext(batches)

    async def work() -> None:
        async with batch as records:
            await rig.producer.send_and_wait("bills", records[0].value)
            rig.cluster.transactions.init("copy")

    with pytest.raises(ProducerFenced):
        await work()
    with pytest.raises(ProducerFenced):
        await anext(batches)
    assert rig.cluster.transactions.calls.count("InitProducerId") == 1
    assert rig.committed == {}


async def test_a_failed_record_is_raised_and_the_iteration_may_go_on(rig: Rig) -> None:
    batches = rig.batches()
    rig.cluster.partition("bills").acts.append(Act(wire.InvalidRecord.code))
    with pytest.raises(AbortableTransactionError, match="InvalidRecord"):
        await rig.work(await anext(batches))
    while sum(rig.committed.values()) < 6:
        await rig.work(await anext(batches))
    assert await rig.bills() == ALL


async def test_an_unknown_commit_is_repeated_before_the_next_batch(
    cluster: ScriptedCluster,
) -> None:
    async with (
        consumer_of(cluster) as consumer,
        Producer(
            cluster.bootstrap,
            transactional_id="copy",
            request_timeout_ms=300,
            transaction_timeout_ms=300,
        ) as producer,
    ):
        rig = Rig(cluster, consumer, producer)
        batches = rig.batches(max_records=2)
        batch = await anext(batches)
        cluster.transactions.ends.extend([Reply(answers=False)] * 100)
        with pytest.raises(CommitOutcomeUnknown):
            await rig.work(batch)
        assert batch.is_committed is None
        cluster.transactions.ends.clear()
        while sum(rig.committed.values()) < 6:
            await rig.work(await anext(batches))
        assert await rig.bills() == ALL


@pytest.mark.parametrize("moment", ["block", "offsets", "commit"])
async def test_a_cancellation_loses_nothing_and_repeats_nothing(rig: Rig, moment: str) -> None:
    batches = rig.batches(max_records=2)
    transactions = rig.cluster.transactions

    async def once() -> None:
        async with await anext(batches) as records:
            for record in records:
                await rig.producer.send("bills", record.value)
            if moment == "block":
                await asyncio.Event().wait()
            if moment == "offsets":
                transactions.held.clear()
            await rig.producer.flush()
            if moment == "commit":
                hold_commits(transactions)

    task = asyncio.create_task(once())
    if moment == "block":
        await eventually(lambda: rig.cluster.partition("bills").end > 0, "a record")
    else:
        await eventually(lambda: moment in transactions.calls, "the call")
    task.cancel()
    await asyncio.sleep(0.05)
    transactions.held.set()
    transactions.ends.clear()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ("abort" in transactions.calls) is (moment != "commit")
    while sum(rig.committed.values()) < 6:
        await rig.work(await anext(batches))
    assert await rig.bills() == ALL


def hold_commits(transactions: Any) -> None:
    transactions.ends.extend([Reply(wire.ConcurrentTransactions.code)] * 10_000)


async def test_a_batch_must_be_worked_on(rig: Rig) -> None:
    batches = rig.batches()
    await anext(batches)
    with pytest.raises(WrongTransactionState, match="not worked on"):
        await anext(batches)


@pytest.mark.parametrize(
    ("options", "needed"),
    [
        ({"enable_auto_commit": True}, "enable_auto_commit=False"),
        ({"isolation_level": "read_uncommitted"}, "isolation_level='read_committed'"),
        ({"group_id": None}, "a group_id"),
    ],
)
def test_clients_that_could_count_twice_are_refused(options: dict[str, Any], needed: str) -> None:
    kept: dict[str, Any] = {
        "bootstrap_servers": "h:1",
        "group_id": "g",
        "enable_auto_commit": False,
        "isolation_level": "read_committed",
    }
    for form in (sync.ConsumeTransformProduce, ConsumeTransformProduce):
        blocking = form is sync.ConsumeTransformProduce
        producers: Any = sync.Producer if blocking else Producer
        consumers: Any = sync.Consumer if blocking else Consumer
        made: Any = form
        producer = producers("h:1", transactional_id="t")
        with pytest.raises(ConfigurationError, match=needed):
            made(consumers("orders", **kept | options), producer)
        with pytest.raises(ConfigurationError, match="transactional_id"):
            made(consumers("orders", **kept), producers("h:1"))
        made(consumers("orders", **kept), producer)


def fail(batch: sync.TransactionalBatch[bytes, bytes], producer: sync.Producer) -> None:
    with batch as records:
        producer.send("bills", records[0].value)
        raise ZeroDivisionError


async def test_the_blocking_form_does_the_same(cluster: ScriptedCluster) -> None:
    def work() -> None:
        with (
            sync.Consumer(
                "orders",
                bootstrap_servers=cluster.bootstrap,
                group_id="g",
                auto_offset_reset="earliest",
                isolation_level="read_committed",
                enable_auto_commit=False,
            ) as consumer,
            sync.Producer(cluster.bootstrap, transactional_id="copy") as producer,
        ):
            batches = sync.ConsumeTransformProduce(consumer, producer)
            with pytest.raises(ZeroDivisionError):
                fail(next(batches), producer)
            seen = 0
            for batch in batches:
                with batch as records:
                    for record in records:
                        producer.send("bills", record.value)
                assert batch.is_committed
                seen += len(records)
                if seen == 6:
                    break

    await asyncio.to_thread(work)
    async with consumer_of(cluster) as consumer, Producer(cluster.bootstrap) as producer:
        assert await Rig(cluster, consumer, producer).bills() == ALL
