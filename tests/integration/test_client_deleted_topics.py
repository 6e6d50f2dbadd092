"""A topic is deleted under a group that reads it: nothing waits for what cannot come any more."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pytest

from strandline import (
    Admin,
    Consumer,
    ConsumerRebalanceListener,
    NewTopic,
    Producer,
    TopicPartition,
)
from strandline.errors import UnknownTopicId, UnknownTopicOrPartition

if TYPE_CHECKING:
    from strandline_local.local_cluster import LocalCluster

SOON_S: Final = 60.0
"""Below the request's time limit of 30 s, which everything of this took before."""


async def create(cluster: LocalCluster, *topics: str) -> None:
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topics([NewTopic(topic, 2, 3) for topic in topics])
    async with Producer(cluster.bootstrap) as producer:
        for topic in topics:
            for partition in range(2):
                await producer.send_and_wait(topic, b"v", partition=partition)


async def delete(cluster: LocalCluster, topic: str) -> None:
    async with Admin(cluster.bootstrap) as admin:
        await admin.delete_topics([topic])


def member(cluster: LocalCluster, group: str, *, enable_auto_commit: bool = False) -> Consumer:
    return Consumer(
        bootstrap_servers=cluster.bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=enable_auto_commit,
        fetch_max_wait_ms=50,
    )


async def read(consumer: Consumer, count: int) -> None:
    found = 0
    async with asyncio.timeout(60):
        while found < count:
            found += sum(map(len, (await consumer.getmany(timeout_ms=100)).values()))


async def refused_commit(consumer: Consumer) -> UnknownTopicId:
    """The first refusal; a coordinator may hear a little later that the topic is gone."""
    async with asyncio.timeout(SOON_S):
        while True:
            try:
                await consumer.commit()
            except UnknownTopicId as error:
                return error
            await asyncio.sleep(0.01)


async def test_a_commit_refuses_what_is_gone_and_commits_the_rest(cluster: LocalCluster) -> None:
    await create(cluster, "kept", "gone")
    async with member(cluster, "shop") as consumer:
        consumer.subscribe(["kept", "gone"])
        await read(consumer, 4)
        await delete(cluster, "gone")
        refused = await refused_commit(consumer)
        assert not refused.may_have_been_written
        assert "gone:0, gone:1 were not committed: the topic was deleted" in str(refused)
        assert "kept:0, kept:1" in str(refused)
        kept = [TopicPartition("kept", p) for p in range(2)]
        assert [await consumer.committed(tp) for tp in kept] == [1, 1]
        async with asyncio.timeout(SOON_S):
            with pytest.raises(UnknownTopicId):
                await consumer.commit()
            while {tp.topic for tp in consumer.assignment()} != {"kept"}:
                await consumer.getmany(timeout_ms=100)
            await consumer.commit()


async def test_a_consumer_without_membership_is_not_held_up_either(cluster: LocalCluster) -> None:
    await create(cluster, "kept2", "gone2")
    async with member(cluster, "shop2") as consumer:
        names = [TopicPartition(topic, p) for topic in ("kept2", "gone2") for p in range(2)]
        await consumer.assign(names)
        await read(consumer, 4)
        consumer.pause(*names)  # no fetch tells of it
        await delete(cluster, "gone2")
        refused = await refused_commit(consumer)
        assert "gone2:0, gone2:1 were not committed: the topic was deleted" in str(refused)
        async with asyncio.timeout(SOON_S):
            assert await consumer.committed(names[0]) == 1
            with pytest.raises((UnknownTopicId, UnknownTopicOrPartition)):
                await consumer.committed(names[2])


class Listener(ConsumerRebalanceListener):
    def __init__(self) -> None:
        self.revoked: set[TopicPartition] = set()

    async def on_partitions_revoked(self, revoked: frozenset[TopicPartition]) -> None:
        self.revoked |= revoked


async def test_a_revocation_with_auto_commit_does_not_wait(cluster: LocalCluster) -> None:
    await create(cluster, "kept3", "gone3")
    listener = Listener()
    async with member(cluster, "shop3", enable_auto_commit=True) as consumer:
        consumer.subscribe(["kept3", "gone3"], listener=listener)
        await read(consumer, 4)
        await consumer.getmany(timeout_ms=0)
        await delete(cluster, "gone3")
        async with asyncio.timeout(SOON_S):
            while {tp.topic for tp in listener.revoked} != {"gone3"}:
                await consumer.getmany(timeout_ms=100)
            await consumer.stop()
