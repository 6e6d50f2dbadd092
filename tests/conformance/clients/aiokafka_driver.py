"""Driver of aiokafka."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import for_code

from conformance.clients.loop import (
    POLL_S,
    UnsupportedError,
    headers_of,
    record,
    serve,
    unpacked,
)

STRATEGIES = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}


class Rebalances(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self) -> None:
        self.events: list[tuple[str, list[int]]] = []

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self.events.append(("assigned", sorted(each.partition for each in assigned)))

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self.events.append(("revoked", sorted(each.partition for each in revoked)))


class Driver:
    def __init__(self, bootstrap: str) -> None:
        self._base = {"bootstrap_servers": bootstrap}
        self._members: dict[str, tuple[AIOKafkaConsumer, Rebalances]] = {}
        self._transactional: dict[str, AIOKafkaProducer] = {}

    def version(self) -> dict[str, Any]:
        return {"version": aiokafka.__version__}

    async def create_topic(self, topic: str, partitions: int, replication: int) -> None:
        wanted = NewTopic(topic, partitions, replication)
        answer = await self._administered("create_topics", [wanted])
        _refuse([each[1] for each in answer.topic_errors])

    async def delete_topic(self, topic: str) -> None:
        answer = await self._administered("delete_topics", [topic])
        _refuse([code for _, code in answer.topic_error_codes])

    async def topics(self) -> dict[str, Any]:
        return {"topics": sorted(await self._administered("list_topics"))}

    async def delete_records(self, topic: str, before: dict[str, int]) -> dict[str, Any]:
        asked = {
            TopicPartition(topic, int(each)): RecordsToDelete(before_offset=offset)
            for each, offset in before.items()
        }
        done = await self._administered("delete_records", asked)
        return {"low": {each.partition: low for each, low in done.items()}}

    async def _administered(self, method: str, *arguments: Any) -> Any:
        admin = AIOKafkaAdminClient(**self._base)
        await admin.start()
        try:
            return await getattr(admin, method)(*arguments)
        finally:
            await admin.close()

    async def produce(
        self,
        topic: str,
        records: list[dict[str, Any]],
        codec: str = "none",
        pace_ms: int = 0,
    ) -> dict[str, Any]:
        compression = None if codec == "none" else codec
        producer = AIOKafkaProducer(
            **self._base, enable_idempotence=True, acks="all", compression_type=compression
        )
        await producer.start()
        try:
            sent = []
            for each in records:
                future = await producer.send(
                    topic,
                    value=unpacked(each["value"]),
                    key=unpacked(each["key"]),
                    partition=each["partition"],
                    timestamp_ms=each["timestamp"],
                    headers=headers_of(each),
                )
                sent.append(future)
                await asyncio.sleep(pace_ms / 1000)
            placed = await asyncio.gather(*sent)
            return {"placed": [[each.partition, each.offset] for each in placed]}
        finally:
            await producer.stop()

    async def tx_open(self, name: str, transactional_id: str) -> None:
        """Begins the life of a transactional producer."""
        producer = AIOKafkaProducer(**self._base, transactional_id=transactional_id)
        await producer.start()
        self._transactional[name] = producer

    async def tx_send(self, name: str, topic: str, records: list[dict[str, Any]]) -> None:
        """Begins a transaction and sends records in it."""
        producer = self._transactional[name]
        await producer.begin_transaction()
        sent = [
            await producer.send(
                topic,
                value=unpacked(each["value"]),
                key=unpacked(each["key"]),
                partition=each["partition"],
                timestamp_ms=each["timestamp"],
            )
            for each in records
        ]
        await asyncio.gather(*sent)

    async def tx_offsets(self, name: str, member: str) -> None:
        """Adds what a member polled to the transaction."""
        consumer = self._members[member][0]
        places = {each: await consumer.position(each) for each in consumer.assignment()}
        producer = self._transactional[name]
        await producer.send_offsets_to_transaction(places, consumer._group_id)

    async def tx_end(self, name: str, commit: bool) -> None:
        producer = self._transactional[name]
        await (producer.commit_transaction() if commit else producer.abort_transaction())

    async def tx_close(self, name: str) -> None:
        await self._transactional.pop(name).stop()

    async def read(
        self, topic: str, partitions: list[int], timeout_s: float, committed: bool = False
    ) -> dict[str, Any]:
        """Every record from the start of each partition to its end as it is now."""
        isolation = "read_committed" if committed else "read_uncommitted"
        settings = {"enable_auto_commit": False, "isolation_level": isolation}
        consumer = AIOKafkaConsumer(**self._base, **settings)
        await consumer.start()
        try:
            asked = [TopicPartition(topic, each) for each in partitions]
            consumer.assign(asked)
            await consumer.seek_to_beginning(*asked)
            ends = await consumer.end_offsets(asked)
            records = []
            deadline = time.monotonic() + timeout_s
            while any([await consumer.position(each) < ends[each] for each in asked]):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"positions do not reach {ends}")
                records += await _polled(consumer, None)
            return {"records": records}
        finally:
            await consumer.stop()

    async def open(
        self,
        name: str,
        group: str,
        topic: str,
        protocol: str = "classic",
        instance: str | None = None,
        strategy: str = "roundrobin",
    ) -> None:
        if protocol != "classic":
            raise UnsupportedError(f"aiokafka has no group protocol {protocol}")
        consumer = AIOKafkaConsumer(
            **self._base,
            group_id=group,
            group_instance_id=instance,
            partition_assignment_strategy=(STRATEGIES[strategy],),
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        listener = Rebalances()
        consumer.subscribe([topic], listener=listener)
        await consumer.start()
        self._members[name] = (consumer, listener)

    async def poll(self, name: str, count: int, timeout_s: float) -> dict[str, Any]:
        consumer, listener = self._members[name]
        records: list[dict[str, Any]] = []
        deadline = time.monotonic() + timeout_s
        while (count == 0 or len(records) < count) and time.monotonic() < deadline:
            records += await _polled(consumer, count - len(records) if count else None)
        assigned = sorted(each.partition for each in consumer.assignment())
        events, listener.events = listener.events, []
        return {"records": records, "assigned": assigned, "events": events}

    async def commit(self, name: str) -> None:
        await self._members[name][0].commit()

    async def close(self, name: str) -> None:
        await self._members.pop(name)[0].stop()

    async def offsets_for_time(self, topic: str, partitions: list[int], at: int) -> dict[str, Any]:
        consumer = AIOKafkaConsumer(**self._base)
        await consumer.start()
        try:
            asked = {TopicPartition(topic, each): at for each in partitions}
            found = await consumer.offsets_for_times(asked)
            return {
                "offsets": {
                    each.partition: -1 if place is None else place.offset
                    for each, place in found.items()
                }
            }
        finally:
            await consumer.stop()


async def _polled(consumer: AIOKafkaConsumer, count: int | None) -> list[dict[str, Any]]:
    polled = await consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=count)
    return [
        record((each.partition, each.offset), each.timestamp, each.key, each.value, each.headers)
        for batch in polled.values()
        for each in batch
    ]


def _refuse(codes: list[int]) -> None:
    for code in codes:
        if code != 0:
            raise for_code(code)


async def main() -> None:
    await serve(Driver(sys.argv[1]))


if __name__ == "__main__":
    asyncio.run(main())
