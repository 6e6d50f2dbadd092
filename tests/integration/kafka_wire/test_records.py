"""Records through both protocols: written by librdkafka and read by our client, and vice versa."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer as KafkaConsumer
from confluent_kafka import Producer as KafkaProducer
from confluent_kafka import TopicPartition as KafkaPartition

from strandline import Admin, Consumer, NewTopic, Producer, TopicPartition
from support.cluster import DEADLINE_S, MakeCluster

if TYPE_CHECKING:
    from confluent_kafka import Message

    from strandline_local.local_cluster import LocalCluster

pytestmark = pytest.mark.integration
TOPIC = "orders"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
HEADERS = [("trace", b"\x00\xff"), ("trace", b"again"), ("none", None), ("empty", b"")]
Plain = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]
"""Offset, key, value, headers and timestamp of a record."""


def values(codec: str) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values: absent and empty ones, one that fills a batch, and many that are alike."""
    odd: list[tuple[bytes | None, bytes | None]] = [
        (None, b""),
        (b"", None),
        (b"\x00\x01", b"\xff" * 300_000),
    ]
    return odd + [(b"k%d" % i, codec.encode() * 20) for i in range(200)]


async def new_topic(cluster: LocalCluster, partitions: int = 1) -> None:
    async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        await admin.create_topics(
            [NewTopic(TOPIC, num_partitions=partitions, replication_factor=3)]
        )


async def read_by_us(cluster: LocalCluster, count: int) -> list[Plain]:
    found: list[Plain] = []
    async with (
        asyncio.timeout(DEADLINE_S),
        Consumer(bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as consumer,
    ):
        await consumer.assign([TopicPartition(TOPIC, 0)])
        while len(found) < count:
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                found += [(r.offset, r.key, r.value, r.headers, r.timestamp) for r in records]
    return found


def read_by_kafka(cluster: LocalCluster, count: int) -> list[Plain]:
    """Every record as librdkafka reads it, with the check of CRCs on."""
    consumer = KafkaConsumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "check.crcs": True,
        }
    )
    try:
        consumer.assign([KafkaPartition(TOPIC, 0, 0)])
        found: list[Plain] = []
        for _ in range(int(DEADLINE_S)):
            for each in consumer.consume(500, timeout=1):
                assert each.error() is None, each.error()
                found.append(_plain(each))
            if len(found) >= count:
                return found
        raise AssertionError(f"{len(found)} of {count} records within {DEADLINE_S} s")
    finally:
        consumer.close()


def _plain(each: Message) -> Plain:
    headers: Any = each.headers() or []
    offset = each.offset()
    assert offset is not None
    return offset, each.key(), each.value(), tuple(headers), each.timestamp()[1]


class Sent:
    """Records that librdkafka has sent, and their offsets once they are acknowledged."""

    def __init__(self) -> None:
        self.offsets: dict[int, int] = {}
        self.failed: list[Any] = []

    def send(
        self, producer: KafkaProducer, number: int, key: bytes | None, value: bytes | None
    ) -> None:
        def on_delivery(error: Any, message: Message) -> None:
            offset = message.offset()
            if error is not None or offset is None:
                self.failed.append(error)
            else:
                self.offsets[number] = offset

        producer.produce(
            TOPIC,
            value,
            key,
            partition=0,
            timestamp=1_700_000_000_000 + number,
            headers=HEADERS if number % 2 == 0 else None,
            on_delivery=on_delivery,
        )


async def test_records_of_librdkafka_are_read_by_both_alike(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(brokers=3)
    await new_topic(cluster)
    sent = Sent()
    wanted: list[tuple[bytes | None, bytes | None]] = []
    for codec in CODECS:
        producer = KafkaProducer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "enable.idempotence": True,
                "log_level": 0,
                "compression.type": codec,
            }
        )
        for key, value in values(codec):
            sent.send(producer, len(wanted), key, value)
            wanted.append((key, value))
        assert await asyncio.to_thread(producer.flush, DEADLINE_S) == 0
    assert (sent.failed, sorted(sent.offsets.values())) == ([], list(range(len(wanted))))
    expected = [
        (
            sent.offsets[number],
            key,
            value,
            tuple(HEADERS) if number % 2 == 0 else (),
            1_700_000_000_000 + number,
        )
        for number, (key, value) in enumerate(wanted)
    ]
    assert await read_by_us(cluster, len(wanted)) == expected
    assert await asyncio.to_thread(read_by_kafka, cluster, len(wanted)) == expected


async def test_our_records_are_read_by_librdkafka_alike(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(brokers=3)
    await new_topic(cluster)
    expected: list[Plain] = []
    for codec in CODECS:
        async with Producer(
            bootstrap_servers=cluster.bootstrap, compression_type=codec
        ) as producer:
            for key, value in values(codec):
                headers = tuple(HEADERS) if len(expected) % 2 == 0 else ()
                time = 1_700_000_000_000 + len(expected)
                future = await producer.send(
                    TOPIC, value, key=key, partition=0, headers=headers, timestamp_ms=time
                )
                expected.append((len(expected), key, value, headers, time))
            await producer.flush()
            assert (await future).offset == len(expected) - 1
    assert await asyncio.to_thread(read_by_kafka, cluster, len(expected)) == expected
    assert await read_by_us(cluster, len(expected)) == expected


async def test_no_acknowledged_record_is_lost_or_repeated_by_a_killed_leader(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(brokers=3)
    await new_topic(cluster)
    producer = KafkaProducer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "enable.idempotence": True,
            "log_level": 0,
            "linger.ms": 1,
            "batch.size": 2_000,
            "message.timeout.ms": int(DEADLINE_S * 1000),
        }
    )
    sent, count = Sent(), 4_000
    for number in range(count):
        sent.send(producer, number, b"k", b"v%d" % number)
        producer.poll(0)
        if number == count // 2:
            await asyncio.to_thread(_until_acknowledged, producer, sent)
            cluster.crash(await leader(cluster))
    assert await asyncio.to_thread(producer.flush, DEADLINE_S) == 0
    assert sent.failed == []
    found = await asyncio.to_thread(read_by_kafka, cluster, count)
    assert [each[2] for each in found] == [b"v%d" % number for number in range(count)]
    assert [each[0] for each in found] == [sent.offsets[number] for number in range(count)]
    assert await read_by_us(cluster, count) == found


def _until_acknowledged(producer: KafkaProducer, sent: Sent) -> None:
    for _ in range(int(DEADLINE_S * 10)):
        if sent.offsets:
            return
        producer.poll(0.1)
    raise AssertionError("no record was acknowledged")


async def leader(cluster: LocalCluster) -> int:
    async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        described = await admin.describe_topics([TOPIC])
        return described[TOPIC].partitions[0].leader
