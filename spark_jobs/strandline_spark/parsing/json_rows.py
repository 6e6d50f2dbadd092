"""The Python reader of JSON objects, one after the other, which finds each right value and each
fault.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

from strandline_spark.parsing.cleaning import clean_text
from strandline_spark.parsing.epochs import EPOCHS
from strandline_spark.parsing.faults import Fault, Reason, fault, shown
from strandline_spark.parsing.inference import (
    BIGINT,
    BOOLEAN,
    TEXT,
    holds,
    merge_fields,
    types_of_number,
    types_of_whole,
)
from strandline_spark.parsing.settings import fields_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from strandline_spark.parsing.settings import ColumnType

WHITESPACE: Final = " \t\n\r"
NESTED_MAX: Final = 500
"""Limit of objects and arrays within each other, below the top one: half of what Python's decoder
supports.
"""
RANGES: Final = {"int": (-(2**31), 2**31 - 1), "bigint": BIGINT}
_DIGITS_MAX: Final = 20
_NAMES: Final = {
    str: "a string",
    bool: "a boolean",
    dict: "an object",
    list: "an array",
    type(None): "null",
}


class _Integer(str):
    """A number without fraction and exponent, as written."""

    __slots__ = ()


class _Fraction(str):
    """Any other number, as written."""

    __slots__ = ()


class _Wrong(ValueError):
    """A fault that json itself would accept."""

    def __init__(self, found: Fault) -> None:
        super().__init__(found.detail)
        self.found = found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _Wrong(fault(Reason.FIELD_TWICE, f"field {shown(twice)} is there twice"))
    return found


def _constant(name: str) -> Any:
    raise _Wrong(fault(Reason.NOT_JSON, f"{name} is no JSON"))


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_unique, parse_int=_Integer, parse_float=_Fraction, parse_constant=_constant
)


@dataclass(slots=True)
class JsonColumns:
    """The columns of some rows. A column holds values for Arrow: texts for dates, timestamps and
    decimals, None if the row has no value or a fault.
    """

    columns: dict[str, list[Any]]
    faults: dict[int, Fault] = field(default_factory=dict)
    fields: dict[int, dict[str, str]] = field(default_factory=dict)
    """New fields by row, and those whose column does not hold the value, each with the types that
    do.
    """

    def new_fields(self, bad: Collection[int]) -> dict[str, str]:
        found: dict[str, str] = {}
        for row, fields in self.fields.items():
            if row not in bad and row not in self.faults:
                merge_fields(found, fields)
        return found


class JsonRows:
    """The reader; `columns` as in the settings."""

    def __init__(self, columns: Mapping[str, ColumnType]) -> None:
        self._columns = columns
        self._fields = fields_of(columns)
        self._known = set(self._fields.values())
        self._widening = {
            self._fields[name]: kind.name
            for name, kind in columns.items()
            if kind.any_kind and kind.name != "string"
        }
        """The types, by field, of the columns that may become wider."""

    def decode(self, texts: list[str]) -> JsonColumns:
        found = JsonColumns({name: [] for name in self._columns})
        for row, text in enumerate(texts):
            try:
                fields = _object_of(text)
                new = self._new_fields(fields)
                values = [
                    None if field in new else self._value(name, fields.get(field), text)
                    for name, field in self._fields.items()
                ]
                if new:
                    found.fields[row] = new
            except _Wrong as wrong:
                found.faults[row] = wrong.found
                values = [None] * len(self._columns)
            for column, value in zip(found.columns.values(), values, strict=True):
                column.append(value)
        return found

    def _new_fields(self, fields: dict[str, Any]) -> dict[str, str]:
        """Returns the fields without a column, and those whose column must become wider."""
        found = {}
        for name, value in fields.items():
            column = self._widening.get(name)
            if value is not None and (column is not None or name not in self._known):
                types = _types_of(value)
                if column is None or not holds(types, column):
                    found[name] = types
        return found

    def _value(self, name: str, value: Any, text: str) -> Any:
        """Returns the column's value. Raises _Wrong for a value that the column cannot hold."""
        if type(value) is str:
            value = clean_text(value, self._columns[name])
        return None if value is None else self._typed(name, value, text)

    def _typed(self, name: str, value: Any, text: str) -> Any:
        kind, of = self._columns[name], type(value)
        wanted = kind.name
        if wanted in RANGES and of is _Integer:
            low, high = RANGES[wanted]
            number = int(value) if len(value) <= _DIGITS_MAX else high + 1
            if low <= number <= high:
                return number
            raise _Wrong(_too_large(name, value, wanted))
        if wanted == "double" and of in (_Integer, _Fraction):
            size = float(value)
            if abs(size) != float("inf"):
                return size
            raise _Wrong(_too_large(name, value, wanted))
        if wanted == "boolean" and of is bool:
            return value
        if wanted in ("string", "binary", "date", "timestamp") and of is str:
            return value
        takes_both = wanted.startswith("decimal") or kind.format in EPOCHS
        if takes_both and of in (str, _Integer, _Fraction):
            return str(value)
        if kind.any_kind:
            fields = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
            return bytes(fields[self._fields[name]]).decode()
        what = f"number {value}" if of in (_Integer, _Fraction) else _NAMES[of]
        said = f" {shown(value)}" if of is str else f" {value}".lower() if of is bool else ""
        detail = f"column {name}: {what}{said} is no {wanted}"
        raise _Wrong(fault(Reason.WRONG_TYPE, detail))


def _too_large(name: str, value: str, wanted: str) -> Fault:
    return fault(Reason.OUT_OF_RANGE, f"column {name}: {value} does not fit {wanted}")


def _object_of(text: str) -> dict[str, Any]:
    """Returns the one object in the text. Raises _Wrong."""
    body = text.strip(WHITESPACE)
    if not body:
        raise _Wrong(fault(Reason.NOT_JSON, "the value is blank"))
    found, end = _first_value(body)
    rest = body[end:].lstrip(WHITESPACE)
    if rest:
        try:
            _DECODER.raw_decode(rest)
        except (ValueError, RecursionError):
            detail = f"after the first value comes {shown(rest)}"
            raise _Wrong(fault(Reason.NOT_JSON, detail)) from None
        raise _Wrong(
            fault(Reason.MORE_THAN_ONE_VALUE, f"after the first value comes {shown(rest)}")
        )
    if type(found) is not dict:
        detail = f"the value is {_NAMES.get(type(found), 'a number')}: {shown(body)}"
        raise _Wrong(fault(Reason.NOT_AN_OBJECT, detail))
    if body.count("[") + body.count("{") > NESTED_MAX + 1 and _depth(found) > NESTED_MAX:
        raise _Wrong(_too_deep())
    if "\\u" in body:
        _check_surrogates(found)
    return found


def _first_value(body: str) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(body)
    except RecursionError:
        raise _Wrong(_too_deep()) from None
    except json.JSONDecodeError as why:
        detail = f"{why.msg} at character {why.pos}: {shown(body)}"
        raise _Wrong(fault(Reason.NOT_JSON, detail)) from None


def _too_deep() -> Fault:
    return fault(Reason.NESTED_TOO_DEEPLY, f"more than {NESTED_MAX} levels within each other")


def _check_surrogates(found: dict[str, Any]) -> None:
    """Raises _Wrong for half a surrogate pair, which JSON can spell but which is no character."""
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise _Wrong(fault(Reason.NOT_JSON, "a string has half a surrogate pair")) from None


def _depth(found: dict[str, Any]) -> int:
    """Returns the number of levels below the top."""
    depth = -1
    level: list[Any] = [found]
    while level:
        depth += 1
        inner = [each.values() if type(each) is dict else each for each in level]
        level = [one for each in inner for one in each if type(one) in (dict, list)]
    return depth


def _types_of(value: Any) -> str:
    kind = type(value)
    if kind is _Integer:
        return types_of_whole(value)
    if kind is _Fraction:
        return types_of_number(value)
    return BOOLEAN if kind is bool else TEXT
