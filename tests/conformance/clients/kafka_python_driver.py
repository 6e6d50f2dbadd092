"""Driver of kafka-python."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import kafka
from kafka import (
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    OffsetAndMetadata,
    TopicPartition,
)
from kafka.errors import RetriableError

from conformance.clients.loop import (
    POLL_S,
    UnsupportedError,
    headers_of,
    record,
    serve,
    unpacked,
)

TIMEOUT_S = 45.0


class Rebalances(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self) -> None:
        self.events: list[tuple[str, list[int]]] = []

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self.events.append(("assigned", sorted(each.partition for each in assigned)))

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self.events.append(("revoked", sorted(each.partition for each in revoked)))


class Driver:
    def __init__(self, bootstrap: str) -> None:
        self._base = {"bootstrap_servers": bootstrap.split(",")}
        self._members: dict[str, tuple[KafkaConsumer, Rebalances]] = {}
        self._transactional: dict[str, KafkaProducer] = {}

    def version(self) -> dict[str, Any]:
        return {"version": kafka.__version__}

    def create_topic(self, topic: str, partitions: int, replication: int) -> None:
        wanted = {"num_partitions": partitions, "replication_factor": replication}
        self._administered("create_topics", {topic: wanted}, wait_for_metadata=True)

    def delete_topic(self, topic: str) -> None:
        self._administered("delete_topics", [topic])

    def topics(self) -> dict[str, Any]:
        return {"topics": sorted(self._administered("list_topics"))}

    def delete_records(self, topic: str, before: dict[str, int]) -> dict[str, Any]:
        asked = {TopicPartition(topic, int(each)): offset for each, offset in before.items()}
        done = self._administered("delete_records", asked)
        return {"low": {each.partition: low["low_watermark"] for each, low in done.items()}}

    def _administered(self, method: str, *arguments: Any, **options: Any) -> Any:
        admin = KafkaAdminClient(**self._base)
        try:
            return getattr(admin, method)(*arguments, **options)
        finally:
            admin.close()

    def produce(
        self,
        topic: str,
        records: list[dict[str, Any]],
        codec: str = "none",
        pace_ms: int = 0,
    ) -> dict[str, Any]:
        compression = None if codec == "none" else codec
        settings = {"enable_idempotence": True, "acks": "all", "compression_type": compression}
        producer = KafkaProducer(**self._base, **settings, linger_ms=5)
        try:
            sent = []
            for each in records:
                future = producer.send(
                    topic,
                    value=unpacked(each["value"]),
                    key=unpacked(each["key"]),
                    partition=each["partition"],
                    timestamp_ms=each["timestamp"],
                    headers=headers_of(each),
                )
                sent.append(future)
                time.sleep(pace_ms / 1000)
            producer.flush(timeout=TIMEOUT_S)
            placed = [future.get(timeout=TIMEOUT_S) for future in sent]
            return {"placed": [[each.partition, each.offset] for each in placed]}
        finally:
            producer.close(timeout=5)

    def tx_open(self, name: str, transactional_id: str) -> None:
        """Begins the life of a transactional producer."""
        producer = KafkaProducer(**self._base, transactional_id=transactional_id)
        producer.init_transactions()
        self._transactional[name] = producer

    def tx_send(self, name: str, topic: str, records: list[dict[str, Any]]) -> None:
        """Begins a transaction and sends records in it."""
        producer = self._transactional[name]
        producer.begin_transaction()
        sent = [
            producer.send(
                topic,
                value=unpacked(each["value"]),
                key=unpacked(each["key"]),
                partition=each["partition"],
                timestamp_ms=each["timestamp"],
            )
            for each in records
        ]
        producer.flush(timeout=TIMEOUT_S)
        for future in sent:
            future.get(timeout=TIMEOUT_S)

    def tx_offsets(self, name: str, member: str) -> None:
        """Adds what a member polled to the transaction."""
        consumer = self._members[member][0]
        places = {
            each: OffsetAndMetadata(consumer.position(each), "", -1)
            for each in consumer.assignment()
        }
        producer = self._transactional[name]
        producer.send_offsets_to_transaction(places, consumer.group_metadata())

    def tx_end(self, name: str, commit: bool) -> None:
        producer = self._transactional[name]
        if commit:
            producer.commit_transaction()
        else:
            producer.abort_transaction()

    def tx_close(self, name: str) -> None:
        self._transactional.pop(name).close(timeout=5)

    def read(
        self, topic: str, partitions: list[int], timeout_s: float, committed: bool = False
    ) -> dict[str, Any]:
        """Every record from the start of each partition to its end as it is now."""
        isolation = "read_committed" if committed else "read_uncommitted"
        settings = {"enable_auto_commit": False, "isolation_level": isolation}
        consumer = KafkaConsumer(**self._base, **settings)
        try:
            asked = [TopicPartition(topic, each) for each in partitions]
            consumer.assign(asked)
            consumer.seek_to_beginning(*asked)
            ends = consumer.end_offsets(asked)
            records = []
            deadline = time.monotonic() + timeout_s
            while any(consumer.position(each) < ends[each] for each in asked):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"positions do not reach {ends}")
                records += _polled(consumer, None)
            return {"records": records}
        finally:
            consumer.close()

    def open(
        self,
        name: str,
        group: str,
        topic: str,
        protocol: str = "classic",
        instance: str | None = None,
    ) -> None:
        if protocol != "classic":
            raise UnsupportedError(f"kafka-python has no group protocol {protocol}")
        consumer = KafkaConsumer(
            **self._base,
            group_id=group,
            group_instance_id=instance,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        listener = Rebalances()
        consumer.subscribe([topic], listener=listener)
        self._members[name] = (consumer, listener)

    def poll(self, name: str, count: int, timeout_s: float) -> dict[str, Any]:
        consumer, listener = self._members[name]
        records: list[dict[str, Any]] = []
        deadline = time.monotonic() + timeout_s
        while (count == 0 or len(records) < count) and time.monotonic() < deadline:
            records += _polled(consumer, count - len(records) if count else None)
        assigned = sorted(each.partition for each in consumer.assignment())
        events, listener.events = listener.events, []
        return {"records": records, "assigned": assigned, "events": events}

    def commit(self, name: str) -> None:
        """Commits as an application does: again after an error that the client calls retriable.

        A refresh of the metadata meets a broker that is gone, and the commit ends with its error.
        """
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                self._members[name][0].commit()
                return
            except RetriableError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(POLL_S)

    def close(self, name: str) -> None:
        self._members.pop(name)[0].close(autocommit=False)

    def offsets_for_time(self, topic: str, partitions: list[int], at: int) -> dict[str, Any]:
        consumer = KafkaConsumer(**self._base)
        try:
            asked = {TopicPartition(topic, each): at for each in partitions}
            found = consumer.offsets_for_times(asked)
            return {
                "offsets": {
                    each.partition: -1 if place is None else place.offset
                    for each, place in found.items()
                }
            }
        finally:
            consumer.close()


def _polled(consumer: KafkaConsumer, count: int | None) -> list[dict[str, Any]]:
    polled = consumer.poll(timeout_ms=int(POLL_S * 1000), max_records=count)
    return [
        record((each.partition, each.offset), each.timestamp, each.key, each.value, each.headers)
        for batch in polled.values()
        for each in batch
    ]


if __name__ == "__main__":
    asyncio.run(serve(Driver(sys.argv[1])))
