"""Serializes keys and values of records, and names topic and field of one that does not."""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from strandline._producer.accumulator import as_bytes
from strandline.errors import SerializationError, describe
from strandline.serialization import Format, format_or_function
from strandline.types import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


class Serializing:
    """The serializers of one producer; keys or values without one are bytes."""

    def __init__(self, key: object, value: object) -> None:
        self._key = _function("key_serializer", key)
        self._value = _function("value_serializer", value)

    def __bool__(self) -> bool:
        return self._key is not None or self._value is not None

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
                yield replace(
                    item,
                    value=self.value(topic, own, item.value),
                    key=self.key(topic, own, item.key),
                )
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
    where = topic if partition is None else f"{topic}/{partition}"
    return SerializationError(
        f"{where}: the {field} does not serialize, and the record was not sent ({why})",
        topic,
        partition,
        field,
    )
