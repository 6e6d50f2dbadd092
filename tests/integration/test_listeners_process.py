"""Brokers with one listener each get Kafka's protocol one after the other, while clients go on.

Clients keep the addresses from before. `strandline up` does the same for a whole directory.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from kafka import KafkaConsumer, TopicPartition

from strandline import Admin, Consumer, NewTopic, Producer
from strandline_cli.commands.health import judge_cluster
from strandline_local.cluster_files import (
    ClusterFile,
    broker_keys,
    free_ports,
    to_toml,
    with_kafka,
    write_cluster_files,
)
from strandline_local.local_cluster import LocalCluster
from support.cluster import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.integration

TOPIC = "orders"
WAIT_S = 60.0


@pytest.fixture
def earlier(tmp_path: Path) -> Iterator[LocalCluster]:
    """A directory of an earlier build."""
    controller, *ports = free_ports(4)
    file = ClusterFile(controller_port=controller, broker_ports=dict(enumerate(ports, start=1)))
    write_cluster_files(tmp_path, file)
    cluster = LocalCluster.open(tmp_path)
    try:
        yield cluster
    finally:
        cluster.kill_all()


async def healthy(cluster: LocalCluster) -> None:
    def is_healthy() -> bool:
        return judge_cluster([cluster.address(1)]).healthy

    await asyncio.to_thread(eventually, is_healthy, "the cluster is healthy")


async def send(cluster: LocalCluster, value: bytes) -> None:
    async with Producer(cluster.bootstrap) as producer:
        for partition in range(3):
            await producer.send_and_wait(TOPIC, value, partition=partition)


async def values(cluster: LocalCluster, count: int) -> list[bytes | None]:
    async with (
        asyncio.timeout(WAIT_S),
        Consumer(
            TOPIC, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest"
        ) as consumer,
    ):
        return sorted([(await consumer.getone()).value for _ in range(count)], key=str)


def values_by_kafka(cluster: LocalCluster, count: int) -> list[bytes]:
    consumer = KafkaConsumer(
        bootstrap_servers=cluster.bootstrap.split(","),
        auto_offset_reset="earliest",
        consumer_timeout_ms=WAIT_S * 1000,
    )
    consumer.assign([TopicPartition(TOPIC, partition) for partition in range(3)])
    try:
        return sorted(next(consumer).value for _ in range(count))
    finally:
        consumer.close()


async def test_brokers_get_kafkas_protocol_one_after_the_other_and_clients_go_on(
    earlier: LocalCluster,
) -> None:
    cluster = earlier
    await asyncio.to_thread(cluster.up)
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topics([NewTopic(TOPIC, 3, 3)])
    await send(cluster, b"0")
    later = with_kafka(cluster.file)
    for number, broker in enumerate(cluster.broker_ids, start=1):
        await healthy(cluster)
        keys = broker_keys(cluster.directory, later, broker)
        (cluster.directory / f"broker-{broker}.toml").write_text(to_toml(keys))
        await asyncio.to_thread(cluster.restart, broker)
        # Leaders and followers with one listener and with two fetch from each other.
        await send(cluster, b"%d" % number)
        await healthy(cluster)
        assert await values(cluster, 3 * (number + 1)) == [
            b"%d" % n for n in range(number + 1) for _ in range(3)
        ]
    everything = [b"%d" % n for n in range(4) for _ in range(3)]
    assert await asyncio.to_thread(values_by_kafka, cluster, 12) == everything


async def test_up_gives_a_directory_of_an_earlier_build_both_protocols(
    earlier: LocalCluster,
) -> None:
    await asyncio.to_thread(earlier.up)
    async with Admin(earlier.bootstrap) as admin:
        await admin.create_topics([NewTopic(TOPIC, 3, 3)])
    await send(earlier, b"0")
    await asyncio.to_thread(earlier.down)
    resumed = LocalCluster.create(earlier.directory)
    assert resumed.bootstrap == resumed.file.kafka_bootstrap == earlier.bootstrap
    try:
        await asyncio.to_thread(resumed.up)
        await send(earlier, b"1")
        assert await values(earlier, 6) == [b"0"] * 3 + [b"1"] * 3
        assert await asyncio.to_thread(values_by_kafka, earlier, 6) == [b"0"] * 3 + [b"1"] * 3
    finally:
        await asyncio.to_thread(resumed.kill_all)
