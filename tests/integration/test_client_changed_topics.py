"""Records for partitions that were added, and topics that were created again, since the producer
last heard of them.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from strandline import Producer, Record
from strandline._core.backoff import Backoff
from strandline.errors import OutcomeUnknown, TopicRecreated, UnknownTopicOrPartition
from strandline.producer import sender_of
from support.replica_nodes import eventually
from support.scripted_admin import add_partitions
from support.scripted_broker import ScriptedCluster, scripted_cluster
from support.scripted_log import Act

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow answer to a batch has no producer look for another topic meanwhile."""
    monkeypatch.setattr("strandline._producer.sender.STALL_MS", 1e9)


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[ScriptedCluster]:
    async with scripted_cluster(3) as scripted:
        yield scripted


async def test_a_partition_that_was_added_just_now_is_waited_for(cluster: ScriptedCluster) -> None:
    partitions = cluster.create("orders")
    async with Producer(cluster.bootstrap) as producer:
        await producer.send_and_wait("orders", b"0")
        add_partitions(cluster, "orders", 2)
        assert (await producer.send_and_wait("orders", b"1", partition=1)).offset == 0
        add_partitions(cluster, "orders", 3)
        late: list[bytes | Record] = [b"2", Record(b"3", partition=2), Record(b"4", partition=2)]
        assert (await producer.send_many("orders", late, partition=0)).acknowledged == 3
        add_partitions(cluster, "orders", 4)
        assert (await producer.send_many("orders", [b"5"], partition=3)).acknowledged == 1
    assert [p.values() for p in partitions] == [[b"0", b"2"], [b"1"], [b"3", b"4"], [b"5"]]


async def test_a_partition_that_is_being_added_is_waited_for(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers hear of it a little later."""
    monkeypatch.setattr("strandline._net.cluster.UNKNOWN_PARTITION_S", float("inf"))
    cluster.create("orders")
    async with Producer(cluster.bootstrap) as producer:
        await producer.send_and_wait("orders", b"0")
        sent = asyncio.create_task(producer.send_and_wait("orders", b"1", partition=1))
        await asyncio.sleep(0.3)
        assert not sent.done()
        add_partitions(cluster, "orders", 2)
        assert (await sent).offset == 0


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize("unknown_ms", [0, 300])
async def test_what_was_not_written_goes_to_the_topic_that_was_created_again(
    cluster: ScriptedCluster, idempotent: bool, unknown_ms: int
) -> None:
    cluster.create("orders", topic_id=b"1" * 16)
    async with Producer(cluster.bootstrap, enable_idempotence=idempotent) as producer:
        for i in range(3):
            await producer.send_and_wait("orders", b"before-%d" % i)
        cluster.delete("orders")
        first = await producer.send("orders", b"0")  # its metadata is of before
        if unknown_ms:
            sender = sender_of(producer)[0]
            await eventually(lambda: "orders" not in sender.cluster.view.topics, "it is known")
        [new] = cluster.create("orders", topic_id=b"2" * 16)
        rest = [await producer.send("orders", b"%d" % i) for i in range(1, 9)]
        async with asyncio.timeout(60):
            assert [(await sent).offset for sent in (first, *rest)] == list(range(9))
    assert new.values() == [b"%d" % i for i in range(9)]


async def test_what_may_be_in_the_log_that_was_deleted_is_not_written_again(
    cluster: ScriptedCluster,
) -> None:
    [old] = cluster.create("orders", topic_id=b"1" * 16)
    async with Producer(cluster.bootstrap, max_in_flight=1) as producer:
        await producer.send_and_wait("orders", b"0")
        old.acts.extend([Act(append=True, answer=False)])
        unknown = await producer.send("orders", b"1")
        await eventually(lambda: not old.acts, "it was appended")
        cluster.delete("orders")
        [new] = cluster.create("orders", topic_id=b"2" * 16)
        behind = await producer.send("orders", b"2")
        for broker in cluster.brokers.values():
            broker.drop_streams()
        async with asyncio.timeout(60):
            with pytest.raises(OutcomeUnknown, match="created again"):
                await unknown
            assert (await behind).offset == 0
    assert new.values() == [b"2"]


async def test_an_answer_of_the_old_topic_that_comes_late_is_known(
    cluster: ScriptedCluster,
) -> None:
    [old] = cluster.create("orders", topic_id=b"1" * 16)
    async with Producer(cluster.bootstrap) as producer:
        await producer.send_and_wait("orders", b"0")
        sender = sender_of(producer)[0]
        cluster.brokers[old.leader].pause()
        sent = await producer.send("orders", b"1")
        [queue] = sender.queues.values()
        await eventually(lambda: any(b.outstanding for b in queue.in_flight), "it is under way")
        cluster.delete("orders")
        [new] = cluster.create("orders", topic_id=b"2" * 16)
        sender.cluster.request_refresh()
        await eventually(lambda: queue.topic_id == b"2" * 16, "the new topic is known")
        cluster.brokers[old.leader].resume()
        async with asyncio.timeout(60):
            assert (await sent).offset == 0
    assert new.values() == [b"1"]


async def test_a_topic_that_stays_deleted_fails_what_waits_for_it(cluster: ScriptedCluster) -> None:
    cluster.create("orders")
    async with Producer(cluster.bootstrap) as producer:
        await producer.send_and_wait("orders", b"0")
        cluster.delete("orders")
        sent = await producer.send("orders", b"1")
        async with asyncio.timeout(60):
            with pytest.raises(UnknownTopicOrPartition, match="was deleted") as gone:
                await sent
        assert not gone.value.may_have_been_written


@pytest.mark.usefixtures("patient")
async def test_a_partition_that_the_new_topic_does_not_have_fails(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refused batch waits for the metadata: a second try under way would be unknown."""
    monkeypatch.setattr("strandline._producer.sender.Backoff", partial(Backoff, 60_000, 60_000))
    cluster.create("orders", 3, topic_id=b"1" * 16)
    async with Producer(cluster.bootstrap) as producer:
        await producer.send_and_wait("orders", b"0", partition=2)
        cluster.delete("orders")
        sent = await producer.send("orders", b"1", partition=2)
        cluster.create("orders", 1, topic_id=b"2" * 16)
        async with asyncio.timeout(60):
            with pytest.raises(TopicRecreated):
                await sent


@pytest.mark.usefixtures("patient")
async def test_what_is_under_way_to_a_partition_that_is_gone_is_unknown(
    cluster: ScriptedCluster,
) -> None:
    old = cluster.create("orders", 3, topic_id=b"1" * 16)[2]
    async with Producer(cluster.bootstrap) as producer:
        await producer.send_and_wait("orders", b"0", partition=2)
        sender = sender_of(producer)[0]
        cluster.brokers[old.leader].pause()
        sent = await producer.send("orders", b"1", partition=2)
        [queue] = sender.queues.values()
        await eventually(lambda: any(b.outstanding for b in queue.in_flight), "it is under way")
        cluster.delete("orders")
        cluster.create("orders", 1, topic_id=b"2" * 16)
        sender.cluster.request_refresh()
        async with asyncio.timeout(60):
            with pytest.raises(OutcomeUnknown, match="created again"):
                await sent
        cluster.brokers[old.leader].resume()
