"""The way of a record before it is handed over: interceptors, then serializers.

A key or value that does not serialize is an error that names topic and field.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from strandline._net import arguments as given
from strandline._producer.accumulator import as_bytes, header_pairs
from strandline.errors import SerializationError, describe
from strandline.serialization import Format, format_or_function
from strandline.types import Record, RecordMetadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from strandline._core.partition_queue import PartitionQueue
    from strandline._core.producer_batch import ProducerBatch
    from strandline.types import OnDelivery


class Serializing:
    """The interceptors and serializers of one producer; keys or values without one are bytes."""

    def __init__(self, key: object, value: object, interceptors: Iterable[object] = ()) -> None:
        self._key = _function("key_serializer", key)
        self._value = _function("value_serializer", value)
        self._interceptors = given.interceptors(interceptors, "on_send", "on_acknowledgement")
        self.log: Any = None
        """The log of the started producer."""

    def __bool__(self) -> bool:
        return bool(self._key or self._value or self._interceptors)

    def prepared(self, topic: str, record: Record[Any, Any]) -> Record:
        """Returns the record to hand over, of bytes. Raises SerializationError."""
        if self._interceptors:
            record = self._intercepted(topic, record)
        return replace(
            record,
            value=self.value(topic, record.partition, record.value),
            key=self.key(topic, record.partition, record.key),
        )

    def _intercepted(self, topic: str, record: Record[Any, Any]) -> Record[Any, Any]:
        record = replace(record, headers=header_pairs(record.headers))
        for each in self._interceptors:
            if (on_send := getattr(each, "on_send", None)) is None:
                continue
            try:
                found = on_send(topic, record)
                if not isinstance(found, Record):
                    raise TypeError(f"it returned a {type(found).__name__}, not a Record")
                record = found
            except Exception as error:  # noqa: BLE001 - the record goes on without it
                self.log.error("on_send of an interceptor raised", error=describe(error))
        return record

    def observer(self, topic: str) -> OnDelivery | None:
        """Returns a function that tells the interceptors a record's outcome; None without any."""
        if not self._interceptors:
            return None
        return partial(self._acknowledged, topic)

    def observe_batch(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        first: int,
        count: int,
        error: Exception | None,
    ) -> None:
        """Tells the interceptors the outcome of a batch's records."""
        base, epoch = batch.base_offset, batch.leader_epoch
        for index in range(first, first + count if self._interceptors else first):
            metadata = None
            if error is None:
                offset = base + index if base >= 0 else -1
                time_ms = batch.log_append_time_ms
                metadata = RecordMetadata(queue.topic, queue.partition, offset, time_ms, epoch)
            self._acknowledged(queue.topic, error, metadata)

    def _acknowledged(
        self, topic: str, error: Exception | None, metadata: RecordMetadata | None
    ) -> None:
        for each in self._interceptors:
            if (told := getattr(each, "on_acknowledgement", None)) is None:
                continue
            try:
                told(topic, error, metadata)
            except Exception as defect:  # noqa: BLE001 - the others are told too
                self.log.error(
                    "on_acknowledgement of an interceptor raised", error=describe(defect)
                )

    def value(self, topic: str, partition: int | None, value: object) -> bytes | None:
        """Returns the bytes of a value. Raises SerializationError."""
        return _bytes_of(self._value, value, topic, partition, "value")

    def key(self, topic: str, partition: int | None, key: object) -> bytes | None:
        """Returns the bytes of a key. Raises SerializationError."""
        return _bytes_of(self._key, key, topic, partition, "key")

    def items(
        self, topic: str, partition: int | None, items: Iterable[Any]
    ) -> Iterator[bytes | Record]:
        """Yields the items of a `send_many`, serialized one by one.

        A pair is (key, value), as without serializers; every other item is a value.
        """
        for item in items:
            if isinstance(item, Record):
                own = partition if item.partition is None else item.partition
                yield self.prepared(topic, replace(item, partition=own))
            elif self._interceptors:
                key, value = item if isinstance(item, tuple) and len(item) == 2 else (None, item)
                yield self.prepared(topic, Record(value, key, partition=partition))
            elif isinstance(item, tuple) and len(item) == 2:
                key, value = item
                yield Record(
                    value=self.value(topic, partition, value), key=self.key(topic, partition, key)
                )
            else:
                found = self.value(topic, partition, item)
                yield Record() if found is None else found


def _function(option: str, given: object) -> Callable[[Any], Any] | None:
    found = format_or_function(option, given)
    return found.serialize if isinstance(found, Format) else found


def _bytes_of(
    serialize: Callable[[Any], Any] | None,
    value: object,
    topic: str,
    partition: int | None,
    field: str,
) -> bytes | None:
    if value is None:
        return None
    if serialize is None:
        return as_bytes(field, value)
    try:
        found = serialize(value)
    except Exception as error:
        raise _refused(topic, partition, field, describe(error)) from error
    if type(found) is bytes:
        return found
    if isinstance(found, bytes | bytearray | memoryview):
        return bytes(found)
    if isinstance(found, Coroutine):
        found.close()
    kind = type(found).__name__
    advice = "a serializer is a plain function" if isinstance(found, Awaitable) else "not bytes"
    raise _refused(topic, partition, field, f"the serializer returned {kind}: {advice}")


def _refused(topic: str, partition: int | None, field: str, why: str) -> SerializationError:
    where = topic if partition is None else f"{topic}:{partition}"
    return SerializationError(
        f"{where}: the {field} does not serialize, and the record was not sent ({why})",
        topic,
        partition,
        field,
    )
