"""Who leads, and how many partitions there are, on real processes under load."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from strandline import Admin, Consumer, NewTopic, Producer
from strandline.errors import UnknownTopicOrPartition
from support.command import strandline

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_local.local_cluster import LocalCluster
    from support.cluster import MakeCluster

PATIENCE_S = 120.0


async def leaders(admin: Admin, topic: str) -> list[int]:
    """Of each partition; of none where the broker that is asked has not heard of the topic yet."""
    try:
        described = await admin.describe_topics([topic])
    except UnknownTopicOrPartition:
        return []
    return [p.leader for p in described[topic].partitions]


async def until(admin: Admin, topic: str, wanted: Callable[[list[int]], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        found = await leaders(admin, topic)
        while not wanted(found):
            await asyncio.sleep(0.1)
            found = await leaders(admin, topic)


async def test_leaders_move_and_come_back_and_partitions_are_added_without_losing_a_record(
    make_cluster: MakeCluster,
) -> None:
    settings = {
        "broker.session.timeout.ms": 5000,
        "leader.imbalance.check.interval.seconds": 1,
        "leader.imbalance.per.broker.percentage": 0,  # of all topics, of which there are others
    }
    cluster: LocalCluster = make_cluster(brokers=3, controller_config=settings)
    acknowledged: dict[tuple[int, int], bytes] = {}
    stop = asyncio.Event()

    async def write(producer: Producer) -> None:
        number = 0
        while not stop.is_set():
            value = b"%d" % number
            sent = await producer.send_and_wait("orders", value, value)
            acknowledged[sent.partition, sent.offset] = value
            number += 1
            await asyncio.sleep(0.01)

    async with (
        Admin(cluster.bootstrap) as admin,
        Producer(cluster.bootstrap, metadata_max_age_ms=100) as producer,
    ):
        placed = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]  # whether the topic for groups is there or not
        await admin.create_topics([NewTopic("orders", replica_assignment=placed)])
        await until(admin, "orders", lambda found: found == [1, 2, 3])
        reading: dict[str, Any] = {"auto_offset_reset": "earliest", "metadata_max_age_ms": 100}
        async with (
            Consumer("orders", bootstrap_servers=cluster.bootstrap, **reading) as consumer,
            asyncio.TaskGroup() as group,
        ):
            writer = group.create_task(write(producer))
            [moved] = await admin.move_leaders({("orders", 0): 3})
            assert (moved.leader, moved.error) == (3, None)
            assert await admin.create_partitions({"orders": 5}) == {"orders": 3}
            await until(admin, "orders", lambda found: found[:3] == [1, 2, 3])
            cluster.kill(2)
            await until(admin, "orders", lambda found: 2 not in found)
            cluster.start(2)
            await until(admin, "orders", lambda found: found[:3] == [1, 2, 3])
            stop.set()
            await writer
            read: dict[tuple[int, int], bytes | None] = {}
            async with asyncio.timeout(PATIENCE_S):
                while not acknowledged.keys() <= read.keys():
                    for tp, records in (await consumer.getmany(timeout_ms=200)).items():
                        read |= {(tp.partition, r.offset): r.value for r in records}
        assert {key: read[key] for key in acknowledged} == acknowledged
        assert {partition for partition, _ in acknowledged} == set(range(5))


def test_the_commands_say_what_they_did_and_what_cannot_be(make_cluster: MakeCluster) -> None:
    at = ("--dir", make_cluster(brokers=2).directory)
    create = ("topic", "create", "t", "-p", 1, "-r", 2, "--config", "min.insync.replicas=1")
    assert strandline(*create, *at).status == 0
    alter = ("topic", "alter", "t", *at, "--partitions")
    assert strandline(*alter, 1).error.startswith("InvalidPartitions: topic t: has 1 partitions")
    more = strandline(*alter, 3, "--config", "retention.ms=99999", "--format", "json").json
    assert (more["partitions_before"], more["partitions"]) == (1, 3)
    assert more["set"] == {"retention.ms": "99999"}
    moved = strandline("leader", "move", "t:0", "--to", 2, "--prefer", *at)
    assert moved.out.strip() == "t:0 is led by broker 2, its preferred leader"
    elected = strandline("leader", "elect", "t:0", "t:9", "--format", "json", *at)
    assert elected.status == 1
    assert "broker 2 leads it already" in elected.out, "it is the preferred one now"
    assert "there is no partition t:9" in elected.out
