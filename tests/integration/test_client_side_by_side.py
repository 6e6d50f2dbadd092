"""Calls of one client that run beside one another, as of an application with several tasks."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from strandline import Admin, Consumer, Producer, TopicPartition, sync
from strandline.errors import (
    ClientClosed,
    ClientMisused,
    ConfigurationError,
    StrandlineError,
    UnknownTopicOrPartition,
)
from strandline.producer import sender_of
from strandline_proto.batch import build_batch
from strandline_proto.errors import GroupMaxSizeReached, NotEnoughReplicas
from support.replica_nodes import eventually
from support.scripted_broker import ScriptedCluster, scripted_cluster
from support.scripted_log import Act

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

T0, OTHER = TopicPartition("orders", 0), TopicPartition("other", 0)


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[ScriptedCluster]:
    async with scripted_cluster(1) as scripted:
        scripted.create("orders")
        scripted.partition("orders").append(
            build_batch([(None, b"%d" % n) for n in range(5)], timestamp_ms=1000)
        )
        yield scripted


class Slow:
    """A listener that takes its time."""

    def __init__(self) -> None:
        self.may_end = asyncio.Event()
        self.revoked = 0

    async def on_partitions_assigned(self, _: object) -> None: ...

    async def on_partitions_revoked(self, _: object) -> None:
        self.revoked += 1
        await self.may_end.wait()


def reader(cluster: ScriptedCluster, **options: Any) -> Consumer:
    return Consumer(
        bootstrap_servers=cluster.bootstrap,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=50,
        **options,
    )


async def offsets(consumer: Consumer, count: int) -> list[int]:
    async with asyncio.timeout(60):
        return [(await consumer.getone(T0)).offset for _ in range(count)]


# The start.


@pytest.mark.parametrize("kind", [Producer, Consumer, Admin])
async def test_of_two_starts_at_a_time_one_is_refused_and_leaves_nothing(
    cluster: ScriptedCluster, kind: type[Producer | Consumer | Admin]
) -> None:
    before = asyncio.all_tasks()
    client = kind(bootstrap_servers=cluster.bootstrap)
    ends = await asyncio.gather(client.start(), client.start(), return_exceptions=True)
    assert [str(end) for end in ends if end is not None] == [
        f"the {kind.__name__.lower()} has been started already"
    ]
    await (client.close() if isinstance(client, Admin) else client.stop())
    left = {task.get_name() for task in asyncio.all_tasks() - before}
    assert not {name for name in left if name.startswith("strandline")}


def test_of_two_starts_on_two_threads_one_is_refused_and_leaves_the_other(
    threaded_cluster: ScriptedCluster,
) -> None:
    threaded_cluster.create("orders")
    producer = sync.Producer(threaded_cluster.bootstrap)
    at_once = threading.Barrier(2)

    def start() -> bool:
        at_once.wait()
        try:
            producer.start()
        except (ClientClosed, ClientMisused):
            return False
        return True

    with ThreadPoolExecutor(2) as threads:
        ends = [threads.submit(start) for _ in range(2)]
    assert sum(end.result() for end in ends) == 1
    assert producer.send_and_wait("orders", b"v").offset == 0
    producer.stop()


# Assignment.


@pytest.mark.parametrize("group_id", [None, "g"])
async def test_two_assignments_at_a_time_pass_over_nothing(
    cluster: ScriptedCluster, group_id: str | None
) -> None:
    async with reader(cluster, group_id=group_id) as consumer:
        await consumer.assign([T0])
        assert await offsets(consumer, 2) == [0, 1]
        first = asyncio.create_task(consumer.assign([T0, OTHER]))  # waits for a topic
        await asyncio.sleep(0.05)
        await consumer.assign([])
        cluster.create("other")
        await first
        assert consumer.assignment() == {T0, OTHER}
        assert await offsets(consumer, 5) == [0, 1, 2, 3, 4]


async def test_an_assignment_keeps_the_position_that_another_has_made_meanwhile(
    cluster: ScriptedCluster,
) -> None:
    async with reader(cluster, group_id="g") as consumer:
        assert consumer._group is not None
        commits, may_go_on = consumer._group.commits, asyncio.Event()
        fetched = commits.fetched

        async def late(keys: Any, timeout_s: float) -> Any:
            commits.fetched = fetched  # type: ignore[method-assign]
            found = await fetched(keys, timeout_s)
            await may_go_on.wait()
            return found

        commits.fetched = late  # type: ignore[method-assign]
        first = asyncio.create_task(consumer.assign([T0]))
        await asyncio.sleep(0.05)
        await consumer.assign([T0])
        assert await offsets(consumer, 2) == [0, 1]
        may_go_on.set()
        await first
        assert await consumer.position(T0) == 2
        assert await offsets(consumer, 3) == [2, 3, 4]


async def test_an_assignment_is_refused_to_who_has_subscribed_meanwhile(
    cluster: ScriptedCluster,
) -> None:
    async with reader(cluster, group_id="g") as consumer:
        first = asyncio.create_task(consumer.assign([OTHER]))  # waits for a topic
        await asyncio.sleep(0.05)
        consumer.subscribe(["orders"])
        assert await consumer.wait_assigned(60_000) == {T0}
        cluster.create("other")
        with pytest.raises(ConfigurationError, match="call unsubscribe"):
            await first
        assert consumer.assignment() == {T0}


async def test_who_subscribes_while_the_group_hears_of_a_leave_keeps_what_it_gets(
    cluster: ScriptedCluster,
) -> None:
    async with reader(cluster, group_id="g") as consumer:
        consumer.subscribe(["orders"])
        await consumer.wait_assigned(60_000)
        cluster.groups.is_mute = True
        leaving = asyncio.create_task(consumer.unsubscribe())
        await eventually(lambda: not consumer.subscription(), "it has left")
        cluster.groups.is_mute = False
        consumer.subscribe(["orders"])
        assert await consumer.wait_assigned(60_000) == {T0}
        epoch = consumer.group_metadata().generation_id
        async with asyncio.timeout(60):
            await leaving
        assert consumer.assignment() == {T0}
        assert await offsets(consumer, 5) == [0, 1, 2, 3, 4]
        assert consumer.group_metadata().generation_id == epoch


@pytest.mark.parametrize("is_cut_off", [False, True])
async def test_who_subscribes_beside_an_unsubscribe_leaves_and_comes_back(
    cluster: ScriptedCluster, is_cut_off: bool
) -> None:
    listener = Slow()
    async with reader(cluster, group_id="g") as consumer:
        consumer.subscribe(["orders"], listener=listener)
        await consumer.wait_assigned(60_000)
        leaving = asyncio.create_task(consumer.unsubscribe())
        await asyncio.sleep(0.05)
        consumer.subscribe(["orders"])
        if is_cut_off:
            leaving.cancel()
        listener.may_end.set()
        async with asyncio.timeout(60):
            await asyncio.wait([leaving])
        assert consumer.subscription() == {"orders"}
        assert await consumer.wait_assigned(60_000) == {T0}
        assert listener.revoked == 1
        assert await offsets(consumer, 5) == [0, 1, 2, 3, 4]
        await consumer.unsubscribe()
        assert not consumer.subscription()
        assert cluster.groups.group("g").members == {}


async def test_who_comes_back_and_is_refused_hears_of_it(cluster: ScriptedCluster) -> None:
    """The unsubscribe() that ends then takes nothing back that the group has said since (I-88)."""
    listener = Slow()
    async with reader(cluster, group_id="g") as consumer:
        consumer.subscribe(["orders"], listener=listener)
        await consumer.wait_assigned(60_000)
        leaving = asyncio.create_task(consumer.unsubscribe())
        await eventually(lambda: listener.revoked == 1, "the listener is told")
        consumer.subscribe(["orders"])
        refusals = cluster.groups.refuse_beats  # one may meet the stream that is being left
        refusals.extend([GroupMaxSizeReached.code] * 9)
        listener.may_end.set()
        await leaving
        assert consumer.subscription() == {"orders"}
        with pytest.raises(StrandlineError) as raised:
            await consumer.wait_assigned(60_000)
        assert isinstance(raised.value, GroupMaxSizeReached), raised.value
        refusals.clear()
        await consumer.unsubscribe()
        consumer.subscribe(["orders"])
        assert await consumer.wait_assigned(60_000) == {T0}


async def test_nobody_subscribes_to_what_is_being_stopped(cluster: ScriptedCluster) -> None:
    listener = Slow()
    async with reader(cluster, group_id="g") as consumer:
        consumer.subscribe(["orders"], listener=listener)
        await consumer.wait_assigned(60_000)
        stopping = asyncio.create_task(consumer.stop())
        await asyncio.sleep(0.05)
        with pytest.raises(ClientClosed, match="being closed"):
            consumer.subscribe(["orders"])
        listener.may_end.set()
        await stopping
        assert cluster.groups.group("g").members == {}


async def test_who_waits_for_a_position_hears_that_it_is_not_assigned_any_more(
    cluster: ScriptedCluster,
) -> None:
    async with reader(cluster) as consumer:
        await consumer.assign([T0])
        await consumer.position(T0)
        waiting = asyncio.create_task(consumer.seek_to_end(T0))
        await asyncio.sleep(0)
        await consumer.assign([])
        with pytest.raises(ConfigurationError, match="orders:0 is not assigned"):
            async with asyncio.timeout(60):
                await waiting


async def test_what_concerns_a_partition_hears_that_its_consumer_was_stopped(
    cluster: ScriptedCluster,
) -> None:
    async with reader(cluster) as consumer:
        await consumer.assign([T0])
    for call in (consumer.position_epoch, consumer.highwater, consumer.pause):
        with pytest.raises(ClientClosed):
            call(T0)
    with pytest.raises(ClientClosed):
        consumer.seek(T0, 1)


# The end.


async def test_who_waits_for_an_assignment_hears_of_the_consumers_end(
    cluster: ScriptedCluster,
) -> None:
    async with reader(cluster, group_id="g") as consumer:
        consumer.subscribe(["nothing-of-this-name"])
        waiting = asyncio.create_task(consumer.wait_assigned())
        await asyncio.sleep(0.05)
        await consumer.stop()
        with pytest.raises(ClientClosed):
            async with asyncio.timeout(60):
                await waiting


@pytest.mark.parametrize("ends", ["stop", "unsubscribe"])
async def test_two_that_leave_a_group_at_a_time_both_end(
    cluster: ScriptedCluster, ends: str
) -> None:
    listener = Slow()
    async with reader(cluster, group_id="g") as consumer:
        consumer.subscribe(["orders"], listener=listener)
        await consumer.wait_assigned(60_000)
        first = asyncio.create_task(consumer.unsubscribe())
        await asyncio.sleep(0.05)
        second = asyncio.create_task(consumer.stop() if ends == "stop" else consumer.unsubscribe())
        await asyncio.sleep(0.05)
        listener.may_end.set()
        async with asyncio.timeout(60):
            await asyncio.gather(first, second)
        assert cluster.groups.group("g").members == {}


# Topics.


async def test_of_a_topic_that_is_gone_no_timer_is_kept(cluster: ScriptedCluster) -> None:
    cluster.partition("orders").acts.extend([Act(code=NotEnoughReplicas.code)] * 1000)
    async with Producer(cluster.bootstrap, linger_ms=0) as producer:
        sender = sender_of(producer)[0]
        sent = await producer.send("orders", b"v")
        await eventually(lambda: len(sender._timers) == 1, "it is to be tried again")
        cluster.delete("orders")
        with pytest.raises(UnknownTopicOrPartition):
            await sent
        assert not sender._timers


async def test_nobody_asks_for_a_topic_of_whom_none_waits_any_more(
    cluster: ScriptedCluster,
) -> None:
    async with Producer(cluster.bootstrap) as producer:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await producer.partitions_for("mistyped")
        names = sender_of(producer)[0].cluster._names
        await eventually(lambda: "mistyped" not in names, "it is not asked for")
