"""Driver of confluent-kafka, and so of librdkafka."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING, Any

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from conformance.clients.loop import POLL_S, headers_of, record, serve, unpacked

if TYPE_CHECKING:
    from collections.abc import Callable

TIMEOUT_S = 45.0
STALE = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError._NOENT)
"""librdkafka's admin client remembers leaders until it asks for metadata again."""


class Member:
    """A consumer of a group, with the rebalances that it saw."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.events: list[tuple[str, list[int]]] = []

    def assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.events.append(("assigned", sorted(each.partition for each in partitions)))

    def revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.events.append(("revoked", sorted(each.partition for each in partitions)))


class Driver:
    def __init__(self, bootstrap: str) -> None:
        self._base = {"bootstrap.servers": bootstrap}
        self._admin = AdminClient(self._base)
        self._members: dict[str, Member] = {}
        self._transactional: dict[str, Producer] = {}

    def version(self) -> dict[str, Any]:
        return {"version": confluent_kafka.__version__}

    def create_topic(self, topic: str, partitions: int, replication: int) -> None:
        created = self._admin.create_topics([NewTopic(topic, partitions, replication)])
        created[topic].result(TIMEOUT_S)

    def delete_topic(self, topic: str) -> None:
        self._admin.delete_topics([topic])[topic].result(TIMEOUT_S)

    def topics(self) -> dict[str, Any]:
        return {"topics": sorted(self._admin.list_topics(timeout=TIMEOUT_S).topics)}

    def brokers(self) -> dict[str, Any]:
        return {"brokers": sorted(self._admin.list_topics(timeout=TIMEOUT_S).brokers)}

    def leaders(self, topic: str) -> dict[str, Any]:
        found = self._admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
        return {
            "leaders": {each: state.leader for each, state in found.items()},
            "isrs": {each: state.isrs for each, state in found.items()},
        }

    def delete_records(self, topic: str, before: dict[str, int]) -> dict[str, Any]:
        asked = [TopicPartition(topic, int(each), offset) for each, offset in before.items()]
        lows = {}
        deadline = time.monotonic() + TIMEOUT_S
        for each in asked:
            while True:
                try:
                    done = self._admin.delete_records([each])[each].result(TIMEOUT_S)
                    break
                except KafkaException as error:
                    if error.args[0].code() not in STALE or time.monotonic() > deadline:
                        raise
                    self._admin.list_topics(timeout=TIMEOUT_S)
            lows[each.partition] = done.low_watermark
        return {"low": lows}

    def produce(
        self,
        topic: str,
        records: list[dict[str, Any]],
        codec: str = "none",
        pace_ms: int = 0,
    ) -> dict[str, Any]:
        placed: list[list[int]] = []
        failed: list[str] = []

        def delivered(error: Any, message: Message) -> None:
            if error is not None:
                failed.append(str(error))
            else:
                placed.append([message.partition(), message.offset()])

        settings = {"enable.idempotence": True, "acks": "all", "compression.type": codec}
        producer = Producer({**self._base, **settings, "linger.ms": 5})
        for each in records:
            producer.produce(
                topic,
                value=unpacked(each["value"]),
                key=unpacked(each["key"]),
                partition=each["partition"],
                timestamp=each["timestamp"],
                headers=headers_of(each),
                on_delivery=delivered,
            )
            producer.poll(pace_ms / 1000)
        left = producer.flush(TIMEOUT_S)
        if failed or left:
            raise RuntimeError(f"{left} records wait, {len(failed)} failed: {failed[:1]}")
        return {"placed": placed}

    def tx_open(self, name: str, transactional_id: str) -> None:
        """Begins the life of a transactional producer."""
        settings = {"transactional.id": transactional_id, "linger.ms": 0}
        producer = Producer({**self._base, **settings})
        _retried(producer.init_transactions)
        self._transactional[name] = producer

    def tx_send(self, name: str, topic: str, records: list[dict[str, Any]]) -> None:
        """Begins a transaction and sends records in it."""
        failed: list[str] = []

        def delivered(error: Any, _: Message) -> None:
            if error is not None:
                failed.append(str(error))

        producer = self._transactional[name]
        producer.begin_transaction()
        for each in records:
            producer.produce(
                topic,
                value=unpacked(each["value"]),
                key=unpacked(each["key"]),
                partition=each["partition"],
                timestamp=each["timestamp"],
                on_delivery=delivered,
            )
        left = producer.flush(TIMEOUT_S)
        if failed or left:
            raise RuntimeError(f"{left} records wait, {len(failed)} failed: {failed[:1]}")

    def tx_offsets(self, name: str, member: str) -> None:
        """Adds what a member polled to the transaction."""
        consumer = self._members[member].consumer
        places = [each for each in consumer.position(consumer.assignment()) if each.offset >= 0]
        metadata = consumer.consumer_group_metadata()
        _retried(
            lambda timeout_s: self._transactional[name].send_offsets_to_transaction(
                places, metadata, timeout_s
            )
        )

    def tx_end(self, name: str, commit: bool) -> None:
        producer = self._transactional[name]
        _retried(producer.commit_transaction if commit else producer.abort_transaction)

    def tx_close(self, name: str) -> None:
        del self._transactional[name]

    def committed(self, group: str, topic: str, partitions: list[int]) -> dict[str, Any]:
        """The committed offsets of a group, -1001 where there is none."""
        consumer = Consumer({**self._base, "group.id": group})
        try:
            asked = [TopicPartition(topic, each) for each in partitions]
            found = consumer.committed(asked, timeout=TIMEOUT_S)
            return {"offsets": {each.partition: each.offset for each in found}}
        finally:
            consumer.close()

    def read(
        self, topic: str, partitions: list[int], timeout_s: float, committed: bool = True
    ) -> dict[str, Any]:
        """Every record from the start of each partition to its end as it is now."""
        isolation = "read_committed" if committed else "read_uncommitted"
        reset = {"group.id": "reads", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        ends = {"enable.partition.eof": True, "isolation.level": isolation}
        consumer = Consumer({**self._base, **reset, **ends})
        try:
            begin = confluent_kafka.OFFSET_BEGINNING
            consumer.assign([TopicPartition(topic, each, begin) for each in partitions])
            open_ends = set(partitions)
            records = []
            deadline = time.monotonic() + timeout_s
            while open_ends and time.monotonic() < deadline:
                message = consumer.poll(POLL_S)
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    records.append(_shown(message))
                elif error.code() == KafkaError._PARTITION_EOF:
                    open_ends.discard(message.partition())
                elif not error.retriable():
                    raise KafkaException(error)
            if open_ends:
                raise TimeoutError(f"no end of partitions {sorted(open_ends)}")
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
        strategy: str | None = None,
    ) -> None:
        settings: dict[str, Any] = {
            **self._base,
            "group.id": group,
            "group.protocol": protocol,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
        if instance is not None:
            settings["group.instance.id"] = instance
        if strategy is not None:
            settings["partition.assignment.strategy"] = strategy
        member = Member(Consumer(settings))
        member.consumer.subscribe([topic], on_assign=member.assigned, on_revoke=member.revoked)
        self._members[name] = member

    def poll(self, name: str, count: int, timeout_s: float) -> dict[str, Any]:
        member = self._members[name]
        records: list[dict[str, Any]] = []
        deadline = time.monotonic() + timeout_s
        while (count == 0 or len(records) < count) and time.monotonic() < deadline:
            message = member.consumer.poll(POLL_S)
            if message is None:
                continue
            error = message.error()
            if error is None:
                records.append(_shown(message))
            elif not error.retriable():
                raise KafkaException(error)
        assigned = sorted(each.partition for each in member.consumer.assignment())
        events, member.events = member.events, []
        return {"records": records, "assigned": assigned, "events": events}

    def commit(self, name: str) -> None:
        self._members[name].consumer.commit(asynchronous=False)

    def close(self, name: str) -> None:
        self._members.pop(name).consumer.close()

    def offsets_for_time(self, topic: str, partitions: list[int], at: int) -> dict[str, Any]:
        consumer = Consumer({**self._base, "group.id": "times"})
        try:
            asked = [TopicPartition(topic, each, at) for each in partitions]
            found = consumer.offsets_for_times(asked, timeout=TIMEOUT_S)
            for each in found:
                if each.error is not None:
                    raise KafkaException(each.error)
            return {"offsets": {each.partition: each.offset for each in found}}
        finally:
            consumer.close()


def _retried(call: Callable[[float], Any]) -> None:
    """Calls a step of a transaction until it succeeds or its error is not to be retried."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            call(TIMEOUT_S)
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise
        else:
            return


def _shown(message: Message) -> dict[str, Any]:
    place = (message.partition(), message.offset())
    return record(place, message.timestamp()[1], message.key(), message.value(), message.headers())


if __name__ == "__main__":
    asyncio.run(serve(Driver(sys.argv[1])))
