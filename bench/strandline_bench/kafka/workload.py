"""The measured work through librdkafka; nothing is tuned for one of the sides."""

import secrets
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from confluent_kafka import Producer

WAIT_S: Final = 120.0
POLL_S: Final = 0.001
WARM: Final = 50
"""Awaited records before the first that counts."""
PRODUCING: Final = {
    "acks": "all",
    "linger.ms": 5,
    "batch.size": 1 << 20,
    "queue.buffering.max.messages": 500_000,
}
AWAITING: Final = {
    "acks": "all",
    "linger.ms": 0,
    "retry.backoff.ms": 20,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
}
CONSUMING: Final = {
    # Otherwise librdkafka's own pause between two fetches is measured.
    "fetch.queue.backoff.ms": 1,
    "queued.min.messages": 1_000_000,
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
}


class Workload:
    """The measures on one cluster. Each raises TimeoutError or KafkaException if it fails."""

    def __init__(self, bootstrap: str, replication_factor: int) -> None:
        from confluent_kafka.admin import AdminClient

        # librdkafka's own lines about killed brokers say nothing here.
        self._servers: dict[str, object] = {"bootstrap.servers": bootstrap, "log_level": 2}
        self._replication_factor = replication_factor
        self._admin = AdminClient(self._servers)

    def new_topic(self, partitions: int) -> str:
        """Returns the name of a new topic whose partitions have leaders."""
        from confluent_kafka.admin import NewTopic

        name = f"bench-{secrets.token_hex(4)}"
        least = {"min.insync.replicas": str(min(2, self._replication_factor))}
        topic = NewTopic(name, partitions, self._replication_factor, config=least)
        self._admin.create_topics([topic], request_timeout=WAIT_S)[name].result(WAIT_S)
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            found = self._admin.list_topics(name, WAIT_S).topics[name].partitions
            if len(found) == partitions and all(each.leader >= 0 for each in found.values()):
                return name
            time.sleep(0.01)
        raise TimeoutError(f"topic {name} has no leaders after {WAIT_S} s")

    def delete_topic(self, name: str) -> None:
        self._admin.delete_topics([name], request_timeout=WAIT_S)[name].result(WAIT_S)

    def produce_s(self, topic: str, partitions: int, size: int, count: int) -> float:
        """Seconds to write `count` records of `size` bytes and have them acknowledged."""
        from confluent_kafka import Producer

        producer = Producer(self._servers | PRODUCING)
        producer.list_topics(topic, WAIT_S)
        value = secrets.token_bytes(size)
        failed: list[object] = []

        def told(error: object, message: object) -> None:
            if error is not None:
                failed.append(error)

        began = time.perf_counter()
        for number in range(count):
            while True:
                try:
                    producer.produce(topic, value, partition=number % partitions, on_delivery=told)
                    break
                except BufferError:
                    producer.poll(0.01)
            if number % 1000 == 0:
                producer.poll(0)
        left = producer.flush(WAIT_S)
        took = time.perf_counter() - began
        if left or failed:
            raise TimeoutError(f"{left} records unacknowledged, {len(failed)} failed: {failed[:1]}")
        return took

    def consume_s(self, topic: str, partitions: int, count: int) -> float:
        """Seconds to read `count` records from the first on."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer(self._servers | CONSUMING | {"group.id": secrets.token_hex(4)})
        try:
            began = time.perf_counter()
            consumer.assign([TopicPartition(topic, each, 0) for each in range(partitions)])
            seen = 0
            while seen < count:
                if time.perf_counter() - began > WAIT_S:
                    raise TimeoutError(f"{seen} of {count} records read in {WAIT_S} s")
                seen += len(consumer.consume(10_000, 0.1))
            return time.perf_counter() - began
        finally:
            consumer.close()

    def latencies_ms(self, topic: str, count: int) -> list[float]:
        """The time of each of `count` records of 1,000 bytes, one awaited after the other."""
        from confluent_kafka import Producer

        producer = Producer(self._servers | AWAITING)
        value = secrets.token_bytes(1000)
        for _ in range(WARM):
            _awaited_ms(producer, topic, value)
        return [_awaited_ms(producer, topic, value) for _ in range(count)]

    def first_record_s(self, topic: str, protocol: str) -> float:
        """Seconds from a new group's start to its first record. `protocol`: classic, consumer."""
        from confluent_kafka import Consumer

        began = time.perf_counter()
        consumer = Consumer(
            self._servers
            | {
                "group.id": f"bench-{secrets.token_hex(4)}",
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
            }
        )
        try:
            consumer.subscribe([topic])
            while time.perf_counter() - began < WAIT_S:
                message = consumer.poll(0.1)
                if message is not None and message.error() is None:
                    return time.perf_counter() - began
            raise TimeoutError(f"no record in {WAIT_S} s")
        finally:
            consumer.close()

    def leader(self, topic: str) -> int:
        """Returns the leader of the topic's first partition."""
        return int(self._admin.list_topics(topic, WAIT_S).topics[topic].partitions[0].leader)

    def all_in_sync(self, topic: str) -> bool:
        found = self._admin.list_topics(topic, WAIT_S).topics[topic].partitions.values()
        return all(each.leader >= 0 and len(each.isrs) == len(each.replicas) for each in found)

    def awaiting(self, topic: str) -> "Awaiting":
        return Awaiting(self._servers, topic)


class Awaiting:
    """A connected producer that awaits each record."""

    def __init__(self, servers: dict[str, object], topic: str) -> None:
        from confluent_kafka import Producer

        self._topic = topic
        self._producer = Producer({**servers, **AWAITING, "message.timeout.ms": int(WAIT_S * 1000)})
        for _ in range(WARM):
            self.write_ms()

    def write_ms(self) -> float:
        return _awaited_ms(self._producer, self._topic, b"one")


def _awaited_ms(producer: "Producer", topic: str, value: bytes) -> float:
    answers: list[object] = []
    began = time.perf_counter()
    producer.produce(topic, value, partition=0, on_delivery=lambda error, _: answers.append(error))
    while not answers and time.perf_counter() - began < WAIT_S:
        producer.poll(POLL_S)
    if not answers or answers[0] is not None:
        raise TimeoutError(f"the record was not acknowledged: {answers}")
    return (time.perf_counter() - began) * 1e3
