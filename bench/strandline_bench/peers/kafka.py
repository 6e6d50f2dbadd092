"""Apache Kafka as a peer: the same measures on a running Kafka cluster, through confluent-kafka
(not among our requirements). Every call here blocks.
"""

from __future__ import annotations

import secrets
import shlex
import subprocess
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable

    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import PartitionMetadata

WAIT_S: Final = 600.0
POLL_S: Final = 0.1
ANSWER_S: Final = 10.0


def add_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--peer-kafka",
        metavar="HOST:PORT,...",
        help="measure this Kafka cluster too; needs confluent-kafka",
    )


def check_option(parser: argparse.ArgumentParser, bootstrap: str | None) -> None:
    """Exits with status 2 if the option cannot be used."""
    if bootstrap is None:
        return
    try:
        import confluent_kafka  # noqa: F401 - whether it is there
    except ImportError:
        parser.error(f"--peer-kafka {bootstrap} needs confluent-kafka: pip install confluent-kafka")


class KafkaPeer:
    """A running Kafka cluster. Its topics have unique names and are deleted by `close`. Raises
    KafkaException for Kafka's refusals, TimeoutError for missing answers.
    """

    def __init__(self, bootstrap: str, *, replication_factor: int) -> None:
        from confluent_kafka.admin import AdminClient

        self._bootstrap = bootstrap
        self._replication_factor = replication_factor
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._topics: list[str] = []

    def close(self) -> None:
        if self._topics:
            for deleted in self._admin.delete_topics(self._topics).values():
                deleted.result(WAIT_S)

    def create(self, partitions: int, min_insync_replicas: int = 1) -> tuple[str, float]:
        """Create a topic; returns it, and the seconds until each partition has a leader and all its
        replicas in sync.
        """
        began = time.monotonic()
        name = self._create(partitions, min_insync_replicas)
        self._until(lambda: self._serves(name, partitions))
        return name, time.monotonic() - began

    def first_acks(self, partitions: int, min_insync_replicas: int, acks: str) -> list[float]:
        """Seconds from the request to create a topic to the first acknowledged record, for each
        partition. The producer is connected before.
        """
        from confluent_kafka import Producer

        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "acks": acks,
                "linger.ms": 0,
                "message.timeout.ms": int(WAIT_S * 1000),
            }
        )
        producer.list_topics(timeout=ANSWER_S)
        acks_s: list[float] = []
        began = time.monotonic()
        topic = self._create(partitions, min_insync_replicas)
        self._write_each(producer, topic, partitions, lambda: acks_s.append(_since(began)))
        return acks_s

    def _create(self, partitions: int, min_insync_replicas: int) -> str:
        from confluent_kafka.admin import NewTopic

        name = f"bench-{secrets.token_hex(4)}"
        least = {"min.insync.replicas": str(min_insync_replicas)}
        topic = NewTopic(name, partitions, self._replication_factor, config=least)
        self._admin.create_topics([topic], request_timeout=WAIT_S)[name].result(WAIT_S)
        self._topics.append(name)
        return name

    def write_each(self, topic: str, partitions: int) -> None:
        """Write one record into each partition."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self._bootstrap, "acks": "all"})
        self._write_each(producer, topic, partitions, lambda: None)

    def _write_each(
        self, producer: Producer, topic: str, partitions: int, acknowledged: Callable[[], None]
    ) -> None:
        failed: list[object] = []

        def told(error: object, message: object) -> None:
            if error is None:
                acknowledged()
            else:
                failed.append(error)

        for partition in range(partitions):
            producer.produce(topic, b"first", partition=partition, on_delivery=told)
            producer.poll(0)
        left = producer.flush(WAIT_S)
        if left or failed:
            raise TimeoutError(
                f"Kafka has not acknowledged {left + len(failed)} records of {topic} in"
                f" {WAIT_S} s: {next(iter(failed), 'it gave no answer')}"
            )

    def fill(self, topic: str, partition: int, values: Iterable[bytes], batch_size: int) -> None:
        """Write values, each acknowledged by all replicas."""
        from confluent_kafka import Producer

        failed: list[object] = []
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "batch.size": batch_size,
                "linger.ms": 50,
                "queue.buffering.max.messages": 1_000_000,
            }
        )

        def told(error: object, message: object) -> None:
            if error is not None:
                failed.append(error)

        for value in values:
            while True:
                try:
                    producer.produce(topic, value, partition=partition, on_delivery=told)
                    break
                except BufferError:
                    producer.poll(POLL_S)
        left = producer.flush(WAIT_S)
        if left or failed:
            raise TimeoutError(
                f"Kafka has not acknowledged {left + len(failed)} records of {topic}:"
                f" {next(iter(failed), 'it gave no answer')}"
            )

    def first_record_ms(self, topic: str) -> float:
        """Milliseconds from a new group's start to its first record, by KIP-848's protocol."""
        from confluent_kafka import Consumer

        began = time.monotonic()
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": f"bench-{secrets.token_hex(4)}",
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe([topic])
        try:
            _poll(consumer)
            return (time.monotonic() - began) * 1e3
        finally:
            consumer.close()

    def led_again(self, kill: str, restart: str) -> dict[str, float]:
        """Kill a broker and start it again, by commands that get its id as their last argument."""
        victim = max(self._admin.list_topics(timeout=ANSWER_S).brokers)
        killed = time.monotonic()
        _run(kill, victim)
        self._until(lambda: victim not in self._admin.list_topics(timeout=ANSWER_S).brokers)
        noticed = time.monotonic()
        self._until(lambda: self._all(lambda p: p.leader not in (-1, victim)))
        led = time.monotonic()
        _run(restart, victim)
        self._until(lambda: self._all(lambda p: set(p.isrs) == set(p.replicas)))
        return {
            "noticed_s": noticed - killed,
            "led_again_s": led - noticed,
            "rejoined_s": time.monotonic() - led,
        }

    def _serves(self, name: str, partitions: int) -> bool:
        found = self._admin.list_topics(name, timeout=ANSWER_S).topics[name].partitions
        return len(found) == partitions and self._all(
            lambda p: p.leader >= 0 and len(p.isrs) == len(p.replicas)
        )

    def _all(self, condition: Callable[[PartitionMetadata], bool]) -> bool:
        topics = self._admin.list_topics(timeout=ANSWER_S).topics
        return all(condition(p) for name in self._topics for p in topics[name].partitions.values())

    def _until(self, true: Callable[[], bool]) -> None:
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                if true():
                    return
            except (KafkaException, KeyError):
                pass  # A broker that was asked is gone, or does not know the topic yet.
            if time.monotonic() > deadline:
                raise TimeoutError(f"Kafka at {self._bootstrap} is not there after {WAIT_S} s")
            time.sleep(POLL_S)


def _since(began: float) -> float:
    return time.monotonic() - began


def _poll(consumer: Consumer) -> None:
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            return
    raise TimeoutError(f"no record of Kafka in {WAIT_S} s")


def _run(command: str, broker_id: int) -> None:
    subprocess.run(
        [*shlex.split(command), str(broker_id)],
        check=True,
        timeout=WAIT_S,
        stdout=subprocess.DEVNULL,
    )
