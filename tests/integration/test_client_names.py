"""The calls that users of other libraries know: lag, seek_to_time, topics, metrics, time limits."""

from __future__ import annotations

import asyncio
import datetime
import logging
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from strandline import Admin, Consumer, Producer, TopicPartition, sync
from strandline.errors import (
    ClientMisused,
    ConfigurationError,
    OperationTimedOut,
    UnknownTopicOrPartition,
)
from strandline_proto.batch import build_batch
from strandline_runtime.client_ids import SIZE_MAX, client_id_of
from support.scripted_broker import scripted_cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from support.scripted_broker import ScriptedCluster

IN_TIME_S = 60.0
T0, T1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[ScriptedCluster]:
    async with scripted_cluster(1) as scripted:
        for partition in scripted.create("orders", 2):
            for i in range(10):
                partition.append(build_batch([(None, b"v")], timestamp_ms=1000 + i))
        yield scripted


def reader(cluster: ScriptedCluster, **options: Any) -> Consumer:
    chosen: dict[str, Any] = {"auto_offset_reset": "earliest", **options}
    return Consumer("orders", bootstrap_servers=cluster.bootstrap, **chosen)


async def test_lag_counts_partitions_that_were_never_fetched(cluster: ScriptedCluster) -> None:
    async with reader(cluster) as consumer:
        consumer.pause(T0, T1)
        assert await consumer.lag() == {T0: 10, T1: 10}
        consumer.seek(T0, 7)
        assert await consumer.lag(T0) == {T0: 3}
        await consumer.seek_to_end(T1)
        assert await consumer.lag() == {T0: 3, T1: 0}
        with pytest.raises(ConfigurationError, match="not assigned"):
            await consumer.lag(TopicPartition("orders", 9))


async def test_a_time_is_a_position(cluster: ScriptedCluster) -> None:
    async with reader(cluster) as consumer:
        consumer.pause(T0, T1)
        await consumer.seek_to_time(1004)
        assert [await consumer.position(tp) for tp in (T0, T1)] == [4, 4]
        when = datetime.datetime(1970, 1, 1, 0, 0, 1, 6001, datetime.UTC)  # after 1006 ms
        await consumer.seek_to_time(when, T1)
        assert [await consumer.position(tp) for tp in (T0, T1)] == [4, 7]
        await consumer.seek_to_time(5000, T0)
        assert [await consumer.position(tp) for tp in (T0, T1)] == [10, 7]
        for wrong in (-1, "1", 1.5, datetime.datetime(2026, 1, 1), 10**18):  # noqa: DTZ001
            with pytest.raises(ConfigurationError, match=r"^time="):
                await consumer.seek_to_time(wrong)  # type: ignore[arg-type]


async def test_topics_and_their_partitions(cluster: ScriptedCluster) -> None:
    cluster.create("bills")
    async with reader(cluster) as consumer, Producer(cluster.bootstrap) as producer:
        assert await consumer.topics() >= {"orders", "bills"}
        assert await consumer.partitions_for("orders") == {0, 1}
        assert await consumer.partitions_for_topic("bills") == {0}
        assert await producer.partitions_for("bills") == {0}


async def test_metrics_count(cluster: ScriptedCluster) -> None:
    async with Producer(cluster.bootstrap, buffer_memory=1 << 20) as producer:
        await producer.send_and_wait("orders", b"v", partition=0)
        assert producer.metrics() == {
            "records_acknowledged": 1,
            "records_failed": 0,
            "records_unknown": 0,
            "records_waiting": 0,
            "buffer_bytes": 0,
            "buffer_memory": 1 << 20,
        }
    async with reader(cluster) as consumer:
        consumer.pause(T1)
        async with asyncio.timeout(IN_TIME_S):
            for _ in range(4):
                await consumer.getone(T0)
        metrics = consumer.metrics()
        del metrics["buffer_bytes"]
        assert metrics == {
            "records_delivered": 4,
            "records_skipped": 0,
            "dead_letters": 0,
            "assigned_partitions": 2,
            "paused_partitions": 1,
            "lag_max": max(metrics["lag_max"], 7),
        }


async def test_a_client_id_names_the_log_lines(
    cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    def delivered(error: object, metadata: object) -> None:
        raise LookupError("mine")

    with caplog.at_level(logging.ERROR, "strandline"):
        async with Producer(cluster.bootstrap, client_id="billing") as producer:
            await (await producer.send("orders", b"v", on_delivery=delivered))
    assert "on_delivery raised client_id=billing error=LookupError: mine" in caplog.text


async def test_a_client_id_goes_with_every_call_to_brokers(cluster: ScriptedCluster) -> None:
    seen: dict[str, set[str]] = {}
    broker = cluster.brokers[1]
    metadata = broker.Metadata

    async def noted(request: Any, context: Any) -> Any:
        name = client_id_of(context.invocation_metadata())
        seen.setdefault(name, set()).add(context.peer())
        return await metadata(request, context)

    broker.Metadata = noted  # type: ignore[method-assign]
    await broker.stop()
    await broker.start()
    async with (
        Producer(cluster.bootstrap, client_id="billing") as producer,
        Consumer(bootstrap_servers=cluster.bootstrap, client_id="caf\u00e9 1"),
        Admin(cluster.bootstrap, client_id="a" * 20_000),
        Admin(cluster.bootstrap),
    ):
        await producer.send_and_wait("orders", b"v")
    assert seen.keys() == {"billing", "caf\u00e9 1", "a" * SIZE_MAX, ""}


async def test_each_call_may_have_a_time_limit_of_its_own(cluster: ScriptedCluster) -> None:
    async with (
        reader(cluster) as consumer,
        Producer(cluster.bootstrap) as producer,
        Admin(cluster.bootstrap) as admin,
    ):
        consumer.pause(T0, T1)
        await producer.send_and_wait("orders", b"v", partition=0)
        cluster.brokers[1].pause()
        limited = admin.within(40)
        calls: list[Any] = [
            lambda: consumer.end_offsets([T0], timeout_ms=40),
            lambda: consumer.beginning_offsets([T0], timeout_ms=40),
            lambda: consumer.offsets_for_times({T0: 0}, timeout_ms=40),
            lambda: consumer.seek_to_time(0, timeout_ms=40),
            lambda: consumer.lag(timeout_ms=40),
            lambda: consumer.topics(timeout_ms=40),
            lambda: consumer.partitions_for("missing", timeout_ms=40),
            lambda: consumer.seek_to_end(T1, timeout_ms=40),
            lambda: producer.partitions_for("missing", timeout_ms=40),
            lambda: producer.send_and_wait("orders", b"w", partition=0, timeout_ms=40),
            lambda: producer.send_many("orders", [b"w"] * 3, partition=0, timeout_ms=40),
            lambda: producer.flush(timeout_ms=40),
            lambda: consumer.assign([T0, ("missing", 0)], timeout_ms=40),
            lambda: limited.list_topics(),
            lambda: limited.list_offsets("orders"),
        ]
        for call in calls:
            async with asyncio.timeout(IN_TIME_S / 3):  # below request_timeout_ms
                with pytest.raises((OperationTimedOut, UnknownTopicOrPartition)):
                    await call()
        assert consumer.assignment() == {T0, T1}, "an assignment that comes late changes nothing"
        for wrong in (0, -1, "5"):
            for called in (
                lambda wrong=wrong: consumer.assign([T0], timeout_ms=wrong),
                lambda wrong=wrong: consumer.unsubscribe(timeout_ms=wrong),
                lambda wrong=wrong: producer.send_many("orders", [b""], timeout_ms=wrong),
            ):
                with pytest.raises(ConfigurationError, match="timeout_ms"):
                    await called()
            with pytest.raises(ConfigurationError, match="timeout_ms"):
                await consumer.lag(timeout_ms=wrong)  # type: ignore[arg-type]
            with pytest.raises(ConfigurationError, match="timeout_ms"):
                await producer.send_and_wait("orders", b"", timeout_ms=wrong)  # type: ignore[arg-type]
            with pytest.raises(ConfigurationError, match="timeout_ms"):
                admin.within(wrong)  # type: ignore[arg-type]
        with pytest.raises(ClientMisused):
            await limited.close()
        cluster.brokers[1].resume()
        await producer.flush()


async def test_a_late_send_many_says_how_many_records_are_under_way(
    cluster: ScriptedCluster,
) -> None:
    async with Producer(cluster.bootstrap) as producer:
        await producer.send_and_wait("orders", b"v", partition=0)
        cluster.brokers[1].pause()
        with pytest.raises(OperationTimedOut, match="within 40 ms; 3 were handed over"):
            await producer.send_many("orders", [b"w"] * 3, partition=0, timeout_ms=40)
        cluster.brokers[1].resume()
        await producer.flush()
        assert producer.metrics()["records_acknowledged"] == 4

        def broken() -> Iterator[bytes]:
            yield b"x"
            raise TimeoutError("the program's own")

        with pytest.raises(TimeoutError, match="the program's own"):
            await producer.send_many("orders", broken(), timeout_ms=30_000)


def test_the_blocking_clients_have_them_too(threaded_cluster: ScriptedCluster) -> None:
    for partition in threaded_cluster.create("orders", 2):
        partition.append(build_batch([(b"k", b"v")], timestamp_ms=5))
    address = threaded_cluster.bootstrap
    with (
        sync.Consumer(
            "orders", bootstrap_servers=address, auto_offset_reset="earliest"
        ) as consumer,
        sync.Producer(address, partitioner="consistent_random") as producer,
        sync.Admin(address) as admin,
    ):
        assert consumer.lag() == {T0: 1, T1: 1}
        consumer.seek_to_time(6)
        assert consumer.lag() == {T0: 0, T1: 0}
        assert "orders" in consumer.topics()
        assert consumer.partitions_for("orders") == {0, 1}
        assert consumer.metrics()["assigned_partitions"] == 2
        assert producer.send_and_wait("orders", b"v", b"a", timeout_ms=30_000).partition == 1
        sent = producer.send_many("orders", [b"v"], partition=0, timeout_ms=30_000)
        assert sent.acknowledged == 1
        consumer.assign([T0], timeout_ms=30_000)
        consumer.unsubscribe(timeout_ms=30_000)
        assert producer.metrics()["records_acknowledged"] == 2
        assert "orders" in admin.within(30_000).list_topics()
