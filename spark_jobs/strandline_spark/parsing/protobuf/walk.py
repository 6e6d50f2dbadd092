"""The checks of Protobuf messages that the package protobuf lacks.

protobuf takes a damaged message, or one of another type, for one with other values in these cases:

- It keeps the lower 32 bits of a larger number, and reads any number but 0 as true.
- It takes a field of another wire type for an unknown one, so the column would be null.
- It keeps the last of several values of one field, and of the fields of one `oneof`.
- It takes a number that a closed enum lacks for an unknown field.

A message that gives its own bytes again has none of these. Any other, which protobuf has read, is
walked by its type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from google.protobuf.descriptor import FieldDescriptor as Field

from strandline_spark.parsing.faults import Reason

if TYPE_CHECKING:
    from collections.abc import Collection

_VARINT: Final = 0
_EIGHT: Final = 1
_SIZED: Final = 2
_GROUP: Final = 3
_GROUP_END: Final = 4
_FOUR: Final = 5
_WIRE: Final = {
    Field.TYPE_DOUBLE: _EIGHT,
    Field.TYPE_FIXED64: _EIGHT,
    Field.TYPE_SFIXED64: _EIGHT,
    Field.TYPE_FLOAT: _FOUR,
    Field.TYPE_FIXED32: _FOUR,
    Field.TYPE_SFIXED32: _FOUR,
    Field.TYPE_STRING: _SIZED,
    Field.TYPE_BYTES: _SIZED,
    Field.TYPE_MESSAGE: _SIZED,
    Field.TYPE_GROUP: _GROUP,
}
"""Wire types; those of the other types are varints."""
_SIZES: Final = {_EIGHT: 8, _FOUR: 4}
_SIGNED: Final = (Field.TYPE_INT32, Field.TYPE_ENUM)
_UNSIGNED: Final = (Field.TYPE_UINT32, Field.TYPE_SINT32)
_BYTES_MAX: Final = 10
_LEVELS_MAX: Final = 100
"""Limit of messages within each other; protobuf has it too."""


class NotAsDeclared(Exception):
    """A message that protobuf reads as another one than was written."""

    def __init__(self, reason: Reason, what: str) -> None:
        super().__init__(what)
        self.reason = reason


class MessageWalk:
    """The walk for one type of messages."""

    def __init__(self, descriptor: Any, read: Collection[str]) -> None:
        """Prepares the walk; `read` has the full names of the fields that columns read."""
        self._descriptor = descriptor
        self._read = frozenset(read)

    def check(self, value: bytes) -> None:
        """Raises NotAsDeclared, or ValueError for bytes that are no message."""
        try:
            self._message(self._descriptor, value, 0, len(value), 0)
        except IndexError:
            raise ValueError("the value ends before the message does") from None

    def _message(
        self, of: Any, data: bytes, at: int, end: int, level: int, *, group: bool = False
    ) -> int:
        """Returns the end of the message, which is `end`, or the end tag of the group."""
        if level > _LEVELS_MAX:
            raise ValueError("too many messages within each other")
        seen: set[str] = set()
        fields = {} if of is None else of.fields_by_number
        while at < end:
            tag, at = _number(data, at)
            wire = tag & 7
            if wire == _GROUP_END:
                return at
            field = fields.get(tag >> 3)
            if field is not None and not field.is_repeated:
                _note(field, seen)
            at = self._field(field, wire, data, at, end, level)
        if group or at != end:
            raise ValueError("the value ends before the message does")
        return at

    def _field(self, field: Any, wire: int, data: bytes, at: int, end: int, level: int) -> int:
        """Returns the end of the field; `field` is None for an unknown one."""
        wanted = wire if field is None else _WIRE.get(field.type, _VARINT)
        packed = wire == _SIZED != wanted and field.is_repeated and wanted != _GROUP
        if wire != wanted and not packed:
            raise NotAsDeclared(
                Reason.WRONG_TYPE, f"field {field.name} has the wire type {wire}, not {wanted}"
            )
        inner = None if field is None else field.message_type
        if wire == _GROUP:
            return self._message(inner, data, at, end, level + 1, group=True)
        if wire != _SIZED:
            return self._single(field, wire, data, at)
        size, at = _number(data, at)
        if size > end - at:
            raise ValueError("the value ends before the message does")
        if inner is not None:
            return self._message(inner, data, at, at + size, level + 1)
        stop = at + size
        while packed and at < stop:
            at = self._single(field, wanted, data, at)
        return stop

    def _single(self, field: Any, wire: int, data: bytes, at: int) -> int:
        """Returns the end of a number."""
        if wire in _SIZES:
            return at + _SIZES[wire]
        if wire != _VARINT:
            raise ValueError(f"there is no wire type {wire}")
        number, at = _number(data, at)
        if field is None:
            return at
        kind = field.type
        low = number - (1 << 64) if number >= 1 << 63 else number
        if (
            (kind in _SIGNED and not -(1 << 31) <= low < 1 << 31)
            or (kind in _UNSIGNED and number >= 1 << 32)
            or (kind == Field.TYPE_BOOL and number > 1)
        ):
            raise NotAsDeclared(
                Reason.OUT_OF_RANGE, f"field {field.name}: {low} is beyond its type"
            )
        if (
            kind == Field.TYPE_ENUM
            and field.full_name in self._read
            and field.enum_type.is_closed
            and low not in field.enum_type.values_by_number
        ):
            raise NotAsDeclared(
                Reason.OUT_OF_RANGE,
                f"field {field.name}: {low} is no value of {field.enum_type.full_name}",
            )
        return at


def _note(field: Any, seen: set[str]) -> None:
    """Raises NotAsDeclared for a second value of a field, or of its oneof."""
    of = field.containing_oneof
    name = field.name if of is None else of.name
    if name in seen:
        raise NotAsDeclared(Reason.FIELD_TWICE, f"field {name} has two values")
    seen.add(name)


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Returns a number without a sign, and its end."""
    found = 0
    for place in range(_BYTES_MAX):
        byte = data[at + place]
        found |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            if found >= 1 << 64:
                break
            return found, at + place + 1
    raise ValueError("a number has more than 64 bits")
