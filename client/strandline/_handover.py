"""Puts records into batches: which partition, which batch, who is told.

Everything here is synchronous, so that a record is either in a batch with its waiter or not handed
over at all.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from strandline._acknowledgement import Acknowledgement
from strandline._arguments import timestamp, whole
from strandline._core.sticky import StickyPartition
from strandline.errors import ConfigurationError, RecordTooLarge, UnknownTopicOrPartition
from strandline.types import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strandline._collect import Collector
    from strandline._core.cluster_view import TopicView
    from strandline._core.partition_queue import PartitionQueue
    from strandline._core.producer_batch import ProducerBatch
    from strandline._producer_options import RecordLimit
    from strandline._sender import Sender
    from strandline.types import Headers, OnDelivery

RECORD_OVERHEAD: Final = 21
"""Bytes of a record beyond key, value and headers, at most."""
END: Final = object()
"""What stands for the end of an iterable, in which None may occur."""
_NO_HEADERS: Final[list[Any]] = []


class HandOver:
    """The one place that appends to a producer's batches."""

    def __init__(
        self,
        sender: Sender,
        *,
        partitioner: Callable[[bytes, int], int],
        limit: RecordLimit,
    ) -> None:
        self._sender = sender
        self._partitioner = partitioner
        self._limit = limit
        self._sticky: dict[bytes, StickyPartition] = {}

    def size_of(
        self, topic: str, value: bytes | None, key: bytes | None, headers: Headers = ()
    ) -> int:
        """Bytes of the record, at most. Raises RecordTooLarge."""
        size = RECORD_OVERHEAD + (len(value) if value else 0) + (len(key) if key else 0)
        if headers:
            check_headers(headers)
            for name, text in headers:
                size += 4 * len(name) + (len(text) if text else 0) + 10
        if size > self._limit.max_bytes:
            raise RecordTooLarge(
                f"a record of {size} bytes for {topic!r} was not sent: it is above "
                f"{self._limit.option}"
            )
        return size

    def one(
        self,
        view: TopicView,
        value: bytes | None,
        key: bytes | None,
        *,
        size: int,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Headers,
        on_delivery: OnDelivery | None,
    ) -> Acknowledgement:
        """Append one record; the future that comes back is its acknowledgement."""
        queue = self._queue(view, key, partition, size)
        batch, timestamp = self._append(queue, value, key, timestamp_ms, headers)
        record = Acknowledgement(loop=asyncio.get_running_loop())
        if on_delivery is not None:
            record.on_delivery = on_delivery
        batch.waiters.append((batch.count, timestamp, record))
        self._grow(queue, batch, size)
        return record

    def add(
        self,
        view: TopicView,
        record: Record,
        partition: int | None,
        timestamp_ms: int | None,
        collector: Collector,
    ) -> None:
        """Append one record of a `send_many` that has a key, headers or a time of its own."""
        size = self.size_of(view.name, record.value, record.key, record.headers)
        if record.partition is not None:
            partition = record.partition
        if record.timestamp_ms is not None:
            timestamp_ms = record.timestamp_ms
        queue = self._queue(view, record.key, partition, size)
        batch, _ = self._append(queue, record.value, record.key, timestamp_ms, record.headers)
        last = batch.collectors[-1] if batch.collectors else (0, 0, None)
        if last[2] is collector and last[0] + last[1] == batch.count:
            batch.collectors[-1] = (last[0], last[1] + 1, collector)
        else:
            batch.collectors.append((batch.count, 1, collector))
        collector.handed_over += 1
        self._grow(queue, batch, size)

    def _grow(self, queue: PartitionQueue, batch: ProducerBatch, size: int) -> None:
        batch.count += 1
        batch.reserved += size
        self._sender.buffered += size
        if batch.count == 1:  # a batch that had records has been offered, or something wakes it
            self._sender.dispatch(queue)

    def fill(
        self,
        view: TopicView,
        value: bytes,
        records: Iterator[Any],
        partition: int | None,
        timestamp_ms: int | None,
        collector: Collector,
    ) -> Any:
        """Append plain values until the batch is full; the item that came after, or END."""
        self.size_of(view.name, value, None)
        queue = self._queue(view, None, partition, 0)
        clock = self._sender.runtime.clock
        time_ms = int(clock.time() * 1000) if timestamp_ms is None else timestamp(timestamp_ms)
        batch = queue.open_batch(clock.monotonic() * 1000)
        append, first = batch.append, batch.count
        count = first
        held: Any = value
        try:
            while type(held) is bytes:
                if append(count, time_ms, None, held, _NO_HEADERS) is None:
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
                self._sender.buffered += grown
            if type(held) is bytes:
                queue.close_open()
                self._rotate(view)
            self._sender.dispatch(queue)
        return held

    def _append(
        self,
        queue: PartitionQueue,
        value: bytes | None,
        key: bytes | None,
        timestamp_ms: int | None,
        headers: Headers,
    ) -> tuple[ProducerBatch, int]:
        clock = self._sender.runtime.clock
        now_ms = clock.monotonic() * 1000
        time_ms = int(clock.time() * 1000) if timestamp_ms is None else timestamp(timestamp_ms)
        listed = list(headers)
        batch = queue.open_batch(now_ms)
        if batch.append(batch.count, time_ms, key, value, listed) is None:
            queue.close_open()
            batch = queue.open_batch(now_ms)
            batch.append(0, time_ms, key, value, listed)
        return batch, time_ms

    # Choosing partitions.

    def _queue(
        self, view: TopicView, key: bytes | None, partition: int | None, size: int
    ) -> PartitionQueue:
        if partition is not None:
            if type(partition) is not int:
                partition = whole("partition", partition, 0)
            if partition not in view.partitions:
                self._sender.cluster.request_refresh()  # it may have been added just now
                raise UnknownTopicOrPartition(
                    f"topic {view.name!r} has {len(view.partitions)} partitions; "
                    f"there is no {partition}"
                )
        elif key is not None:
            partition = self._partitioned(view, key)
        else:
            sticky = self._sticky.get(view.topic_id)
            if sticky is None:
                sticky = StickyPartition(self._sender.options.batch_size)
                self._sticky[view.topic_id] = sticky
            partition = sticky.current
            if partition is None:
                partition = self._choose(view, sticky)
            sticky.spend(size)
        return self._sender.queue(view.name, view.topic_id, partition)

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

    def _rotate(self, view: TopicView) -> None:
        sticky = self._sticky.get(view.topic_id)
        if sticky is not None:
            sticky.rotate()

    def _choose(self, view: TopicView, sticky: StickyPartition) -> int:
        everything = sorted(view.partitions)
        led = [p for p in everything if view.partitions[p].leader >= 0]
        queues = self._sender.queues

        def load(partition: int) -> int:
            queue = queues.get((view.topic_id, partition))
            return 0 if queue is None else queue.pending_bytes

        chances = (self._sender.chance(), self._sender.chance())
        return sticky.choose(led or everything, load, chances)


def as_bytes(what: str, value: object) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"a record's {what} is bytes or None, not {type(value).__name__}; encode it")


def check_headers(headers: object) -> None:
    if not isinstance(headers, tuple | list):
        raise ConfigurationError(f"headers={headers!r} is not a tuple of (name, value) pairs")
    for header in headers:
        match header:
            case (str(), bytes() | None):
                pass
            case _:
                raise ConfigurationError(f"headers: {header!r} is not (name, bytes or None)")


def as_record(item: object) -> Record:
    if isinstance(item, Record):
        value, key = item.value, item.key
        if (value is None or type(value) is bytes) and (key is None or type(key) is bytes):
            return item
        return replace(
            item,
            value=None if value is None else as_bytes("value", value),
            key=None if key is None else as_bytes("key", key),
        )
    if isinstance(item, tuple) and len(item) == 2:
        key, value = item
        return Record(
            value=None if value is None else as_bytes("value", value),
            key=None if key is None else as_bytes("key", key),
        )
    return Record(value=as_bytes("value", item))
