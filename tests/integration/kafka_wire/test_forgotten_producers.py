"""Idempotent producers of Kafka's clients that the leader has forgotten: they write on (I-56)."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaProducer

from strandline_broker.kafka import codec
from strandline_proto.batch import build_batch
from support.cluster import eventually
from support.kafka_cluster import KafkaCluster, kafka_cluster
from support.kafka_frames import PRODUCE, frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

pytestmark = pytest.mark.integration
WAIT_S: Final = 60.0
EXPIRES_MS: Final = 300
LONGER_S: Final = 1.0
"""Pause of the witness: longer than the expiration and its check."""
WITNESS: Final = "witness"
VERSION: Final = 7
Send = Any
"""Sends these values at once to partition 0 of the topic, and waits for the acknowledgements."""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with kafka_cluster(
        tmp_path_factory.mktemp("kafka"),
        brokers=1,
        producer_id_expiration_ms=str(EXPIRES_MS),
        producer_id_expiration_check_interval_ms="50",
    ) as made:
        create(made, WITNESS)
        yield made


def create(kafka: KafkaCluster, topic: str) -> None:
    made = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    made.create_topics([NewTopic(topic, 1, 1)])[topic].result(WAIT_S)


def delete(kafka: KafkaCluster, topic: str) -> None:
    made = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    made.delete_topics([topic])[topic].result(WAIT_S)


@contextmanager
def librdkafka(kafka: KafkaCluster, topic: str) -> Iterator[Send]:
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap, "enable.idempotence": True, "log_level": 0}
    )
    failed: list[Any] = []

    def send(*values: bytes) -> None:
        for value in values:
            producer.produce(
                topic, value, on_delivery=lambda error, _: failed.append(error) if error else None
            )
        assert producer.flush(WAIT_S) == 0
        assert failed == []

    yield send
    producer.purge()


@contextmanager
def kafka_python(kafka: KafkaCluster, topic: str) -> Iterator[Send]:
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap, enable_idempotence=True)

    def send(*values: bytes) -> None:
        for sent in [producer.send(topic, value) for value in values]:
            sent.get(WAIT_S)

    yield send
    producer.close(timeout=WAIT_S)


@contextmanager
def aiokafka(kafka: KafkaCluster, topic: str) -> Iterator[Send]:
    with asyncio.Runner() as runner:

        async def begin() -> AIOKafkaProducer:
            made = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, enable_idempotence=True)
            await made.start()
            return made

        async def send_all(values: tuple[bytes, ...]) -> None:
            async with asyncio.timeout(WAIT_S):
                sent = [await producer.send(topic, value) for value in values]
                await asyncio.gather(*sent)

        producer = runner.run(begin())
        yield lambda *values: runner.run(send_all(values))
        runner.run(producer.stop())


CLIENTS: Final[tuple[Callable[[KafkaCluster, str], AbstractContextManager[Send]], ...]] = (
    librdkafka,
    kafka_python,
    aiokafka,
)
clients = pytest.mark.parametrize("client", CLIENTS, ids=lambda each: each.__name__)


@clients
def test_a_producer_that_has_expired_writes_on(kafka: KafkaCluster, client: Any) -> None:
    topic = f"expired-{client.__name__}"
    create(kafka, topic)
    with client(kafka, topic) as send:
        send(b"0", b"1", b"2")
        until_forgotten(kafka)
        send(b"3")
        send(b"4", b"5")
        until_forgotten(kafka)
        send(b"6", b"7")
    assert read(kafka, topic, 8) == [b"%d" % n for n in range(8)]


@clients
def test_a_producer_writes_on_in_a_topic_created_again(kafka: KafkaCluster, client: Any) -> None:
    topic = f"again-{client.__name__}"
    create(kafka, topic)
    with client(kafka, topic) as send:
        send(b"before", b"before")
        delete(kafka, topic)
        create(kafka, topic)
        send(b"0", b"1")
        send(b"2")
    assert read(kafka, topic, 3) == [b"0", b"1", b"2"]


def until_forgotten(kafka: KafkaCluster) -> None:
    """Waits until all producers of before are forgotten: one that was used later than all of them
    is, so that its batch is appended again.
    """
    first = appended_at(kafka)
    eventually(lambda: appended_at(kafka) > first, "forgotten", poll_s=LONGER_S)


def appended_at(kafka: KafkaCluster) -> int:
    """Base offset of the witness's only batch, which is sent again each time."""
    batch = build_batch(
        [(None, b"v")], timestamp_ms=1, producer_id=1 << 62, producer_epoch=0, base_sequence=0
    )
    messages = codec.load()
    topic = messages["ProduceRequest"].TopicProduceData
    part = topic.PartitionProduceData(index=0, records=batch)
    asked = messages["ProduceRequest"](
        transactional_id=None,
        acks=-1,
        timeout_ms=int(WAIT_S * 1000),
        topic_data=[topic(name=WITNESS, partition_data=[part])],
    )
    with socket.create_connection(("127.0.0.1", kafka.kafka_ports[1]), WAIT_S) as connection:
        body = codec.encode(asked, VERSION)
        connection.sendall(frame(PRODUCE, 1, version=VERSION, body=b"".join([body])))
        with connection.makefile("rb") as answers:
            (size,) = struct.unpack(">i", answers.read(4))
            data = answers.read(size)[4:]
    answer = messages["ProduceResponse"].decode(data, version=VERSION)
    (result,) = answer.responses[0].partition_responses
    assert result.error_code == 0
    offset: int = result.base_offset
    return offset


def read(kafka: KafkaCluster, topic: str, count: int) -> list[bytes | None]:
    """All records of the topic; at least so many."""
    consumer = Consumer(
        {"bootstrap.servers": kafka.bootstrap, "group.id": "unused", "enable.auto.commit": False}
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[bytes | None] = []

        def is_all() -> bool:
            for each in consumer.consume(500, timeout=1):
                assert each.error() is None, each.error()
                found.append(each.value())
            return len(found) >= count

        eventually(is_all, f"{count} records of {topic}")
        end = consumer.get_watermark_offsets(TopicPartition(topic, 0), WAIT_S)
        assert end == (0, len(found))
        return found
    finally:
        consumer.close()
