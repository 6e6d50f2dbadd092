"""The consumer of committed transactions against scripted brokers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from strandline import Consumer, Producer, TopicPartition
from strandline.errors import ConfigurationError, OperationTimedOut
from strandline_proto import errors as wire
from support.scripted_broker import ScriptedCluster, scripted_cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TP = TopicPartition("orders", 0)


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[ScriptedCluster]:
    async with scripted_cluster(2) as scripted:
        scripted.create("orders")
        yield scripted


@pytest_asyncio.fixture
async def producer(cluster: ScriptedCluster) -> AsyncIterator[Producer]:
    async with Producer(cluster.bootstrap, transactional_id="pay") as started:
        yield started


def reader(cluster: ScriptedCluster, **options: Any) -> Consumer:
    given = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"} | options
    return Consumer("orders", bootstrap_servers=cluster.bootstrap, **given)


async def write(producer: Producer, *values: bytes, commits: bool) -> None:
    await producer.begin_transaction()
    for value in values:
        await producer.send_and_wait("orders", value)
    await (producer.commit_transaction if commits else producer.abort_transaction)()


async def test_records_of_aborted_transactions_are_skipped(
    cluster: ScriptedCluster, producer: Producer
) -> None:
    await write(producer, b"a", b"b", commits=False)
    await write(producer, b"c", commits=True)
    await write(producer, b"d", commits=False)
    async with Producer(cluster.bootstrap) as plain:
        await plain.send_and_wait("orders", b"plain")
    await write(producer, b"e", commits=True)
    end = cluster.partition("orders").end
    async with reader(cluster) as committed:
        got = [(await committed.getone()).value for _ in range(3)]
        assert got == [b"c", b"plain", b"e"]
        assert await committed.getmany(timeout_ms=100) == {}
        assert await committed.position(TP) == end  # beyond the last marker
        assert await committed.lag(TP) == {TP: 0}
    async with reader(cluster, isolation_level="read_uncommitted") as everything:
        got = [(await everything.getone()).value for _ in range(6)]
        assert got == [b"a", b"b", b"c", b"d", b"plain", b"e"]


async def test_nothing_beyond_the_last_stable_offset_is_read(
    cluster: ScriptedCluster, producer: Producer
) -> None:
    await write(producer, b"a", commits=True)
    await producer.begin_transaction()
    await producer.send_and_wait("orders", b"b")
    async with Producer(cluster.bootstrap) as plain:
        await plain.send_and_wait("orders", b"plain")
    async with reader(cluster) as committed:
        assert (await committed.getone()).value == b"a"
        assert await committed.getmany(timeout_ms=200) == {}
        assert await committed.end_offsets([TP]) == {TP: 2}
        assert await committed.lag(TP) == {TP: 0}
        assert committed.last_stable_offset(TP) == 2
        assert committed.highwater(TP) == 4
        assert committed.metrics()["lag_max"] == 0
        await committed.seek_to_end(TP)
        assert await committed.position(TP) == 2
        waiting = asyncio.create_task(committed.getmany(timeout_ms=5_000))
        await asyncio.sleep(0.05)
        await producer.commit_transaction()
        [records] = (await waiting).values()
        assert [r.value for r in records] == [b"b", b"plain"]
    async with reader(cluster, isolation_level="read_uncommitted") as everything:
        assert await everything.end_offsets([TP]) == {TP: 5}


async def test_an_aborted_run_alone_moves_the_position(
    cluster: ScriptedCluster, producer: Producer
) -> None:
    await write(producer, b"a", b"b", commits=False)
    async with reader(cluster) as committed:
        assert await committed.getmany(timeout_ms=300) == {}
        assert await committed.position(TP) == 3


async def test_a_reader_begins_within_an_aborted_transaction(
    cluster: ScriptedCluster, producer: Producer
) -> None:
    await write(producer, b"a", b"b", b"c", commits=False)
    await write(producer, b"d", commits=True)
    async with reader(cluster) as committed:
        committed.seek(TP, 2)
        assert (await committed.getone()).value == b"d"


async def test_offsets_of_an_open_transaction_are_waited_for(cluster: ScriptedCluster) -> None:
    cluster.groups.refuse_fetches.extend([wire.UnstableOffsetCommit.code] * 3)
    topic_id = cluster.topics["orders"][0]
    cluster.groups.group("g").offsets[topic_id, 0] = 7, -1, ""
    async with reader(cluster, group_id="g") as member:
        await member.wait_assigned(timeout_ms=5_000)
        assert await member.position(TP) == 7
        cluster.groups.refuse_fetches.extend([wire.UnstableOffsetCommit.code] * 1000)
        with pytest.raises(OperationTimedOut, match="UnstableOffsetCommit"):
            await member.committed(TP, timeout_ms=300)


@pytest.mark.parametrize("stable", [True, False])
async def test_a_group_is_asked_for_stable_offsets_or_not(
    cluster: ScriptedCluster, stable: bool
) -> None:
    asked: list[bool] = []
    for broker in cluster.brokers.values():
        answer = broker.OffsetFetch

        async def noted(request: Any, context: Any, answer: Any = answer) -> Any:
            asked.append(request.require_stable)
            return await answer(request, context)

        broker.OffsetFetch = noted  # type: ignore[method-assign]
        await broker.stop()
        await broker.start()
    async with reader(cluster, group_id="g", require_stable=stable) as member:
        await member.committed(TP)
    assert asked
    assert set(asked) == {stable}


@pytest.mark.parametrize(
    ("option", "value"),
    [("isolation_level", "committed"), ("isolation_level", 1), ("require_stable", 1)],
)
def test_an_unknown_isolation_level_is_refused(option: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=option):
        Consumer(bootstrap_servers="h:1", **{option: value})  # type: ignore[arg-type]


def test_options_have_the_names_of_kafka() -> None:
    Consumer.from_config({"bootstrap.servers": "h:1", "isolation.level": "read_committed"})
    Producer.from_config(
        {"bootstrap.servers": "h:1", "transactional.id": "t", "transaction.timeout.ms": "5"}
    )
