"""Appends records to batches: chooses the partition and the batch, and registers the waiter.

Each record is appended in one synchronous step: it is either in a batch with its waiter, or not
handed over at all. Waits for room and for the topic come before that step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from strandline._core.sticky import StickyPartition
from strandline._core.transaction_state import SEND
from strandline._net.arguments import timestamp, whole
from strandline.errors import (
    BufferFull,
    ClientClosed,
    ConfigurationError,
    RecordTooLarge,
    UnknownTopicOrPartition,
    WrongTransactionState,
)
from strandline.types import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import NoReturn

    from strandline._core.cluster_view import Changes, TopicView
    from strandline._core.partition_queue import PartitionQueue
    from strandline._core.producer_batch import ProducerBatch
    from strandline._producer.acknowledgement import Waiter
    from strandline._producer.options import RecordLimit
    from strandline._producer.send_many import Collector
    from strandline._producer.sender import Sender
    from strandline.types import Headers

RECORD_OVERHEAD: Final = 21
"""Largest size of a record beyond key, value and headers, in bytes."""
END: Final = object()
"""The end of an iterable whose elements may be None."""
NO_HEADERS: Final[Headers] = ()
_NONE_LISTED: Final[list[Any]] = []
"""No headers, for the compiled builder."""


class HandOver:
    """The only writer to a producer's batches."""

    def __init__(
        self,
        sender: Sender,
        *,
        partitioner: Callable[[bytes, int], int],
        limit: RecordLimit,
    ) -> None:
        self.sender = sender
        self.loop = asyncio.get_running_loop()
        self.home: asyncio.AbstractEventLoop | None = self.loop
        """Where records are taken: nowhere once the producer has ended."""
        self.ended: ClientClosed | None = None
        self.transaction = sender.transaction
        if self.transaction is not None:
            self.home = None  # until one begins
            self.transaction.watchers.append(self._on_transaction)
        self._partitioner = partitioner
        self._limit = limit
        self._time_s = sender.runtime.clock.time
        self._topics = sender.cluster.view.topics
        self._sticky: dict[bytes, StickyPartition[PartitionQueue]] = {}
        sender.cluster.watchers.append(self._on_metadata)

    def end(self, error: ClientClosed) -> None:
        """Refuses all records from now on: the producer is closed, or broken."""
        self.home = None
        self.ended = error

    def _on_transaction(self) -> None:
        """Takes records while a transaction is open, and at no other time."""
        assert self.transaction is not None
        self.home = self.loop if self.ended is None and self.transaction.is_open else None

    @property
    def number(self) -> int:
        """Number of the transaction that a record belongs to."""
        return 0 if self.transaction is None else self.transaction.number

    def on_refused(self, error: Exception) -> None:
        """Notes a record of which only its future tells: a commit without it would lose it."""
        if self.transaction is not None:
            self.transaction.fail(error)

    def _on_metadata(self, changes: Changes) -> None:
        for topic_id in changes.gone:  # and so are its queues
            self._sticky.pop(topic_id, None)

    def size_of(
        self, topic: str, value: bytes | None, key: bytes | None, headers: Headers = NO_HEADERS
    ) -> int:
        """Largest size of the record in bytes. Raises RecordTooLarge."""
        size = RECORD_OVERHEAD + (len(value) if value else 0) + (len(key) if key else 0)
        if headers is not NO_HEADERS:
            size += size_of_headers(headers)
        if size > self._limit.max_bytes:
            self._refuse(topic, size)
        return size

    def _refuse(self, topic: str, size: int) -> NoReturn:
        raise RecordTooLarge(
            f"a record of {size} bytes for {topic!r} was not sent: it is above {self._limit.option}"
        )

    def one(
        self,
        record: Waiter,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Headers,
        *,
        waited: bool = False,
    ) -> bool:
        """Appends one record, whose outcome settles `record`.

        Returns False if the record must wait, for its topic or partition, or for room, unless it
        has done so. Each record of `send` pays for every call and look-up here.
        """
        size = RECORD_OVERHEAD
        if value is not None:
            size += len(value)
        if key is not None:
            size += len(key)
        listed = _NONE_LISTED
        if headers is not NO_HEADERS:
            size += size_of_headers(headers)
            listed = list(headers)
        if size > self._limit.max_bytes:
            self._refuse(topic, size)
        sender = self.sender
        buffered = sender.buffered + size
        full = buffered > sender.buffer_memory and not waited
        view = self._topics.get(topic)
        if (
            full
            or view is None
            or not (view.partitions if partition is None else view.has(partition))
        ):
            return False
        time_ms = int(self._time_s() * 1000) if timestamp_ms is None else timestamp(timestamp_ms)
        if key is None and partition is None:  # as `_queue` has it, without the call
            sticky = self._sticky.get(view.topic_id) or self._stick(view)
            queue = sticky.current or self._choose(view, sticky)
            sticky.left -= size
            if sticky.left <= 0:
                sticky.current = None
        else:
            queue = self._queue(view, key, partition, size)
        batch = queue.open
        if batch is None or batch.append(batch.count, time_ms, key, value, listed) is None:
            batch = self._begin(queue, time_ms, key, value, listed)
        batch.waiters.append((batch.count, time_ms, record))
        batch.count += 1
        batch.reserved += size
        sender.buffered = buffered
        if batch.count == 1:  # a batch that had records has been offered, or something wakes it
            sender.dispatch(queue)
        return True

    async def late(
        self,
        record: Waiter,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Headers,
    ) -> None:
        """Calls `one` after a wait for the topic and for room, in the step that ends the wait."""
        number, size = self.number, self.size_of(topic, value, key, headers)
        while True:
            await self.topic(topic)
            if self.sender.buffered + size > self.sender.buffer_memory:
                await self.room(size)
            view = self._topics.get(topic)  # it may have gone meanwhile, or the producer ended
            if view is not None and view.has(partition):
                break
            await self.topic(topic, partition)
        self.require_same(number)
        self.one(record, topic, value, key, partition, timestamp_ms, headers, waited=True)

    async def room(self, size: int) -> None:
        """Waits for `size` free bytes of the buffer. Raises BufferFull."""
        sender = self.sender
        if not await sender.space(size, sender.options.delivery_timeout_ms):
            raise BufferFull(
                f"{sender.buffer_memory} bytes (buffer_memory) wait to be acknowledged already, "
                f"and {sender.options.delivery_timeout_ms:.0f} ms made no room; "
                "the record was not sent"
            )

    async def topic(self, topic: str, partition: int | None = None) -> TopicView:
        """Waits for metadata of a new topic, and for a partition that may be new.

        Raises UnknownTopicOrPartition, and ClientClosed if the producer has ended.
        """
        if partition is not None:
            whole("partition", partition, 0)
        view = self._topics.get(topic)
        if view is None or not view.has(partition):
            sender = self.sender
            timeout_ms = min(sender.options.delivery_timeout_ms, sender.request_timeout_ms)
            view = await sender.cluster.topic(topic, timeout_ms / 1000, partition)
        self.require()
        return view

    def require(self) -> None:
        """Raises ClientClosed if the producer has ended, and the error of a send that the state of
        its transactions does not allow.

        No task would send a record appended after that, and its acknowledgement would never come.
        """
        if self.ended is not None:
            raise ClientClosed(str(self.ended)) from self.ended
        if self.transaction is not None:
            self.transaction.require(SEND)

    def require_same(self, number: int) -> None:
        """Raises as `require`, and if a record of this transaction has waited beyond its end."""
        self.require()
        if number != self.number:
            raise WrongTransactionState(
                "the transaction in which the record was to be sent has ended; it was not sent"
            )

    # Many records.

    def add(
        self,
        view: TopicView,
        record: Record,
        partition: int | None,
        timestamp_ms: int | None,
        collector: Collector,
    ) -> None:
        """Appends one record of a `send_many` that has a key, headers or a time of its own."""
        headers: Any = record.headers  # `as_record` has made them a tuple
        size = self.size_of(view.name, record.value, record.key, headers)
        if record.partition is not None:
            partition = record.partition
        if record.timestamp_ms is not None:
            timestamp_ms = record.timestamp_ms
        queue = self._queue(view, record.key, partition, size)
        time_ms = self._time_ms(timestamp_ms)
        key, value, listed = record.key, record.value, list(headers)
        batch = queue.open
        if batch is None or batch.append(batch.count, time_ms, key, value, listed) is None:
            batch = self._begin(queue, time_ms, key, value, listed)
        last = batch.collectors[-1] if batch.collectors else (0, 0, None)
        if last[2] is collector and last[0] + last[1] == batch.count:
            batch.collectors[-1] = (last[0], last[1] + 1, collector)
        else:
            batch.collectors.append((batch.count, 1, collector))
        collector.handed_over += 1
        batch.count += 1
        batch.reserved += size
        self.sender.buffered += size
        if batch.count == 1:
            self.sender.dispatch(queue)

    def fill(
        self,
        view: TopicView,
        value: bytes,
        records: Iterator[Any],
        partition: int | None,
        timestamp_ms: int | None,
        collector: Collector,
    ) -> Any:
        """Appends plain values until the batch is full; returns the next item, or END."""
        self.size_of(view.name, value, None)
        queue = self._queue(view, None, partition, 0)
        time_ms = self._time_ms(timestamp_ms)
        batch = queue.open_batch(self.sender.now_ms())
        append, first = batch.append, batch.count
        count = first
        held: Any = value
        try:
            while type(held) is bytes:
                if append(count, time_ms, None, held, _NONE_LISTED) is None:
                    break
                count += 1
                held = next(records, END)
        finally:  # the caller's iterable may raise: what was appended stays accounted for
            if count > first:
                batch.collectors.append((first, count - first, collector))
                collector.handed_over += count - first
                assert batch.builder is not None
                grown = max(0, batch.builder.size() - batch.reserved)
                batch.count = count
                batch.reserved += grown
                self.sender.buffered += grown
            if type(held) is bytes:
                queue.close_open()
                if (sticky := self._sticky.get(view.topic_id)) is not None:
                    sticky.rotate()
            self.sender.dispatch(queue)
        return held

    def _time_ms(self, timestamp_ms: int | None) -> int:
        return int(self._time_s() * 1000) if timestamp_ms is None else timestamp(timestamp_ms)

    def _begin(
        self,
        queue: PartitionQueue,
        time_ms: int,
        key: bytes | None,
        value: bytes | None,
        listed: list[Any],
    ) -> ProducerBatch:
        """Opens the next batch of the queue, with this first record."""
        queue.close_open()
        batch = queue.open_batch(self.sender.now_ms())
        batch.append(0, time_ms, key, value, listed)
        return batch

    # Choosing partitions.

    def _queue(
        self, view: TopicView, key: bytes | None, partition: int | None, size: int
    ) -> PartitionQueue:
        if partition is not None:
            if type(partition) is not int:
                partition = whole("partition", partition, 0)
            if partition not in view.partitions:
                raise UnknownTopicOrPartition(
                    f"topic {view.name!r} has {len(view.partitions)} partitions; "
                    f"there is no {partition}"
                )
        elif key is not None:
            partition = self._partitioned(view, key)
        else:
            sticky = self._sticky.get(view.topic_id) or self._stick(view)
            queue = sticky.current or self._choose(view, sticky)
            sticky.spend(size)
            return queue
        return self.sender.queue(view.name, view.topic_id, partition)

    def _stick(self, view: TopicView) -> StickyPartition[PartitionQueue]:
        sticky = self._sticky[view.topic_id] = StickyPartition(self.sender.options.batch_size)
        return sticky

    def _partitioned(self, view: TopicView, key: bytes) -> int:
        chosen = self._partitioner(key, len(view.partitions))
        if type(chosen) is not int:
            chosen = whole("what partitioner returned", chosen, 0)
        if chosen not in view.partitions:
            raise ConfigurationError(
                f"partitioner returned {chosen} for topic {view.name!r}, which has partitions 0 to "
                f"{len(view.partitions) - 1}"
            )
        return chosen

    def _choose(self, view: TopicView, sticky: StickyPartition[PartitionQueue]) -> PartitionQueue:
        everything = sorted(view.partitions)
        led = [p for p in everything if view.partitions[p].leader >= 0]
        sender = self.sender

        def load(partition: int) -> int:
            queue = sender.queues.get((view.topic_id, partition))
            return 0 if queue is None else queue.pending_bytes

        return sticky.choose(
            led or everything,
            load,
            (sender.chance(), sender.chance()),
            lambda partition: sender.queue(view.name, view.topic_id, partition),
        )


def as_bytes(what: str, value: object) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"a record's {what} is bytes or None, not {type(value).__name__}; encode it")


def header_pairs(headers: object) -> Headers:
    """The pairs of an iterable or a mapping, read once. Raises ConfigurationError."""
    if isinstance(headers, Mapping):
        headers = headers.items()
    if isinstance(headers, str | bytes | bytearray | memoryview) or not isinstance(
        headers, Iterable
    ):
        raise ConfigurationError(
            f"headers={headers!r} is not an iterable of (name, value) pairs, such as "
            "[('trace', b'7')]"
        )
    pairs: list[tuple[str, bytes | None]] = []
    for header in headers:
        match header:
            case (str(name), (bytes() | None) as text):
                pairs.append((name, text))
            case _:
                raise ConfigurationError(f"headers: {header!r} is not (name, bytes or None)")
    return tuple(pairs)


def size_of_headers(headers: Headers) -> int:
    """Largest size of the headers in bytes."""
    return sum(4 * len(name) + (len(text) if text else 0) + 10 for name, text in headers)


def as_record(item: object) -> Record:
    if isinstance(item, Record):
        value, key, headers = item.value, item.key, item.headers
        is_plain = type(headers) is tuple and not headers
        if (
            is_plain
            and (value is None or type(value) is bytes)
            and (key is None or type(key) is bytes)
        ):
            return item
        return replace(
            item,
            value=None if value is None else as_bytes("value", value),
            key=None if key is None else as_bytes("key", key),
            headers=NO_HEADERS if is_plain else header_pairs(headers),
        )
    if isinstance(item, tuple) and len(item) == 2:
        key, value = item
        return Record(
            value=None if value is None else as_bytes("value", value),
            key=None if key is None else as_bytes("key", key),
        )
    return Record(value=as_bytes("value", item))
