"""Transactions through librdkafka; nothing is tuned for one of the sides."""

import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from strandline_bench.kafka.workload import CONSUMING, PRODUCING, WAIT_S

if TYPE_CHECKING:
    from confluent_kafka import Producer

    from strandline.types import IsolationLevel

WARM: Final = 20
"""Transactions before the first that counts."""
RECORD_BYTES: Final = 1000
COMMIT_EVERY_S: Final = 0.1
WRITING: Final = {**PRODUCING, "queue.buffering.max.kbytes": 32 << 10}
"""Without commits nothing else would empty the queue: both sides have the same bound of memory."""
PLAIN: Final = {**WRITING, "enable.idempotence": True}
IN_ABORTED_TENTH: Final = 10
OF_A_TRANSACTION: Final = 1000


class Transacting:
    """The measures on one cluster. Each raises TimeoutError or KafkaException if it fails."""

    def __init__(self, bootstrap: str) -> None:
        # librdkafka's own lines say nothing here.
        self._servers: dict[str, object] = {"bootstrap.servers": bootstrap, "log_level": 2}

    def begin_to_commit_ms(
        self, topic: str, partitions: int, *, producers: int, count: int
    ) -> list[float]:
        """The time of each transaction, of `producers` that each write one after the other."""
        made = [self._producer({"linger.ms": 0}) for _ in range(producers)]

        def work(producer: "Producer") -> list[float]:
            for _ in range(WARM):
                _transaction_ms(producer, topic, partitions)
            return [_transaction_ms(producer, topic, partitions) for _ in range(count)]

        with ThreadPoolExecutor(producers) as pool:
            return [each for taken in pool.map(work, made) for each in taken]

    def plain_s(self, topic: str, partitions: int, count: int) -> float:
        """Seconds to write records and have them acknowledged, without transactions."""
        from confluent_kafka import Producer

        producer = Producer(self._servers | PLAIN)
        value = secrets.token_bytes(RECORD_BYTES)
        for each in range(partitions):  # connected, and with an id, before the first that counts
            _send(producer, topic, value, each)
        producer.flush(WAIT_S)
        began = time.perf_counter()
        for number in range(count):
            _send(producer, topic, value, number % partitions)
        if left := producer.flush(WAIT_S):
            raise TimeoutError(f"{left} records are unacknowledged")
        return time.perf_counter() - began

    def committed_s(self, topic: str, partitions: int, count: int) -> float:
        """Seconds to write the same with a commit every 100 ms."""
        producer = self._producer(WRITING)
        value = secrets.token_bytes(RECORD_BYTES)
        _transaction_ms(producer, topic, partitions)
        began = time.perf_counter()
        producer.begin_transaction()
        due = began + COMMIT_EVERY_S
        for number in range(count):
            _send(producer, topic, value, number % partitions)
            if number % 100 == 0 and time.perf_counter() >= due:
                producer.commit_transaction(WAIT_S)
                producer.begin_transaction()
                due = time.perf_counter() + COMMIT_EVERY_S
        producer.commit_transaction(WAIT_S)
        return time.perf_counter() - began

    def fill_plain(self, topic: str, partitions: int, count: int) -> int:
        """Writes the records of `fill_with_a_tenth_aborted` in batches of the same size, without
        transactions; returns their number.
        """
        from confluent_kafka import Producer

        producer = Producer(self._servers | PLAIN)
        value = secrets.token_bytes(RECORD_BYTES)
        transactions = transactions_of(count)
        for _ in range(transactions):
            _send_a_transaction(producer, topic, value, partitions)
        return transactions * OF_A_TRANSACTION

    def fill_with_a_tenth_aborted(self, topic: str, partitions: int, count: int) -> int:
        """Writes about `count` records in transactions, and aborts each tenth; returns the number
        of the committed records.
        """
        producer = self._producer(WRITING)
        value = secrets.token_bytes(RECORD_BYTES)
        committed = 0
        for number in range(transactions_of(count)):
            producer.begin_transaction()
            _send_a_transaction(producer, topic, value, partitions)
            if number % IN_ABORTED_TENTH == 4:
                producer.abort_transaction(WAIT_S)
            else:
                producer.commit_transaction(WAIT_S)
                committed += OF_A_TRANSACTION
        return committed

    def read_s(self, topic: str, partitions: int, count: int, isolation: "IsolationLevel") -> float:
        """Seconds to read `count` records from the first on."""
        from confluent_kafka import Consumer, TopicPartition

        settings = {"group.id": secrets.token_hex(4), "isolation.level": isolation}
        consumer = Consumer(self._servers | CONSUMING | settings)
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

    def _producer(self, settings: dict[str, object]) -> "Producer":
        from confluent_kafka import Producer

        identity = {"transactional.id": f"bench-{secrets.token_hex(4)}"}
        producer = Producer(self._servers | settings | identity)
        producer.init_transactions(WAIT_S)
        return producer


def transactions_of(count: int) -> int:
    """The number of transactions that about `count` records make, of which a tenth is aborted."""
    return max(IN_ABORTED_TENTH, count // OF_A_TRANSACTION)


def _send_a_transaction(producer: "Producer", topic: str, value: bytes, partitions: int) -> None:
    for each in range(OF_A_TRANSACTION):
        _send(producer, topic, value, each % partitions)
    if left := producer.flush(WAIT_S):
        raise TimeoutError(f"{left} records are unacknowledged")


def _transaction_ms(producer: "Producer", topic: str, partitions: int) -> float:
    began = time.perf_counter()
    producer.begin_transaction()
    for each in range(partitions):
        producer.produce(topic, b"one", partition=each)
    producer.commit_transaction(WAIT_S)
    return (time.perf_counter() - began) * 1e3


def _send(producer: "Producer", topic: str, value: bytes, partition: int) -> None:
    while True:
        try:
            producer.produce(topic, value, partition=partition)
        except BufferError:
            producer.poll(0.01)
        else:
            return
