"""The primitive types of Kafka's protocol, read and written by hand.

Source: Kafka's protocol guide, "Protocol primitive types". Every length is checked against the end
of the request, so that a declared length reserves nothing.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_runtime.runtime import Buffer

    Buffers: TypeAlias = Sequence[Buffer]
    """The bytes of one answer in order, so that records are not copied."""

INT8: Final = Struct(">b")
INT16: Final = Struct(">h")
UINT16: Final = Struct(">H")
INT32: Final = Struct(">i")
INT64: Final = Struct(">q")
FLOAT64: Final = Struct(">d")
VARINT_BYTES_MAX: Final = 5
"""Bytes of an unsigned varint of 32 bits."""
NO_TAGS: Final = b"\x00"


class MalformedRequest(Exception):
    """The bytes are no request of the version that their header names."""


class Cursor:
    """A position in the bytes of one request. Each method raises MalformedRequest at the end."""

    __slots__ = ("data", "end", "pos")

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.pos = 0
        self.end = len(data)

    def _take(self, length: int) -> int:
        """Returns the position of so many bytes, and moves behind them."""
        pos = self.pos
        if length > self.end - pos:
            raise MalformedRequest(
                f"{length} bytes are due at byte {pos}, and {self.end - pos} are left"
            )
        self.pos = pos + length
        return pos

    def fixed(self, kind: Struct) -> int:
        value: int = kind.unpack_from(self.data, self._take(kind.size))[0]
        return value

    def fields(self, kind: Struct) -> tuple[int, ...]:
        """Several numbers that follow each other."""
        return kind.unpack_from(self.data, self._take(kind.size))

    def int8(self) -> int:
        return self.fixed(INT8)

    def int16(self) -> int:
        return self.fixed(INT16)

    def uint16(self) -> int:
        return self.fixed(UINT16)

    def int32(self) -> int:
        return self.fixed(INT32)

    def int64(self) -> int:
        return self.fixed(INT64)

    def float64(self) -> float:
        value: float = FLOAT64.unpack_from(self.data, self._take(8))[0]
        return value

    def boolean(self) -> bool:
        return self.int8() != 0

    def uuid(self) -> bytes:
        """16 bytes; Kafka's zero id means none."""
        return bytes(self.raw(16))

    def uvarint(self) -> int:
        value = shift = 0
        for _ in range(VARINT_BYTES_MAX):
            byte = self.data[self._take(1)]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise MalformedRequest(f"the varint before byte {self.pos} has more than 32 bits")

    def raw(self, length: int) -> memoryview:
        pos = self._take(length)
        return self.data[pos : pos + length]

    def _length(self, compact: bool, short: bool = False) -> int:
        """Returns the length that comes next; -1 for null."""
        if compact:
            return self.uvarint() - 1
        length = self.int16() if short else self.int32()
        if length < -1:
            raise MalformedRequest(f"a length is {length} before byte {self.pos}")
        return length

    def string(self, compact: bool) -> str | None:
        length = self._length(compact, short=True)
        if length < 0:
            return None
        try:
            return str(self.raw(length), "utf-8")
        except UnicodeDecodeError as error:
            raise MalformedRequest(f"a text before byte {self.pos} is no UTF-8") from error

    def text(self, compact: bool) -> str:
        """A text that must not be null."""
        value = self.string(compact)
        if value is None:
            raise MalformedRequest(f"a text before byte {self.pos} is null")
        return value

    def view(self, compact: bool) -> memoryview | None:
        """Bytes, as a view of the request."""
        length = self._length(compact)
        return None if length < 0 else self.raw(length)

    def count(self, compact: bool) -> int:
        """Returns the number of elements that follow; -1 for null. Each has at least one byte."""
        count = self._length(compact)
        if count > self.end - self.pos:
            raise MalformedRequest(
                f"an array has {count} elements, and {self.end - self.pos} bytes are left"
            )
        return count

    def elements(self, compact: bool) -> int:
        """Returns the number of elements that follow, of an array that must not be null."""
        count = self.count(compact)
        if count < 0:
            raise MalformedRequest(f"an array before byte {self.pos} is null")
        return count

    def skip_tags(self) -> None:
        """Skips a section of tagged fields (KIP-482)."""
        for _ in range(self.uvarint()):
            self.uvarint()
            self._take(self.uvarint())

    def check_end(self) -> None:
        if self.pos != self.end:
            raise MalformedRequest(f"{self.end - self.pos} bytes follow the last field")


class Writer:
    """The bytes of an answer. Long byte strings are kept as they are, and are not copied."""

    __slots__ = ("_buffers", "_compact", "_tail")

    def __init__(self, compact: bool) -> None:
        """`compact`: the version is flexible (KIP-482)."""
        self._compact = compact
        self._buffers: list[Buffer] = []
        self._tail = bytearray()

    def int8(self, value: int) -> None:
        self._tail += INT8.pack(value)

    def int16(self, value: int) -> None:
        self._tail += INT16.pack(value)

    def int32(self, value: int) -> None:
        self._tail += INT32.pack(value)

    def int64(self, value: int) -> None:
        self._tail += INT64.pack(value)

    def boolean(self, value: bool) -> None:
        self._tail.append(value)

    def raw(self, value: Buffer) -> None:
        self._tail += value

    def uvarint(self, value: int) -> None:
        self._tail += uvarint(value)

    def string(self, value: str | None) -> None:
        encoded = None if value is None else value.encode()
        if self._compact:
            self._tail += uvarint(0 if encoded is None else len(encoded) + 1)
        else:
            self._tail += INT16.pack(-1 if encoded is None else len(encoded))
        if encoded is not None:
            self._tail += encoded

    def length(self, value: int) -> None:
        """The length of an array or of bytes; -1 for null."""
        self._tail += uvarint(value + 1) if self._compact else INT32.pack(value)

    def int32s(self, values: Sequence[int]) -> None:
        self.length(len(values))
        for value in values:
            self._tail += INT32.pack(value)

    def view(self, value: Buffer | None) -> None:
        """Bytes that are not copied."""
        if value is None:
            self.length(-1)
            return
        self.length(len(value))
        self._buffers += (self._tail, value)
        self._tail = bytearray()

    def no_tags(self) -> None:
        """An empty section of tagged fields; nothing in a version that is not flexible."""
        if self._compact:
            self._tail += NO_TAGS

    def tags(self, fields: Sequence[tuple[int, Buffer]]) -> None:
        """A section of tagged fields (tag, encoded value), by ascending tag."""
        self._tail += uvarint(len(fields))
        for tag, value in fields:
            self._tail += uvarint(tag) + uvarint(len(value))
            self._tail += value

    def buffers(self) -> Buffers:
        return [*self._buffers, self._tail]


def uvarint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
