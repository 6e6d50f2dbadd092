"""An idempotent producer of Kafka frames: batches of one partition in order, several under way.

A batch that fails for a passing reason is sent again with its sequence, and all that follow it
(KIP-98). A batch whose time is over has an unknown outcome if it was ever sent. The producer then
ends, as the order of what follows is not known.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from aiokafka.record._crecords import DefaultRecordBatchBuilder

from strandline.errors import from_code
from strandline.types import RecordMetadata
from strandline_proof.sim.kafka.connection import (
    KafkaCluster,
    KafkaFailed,
    Tasks,
    check,
    owned_tasks,
    request_of,
)
from strandline_proto.batch import MAGIC, Compression, add_sequence
from strandline_proto.partitioner import partition_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from strandline_runtime.runtime import Runtime

WINDOW: Final = 3
"""Batches of one partition under way."""
RECORDS_MAX: Final = 20
RETRY_S: Final = 0.1
TIMEOUT_MS: Final = 1000
OUT_OF_ORDER: Final = 45
DUPLICATE: Final = 46
BY_ID: Final = 13
"""First version of Produce that names topics by their ids."""
VERSIONS: Final = (3, 5, 7, 8, 9, 10, 11, 12, 13)


class _Batch:
    """Records with one sequence; `waiting` has the future of each."""

    def __init__(self, deadline_s: float) -> None:
        self.records: list[tuple[bytes | None, bytes, int]] = []
        """Key, value and time in milliseconds of each."""
        self.waiting: list[asyncio.Future[RecordMetadata]] = []
        self.deadline_s = deadline_s
        self.sequence = -1
        self.was_sent = False

    def fail(self, error: Exception) -> None:
        for each in self.waiting:
            if not each.done():
                each.set_exception(error)
                each.exception()


class KafkaSender:
    """A producer with the interface of the workload's `Sender`."""

    def __init__(
        self,
        cluster: KafkaCluster,
        tasks: Tasks,
        *,
        delivery_s: float,
        compression: str,
        on_event: Callable[[str], None],
    ) -> None:
        """`on_event` is called with each rare event, in words."""
        self._on_event = on_event
        self._cluster = cluster
        self._tasks = tasks
        self._delivery_s = delivery_s
        self._codec = Compression[compression.upper()]
        self._version = cluster.runtime.rng.choice(VERSIONS)
        if self._codec is Compression.ZSTD:
            self._version = max(self._version, 7)
        self._producer = (-1, -1)
        self._partitions: dict[tuple[str, int], _Partition] = {}
        self._is_over = False

    async def start(self, first_sequence: int) -> None:
        """Gets a producer id. Raises KafkaFailed."""
        self._first_sequence = first_sequence
        connection = await self._cluster.any_broker()
        told = await connection.call(
            "InitProducerId", 4, transactional_id=None, transaction_timeout_ms=0
        )
        check(told.error_code, "InitProducerId")
        self._producer = told.producer_id, told.producer_epoch

    async def send(
        self,
        topic: str,
        value: bytes,
        key: bytes | None = None,
        *,
        partition: int | None,
        timestamp_ms: int | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Raises KafkaFailed if the producer has ended. `partition` None: the key's."""
        if self._is_over:
            raise KafkaFailed("the producer has lost a batch")
        if topic not in self._cluster.partitions:
            await self._cluster.refresh(topic)
        if partition is None:
            assert key is not None
            partition = partition_for(key, self._cluster.partitions[topic])
        if timestamp_ms is None:
            timestamp_ms = int(self._cluster.runtime.clock.time() * 1000)
        to = self._partitions.get((topic, partition))
        if to is None:
            to = self._partitions[topic, partition] = _Partition(self, topic, partition)
            self._tasks.spawn(to.run())
        return to.put(key, value, timestamp_ms)

    def give_up(self, why: Exception) -> None:
        """Ends the producer: the order of what follows a lost batch is not known."""
        self._is_over = True
        for each in self._partitions.values():
            each.fail(why)

    # What its partitions use

    def on_resent(self) -> None:
        self._on_event("Kafka's producer sent a batch again")

    @property
    def cluster(self) -> KafkaCluster:
        return self._cluster

    def deadline_s(self) -> float:
        return asyncio.get_running_loop().time() + self._delivery_s

    @property
    def first_sequence(self) -> int:
        return self._first_sequence

    def encoded(self, batch: _Batch) -> bytes:
        producer_id, epoch = self._producer
        builder = DefaultRecordBatchBuilder(
            magic=MAGIC,
            compression_type=int(self._codec),
            is_transactional=0,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=batch.sequence,
            batch_size=1 << 30,
        )
        for offset, (key, value, timestamp_ms) in enumerate(batch.records):
            builder.append(offset, timestamp_ms, key, value, [])
        return bytes(builder.build())

    def request(self, topic: str, partition: int, records: bytes) -> dict[str, Any]:
        """The fields of a Produce request with one batch."""
        kind = request_of("Produce").TopicProduceData
        data = [kind.PartitionProduceData(index=partition, records=records)]
        by_id = {"topic_id": self._cluster.topic_ids[topic]}
        named = by_id if self._version >= BY_ID else {"name": topic}
        return {
            "transactional_id": None,
            "acks": -1,
            "timeout_ms": TIMEOUT_MS,
            "topic_data": [kind(**named, partition_data=data)],
        }

    @property
    def is_over(self) -> bool:
        """True if a batch was lost: nothing more is sent."""
        return self._is_over

    @property
    def version(self) -> int:
        return self._version


class _Partition:
    """The batches of one partition, in the order of their sequences."""

    def __init__(self, sender: KafkaSender, topic: str, partition: int) -> None:
        self._sender = sender
        self._topic = topic
        self._partition = partition
        self._sequence = sender.first_sequence
        self._batches: deque[_Batch] = deque()
        self._news = asyncio.Event()

    def put(
        self, key: bytes | None, value: bytes, timestamp_ms: int
    ) -> asyncio.Future[RecordMetadata]:
        """Adds a record to the last batch that has no sequence yet, or to a new one."""
        last = self._batches[-1] if self._batches else None
        if last is None or last.sequence >= 0 or len(last.records) >= RECORDS_MAX:
            last = _Batch(self._sender.deadline_s())
            self._batches.append(last)
        last.records.append((key, value, timestamp_ms))
        future: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
        last.waiting.append(future)
        self._news.set()
        return future

    def fail(self, why: Exception) -> None:
        while self._batches:
            batch = self._batches.popleft()
            batch.fail(KafkaFailed(f"not delivered: {why}", maybe=batch.was_sent))

    async def run(self) -> None:
        while not self._sender.is_over:
            while not self._batches:
                self._news.clear()
                await self._news.wait()
            if not await self._round():
                await asyncio.sleep(RETRY_S)
            loop = asyncio.get_running_loop()
            if self._batches and self._batches[0].deadline_s <= loop.time():
                first = self._batches[0]
                if first.was_sent:
                    self._sender.give_up(KafkaFailed("its time is over", maybe=True))
                    return
                self._batches.popleft().fail(KafkaFailed("its time is over"))

    def _window(self) -> list[_Batch]:
        """The batches to send now, each with its sequence."""
        found = [self._batches[i] for i in range(min(WINDOW, len(self._batches)))]
        for batch in found:
            if batch.sequence < 0:
                batch.sequence = self._sequence
                self._sequence = add_sequence(self._sequence, len(batch.records))
        return found

    async def _round(self) -> bool:
        """Sends a window of batches on one connection. True if all are acknowledged."""
        sender = self._sender
        try:
            connection = await sender.cluster.leader(self._topic, self._partition)
        except KafkaFailed:
            sender.cluster.forget_leaders(self._topic)
            return False
        window = self._window()
        answers = []
        for batch in window:
            if batch.was_sent:
                sender.on_resent()
            records = sender.encoded(batch)
            batch.was_sent = True
            request = sender.request(self._topic, self._partition, records)
            answers.append(connection.ask("Produce", sender.version, **request))
        try:
            async with asyncio.timeout(2 * TIMEOUT_MS / 1000):
                await asyncio.gather(*answers, return_exceptions=True)
        except TimeoutError:
            connection.close()
        if sender.is_over:
            return True  # another partition has ended the producer, and failed these batches
        is_behind = False
        for batch, answer in zip(window, answers, strict=True):
            if not self._take(batch, answer, is_behind=is_behind):
                is_behind = True
            if sender.is_over:
                return True
        if is_behind:
            sender.cluster.forget_leaders(self._topic)
        return not is_behind

    def _take(self, batch: _Batch, answer: asyncio.Future[Any], *, is_behind: bool) -> bool:
        """True if the batch is acknowledged. A refusal for good ends the producer."""
        if not answer.done() or answer.cancelled() or answer.exception() is not None:
            return False
        told = answer.result().responses[0].partition_responses[0]
        if told.error_code in (0, DUPLICATE):
            if is_behind:
                # An earlier batch is unacknowledged, so this one is asked for again too: the
                # broker knows its sequence and answers with the same offset.
                return False
            assert self._batches.popleft() is batch
            offset = told.base_offset if told.error_code == 0 else -1
            for number, future in enumerate(batch.waiting):
                if not future.done():
                    at = -1 if offset < 0 else offset + number
                    time_ms = batch.records[number][2]
                    future.set_result(RecordMetadata(self._topic, self._partition, at, time_ms, -1))
            return True
        error = from_code(told.error_code)
        if not error.retriable and not (is_behind and told.error_code == OUT_OF_ORDER):
            self._sender.give_up(error)
        return False


@asynccontextmanager
async def kafka_sender(
    runtime: Runtime,
    bootstrap: tuple[tuple[str, int], ...],
    *,
    delivery_s: float,
    compression: str,
    first_sequence: int,
    on_event: Callable[[str], None],
) -> AsyncIterator[KafkaSender]:
    """A producer that ends with the block; what is not acknowledged then has failed."""
    async with owned_tasks() as tasks:
        cluster = KafkaCluster(runtime, bootstrap, tasks)
        sender = KafkaSender(
            cluster, tasks, delivery_s=delivery_s, compression=compression, on_event=on_event
        )
        try:
            await sender.start(first_sequence)
            yield sender
        finally:
            sender.give_up(KafkaFailed("the producer is closed"))
            cluster.close()
