"""The checks of Avro datums that the package fastavro lacks.

It drops the bits of a whole number beyond 64, and so takes a damaged datum for one with other
numbers. A record that has itself as a field ends the process if there are too many levels. An array
of elements without a byte takes memory for a count of any size. It counts a negative place
of an enum's symbol from the end.

A number is written in groups of seven bits, of which all but the last have the highest bit of their
byte set. One that is too large has nine bytes of that kind and then more than a 1. Few datums have
such bytes at all. Those are walked by their schema, number by number. So are all datums of a schema
that permits any number of levels, or elements without a byte.
"""

from __future__ import annotations

import re
from typing import Any, Final

_SUSPECT: Final = re.compile(rb"[\x80-\xff]{9}[\x02-\xff]")
_BYTES_MAX: Final = 10
_SIZES: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_NAMED: Final = ("record", "error", "enum", "fixed")
LEVELS_MAX: Final = 200
"""Limit of records, arrays and maps within each other, where the schema sets none. Python's own
limit of calls is far above it.
"""
EMPTY_MAX: Final = 100_000
"""Limit of elements without a byte in one datum."""


class TooDeepError(ValueError):
    """The datum has more than LEVELS_MAX levels."""


def without_negative_places(schema: Any) -> Any:
    """Returns the parsed schema, in which a negative place of a symbol raises KeyError."""
    if isinstance(schema, list):
        return [without_negative_places(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    new = {**schema}
    if schema["type"] == "enum":
        new["symbols"] = dict(enumerate(schema["symbols"]))
    for key in ("items", "values"):
        if key in schema:
            new[key] = without_negative_places(schema[key])
    if "fields" in schema:
        new["fields"] = [
            {**field, "type": without_negative_places(field["type"])} for field in schema["fields"]
        ]
    if "__named_schemas" in schema:
        named = schema["__named_schemas"].items()
        new["__named_schemas"] = {name: without_negative_places(one) for name, one in named}
    return new


class Longs:
    """The walk for one schema, as fastavro has parsed it."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._named: dict[str, Any] = {}
        self._find_names(schema)
        self._walks_all = self._is_unbounded(schema, ())
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

    def _is_unbounded(self, schema: Any, around: tuple[str, ...]) -> bool:
        """True if a datum may have any number of levels, or of elements without a byte."""
        if isinstance(schema, list):
            return any(self._is_unbounded(branch, around) for branch in schema)
        schema = self._found(schema)
        if not isinstance(schema, dict):
            return False
        name = schema.get("name")
        if name is not None:
            if name in around:
                return True
            around = (*around, name)
        return ("items" in schema and self._is_empty(schema["items"])) or any(
            self._is_unbounded(each, around) for each in _inner(schema)
        )

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

    def check_before(self, datum: bytes) -> None:
        """Raises an error for a datum that fastavro must not read: TooDeepError, or another one if
        the bytes do not fit the schema.
        """
        if self._walks_all:
            self._walk(datum)

    def check(self, datum: bytes) -> None:
        """Raises ValueError for a number that is too large. The datum otherwise fits the schema."""
        if not self._walks_all and _SUSPECT.search(datum) is not None:
            self._walk(datum)

    def _walk(self, datum: bytes) -> None:
        self._empty = 0
        self._skip(self._schema, datum, 0, 0)

    def _skip(self, schema: Any, datum: bytes, at: int, level: int) -> int:
        """Returns the end of the value that begins at `at`."""
        schema = self._found(schema)
        while isinstance(schema, list):
            branch, at = _long(datum, at)
            schema = self._found(schema[branch])
        kind = schema["type"] if isinstance(schema, dict) else schema
        if kind in _SIZES:
            return at + _SIZES[kind]
        if kind in ("int", "long", "enum"):
            return _long(datum, at)[1]
        if kind in ("bytes", "string"):
            size, at = _long(datum, at)
            if not 0 <= size <= len(datum) - at:
                raise EOFError
            return at + size
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


def _long(datum: bytes, at: int) -> tuple[int, int]:
    """Returns a number and its end."""
    found = 0
    for place in range(_BYTES_MAX):
        byte = datum[at + place]
        found |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            if found >= 1 << 64:
                break
            return (found >> 1) ^ -(found & 1), at + place + 1
    raise ValueError("a whole number has more than 64 bits")
