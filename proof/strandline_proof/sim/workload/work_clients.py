"""The library's clients as a run's plan requires them: senders of records with keys and times of
their own, and a reader that is never replaced.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from itertools import count, islice
from typing import TYPE_CHECKING, Final

from strandline._core.partition_queue import PartitionQueue
from strandline.errors import StrandlineError
from strandline_broker.core.replication.producer_state import ProducerStates
from strandline_chaos.live.clients import TopicReader
from strandline_chaos.payload import CorruptPayload, decode
from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.topology.topology import METADATA_MAX_AGE_MS, TOPIC
from strandline_proto.partitioner import partition_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline import Consumer, Producer
    from strandline.types import ConsumerRecord, RecordMetadata
    from strandline_proof.sim.cluster.world import World
    from strandline_proof.sim.kafka.producer import KafkaSender
    from strandline_proto.batch import Record
    from strandline_runtime.runtime import Runtime

KEYS: Final = 3
"""The number of keys of each partition."""
RETRY_S: Final = 0.2


class Stamps:
    """The sent properties of records beside their values, by (partition, value)."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._sent: dict[tuple[int, int], tuple[bytes | None, int | None]] = {}
        self._times: dict[int, list[int]] = {}
        self._keys: dict[tuple[int, int], list[bytes]] = {}

    def key_for(self, partition: int, value: int) -> bytes:
        """A key that the library's partitioner maps to that partition at present."""
        partitions = self._world.partitions
        known = self._keys.get((partition, partitions))
        if known is None:
            names = (b"k%d" % number for number in count())
            wanted = (name for name in names if partition_for(name, partitions) == partition)
            known = self._keys[partition, partitions] = list(islice(wanted, KEYS))
        return known[value % KEYS]

    def on_send(self, partition: int, value: int, key: bytes | None, time_ms: int | None) -> None:
        self._sent[partition, value] = key, time_ms
        if time_ms is not None:
            self._times.setdefault(partition, []).append(time_ms)

    def times_of(self, partition: int) -> list[int]:
        return self._times.get(partition, [])

    def time_of(self, partition: int, value: int) -> int | None:
        """The time that the sender set; None if the library set it."""
        return self._sent.get((partition, value), (None, None))[1]

    def check(self, record: ConsumerRecord | Record) -> None:
        """I-98: a record is read as it was sent."""
        try:
            partition, value = decode(record.value)
        except CorruptPayload:
            return  # the reader records the violation
        key, time_ms = self._sent.get((partition, value), (record.key, None))
        if record.key != key or time_ms not in (None, record.timestamp):
            self._world.loop.fail(
                Violation(
                    "I-98",
                    f"value {value} of partition {partition} was sent with key {key!r} and time"
                    f" {time_ms}, and is read at offset {record.offset} with key {record.key!r} and"
                    f" time {record.timestamp}",
                )
            )


class StampedSender:
    """A producer of records with keys and times."""

    def __init__(self, world: World, producer: Producer | KafkaSender, runtime: Runtime) -> None:
        self._world = world
        self._producer = producer
        self._runtime = runtime
        self._chooses = world.metadata_max_age_ms != METADATA_MAX_AGE_MS
        """True if partitions are added: the library may not know all of them."""

    async def send(
        self, topic: str, value: bytes, *, partition: int
    ) -> asyncio.Future[RecordMetadata]:
        world, work = self._world, self._world.topology.work
        number = int(value.split(b" ", 2)[1])
        key = world.stamps.key_for(partition, number) if work.keyed else None
        time_ms = None
        if work.spread_ms >= 0:
            now_ms = int(self._runtime.clock.time() * 1000)
            time_ms = now_ms + self._runtime.rng.randint(-work.spread_ms, work.spread_ms)
        world.stamps.on_send(partition, number, key, time_ms)
        to = None if key is not None and not self._chooses else partition
        return await self._producer.send(topic, value, key, partition=to, timestamp_ms=time_ms)


class CheckedReader(TopicReader):
    """A reader that compares each record with everything that was sent beside it."""

    def __init__(self, world: World, consumer: Consumer) -> None:
        super().__init__(consumer, TOPIC)
        self._world = world

    async def poll(self, timeout_s: float) -> dict[int, list[tuple[int, bytes | None]]]:
        found = await self._consumer.getmany(timeout_ms=timeout_s * 1000)
        for records in found.values():
            for record in records:
                self._world.stamps.check(record)
        return {
            tp.partition: [(record.offset, record.value) for record in records]
            for tp, records in found.items()
        }


class LastingReader(CheckedReader):
    """One consumer for the whole life of its process. Each error passes, or breaks the run: the
    consumer seeks to its position, and goes on.
    """

    def __init__(self, world: World, consumer: Consumer) -> None:
        super().__init__(world, consumer)
        self.next: dict[int, int] = {}
        """The offset after the last record that was handed over."""

    async def poll(self, timeout_s: float) -> dict[int, list[tuple[int, bytes | None]]]:
        try:
            found = await super().poll(timeout_s)
        except StrandlineError as error:
            kind = type(error).__name__
            self._world.clients.sometimes[f"reader went on after: {kind}"] += 1
            await asyncio.sleep(RETRY_S)
            await self._seek_back()
            return {}
        for partition, records in found.items():
            self.next[partition] = records[-1][0] + 1
        return found

    async def _seek_back(self) -> None:
        for tp in sorted(self._consumer.assignment()):
            if tp.partition in self.next:
                epoch = self._consumer.position_epoch(tp)
                self._consumer.seek(tp, self.next[tp.partition], epoch)
            else:
                self._consumer.seek(tp, 0)

    async def end_offsets(self) -> dict[int, int]:
        try:
            return await super().end_offsets()
        except StrandlineError:
            return {}


@contextmanager
def sequences_from(first: int) -> Iterator[None]:
    """Makes idempotent producers of this process begin at that sequence, and brokers expect it. A
    run of some seconds would otherwise never reach the wrap of sequences (2^31 - 1).
    """
    before = PartitionQueue.first_sequence, ProducerStates.first_sequence
    try:
        PartitionQueue.first_sequence = ProducerStates.first_sequence = first
        yield
    finally:
        PartitionQueue.first_sequence, ProducerStates.first_sequence = before
