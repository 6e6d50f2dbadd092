"""The search for whole numbers of more than 64 bits in Avro datums. The package fastavro drops
the bits beyond, and so takes a damaged datum for one with other numbers.

A number is written in groups of seven bits, of which all but the last have the highest bit of their
byte set. One that is too large has nine bytes of that kind and then more than a 1. Few datums have
such bytes at all. Those are walked by their schema, number by number.
"""

from __future__ import annotations

import re
from typing import Any, Final

_SUSPECT: Final = re.compile(rb"[\x80-\xff]{9}[\x02-\xff]")
_BYTES_MAX: Final = 10
_SIZES: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_NAMED: Final = ("record", "error", "enum", "fixed")


class Longs:
    """The walk for one schema, as fastavro has parsed it."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._named: dict[str, Any] = {}
        self._find_names(schema)

    def _find_names(self, schema: Any) -> None:
        if isinstance(schema, list):
            for branch in schema:
                self._find_names(branch)
        elif isinstance(schema, dict):
            if schema["type"] in _NAMED:
                self._named[schema["name"]] = schema
            inner = [field["type"] for field in schema.get("fields", ())]
            for each in (*inner, *(schema[key] for key in ("items", "values") if key in schema)):
                self._find_names(each)

    def check(self, datum: bytes) -> None:
        """Raises ValueError for a number that is too large. The datum otherwise fits the schema."""
        if _SUSPECT.search(datum) is not None:
            self._skip(self._schema, datum, 0)

    def _skip(self, schema: Any, datum: bytes, at: int) -> int:
        """Returns the end of the value that begins at `at`."""
        if isinstance(schema, list):
            branch, at = _long(datum, at)
            return self._skip(schema[branch], datum, at)
        kind = schema["type"] if isinstance(schema, dict) else schema
        if kind in _SIZES:
            return at + _SIZES[kind]
        if kind in ("int", "long", "enum"):
            return _long(datum, at)[1]
        if kind in ("bytes", "string"):
            size, at = _long(datum, at)
            return at + size
        if kind == "fixed":
            return at + int(schema["size"])
        if kind in ("array", "map"):
            return self._skip_blocks(schema, datum, at)
        if kind in ("record", "error"):
            for field in schema["fields"]:
                at = self._skip(field["type"], datum, at)
            return at
        return self._skip(self._named[kind] if isinstance(kind, str) else kind, datum, at)

    def _skip_blocks(self, schema: Any, datum: bytes, at: int) -> int:
        while True:
            count, at = _long(datum, at)
            if count == 0:
                return at
            if count < 0:
                count, (_, at) = -count, _long(datum, at)
            for _ in range(count):
                if schema["type"] == "map":
                    at = self._skip("string", datum, at)
                at = self._skip(schema.get("items", schema.get("values")), datum, at)


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
