"""The primitives of Kafka's records: big-endian numbers, strings, bytes, arrays.

A plain version has a length of two bytes for strings and of four for everything else; -1 stands for
null. A flexible version has an unsigned varint of the length plus one, with 0 for null, and ends
each structure with tagged fields. The caller knows which of the two a version is.

Bytes that do not parse are a `MalformedRecord`: a length beyond the bytes, text that is not UTF-8,
null in a required field, tags out of order, bytes after the last field.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, TypeVar

from strandline_proto.ids import TopicId

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")

_I8: Final = Struct(">b")
_I16: Final = Struct(">h")
_I32: Final = Struct(">i")
_I64: Final = Struct(">q")
_UVARINT_BYTES_MAX: Final = 5
_UVARINT_MAX: Final = 2**32 - 1
_TOPIC_ID_BYTES: Final = 16
_NULL: Final = -1


class MalformedRecord(ValueError):
    """The bytes do not match the record's type and version."""


class Reader:
    """A reader of the fields of a key or value, from front to back."""

    def __init__(self, data: bytes, *, flexible: bool = False) -> None:
        self._data = data
        self._at = 0
        self.flexible = flexible

    def i8(self) -> int:
        return self._number(_I8)

    def i16(self) -> int:
        return self._number(_I16)

    def i32(self) -> int:
        return self._number(_I32)

    def i64(self) -> int:
        return self._number(_I64)

    def string(self) -> str:
        return self._required(self.nullable_string(), "string")

    def nullable_string(self) -> str | None:
        size = self._size(_I16)
        if size == _NULL:
            return None
        at = self._at
        try:
            return self._take(size).decode("utf-8")
        except UnicodeDecodeError as error:
            raise MalformedRecord(f"the string at byte {at} is not UTF-8: {error}") from error

    def blob(self) -> bytes:
        return self._required(self._nullable_bytes(), "byte string")

    def topic_id(self) -> TopicId:
        return TopicId(self._take(_TOPIC_ID_BYTES))

    def array(self, element: Callable[[], T]) -> tuple[T, ...]:
        return self._required(self.nullable_array(element), "array")

    def nullable_array(self, element: Callable[[], T]) -> tuple[T, ...] | None:
        at = self._at
        size = self._size(_I32)
        if size == _NULL:
            return None
        if size > len(self._data) - self._at:
            raise MalformedRecord(f"the array at byte {at} has {size} elements, more than bytes")
        return tuple([element() for _ in range(size)])

    def tags(self) -> dict[int, bytes]:
        """The tagged fields that end a structure; none in a plain version."""
        found: dict[int, bytes] = {}
        if not self.flexible:
            return found
        before = -1
        for _ in range(self._uvarint()):
            at = self._at
            tag = self._uvarint()
            if tag <= before:
                raise MalformedRecord(f"tag {tag} at byte {at} follows tag {before}")
            found[tag] = self._take(self._uvarint())
            before = tag
        return found

    def end(self) -> None:
        """Raise MalformedRecord if bytes are left."""
        left = len(self._data) - self._at
        if left:
            raise MalformedRecord(f"{left} bytes stand after the last field")

    def _number(self, kind: Struct) -> int:
        at = self._at
        self._advance(kind.size)
        (value,) = kind.unpack_from(self._data, at)
        return int(value)

    def _size(self, plain: Struct) -> int:
        at = self._at
        size = self._uvarint() - 1 if self.flexible else self._number(plain)
        if size < _NULL:
            raise MalformedRecord(f"the length at byte {at} is {size}")
        return size

    def _uvarint(self) -> int:
        at = self._at
        value = 0
        for shift in range(0, 7 * _UVARINT_BYTES_MAX, 7):
            here = self._at
            self._advance(1)
            byte = self._data[here]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value > _UVARINT_MAX:
                    break
                return value
        raise MalformedRecord(f"the varint at byte {at} is not of 32 bits")

    def _nullable_bytes(self) -> bytes | None:
        size = self._size(_I32)
        return None if size == _NULL else self._take(size)

    def _required(self, value: T | None, what: str) -> T:
        if value is None:
            raise MalformedRecord(f"the {what} before byte {self._at} is null")
        return value

    def _take(self, size: int) -> bytes:
        at = self._at
        self._advance(size)
        return bytes(self._data[at : self._at])

    def _advance(self, size: int) -> None:
        left = len(self._data) - self._at
        if size > left:
            raise MalformedRecord(f"{size} bytes are due at byte {self._at}, {left} are left")
        self._at += size


class Writer:
    """A writer that appends fields one after the other."""

    def __init__(self, *, flexible: bool = False) -> None:
        self._data = bytearray()
        self._flexible = flexible

    def i8(self, value: int) -> Writer:
        return self._number(_I8, value)

    def i16(self, value: int) -> Writer:
        return self._number(_I16, value)

    def i32(self, value: int) -> Writer:
        return self._number(_I32, value)

    def i64(self, value: int) -> Writer:
        return self._number(_I64, value)

    def string(self, value: str | None) -> Writer:
        raw = None if value is None else value.encode("utf-8")
        return self._sized(_I16, raw)

    def blob(self, value: bytes) -> Writer:
        return self._sized(_I32, value)

    def topic_id(self, value: TopicId) -> Writer:
        assert len(value) == _TOPIC_ID_BYTES, f"topic id of {len(value)} bytes"
        self._data += value
        return self

    def array(self, values: tuple[T, ...], element: Callable[[T], object]) -> Writer:
        self._size(_I32, len(values))
        for value in values:
            element(value)
        return self

    def null_array(self) -> Writer:
        self._size(_I32, _NULL)
        return self

    def tags(self, fields: Mapping[int, bytes] | None = None) -> Writer:
        """End a structure of a flexible version; nothing is written in a plain one."""
        if not self._flexible:
            assert not fields, "a plain version has no tagged fields"
            return self
        present = fields or {}
        self._uvarint(len(present))
        for tag in sorted(present):
            self._uvarint(tag)
            self._uvarint(len(present[tag]))
            self._data += present[tag]
        return self

    def done(self) -> bytes:
        return bytes(self._data)

    def _number(self, kind: Struct, value: int) -> Writer:
        self._data += kind.pack(value)
        return self

    def _sized(self, plain: Struct, value: bytes | None) -> Writer:
        self._size(plain, _NULL if value is None else len(value))
        self._data += value or b""
        return self

    def _size(self, plain: Struct, size: int) -> None:
        if self._flexible:
            self._uvarint(size + 1)
        else:
            self._number(plain, size)

    def _uvarint(self, value: int) -> None:
        while value > 0x7F:
            self._data.append(value & 0x7F | 0x80)
            value >>= 7
        self._data.append(value)


def i64_tag(tags: Mapping[int, bytes], tag: int, default: int) -> int:
    """A tagged number of 64 bits, or its default if absent."""
    if tag not in tags:
        return default
    reader = Reader(tags[tag])
    value = reader.i64()
    reader.end()
    return value


def i64_field(value: int) -> bytes:
    """The content of a tagged number of 64 bits."""
    return _I64.pack(value)
