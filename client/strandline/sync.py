"""The same names, blocking: each object runs its asynchronous twin on one background thread with an
event loop.

For scripts, notebooks and threads. An object may be used from several threads; a call that is
interrupted (Ctrl-C) cancels its counterpart on the loop.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from strandline._reassignments import BlockingReassignments
from strandline.admin import Admin as AsyncAdmin
from strandline.consumer import NO_GROUPS
from strandline.consumer import Consumer as AsyncConsumer
from strandline.errors import ClientClosed, UnsupportedFeature
from strandline.producer import Producer as AsyncProducer
from strandline.types import ElectionType

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping
    from types import TracebackType
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
        RecordMetadata,
        ReplicaInfo,
        SendManyResult,
        TopicDescription,
        TopicOffsets,
        TopicPartition,
    )

T = TypeVar("T")
Twin = TypeVar("Twin", AsyncProducer, AsyncConsumer, AsyncAdmin)


class _Loop:
    """An event loop on a thread of its own. The thread is a daemon: a forgotten object ends with
    the program.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def run(self, function: Callable[[], T]) -> T:
        """Call a function that is not a coroutine on the loop's thread."""

        async def on_loop() -> T:
            return function()

        return self.call(on_loop())

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _Blocking(Generic[Twin]):
    """Start and end of a blocking object: the loop lives as long as it does."""

    def __init__(self, name: str, make: Callable[[], Twin]) -> None:
        self._name = name
        self._make: Callable[[], Twin] = make
        self._loop: _Loop | None = None
        self._twin: Twin | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Connect. If that fails, nothing is left behind."""
        twin = self._make()
        loop = _Loop(self._name)
        try:
            loop.call(twin.start())
        except BaseException:
            loop.close()
            raise
        self._twin, self._loop = twin, loop

    def close(self) -> None:
        """Finish what is under way, and stop the thread."""
        loop, self._loop = self._loop, None
        if loop is None:
            return
        try:
            twin = self._twin
            assert twin is not None
            loop.call(twin.close() if isinstance(twin, AsyncAdmin) else twin.stop())
        finally:
            self._twin = None
            loop.close()

    def _call(self, coroutine_of: Callable[[Twin], Coroutine[Any, Any, T]]) -> T:
        loop, twin = self._running()
        return loop.call(coroutine_of(twin))

    def _run(self, function_of: Callable[[Twin], T]) -> T:
        loop, twin = self._running()
        return loop.run(lambda: function_of(twin))

    def _running(self) -> tuple[_Loop, Twin]:
        if self._loop is None or self._twin is None:
            raise ClientClosed("not started, or closed; use `with`")
        return self._loop, self._twin


class Producer(_Blocking[AsyncProducer]):
    """`strandline.Producer`, blocking. Takes the same options."""

    def __init__(self, bootstrap_servers: str | Iterable[str], **options: Any) -> None:
        super().__init__("strandline-producer", lambda: AsyncProducer(bootstrap_servers, **options))

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
    ) -> concurrent.futures.Future[RecordMetadata]:
        """Hand one record over; `result()` of what comes back waits for its acknowledgement."""
        acknowledged: concurrent.futures.Future[RecordMetadata] = concurrent.futures.Future()

        async def hand_over(twin: AsyncProducer) -> None:
            future = await twin.send(
                topic,
                value,
                key,
                partition=partition,
                timestamp_ms=timestamp_ms,
                headers=headers,
            )
            future.add_done_callback(lambda done: _copy(done, acknowledged))

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

    def flush(self) -> None:
        self._call(lambda twin: twin.flush())

    def partitions_for(self, topic: str) -> frozenset[int]:
        return self._call(lambda twin: twin.partitions_for(topic))


def _copy(
    done: asyncio.Future[RecordMetadata], to: concurrent.futures.Future[RecordMetadata]
) -> None:
    if done.cancelled():
        to.cancel()
    elif (error := done.exception()) is not None:
        to.set_exception(error)
    elif to.set_running_or_notify_cancel():
        to.set_result(done.result())


class Consumer(_Blocking[AsyncConsumer]):
    """`strandline.Consumer`, blocking. Takes the same options."""

    def __init__(self, *topics: str, **options: Any) -> None:
        super().__init__("strandline-consumer", lambda: AsyncConsumer(*topics, **options))

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


class Admin(_Blocking[AsyncAdmin], BlockingReassignments):
    """`strandline.Admin`, blocking. Takes the same options."""

    def __init__(self, bootstrap_servers: str | Iterable[str], **options: Any) -> None:
        super().__init__("strandline-admin", lambda: AsyncAdmin(bootstrap_servers, **options))

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
