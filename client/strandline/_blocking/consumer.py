"""The blocking consumer; its rebalance listener runs on the thread that polls."""

from __future__ import annotations

import asyncio
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from strandline._blocking.background import Blocking, BlockingLoop
from strandline._blocking.listener_calls import Served, Serving
from strandline._groups.rebalance_listener import check_listener
from strandline._net.dotted_names import options_of
from strandline._net.option_names import named_options
from strandline.consumer import Consumer as AsyncConsumer
from strandline.consumer import ahead_of
from strandline.types import Key, Value
from strandline_proto.decompression import DECOMPRESSED_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping
    from concurrent.futures import Future
    from datetime import datetime
    from typing import Self

    from strandline.consumer import Partition, ToCommit
    from strandline.group_types import ConsumerGroupMetadata, OffsetAndMetadata
    from strandline.interceptors import ConsumerInterceptor
    from strandline.serialization import DeadLetters, Deserializer
    from strandline.types import ConsumerRecord, IsolationLevel, OffsetAndTimestamp, TopicPartition
    from strandline_runtime.runtime import Runtime

T = TypeVar("T")


class ConsumerRebalanceListener:
    """Base class of rebalance listeners for a blocking consumer's `subscribe(listener=...)`.

    The methods run on the thread that polls. They may commit, seek, pause and query, but not
    poll.
    """

    def on_partitions_revoked(self, revoked: frozenset[TopicPartition]) -> None:
        """Runs before other members get these partitions: the last chance to commit them."""

    def on_partitions_assigned(self, assigned: frozenset[TopicPartition]) -> None:
        """Runs before records of these new partitions arrive; `seek` may change their positions."""

    def on_partitions_lost(self, lost: frozenset[TopicPartition]) -> None:
        """Runs if the group has reassigned these partitions already: their commits fail."""
        self.on_partitions_revoked(lost)


class Consumer(Blocking[AsyncConsumer[Key, Value]], Generic[Key, Value]):
    """The blocking form of `strandline.Consumer`, with the same options."""

    @named_options
    def __init__(
        self,
        *topics: str,
        bootstrap_servers: str | Iterable[str],
        auto_offset_reset: str = "latest",
        isolation_level: IsolationLevel = "read_uncommitted",
        require_stable: bool = True,
        group_id: str | None = None,
        group_instance_id: str | None = None,
        group_remote_assignor: str | None = None,
        max_poll_interval_ms: int = 300_000,
        enable_auto_commit: bool = True,
        auto_commit_interval_ms: float = 5_000,
        fetch_max_wait_ms: int = 500,
        fetch_min_bytes: int = 1,
        fetch_max_bytes: int = 16 << 20,
        max_partition_fetch_bytes: int = 1 << 20,
        prefetch_max_bytes: int = 64 << 20,
        max_decompressed_bytes: int = DECOMPRESSED_BYTES_MAX,
        max_poll_records: int | None = None,
        request_timeout_ms: float = 30_000,
        connect_timeout_ms: float = 10_000,
        metadata_max_age_ms: float = 300_000,
        check_crcs: bool = True,
        security_protocol: str = "PLAINTEXT",
        client_id: str | None = None,
        interceptors: Iterable[ConsumerInterceptor] = (),
        key_deserializer: Deserializer[Key] | None = None,
        value_deserializer: Deserializer[Value] | None = None,
        on_deserialization_error: Literal["raise", "skip"] | DeadLetters = "raise",
        deserialization_timeout_ms: float = 10_000,
        runtime: Runtime | None = None,
    ) -> None:
        twin = AsyncConsumer(
            *topics,
            bootstrap_servers=bootstrap_servers,
            auto_offset_reset=auto_offset_reset,
            isolation_level=isolation_level,
            require_stable=require_stable,
            group_id=group_id,
            group_instance_id=group_instance_id,
            group_remote_assignor=group_remote_assignor,
            max_poll_interval_ms=max_poll_interval_ms,
            enable_auto_commit=enable_auto_commit,
            auto_commit_interval_ms=auto_commit_interval_ms,
            fetch_max_wait_ms=fetch_max_wait_ms,
            fetch_min_bytes=fetch_min_bytes,
            fetch_max_bytes=fetch_max_bytes,
            max_partition_fetch_bytes=max_partition_fetch_bytes,
            prefetch_max_bytes=prefetch_max_bytes,
            max_decompressed_bytes=max_decompressed_bytes,
            max_poll_records=max_poll_records,
            request_timeout_ms=request_timeout_ms,
            connect_timeout_ms=connect_timeout_ms,
            metadata_max_age_ms=metadata_max_age_ms,
            check_crcs=check_crcs,
            security_protocol=security_protocol,
            client_id=client_id,
            interceptors=interceptors,
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
            on_deserialization_error=on_deserialization_error,
            deserialization_timeout_ms=deserialization_timeout_ms,
            runtime=runtime,
        )
        super().__init__("consumer", twin)
        self._ahead = ahead_of(twin)
        self._intercepting = self._ahead.intercepting
        self._serving = Serving()
        self._stop_timeout_ms: float | None = None

    @classmethod
    def from_config(cls, config: Mapping[str, object], *topics: str) -> Self:
        """Makes a consumer from Kafka's dotted option names, such as `bootstrap.servers`.

        Names of this library, and of other libraries for the same option, work too. Text becomes
        the option's type: "true", "5".
        """
        return cls(*topics, **options_of("Consumer", Consumer.__init__, config))

    def stop(self, timeout_ms: float | None = None) -> None:
        """Commits (with auto-commit), leaves the group and closes the consumer.

        Takes at most `timeout_ms` (None: `request_timeout_ms`), even if every broker is dead.
        """
        self._stop_timeout_ms = timeout_ms
        self.close()

    def close(self) -> None:
        """Closes the consumer as `stop()` does, within `request_timeout_ms`."""
        self._serving.require_outside("stop")
        super().close()

    def _finish(self, loop: BlockingLoop, twin: AsyncConsumer[Key, Value]) -> None:
        self._wait(loop, twin.stop(self._stop_timeout_ms))

    # Every call but a step of an iteration takes lent records back first: positions are exact.

    def _poll(
        self, what: str, coroutine_of: Callable[[AsyncConsumer[Key, Value]], Coroutine[Any, Any, T]]
    ) -> T:
        """Runs a call during which the rebalance listener may run, on this thread."""
        loop, _ = self._running()
        self._serving.require_outside(what)
        return self._wait(loop, self._alone(coroutine_of))

    def _wait(self, loop: BlockingLoop, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            return self._serving.wait(loop.begin(coroutine))
        except CancelledError:
            raise loop.closed() from None

    async def _alone(
        self, coroutine_of: Callable[[AsyncConsumer[Key, Value]], Coroutine[Any, Any, T]]
    ) -> T:
        self._ahead.take_back()
        return await coroutine_of(self._twin)

    def _call(
        self, coroutine_of: Callable[[AsyncConsumer[Key, Value]], Coroutine[Any, Any, T]]
    ) -> T:
        loop, _ = self._running()
        return loop.call(self._alone(coroutine_of))

    def _run(self, function_of: Callable[[AsyncConsumer[Key, Value]], T]) -> T:
        loop, twin = self._running()

        def alone() -> T:
            self._ahead.take_back()
            return function_of(twin)

        return loop.run(alone)

    # Groups.

    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | None = None,
        listener: object = None,
    ) -> None:
        """Subscribes to topics or to a pattern, in place of the earlier subscription.

        The methods of `listener` are plain functions, and run on the thread that polls.
        """
        check_listener(listener)
        served = None if listener is None else Served(listener, self._serving)
        if self._loop is None:
            self._twin.subscribe(topics, pattern, served)
        else:
            self._run(lambda twin: twin.subscribe(topics, pattern, served))

    def unsubscribe(self, *, timeout_ms: float | None = None) -> None:
        """Commits (with auto-commit), gives up all partitions and leaves the group.

        Takes at most `timeout_ms` (None: `request_timeout_ms`), even if every broker is dead.
        """
        self._poll("unsubscribe", lambda twin: twin.unsubscribe(timeout_ms=timeout_ms))

    def subscription(self) -> frozenset[str]:
        """Returns the subscribed topics; for a pattern, the topics with an assigned partition."""
        return self._run(lambda twin: twin.subscription())

    def wait_assigned(self, timeout_ms: float | None = None) -> frozenset[TopicPartition]:
        """Polls until the group has assigned partitions to this member, and returns them.

        Raises OperationTimedOut, whose message names the obstacle.
        """
        return self._poll("wait_assigned", lambda twin: twin.wait_assigned(timeout_ms))

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Returns this consumer's identity in its group."""
        return self._run(lambda twin: twin.group_metadata())

    def commit(self, offsets: ToCommit | None = None, *, timeout_ms: float | None = None) -> None:
        """Commits these offsets, or the positions of all assigned partitions.

        Raises CommitFailed if the partitions were reassigned, OperationTimedOut if the outcome is
        unknown after `timeout_ms` (None: `request_timeout_ms`).
        """
        self._call(lambda twin: twin.commit(offsets, timeout_ms=timeout_ms))

    def commit_async(
        self, offsets: ToCommit | None = None, *, timeout_ms: float | None = None
    ) -> Future[None]:
        """Starts a commit; `result()` of the returned future waits for its outcome."""
        loop, _ = self._running()
        handed = self._run(lambda twin: twin.commit_async(offsets, timeout_ms=timeout_ms))

        async def end() -> None:
            await asyncio.shield(handed)

        return loop.begin(end())

    @overload
    def committed(self, partition: Partition, *, timeout_ms: float | None = None) -> int | None: ...
    @overload
    def committed(
        self, partition: Partition, *, metadata: Literal[True], timeout_ms: float | None = None
    ) -> OffsetAndMetadata | None: ...
    @overload
    def committed(
        self, partition: Partition, *, metadata: bool, timeout_ms: float | None = None
    ) -> int | OffsetAndMetadata | None: ...

    def committed(
        self, partition: Partition, *, metadata: bool = False, timeout_ms: float | None = None
    ) -> int | OffsetAndMetadata | None:
        """Returns the group's committed offset of a partition; None if there is none.

        `metadata=True` returns text and leader epoch too.
        """
        return self._call(
            lambda twin: twin.committed(partition, metadata=metadata, timeout_ms=timeout_ms)
        )

    # Partitions.

    def assign(
        self,
        partitions: Iterable[TopicPartition | tuple[str, int]],
        *,
        timeout_ms: float | None = None,
    ) -> None:
        """Assigns these partitions instead of the earlier ones; common ones keep their position."""
        self._call(lambda twin: twin.assign(partitions, timeout_ms=timeout_ms))

    def assignment(self) -> frozenset[TopicPartition]:
        """Returns the assigned partitions."""
        return self._run(lambda twin: twin.assignment())

    def topics(
        self, *, include_internal: bool = False, timeout_ms: float | None = None
    ) -> frozenset[str]:
        """Returns the names of all topics; internal topics only if asked."""
        return self._call(
            lambda twin: twin.topics(include_internal=include_internal, timeout_ms=timeout_ms)
        )

    def partitions_for(self, topic: str, *, timeout_ms: float | None = None) -> frozenset[int]:
        """Returns the partitions of `topic`. Raises UnknownTopicOrPartition."""
        return self._call(lambda twin: twin.partitions_for(topic, timeout_ms=timeout_ms))

    def partitions_for_topic(
        self, topic: str, *, timeout_ms: float | None = None
    ) -> frozenset[int]:
        """Returns the partitions of `topic`; aiokafka's name of `partitions_for`."""
        return self.partitions_for(topic, timeout_ms=timeout_ms)

    def metrics(self) -> dict[str, float]:
        """Returns the present values of the consumer's metrics, by name."""
        return self._run(lambda twin: twin.metrics())

    def seek(
        self, partition: TopicPartition | tuple[str, int], offset: int, leader_epoch: int = -1
    ) -> None:
        """Moves the position of a partition to `offset`.

        `leader_epoch` is the epoch of the record before it: with it, truncation is detected.
        """
        self._run(lambda twin: twin.seek(partition, offset, leader_epoch))

    def seek_to_beginning(
        self, *partitions: TopicPartition, timeout_ms: float | None = None
    ) -> None:
        """Moves these partitions (all assigned ones by default) to their first record."""
        self._call(lambda twin: twin.seek_to_beginning(*partitions, timeout_ms=timeout_ms))

    def seek_to_end(self, *partitions: TopicPartition, timeout_ms: float | None = None) -> None:
        """Moves these partitions (all assigned ones by default) past the last committed record."""
        self._call(lambda twin: twin.seek_to_end(*partitions, timeout_ms=timeout_ms))

    def seek_to_time(
        self,
        time: int | datetime,
        *partitions: TopicPartition,
        timeout_ms: float | None = None,
    ) -> None:
        """Moves these partitions (all assigned ones by default) to their first record of this time
        or later; past the last committed record if there is none.

        `time` is in milliseconds since the epoch, or a datetime with a time zone.
        """
        self._call(lambda twin: twin.seek_to_time(time, *partitions, timeout_ms=timeout_ms))

    def lag(
        self, *partitions: TopicPartition, timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Returns the number of offsets between the position and the end of each partition (of all
        assigned ones by default).

        The leaders are asked, so that partitions count that were not fetched yet or are paused.
        """
        return self._call(lambda twin: twin.lag(*partitions, timeout_ms=timeout_ms))

    def position(
        self, partition: TopicPartition | tuple[str, int], *, timeout_ms: float | None = None
    ) -> int:
        """Returns the offset of the next record that the caller gets."""
        return self._call(lambda twin: twin.position(partition, timeout_ms=timeout_ms))

    def position_epoch(self, partition: TopicPartition | tuple[str, int]) -> int:
        """Returns the leader epoch of the last delivered record, to be saved with the offset.

        It is -1 if there is none.
        """
        return self._run(lambda twin: twin.position_epoch(partition))

    def highwater(self, partition: TopicPartition | tuple[str, int]) -> int | None:
        """Returns the high watermark of the last fetch; None before the first one."""
        return self._run(lambda twin: twin.highwater(partition))

    def last_stable_offset(self, partition: TopicPartition | tuple[str, int]) -> int | None:
        """Returns the last stable offset of the last fetch; None before the first one."""
        return self._run(lambda twin: twin.last_stable_offset(partition))

    def pause(self, *partitions: TopicPartition) -> None:
        """Stops delivery from these partitions until `resume`."""
        self._run(lambda twin: twin.pause(*partitions))

    def resume(self, *partitions: TopicPartition) -> None:
        """Resumes delivery from these paused partitions."""
        self._run(lambda twin: twin.resume(*partitions))

    def paused(self) -> frozenset[TopicPartition]:
        """Returns the paused partitions."""
        return self._run(lambda twin: twin.paused())

    def beginning_offsets(
        self,
        partitions: Iterable[TopicPartition | tuple[str, int]],
        *,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, int]:
        """Returns the first available offset of each partition."""
        return self._call(lambda twin: twin.beginning_offsets(partitions, timeout_ms=timeout_ms))

    def end_offsets(
        self,
        partitions: Iterable[TopicPartition | tuple[str, int]],
        *,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, int]:
        """Returns the offset after the last committed record of each partition."""
        return self._call(lambda twin: twin.end_offsets(partitions, timeout_ms=timeout_ms))

    def offsets_for_times(
        self,
        timestamps: Mapping[TopicPartition, int],
        *,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Returns the first record at or after each timestamp (ms); None if there is none."""
        return self._call(lambda twin: twin.offsets_for_times(timestamps, timeout_ms=timeout_ms))

    def getone(self, *partitions: TopicPartition) -> ConsumerRecord[Key, Value]:
        """Polls until a record is available, and returns it."""
        return self._poll("getone", lambda twin: twin.getone(*partitions))

    def getmany(
        self,
        *partitions: TopicPartition,
        timeout_ms: float | None = 0,
        max_records: int | None = None,
    ) -> dict[TopicPartition, list[ConsumerRecord[Key, Value]]]:
        """Polls: returns the available records by partition, after at most `timeout_ms` of waiting.

        Without a limit (`timeout_ms=None`), waits until there is a record.
        """
        return self._poll(
            "getmany",
            lambda twin: twin.getmany(*partitions, timeout_ms=timeout_ms, max_records=max_records),
        )

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ConsumerRecord[Key, Value]:
        while True:
            loop, _ = self._running()
            self._serving.require_outside("a step of an iteration")
            try:
                record = self._ahead.records.popleft()
            except IndexError:
                self._wait(loop, self._ahead.poll())
                continue
            if self._intercepting is None:
                return record
            if (found := self._intercepting.one(record)) is not None:
                return found
