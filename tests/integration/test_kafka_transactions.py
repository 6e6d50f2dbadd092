"""Transactions of Kafka's clients on real processes: what they commit is read, what they abort is
not, offsets go with the records, and a second producer fences the first.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import confluent_kafka
import kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from aiokafka.errors import ProducerFenced
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from support.cluster import eventually

if TYPE_CHECKING:
    from strandline_local.local_cluster import LocalCluster

pytestmark = pytest.mark.integration
PARTITIONS = 3
DEADLINE_S = 60.0
POLL_S = 0.2


@pytest.fixture
def topic(cluster: LocalCluster, request: pytest.FixtureRequest) -> str:
    name: str = request.node.name.replace("[", ".").replace("]", "").replace("_", "-")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    (made,) = admin.create_topics([NewTopic(name, PARTITIONS, 3)]).values()
    made.result()
    return name


def committed(cluster: LocalCluster, topic: str, count: int) -> list[bytes]:
    """All records that a reader of committed transactions gets, sorted: so many and no more."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": f"{topic}-reader",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
    found: list[bytes] = []

    def read() -> bool:
        message = consumer.poll(POLL_S)
        if message is not None:
            assert message.error() is None, message.error()
            value = message.value()
            assert value is not None
            found.append(value)
        return len(found) >= count

    try:
        eventually(read, f"{count} committed records of {topic}", poll_s=0)
        assert consumer.poll(1.0) is None
    finally:
        consumer.close()
    return sorted(found)


def offset_of(cluster: LocalCluster, group: str, topic: str) -> int:
    """The stable committed offset of the topic's first partition."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    try:
        (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=DEADLINE_S)
        assert found.error is None
        return int(found.offset)
    finally:
        consumer.close()


def member_of(cluster: LocalCluster, topic: str) -> confluent_kafka.Consumer:
    """A member of the group `topic`, which has joined."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])

    def has_all() -> bool:
        consumer.poll(POLL_S)
        return len(consumer.assignment()) == PARTITIONS

    eventually(has_all, "the member has its partitions", poll_s=0)
    return consumer


def test_librdkafka_commits_and_aborts_records_with_offsets(
    cluster: LocalCluster, topic: str
) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": topic}
    )
    producer.init_transactions(DEADLINE_S)
    member = member_of(cluster, topic)
    try:
        for number, ends in enumerate((True, False, True)):
            producer.begin_transaction()
            for partition in range(PARTITIONS):
                producer.produce(topic, b"%d-%d" % (number, partition), partition=partition)
            offsets = [TopicPartition(topic, 0, 10 + number)]
            producer.send_offsets_to_transaction(
                offsets, member.consumer_group_metadata(), DEADLINE_S
            )
            if ends:
                producer.commit_transaction(DEADLINE_S)
            else:
                producer.abort_transaction(DEADLINE_S)
        wanted = [b"%d-%d" % (n, p) for n in (0, 2) for p in range(PARTITIONS)]
        assert committed(cluster, topic, len(wanted)) == wanted
        assert offset_of(cluster, topic, topic) == 12
    finally:
        member.close()


def test_librdkafkas_second_producer_fences_the_first(cluster: LocalCluster, topic: str) -> None:
    settings = {"bootstrap.servers": cluster.bootstrap, "transactional.id": topic}
    first, second = confluent_kafka.Producer(settings), confluent_kafka.Producer(settings)
    first.init_transactions(DEADLINE_S)
    first.begin_transaction()
    first.produce(topic, b"lost", partition=0)
    first.flush(DEADLINE_S)
    second.init_transactions(DEADLINE_S)
    with pytest.raises(confluent_kafka.KafkaException) as fenced:
        first.commit_transaction(DEADLINE_S)
    assert fenced.value.args[0].fatal()
    second.begin_transaction()
    second.produce(topic, b"kept", partition=0)
    second.commit_transaction(DEADLINE_S)
    assert committed(cluster, topic, 1) == [b"kept"]


async def test_aiokafka_commits_and_aborts_records_with_offsets(
    cluster: LocalCluster, topic: str
) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, transactional_id=topic)
    async with asyncio.timeout(DEADLINE_S):
        await producer.start()
        try:
            async with producer.transaction():
                await producer.send_and_wait(topic, b"a", partition=0)
                await producer.send_offsets_to_transaction({AioPartition(topic, 0): 7}, topic)
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"b", partition=1)
            await producer.send_offsets_to_transaction({AioPartition(topic, 0): 8}, topic)
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send_and_wait(topic, b"c", partition=2)
        finally:
            await producer.stop()
        consumer = AIOKafkaConsumer(
            bootstrap_servers=cluster.bootstrap, isolation_level="read_committed"
        )
        await consumer.start()
        try:
            places = [AioPartition(topic, p) for p in range(PARTITIONS)]
            consumer.assign(places)
            await consumer.seek_to_beginning(*places)
            found = sorted([(await consumer.getone()).value, (await consumer.getone()).value])
            assert found == [b"a", b"c"]
        finally:
            await consumer.stop()
    assert offset_of(cluster, topic, topic) == 7


async def test_aiokafkas_second_producer_fences_the_first(
    cluster: LocalCluster, topic: str
) -> None:
    async with asyncio.timeout(DEADLINE_S):
        first = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, transactional_id=topic)
        second = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, transactional_id=topic)
        await first.start()
        await first.begin_transaction()
        await first.send_and_wait(topic, b"lost", partition=0)
        await second.start()
        with pytest.raises(ProducerFenced):
            await first.commit_transaction()
        async with second.transaction():
            await second.send_and_wait(topic, b"kept", partition=0)
        await second.stop()
        await first.stop()
    assert committed(cluster, topic, 1) == [b"kept"]


def test_kafka_python_commits_and_aborts_records_with_offsets(
    cluster: LocalCluster, topic: str
) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=cluster.bootstrap, transactional_id=topic)
    try:
        producer.init_transactions()
        for number, ends in enumerate((True, False, True)):
            producer.begin_transaction()
            for partition in range(PARTITIONS):
                producer.send(topic, b"%d-%d" % (number, partition), partition=partition)
            offsets: dict[Any, Any] = {
                kafka.TopicPartition(topic, 0): kafka.structs.OffsetAndMetadata(20 + number, "", -1)
            }
            producer.send_offsets_to_transaction(offsets, topic)
            if ends:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
    finally:
        producer.close(timeout=DEADLINE_S)
    wanted = [b"%d-%d" % (n, p) for n in (0, 2) for p in range(PARTITIONS)]
    assert committed(cluster, topic, len(wanted)) == wanted
    assert offset_of(cluster, topic, topic) == 22
