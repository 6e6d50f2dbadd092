"""The types of columns by their names in Spark SQL, with types within types: `struct<url:string>`,
`array<bigint>`, `map<string,array<double>>`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]

from strandline_spark.errors import OptionError
from strandline_spark.parsing.settings import NOT_IN_NAMES, PLAIN_TYPES, ColumnType

if TYPE_CHECKING:
    from collections.abc import Mapping

LEVELS_MAX: Final = 50
"""Limit of types within each other."""
JSON: Final = "json"
_DECIMAL: Final = re.compile(r"decimal\(\s*([0-9]{1,2})\s*,\s*([0-9]{1,2})\s*\)", re.IGNORECASE)
_PRECISION_MAX: Final = 38
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TOKEN: Final = re.compile(
    rf"\s*(?:({_DECIMAL.pattern})|({_NAME.pattern})|`((?:[^`]|``)+)`|([<>,:]))\s*", re.IGNORECASE
)
_DELTA_NAMES: Final = {"int": "integer", "bigint": "long"}
OWN_NAMES: Final = {delta: name for name, delta in _DELTA_NAMES.items()}


def column_type(text: str, format: str | None = None) -> ColumnType:
    """Returns the type of a name such as `bigint`, `decimal(10,2)` or `array<string>`. Raises
    OptionError.
    """
    if not re.search(r"[<>`]", text):
        return _plain(text, text.strip(), format)
    found = _Names(text).whole()
    return replace(found, format=format)


def struct_type(parts: Mapping[str, ColumnType]) -> ColumnType:
    """Returns the type of values with these fields."""
    inner = ",".join(f"{_quoted(name)}:{kind.name}" for name, kind in parts.items())
    arrow = pa.struct([pa.field(name, kind.arrow) for name, kind in parts.items()])
    return ColumnType(f"struct<{inner}>", arrow, parts=tuple(parts.items()))


def array_type(element: ColumnType) -> ColumnType:
    """Returns the type of lists of such elements."""
    arrow = pa.list_(pa.field("element", element.arrow))
    return ColumnType(f"array<{element.name}>", arrow, parts=(("element", element),))


def map_type(value: ColumnType) -> ColumnType:
    """Returns the type of such values by texts."""
    parts = (("key", _plain("string", "string", None)), ("value", value))
    return ColumnType(f"map<string,{value.name}>", pa.map_(pa.string(), value.arrow), parts=parts)


def leaves(kind: ColumnType) -> set[str]:
    """Returns the names of the types within a type that have no others within them."""
    return set().union(*(leaves(part) for _, part in kind.parts)) if kind.parts else {kind.name}


def stored(kind: ColumnType) -> str:
    """Returns the name of the type that a table has for a column of `kind`: a `json` is a text."""
    return name_of_delta(_delta(kind))


def name_of_delta(kind: Any) -> str:
    """Returns the name, in Delta's words, of a type in the JSON of a Delta table's schema. Types
    within types have our words.
    """
    return kind if isinstance(kind, str) else _name_of(kind)


def _name_of(kind: Any) -> str:
    if isinstance(kind, str):
        return OWN_NAMES.get(kind, kind)
    of = kind["type"]
    if of == "array":
        return f"array<{_name_of(kind['elementType'])}>"
    if of == "map":
        return f"map<{_name_of(kind['keyType'])},{_name_of(kind['valueType'])}>"
    fields = (f"{_quoted(one['name'])}:{_name_of(one['type'])}" for one in kind["fields"])
    return f"struct<{','.join(fields)}>"


def _delta(kind: ColumnType) -> Any:
    """Returns the type as the JSON of a Delta table's schema has it, as far as names need it."""
    parts = {name: _delta(part) for name, part in kind.parts}
    if kind.name.startswith("struct<"):
        fields = [{"name": name, "type": part} for name, part in parts.items()]
        return {"type": "struct", "fields": fields}
    if kind.name.startswith("array<"):
        return {"type": "array", "elementType": parts["element"]}
    if kind.name.startswith("map<"):
        return {"type": "map", "keyType": parts["key"], "valueType": parts["value"]}
    return "string" if kind.name == JSON else _DELTA_NAMES.get(kind.name, kind.name)


def _plain(text: str, name: str, format: str | None) -> ColumnType:
    """Returns a type without types in it; `text` is the whole name, for the error."""
    name = name.lower()
    found = _DECIMAL.fullmatch(name)
    if found is not None:
        precision, scale = int(found[1]), int(found[2])
        if not 1 <= precision <= _PRECISION_MAX or scale > precision:
            raise OptionError(
                f"type {text!r}: give decimal(p,s) with 1 <= p <= {_PRECISION_MAX} digits, of which"
                " s <= p stand after the point"
            )
        return ColumnType(f"decimal({precision},{scale})", pa.decimal128(precision, scale), format)
    if name not in PLAIN_TYPES:
        raise OptionError(
            f"type {text!r} is none of {', '.join(PLAIN_TYPES)}, decimal(p,s), struct<name:type,…>,"
            " array<type>, map<string,type>"
        )
    return ColumnType(name, PLAIN_TYPES[name], format)


def _quoted(name: str) -> str:
    return name if _NAME.fullmatch(name) else f"`{name.replace('`', '``')}`"


class _Names:
    """The reader of one name with types in it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def whole(self) -> ColumnType:
        found = self._type(0)
        if self._at < len(self._text):
            raise self._wrong("the end")
        return found

    def _type(self, level: int) -> ColumnType:
        if level > LEVELS_MAX:
            raise OptionError(
                f"type {self._text!r} has more than {LEVELS_MAX} types within each other: give the"
                " inner value the type json"
            )
        decimal, word, _, _ = self._next("a type", decimal=True)
        name = (decimal or word).lower()
        if name not in ("struct", "array", "map"):
            return _plain(self._text, name, None)
        self._mark("<")
        made: ColumnType
        if name == "array":
            made = array_type(self._type(level + 1))
        elif name == "map":
            made = self._map(level)
        else:
            made = self._struct(level)
        self._mark(">")
        return made

    def _map(self, level: int) -> ColumnType:
        key = self._type(level + 1)
        if key.name != "string":
            raise OptionError(
                f"type {self._text!r}: the key of a map is the name of a field, so write"
                " map<string,…>"
            )
        self._mark(",")
        return map_type(self._type(level + 1))

    def _struct(self, level: int) -> ColumnType:
        parts: dict[str, ColumnType] = {}
        while True:
            _, word, quoted, _ = self._next("the name of a field", name=True)
            name = word or quoted.replace("``", "`")
            if name.lower() in (one.lower() for one in parts):
                raise OptionError(
                    f"type {self._text!r} has the field {name} twice (names are the same in"
                    " capitals too)"
                )
            if not name.isprintable() or NOT_IN_NAMES & set(name):
                raise OptionError(
                    f"type {self._text!r}: a table cannot have a field named {name!r}; give that"
                    " field a column, by field = its path"
                )
            self._mark(":")
            parts[name] = self._type(level + 1)
            if self._peek() != ",":
                return struct_type(parts)
            self._mark(",")

    def _next(self, wanted: str, *, decimal: bool = False, name: bool = False) -> tuple[str, ...]:
        found = _TOKEN.match(self._text, self._at)
        if found is None:
            raise self._wrong(wanted)
        # The two groups of a decimal's digits stand between the others.
        parts = (found[1] or "", found[4] or "", found[5] or "", found[6] or "")
        if not (parts[1] or (decimal and parts[0]) or (name and parts[2])):
            raise self._wrong(wanted)
        self._at = found.end()
        return parts

    def _peek(self) -> str | None:
        found = _TOKEN.match(self._text, self._at)
        return None if found is None else found[6]

    def _mark(self, mark: str) -> None:
        if self._peek() != mark:
            raise self._wrong(repr(mark))
        found = _TOKEN.match(self._text, self._at)
        assert found is not None
        self._at = found.end()

    def _wrong(self, wanted: str) -> OptionError:
        rest = self._text[self._at :].strip()
        what = f"{rest!r} stands" if rest else "nothing is left"
        return OptionError(
            f"type {self._text!r}: {what} where {wanted} is expected; write types as"
            " struct<url:string,n:bigint>, array<string> or map<string,double>"
        )
