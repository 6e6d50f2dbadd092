"""The same names, blocking: each object runs its asynchronous twin on one background thread with an
event loop.

For scripts, notebooks and threads. An object may be used from several threads; a call that is
interrupted (Ctrl-C) cancels its counterpart on the loop. Callbacks run on the object's own thread,
where whoever waits for the object waits for itself: that is refused, as is every call in a forked
child, which has no such thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline._blocking import Acknowledgement, Blocking
from strandline._reassignments import BlockingReassignments
from strandline.admin import Admin as AsyncAdmin
from strandline.consumer import NO_GROUPS
from strandline.consumer import Consumer as AsyncConsumer
from strandline.errors import UnsupportedFeature
from strandline.producer import Producer as AsyncProducer
from strandline.types import ElectionType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from concurrent.futures import Future
    from typing import NoReturn, Self

    from strandline.producer import Item, Payload
    from strandline.types import (
        Broker,
        ClusterDescription,
        ConfigChange,
        ConfigValue,
        ConsumerRecord,
        CreatedTopic,
        ElectionResult,
        Headers,
        NewPartitions,
        NewTopic,
        OffsetAndTimestamp,
        OnDelivery,
        RecordMetadata,
        ReplicaInfo,
        SendManyResult,
        TopicDescription,
        TopicOffsets,
        TopicPartition,
    )


class Producer(Blocking[AsyncProducer]):
    """`strandline.Producer`, blocking. Takes the same options."""

    def __init__(self, bootstrap_servers: str | Iterable[str], **options: Any) -> None:
        super().__init__("producer", AsyncProducer(bootstrap_servers, **options))

    def stop(self) -> None:
        self.close()

    def send(
        self,
        topic: str,
        value: Payload | None = None,
        key: Payload | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
        on_delivery: OnDelivery | None = None,
    ) -> Future[RecordMetadata]:
        """Hand one record over; `result()` of what comes back waits for its acknowledgement.

        `on_delivery` is called on the producer's own thread.
        """
        loop, _ = self._running()
        acknowledged = Acknowledgement(loop)

        async def hand_over(twin: AsyncProducer) -> None:
            record = await twin.send(
                topic,
                value,
                key,
                partition=partition,
                timestamp_ms=timestamp_ms,
                headers=headers,
                on_delivery=on_delivery,
            )
            acknowledged.follow(record)

        self._call(hand_over)
        return acknowledged

    def send_and_wait(
        self,
        topic: str,
        value: Payload | None = None,
        key: Payload | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> RecordMetadata:
        """Send one record and wait for its acknowledgement."""
        return self._call(
            lambda twin: twin.send_and_wait(
                topic,
                value,
                key,
                partition=partition,
                timestamp_ms=timestamp_ms,
                headers=headers,
            )
        )

    def send_many(
        self,
        topic: str,
        records: Iterable[Item],
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> SendManyResult:
        """Send all of `records` (read on the loop's thread) and wait for one answer about them."""
        return self._call(
            lambda twin: twin.send_many(
                topic, records, partition=partition, timestamp_ms=timestamp_ms
            )
        )

    def flush(self, timeout_ms: float | None = None) -> None:
        """Wait until all is acknowledged or has failed. Raises FlushFailed, OperationTimedOut."""
        self._call(lambda twin: twin.flush(timeout_ms))

    def partitions_for(self, topic: str) -> frozenset[int]:
        return self._call(lambda twin: twin.partitions_for(topic))


class Consumer(Blocking[AsyncConsumer]):
    """`strandline.Consumer`, blocking. Takes the same options."""

    def __init__(self, *topics: str, **options: Any) -> None:
        super().__init__("consumer", AsyncConsumer(*topics, **options))

    def stop(self) -> None:
        self.close()

    def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        self._call(lambda twin: twin.assign(partitions))

    def subscribe(self, *args: object, **kwargs: object) -> NoReturn:
        """Not there yet."""
        raise UnsupportedFeature(NO_GROUPS)

    def assignment(self) -> frozenset[TopicPartition]:
        return self._run(lambda twin: twin.assignment())

    def partitions_for_topic(self, topic: str) -> frozenset[int]:
        return self._call(lambda twin: twin.partitions_for_topic(topic))

    def seek(
        self, partition: TopicPartition | tuple[str, int], offset: int, leader_epoch: int = -1
    ) -> None:
        self._run(lambda twin: twin.seek(partition, offset, leader_epoch))

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        self._call(lambda twin: twin.seek_to_beginning(*partitions))

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        self._call(lambda twin: twin.seek_to_end(*partitions))

    def position(self, partition: TopicPartition | tuple[str, int]) -> int:
        return self._call(lambda twin: twin.position(partition))

    def position_epoch(self, partition: TopicPartition | tuple[str, int]) -> int:
        return self._run(lambda twin: twin.position_epoch(partition))

    def highwater(self, partition: TopicPartition | tuple[str, int]) -> int | None:
        return self._run(lambda twin: twin.highwater(partition))

    def pause(self, *partitions: TopicPartition) -> None:
        self._run(lambda twin: twin.pause(*partitions))

    def resume(self, *partitions: TopicPartition) -> None:
        self._run(lambda twin: twin.resume(*partitions))

    def paused(self) -> frozenset[TopicPartition]:
        return self._run(lambda twin: twin.paused())

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition | tuple[str, int]]
    ) -> dict[TopicPartition, int]:
        return self._call(lambda twin: twin.beginning_offsets(partitions))

    def end_offsets(
        self, partitions: Iterable[TopicPartition | tuple[str, int]]
    ) -> dict[TopicPartition, int]:
        return self._call(lambda twin: twin.end_offsets(partitions))

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        return self._call(lambda twin: twin.offsets_for_times(timestamps))

    def getone(self, *partitions: TopicPartition) -> ConsumerRecord:
        return self._call(lambda twin: twin.getone(*partitions))

    def getmany(
        self,
        *partitions: TopicPartition,
        timeout_ms: float | None = 0,
        max_records: int | None = None,
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        return self._call(
            lambda twin: twin.getmany(*partitions, timeout_ms=timeout_ms, max_records=max_records)
        )

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ConsumerRecord:
        return self.getone()


class Admin(Blocking[AsyncAdmin], BlockingReassignments):
    """`strandline.Admin`, blocking. Takes the same options."""

    def __init__(self, bootstrap_servers: str | Iterable[str], **options: Any) -> None:
        super().__init__("admin", AsyncAdmin(bootstrap_servers, **options))

    def create_topics(
        self, topics: Iterable[NewTopic | str], *, validate_only: bool = False
    ) -> list[CreatedTopic]:
        return self._call(lambda twin: twin.create_topics(topics, validate_only=validate_only))

    def create_partitions(
        self, wanted: Mapping[str, NewPartitions | int], *, validate_only: bool = False
    ) -> dict[str, int]:
        return self._call(lambda twin: twin.create_partitions(wanted, validate_only=validate_only))

    def delete_topics(self, topics: Iterable[str]) -> None:
        self._call(lambda twin: twin.delete_topics(topics))

    def delete_records(
        self, before: Mapping[TopicPartition | tuple[str, int], int]
    ) -> dict[TopicPartition, int]:
        return self._call(lambda twin: twin.delete_records(before))

    def elect_leaders(
        self,
        kind: ElectionType = ElectionType.PREFERRED,
        partitions: Iterable[TopicPartition | tuple[str, int] | str] | None = None,
    ) -> list[ElectionResult]:
        return self._call(lambda twin: twin.elect_leaders(kind, partitions))

    def move_leaders(
        self, leaders: Mapping[TopicPartition | tuple[str, int], int]
    ) -> list[ElectionResult]:
        return self._call(lambda twin: twin.move_leaders(leaders))

    def list_topics(self) -> list[str]:
        return self._call(lambda twin: twin.list_topics())

    def describe_topics(self, topics: Iterable[str] | None = None) -> dict[str, TopicDescription]:
        return self._call(lambda twin: twin.describe_topics(topics))

    def describe_cluster(self) -> ClusterDescription:
        return self._call(lambda twin: twin.describe_cluster())

    def brokers(self) -> list[Broker]:
        return self._call(lambda twin: twin.brokers())

    def describe_replicas(self, topics: Iterable[str] | None = None) -> list[ReplicaInfo]:
        return self._call(lambda twin: twin.describe_replicas(topics))

    def allow_truncation(
        self, partition: TopicPartition | tuple[str, int], *, broker: int, offset: int
    ) -> None:
        return self._call(
            lambda twin: twin.allow_truncation(partition, broker=broker, offset=offset)
        )

    def describe_configs(
        self, resources: Iterable[tuple[str, str | int]]
    ) -> dict[tuple[str, str], dict[str, ConfigValue]]:
        return self._call(lambda twin: twin.describe_configs(resources))

    def incremental_alter_configs(
        self,
        changes: Mapping[tuple[str, str | int], Iterable[ConfigChange]],
        *,
        validate_only: bool = False,
    ) -> list[int]:
        return self._call(
            lambda twin: twin.incremental_alter_configs(changes, validate_only=validate_only)
        )

    def list_offsets(self, topic: str) -> list[TopicOffsets]:
        return self._call(lambda twin: twin.list_offsets(topic))
