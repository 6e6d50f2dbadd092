"""The checks of Avro datums that the package fastavro lacks.

fastavro takes a damaged datum for one with other values in these cases:

- It drops the bits of a whole number beyond 64, and keeps those of an `int` beyond 32.
- It counts a negative place of a union's branch, or of an enum's symbol, from the end.
- It reads any byte but 0 as a true boolean.

A record that has itself as a field ends the process if there are too many levels. An array of
elements without a byte takes memory for a count of any size. So each datum is walked by its schema
before fastavro reads it.
"""

from __future__ import annotations

from typing import Any, Final

_BYTES_MAX: Final = 10
"""Limit of the bytes of a number, each with seven of its bits."""
_SIZES: Final = {"null": 0, "float": 4, "double": 8}
_NAMED: Final = ("record", "error", "enum", "fixed")
_INT_MAX: Final = 2**31 - 1
LEVELS_MAX: Final = 200
"""Limit of records, arrays and maps within each other. Python's own limit of calls is far above
it.
"""
EMPTY_MAX: Final = 100_000
"""Limit of elements without a byte in one datum."""


class TooDeepError(ValueError):
    """The datum has more than LEVELS_MAX levels."""


class AvroWalk:
    """The walk for one schema, as fastavro has parsed it."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._named: dict[str, Any] = {}
        self._find_names(schema)
        self._empty = 0

    def _find_names(self, schema: Any) -> None:
        if isinstance(schema, list):
            for branch in schema:
                self._find_names(branch)
        elif isinstance(schema, dict):
            if schema["type"] in _NAMED:
                self._named[schema["name"]] = schema
            for each in _inner(schema):
                self._find_names(each)

    def _is_empty(self, schema: Any) -> bool:
        """True if a value takes no byte."""
        schema = self._found(schema)
        kind = schema["type"] if isinstance(schema, dict) else schema
        if kind == "fixed":
            return int(schema["size"]) == 0
        if kind in ("record", "error"):
            return all(self._is_empty(each) for each in _inner(schema))
        return bool(kind == "null")

    def _found(self, schema: Any) -> Any:
        return self._named.get(schema, schema) if isinstance(schema, str) else schema

    def check(self, datum: bytes) -> None:
        """Raises an error for a datum that fastavro must not read: TooDeepError, or another one if
        the bytes do not fit the schema. Bytes behind the datum are not looked at.
        """
        self._empty = 0
        try:
            self._skip(self._schema, datum, 0, 0)
        except IndexError:
            raise EOFError from None

    def _skip(self, schema: Any, datum: bytes, at: int, level: int) -> int:  # noqa: C901 - the types
        """Returns the end of the value that begins at `at`."""
        schema = self._found(schema)
        if isinstance(schema, list):
            branch, at = _place(datum, at, len(schema))
            schema = self._found(schema[branch])
        kind = schema["type"] if isinstance(schema, dict) else schema
        if kind in _SIZES:
            return at + _SIZES[kind]
        if kind == "long":
            return _long(datum, at)[1]
        if kind in ("bytes", "string"):
            size, at = _long(datum, at)
            if not 0 <= size <= len(datum) - at:
                raise EOFError
            return at + size
        if kind == "int":
            number, at = _long(datum, at)
            if not -_INT_MAX - 1 <= number <= _INT_MAX:
                raise ValueError("an int has more than 32 bits")
            return at
        if kind == "boolean":
            if datum[at] > 1:
                raise ValueError("a boolean is neither 0 nor 1")
            return at + 1
        if kind == "enum":
            return _place(datum, at, len(schema["symbols"]))[1]
        if kind == "fixed":
            return at + int(schema["size"])
        if level >= LEVELS_MAX:
            raise TooDeepError
        if kind in ("array", "map"):
            return self._skip_blocks(schema, datum, at, level + 1)
        for field in schema["fields"]:
            at = self._skip(field["type"], datum, at, level + 1)
        return at

    def _skip_blocks(self, schema: Any, datum: bytes, at: int, level: int) -> int:
        element = schema.get("items", schema.get("values"))
        while True:
            count, at = _long(datum, at)
            if count == 0:
                return at
            if count < 0:
                count, (_, at) = -count, _long(datum, at)
            if schema["type"] == "array" and self._is_empty(element):
                self._empty += count
                if self._empty > EMPTY_MAX:
                    raise ValueError("too many elements without a byte")
                continue
            for _ in range(count):
                if schema["type"] == "map":
                    at = self._skip("string", datum, at, level)
                at = self._skip(element, datum, at, level)


def _inner(schema: dict[str, Any]) -> list[Any]:
    """Returns the schemas of fields, elements and values."""
    fields = [field["type"] for field in schema.get("fields", ())]
    return [*fields, *(schema[key] for key in ("items", "values") if key in schema)]


def _place(datum: bytes, at: int, count: int) -> tuple[int, int]:
    """Returns the place of one of `count` branches or symbols, and its end."""
    place, end = _long(datum, at)
    if not 0 <= place < count:
        raise ValueError(f"place {place} is none of {count}")
    return place, end


def _long(datum: bytes, at: int) -> tuple[int, int]:
    """Returns a number and its end."""
    byte = datum[at]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    found = byte & 0x7F
    for place in range(1, _BYTES_MAX):
        byte = datum[at + place]
        found |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            if found >= 1 << 64:
                break
            return (found >> 1) ^ -(found & 1), at + place + 1
    raise ValueError("a whole number has more than 64 bits")
