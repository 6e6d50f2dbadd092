"""The blocking consumer, whose rebalance listener runs on the thread that polls."""

from __future__ import annotations

import asyncio
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from strandline._blocking.background import Blocking, BlockingLoop
from strandline._blocking.listener_calls import Served, Serving
from strandline._groups.rebalance_listener import check_listener
from strandline.consumer import Consumer as AsyncConsumer
from strandline.consumer import ahead_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping
    from concurrent.futures import Future
    from typing import Self

    from strandline.consumer import Partition, ToCommit
    from strandline.group_types import ConsumerGroupMetadata, OffsetAndMetadata
    from strandline.types import ConsumerRecord, OffsetAndTimestamp, TopicPartition

T = TypeVar("T")


class ConsumerRebalanceListener:
    """Derive from it what a blocking consumer's `subscribe(listener=...)` takes. The methods run on
    the thread that polls, and may commit, seek, pause and ask, but not poll.
    """

    def on_partitions_revoked(self, revoked: frozenset[TopicPartition]) -> None:
        """These go to other members once this returns; until then they can be committed."""

    def on_partitions_assigned(self, assigned: frozenset[TopicPartition]) -> None:
        """These are new. Their positions are set, and may be changed by `seek`."""

    def on_partitions_lost(self, lost: frozenset[TopicPartition]) -> None:
        """These are other members' already: nothing of them can be committed any more."""
        self.on_partitions_revoked(lost)


class Consumer(Blocking[AsyncConsumer]):
    """`strandline.Consumer`, blocking. Takes the same options."""

    def __init__(self, *topics: str, **options: Any) -> None:
        twin = AsyncConsumer(*topics, **options)
        super().__init__("consumer", twin)
        self._ahead = ahead_of(twin)
        self._serving = Serving()
        self._stop_timeout_ms: float | None = None

    def stop(self, timeout_ms: float | None = None) -> None:
        self._stop_timeout_ms = timeout_ms
        self.close()

    def close(self) -> None:
        self._serving.require_outside("stop")
        super().close()

    def _finish(self, loop: BlockingLoop, twin: AsyncConsumer) -> None:
        self._wait(loop, twin.stop(self._stop_timeout_ms))

    # Every call but a step of an iteration finds nothing lent, so that positions are the user's.

    def _poll(
        self, what: str, coroutine_of: Callable[[AsyncConsumer], Coroutine[Any, Any, T]]
    ) -> T:
        """A call in which the rebalance listener may run, on this thread."""
        loop, _ = self._running()
        self._serving.require_outside(what)
        return self._wait(loop, self._alone(coroutine_of))

    def _wait(self, loop: BlockingLoop, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            return self._serving.wait(loop.begin(coroutine))
        except CancelledError:
            raise loop.closed() from None

    async def _alone(self, coroutine_of: Callable[[AsyncConsumer], Coroutine[Any, Any, T]]) -> T:
        self._ahead.take_back()
        return await coroutine_of(self._twin)

    def _call(self, coroutine_of: Callable[[AsyncConsumer], Coroutine[Any, Any, T]]) -> T:
        loop, _ = self._running()
        return loop.call(self._alone(coroutine_of))

    def _run(self, function_of: Callable[[AsyncConsumer], T]) -> T:
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
        """As the asynchronous consumer's; the listener has plain methods, and is called on the
        thread that polls.
        """
        check_listener(listener)
        served = None if listener is None else Served(listener, self._serving)
        if self._loop is None:
            self._twin.subscribe(topics, pattern, served)
        else:
            self._run(lambda twin: twin.subscribe(topics, pattern, served))

    def unsubscribe(self) -> None:
        self._poll("unsubscribe", lambda twin: twin.unsubscribe())

    def subscription(self) -> frozenset[str]:
        return self._run(lambda twin: twin.subscription())

    def wait_assigned(self, timeout_ms: float | None = None) -> frozenset[TopicPartition]:
        return self._poll("wait_assigned", lambda twin: twin.wait_assigned(timeout_ms))

    def group_metadata(self) -> ConsumerGroupMetadata:
        return self._run(lambda twin: twin.group_metadata())

    def commit(self, offsets: ToCommit | None = None) -> None:
        self._call(lambda twin: twin.commit(offsets))

    def commit_async(self, offsets: ToCommit | None = None) -> Future[None]:
        """Hand a commit over; `result()` of what comes back waits for its end."""
        loop, _ = self._running()
        handed = self._run(lambda twin: twin.commit_async(offsets))

        async def end() -> None:
            await asyncio.shield(handed)

        return loop.begin(end())

    @overload
    def committed(self, partition: Partition) -> int | None: ...
    @overload
    def committed(
        self, partition: Partition, *, metadata: Literal[True]
    ) -> OffsetAndMetadata | None: ...

    def committed(
        self, partition: Partition, *, metadata: bool = False
    ) -> int | OffsetAndMetadata | None:
        return self._call(lambda twin: twin.committed(partition, metadata=metadata))

    # Partitions.

    def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        self._call(lambda twin: twin.assign(partitions))

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
        return self._poll("getone", lambda twin: twin.getone(*partitions))

    def getmany(
        self,
        *partitions: TopicPartition,
        timeout_ms: float | None = 0,
        max_records: int | None = None,
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        return self._poll(
            "getmany",
            lambda twin: twin.getmany(*partitions, timeout_ms=timeout_ms, max_records=max_records),
        )

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ConsumerRecord:
        while True:
            loop, _ = self._running()
            self._serving.require_outside("a step of an iteration")
            try:
                return self._ahead.records.popleft()
            except IndexError:
                self._wait(loop, self._ahead.poll())
