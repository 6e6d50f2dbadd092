"""Transactions of the client on real processes: ends, fencing, offsets, kills, cancellations."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from asyncio.subprocess import PIPE
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from strandline import Admin, Consumer, ConsumeTransformProduce, Producer, TopicPartition
from strandline.errors import (
    AbortableTransactionError,
    CommitOutcomeUnknown,
    InvalidTransactionTimeout,
    OperationTimedOut,
    ProducerFenced,
    StrandlineError,
    TransactionalIdNotFound,
)
from strandline.testing import LocalCluster
from support.pages_that_run import Program, steps
from support.tidy_tree import ROOT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from strandline.testing import AsyncCluster

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster() -> AsyncIterator[AsyncCluster]:
    async with LocalCluster(brokers=3, config={"num.partitions": 2}) as running:
        yield running


async def read(cluster: AsyncCluster, topic: str) -> list[bytes]:
    """All records of committed transactions, to the high watermarks of now."""
    async with (
        Consumer(bootstrap_servers=cluster.bootstrap, isolation_level="read_committed") as reader,
        Consumer(bootstrap_servers=cluster.bootstrap) as other,
    ):
        places = [TopicPartition(topic, p) for p in await reader.partitions_for(topic)]
        await reader.assign(places)
        await reader.seek_to_beginning()
        wanted = await other.end_offsets(places)
        found: list[bytes] = []
        async with asyncio.timeout(60):  # markers may be on their way
            while any([await reader.position(tp) < end for tp, end in wanted.items()]):
                for records in (await reader.getmany(timeout_ms=100)).values():
                    found += [record.value or b"" for record in records]
        return sorted(found)


async def fail(producer: Producer, topic: str, value: bytes) -> None:
    async with producer.transaction():
        await producer.send_and_wait(topic, value)
        raise ZeroDivisionError


async def test_readers_get_whole_transactions_or_nothing(cluster: AsyncCluster) -> None:
    topic = await cluster.create_topic("whole")
    async with Producer(cluster.bootstrap, transactional_id="whole") as producer:
        async with producer.transaction():
            for partition in (0, 1):
                await producer.send(topic, b"a", partition=partition)
        with pytest.raises(ZeroDivisionError):
            await fail(producer, topic, b"b")
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"c", partition=0)
        async with Producer(cluster.bootstrap) as plain:
            await plain.send_and_wait(topic, b"d", partition=0)
        tp = TopicPartition(topic, 0)
        async with Consumer(
            bootstrap_servers=cluster.bootstrap, isolation_level="read_committed"
        ) as reader:
            stable = (await reader.end_offsets([tp]))[tp]
            await producer.commit_transaction()
            assert (await reader.end_offsets([tp]))[tp] >= stable
    assert await read(cluster, topic) == [b"a", b"a", b"c", b"d"]


async def test_a_second_producer_fences_the_first(cluster: AsyncCluster) -> None:
    topic = await cluster.create_topic("fenced")
    async with Producer(cluster.bootstrap, transactional_id="fenced") as first:
        await first.begin_transaction()
        await first.send_and_wait(topic, b"lost", partition=0)
        async with Producer(cluster.bootstrap, transactional_id="fenced") as second:
            for partition in (0, 1):  # where a marker was, and elsewhere
                await first.send(topic, b"zombie", partition=partition)
            with pytest.raises((ProducerFenced, AbortableTransactionError)):
                await first.commit_transaction()
            with suppress(ProducerFenced):
                await first.abort_transaction()
            with pytest.raises(ProducerFenced, match="another producer"):
                await first.begin_transaction()
            async with second.transaction():
                await second.send(topic, b"a", partition=1)
    assert await read(cluster, topic) == [b"a"]


async def test_what_an_administrator_sees_and_ends(cluster: AsyncCluster) -> None:
    topic = await cluster.create_topic("seen")
    place = TopicPartition(topic, 1)
    async with (
        Admin(cluster.bootstrap) as admin,
        Producer(cluster.bootstrap, transactional_id="seen") as producer,
    ):
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"lost", partition=1)
        listed = await admin.list_transactions(states=["Ongoing"], pattern="se.*")
        assert [each.transactional_id for each in listed] == ["seen"]
        described = (await admin.describe_transactions(["seen"]))["seen"]
        assert described.partitions == {place}
        assert described.coordinator == listed[0].coordinator
        [known] = (await admin.describe_producers([place]))[place]
        assert known.producer_id == described.producer_id
        assert known.transaction_start_offset == 0
        fenced = await admin.fence_producers(["seen"])
        assert fenced["seen"][1] > described.producer_epoch
        with pytest.raises(ProducerFenced):
            await producer.commit_transaction()
        with pytest.raises(TransactionalIdNotFound):
            await admin.describe_transactions(["no-such-id"])
    assert await read(cluster, topic) == []


async def test_a_timeout_aborts_and_one_out_of_bounds_is_refused(cluster: AsyncCluster) -> None:
    topic = await cluster.create_topic("late")
    async with Producer(
        cluster.bootstrap, transactional_id="late", transaction_timeout_ms=500
    ) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"lost")
        async with Admin(cluster.bootstrap) as admin, asyncio.timeout(30):
            state = "Ongoing"
            while state != "CompleteAbort":
                await asyncio.sleep(0.1)
                state = (await admin.describe_transactions(["late"]))["late"].state
        with pytest.raises(ProducerFenced, match="transaction_timeout_ms"):
            await producer.commit_transaction()
    never = Producer(cluster.bootstrap, transactional_id="late", transaction_timeout_ms=2**31 - 1)
    with pytest.raises(InvalidTransactionTimeout):
        await never.start()


async def test_the_program_of_the_guide_runs(cluster: AsyncCluster, tmp_path: Path) -> None:
    [program] = [each for each in steps(ROOT / "docs/guide/client.md") if isinstance(each, Program)]
    (tmp_path / program.name).write_text(program.text)
    source, target = await cluster.create_topic("orders"), await cluster.create_topic("bills")
    async with Producer(cluster.bootstrap) as producer:
        await producer.send_many(source, [b"tea", b"milk", b"rice"])
    process = await asyncio.create_subprocess_exec(
        sys.executable, tmp_path / program.name, cluster.bootstrap, "3", stdout=PIPE
    )
    async with asyncio.timeout(60):
        out, _ = await process.communicate()
    assert process.returncode == 0
    assert out.decode().splitlines()[-1] == "billed 3"
    assert await read(cluster, target) == [b"MILK", b"RICE", b"TEA"]


async def copy(
    cluster: AsyncCluster, source: str, target: str, name: str, total: int, seen: list[int]
) -> None:
    """Copies the records of `source`, each once, through one instance after the other."""
    while sum(seen) < total:
        with suppress(StrandlineError):  # the next instance goes on
            async with (
                Consumer(
                    source,
                    bootstrap_servers=cluster.bootstrap,
                    group_id=name,
                    enable_auto_commit=False,
                    isolation_level="read_committed",
                    auto_offset_reset="earliest",
                ) as consumer,
                Producer(
                    cluster.bootstrap, transactional_id=name, delivery_timeout_ms=30_000
                ) as producer,
            ):
                await copy_with(consumer, producer, target, total, seen)


async def copy_with(
    consumer: Consumer, producer: Producer, target: str, total: int, seen: list[int]
) -> None:
    batches = ConsumeTransformProduce(consumer, producer, max_records=20)
    while sum(seen) < total:
        batch = await anext(batches)
        async with batch as records:
            for record in records:
                await producer.send(target, record.value, record.key)
        if batch.is_committed:
            seen.append(len(records))


async def test_each_record_is_copied_once_whatever_is_killed(cluster: AsyncCluster) -> None:
    source, target = await cluster.create_topic("in"), await cluster.create_topic("out")
    total, seen = 1_500, list[int]()
    async with Producer(cluster.bootstrap) as producer:
        await producer.send_many(source, [b"%05d" % n for n in range(total)])
    copying = asyncio.create_task(copy(cluster, source, target, "copy", total, seen))
    for victim in (1, 2, 3):  # leaders of data, of the group and of the transactional id
        await asyncio.sleep(0.5)
        await cluster.kill(victim)
        await asyncio.sleep(1.0)
        await cluster.start(victim)
        for topic in (source, target):
            await cluster.wait_in_sync(topic)
    async with asyncio.timeout(120):
        await copying
    assert await read(cluster, target) == [b"%05d" % n for n in range(total)]


async def test_a_cancellation_at_any_moment_tears_nothing(cluster: AsyncCluster) -> None:
    """Each transaction writes one pair; cancelled ones are resolved by the next call."""
    topic = await cluster.create_topic("pairs")
    chance, known = random.Random(7), list[bytes]()
    async with Producer(cluster.bootstrap, transactional_id="pairs") as producer:

        async def pair(value: bytes) -> None:
            async with producer.transaction():
                for partition in (0, 1):
                    await producer.send(topic, value, partition=partition)
            known.append(value)

        began = time.monotonic()
        for number in range(60):
            value = b"%03d" % number
            task = asyncio.create_task(pair(value))
            await asyncio.sleep(chance.uniform(0, 0.05))
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await settled(producer, value, known)
        assert time.monotonic() - began < 100
    found = await read(cluster, topic)
    assert found == sorted(known * 2)


async def settled(producer: Producer, value: bytes, known: list[bytes]) -> None:
    """Ends what a cancellation has left open, by the one call that its state allows."""
    state = producer._transactions.state  # type: ignore[union-attr]
    async with asyncio.timeout(30):
        while state.phase.name != "READY":
            with suppress(CommitOutcomeUnknown, OperationTimedOut):
                if state.is_to_abort and state.phase.name != "OPEN":
                    await producer.abort_transaction()
                else:
                    await producer.commit_transaction()
                    known.append(value)
