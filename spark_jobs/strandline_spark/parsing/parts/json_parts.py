"""Values of JSON, as Python's decoder gives them with numbers as written, and what a column of a
type holds of each.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]

from strandline_spark.parsing.epochs import EPOCHS
from strandline_spark.parsing.faults import Fault, Reason, fault, shown
from strandline_spark.parsing.inference import BIGINT

if TYPE_CHECKING:
    from strandline_spark.parsing.parts.paths import NoPlaceError, Path, Step
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
    bytes: "bytes",
    bool: "a boolean",
    dict: "an object",
    list: "an array",
    type(None): "null",
}


class Integer(str):
    """A number without fraction and exponent, as written."""

    __slots__ = ()


class Fraction(str):
    """Any other number, as written."""

    __slots__ = ()


class WrongValue(ValueError):
    """A fault that json itself would accept."""

    def __init__(self, found: Fault) -> None:
        super().__init__(found.detail)
        self.found = found


class Written:
    """The text of a value, and of those in it, which are found only if they are asked for."""

    __slots__ = ("_inner", "_outer", "_step", "_text")

    def __init__(self, text: str | None, outer: Written | None = None, step: Step = "") -> None:
        """Takes the text, or the value around it and the step into that."""
        self._text, self._outer, self._step = text, outer, step
        self._inner: Any = None

    @property
    def text(self) -> str:
        if self._text is None:
            assert self._outer is not None
            self._text = self._outer.text_at(self._step)
        return self._text

    def text_at(self, step: Step) -> str:
        """Returns the text of a field or an element that is there."""
        if self._inner is None:
            kind: Any = dict[str, msgspec.Raw] if isinstance(step, str) else list[msgspec.Raw]
            self._inner = msgspec.json.decode(self.text, type=kind)
        return bytes(self._inner[step]).decode()

    def at(self, *steps: Step) -> Written:
        found = self
        for step in steps:
            found = Written(None, found, step)
        return found


def no_place(name: str, path: Path, why: NoPlaceError) -> Fault:
    """Returns the fault of a value into which a column's path cannot lead."""
    where = f"{why.where} of {path.text}" if why.where else "the value"
    detail = f"column {name}: {where} is {_kind_of(why.value)}, and no {why.wanted}"
    return fault(Reason.WRONG_TYPE, detail)


def no_array(path: Path, why: NoPlaceError) -> Fault:
    """Returns the fault of a value that has something else in the place of the exploded array."""
    where = why.where or "the value"
    detail = f"explode {path.text}: {where} is {_kind_of(why.value)}, and no {why.wanted}"
    return fault(Reason.WRONG_TYPE, detail)


def _kind_of(value: Any) -> str:
    """Returns what a decoded value is, for a detail."""
    return _NAMES.get(type(value), f"number {value}")


def value_in(text: str) -> Any:
    """Returns the one value in the text. Raises WrongValue."""
    body = text.strip(WHITESPACE)
    if not body:
        raise WrongValue(fault(Reason.NOT_JSON, "the value is blank"))
    found, end = _first_value(body)
    rest = body[end:].lstrip(WHITESPACE)
    if rest:
        try:
            _DECODER.raw_decode(rest)
        except (ValueError, RecursionError):
            detail = f"after the first value comes {shown(rest)}"
            raise WrongValue(fault(Reason.NOT_JSON, detail)) from None
        raise WrongValue(
            fault(Reason.MORE_THAN_ONE_VALUE, f"after the first value comes {shown(rest)}")
        )
    if body.count("[") + body.count("{") > NESTED_MAX + 1 and _depth(found) > NESTED_MAX:
        raise WrongValue(_too_deep())
    if "\\u" in body:
        _check_surrogates(found)
    return found


def object_in(text: str) -> dict[str, Any]:
    """Returns the one object in the text. Raises WrongValue."""
    found = value_in(text)
    if type(found) is not dict:
        detail = f"the value is {_NAMES.get(type(found), 'a number')}: {shown(text.strip())}"
        raise WrongValue(fault(Reason.NOT_AN_OBJECT, detail))
    return found


def held(name: str, kind: ColumnType, value: Any, written: Written | None) -> Any:
    """Returns what a column of type `held_type` holds of a value that is not null. Raises
    WrongValue for one that does not fit; `name` is the column's, with the way into it.

    `written` is needed only for a type that holds texts of values.
    """
    if kind.parts:
        return _held_parts(name, kind, value, written)
    of, wanted = type(value), kind.name
    if wanted == "json" and written is not None:
        return written.text
    if wanted in RANGES and of is Integer:
        return _whole(name, wanted, value)
    if wanted == "double" and of in (Integer, Fraction):
        size = float(value)
        if abs(size) != float("inf"):
            return size
        raise WrongValue(_too_large(name, value, wanted))
    if wanted == "boolean" and of is bool:
        return value
    if wanted in ("string", "binary", "date", "timestamp") and of is str:
        return value
    takes_both = wanted.startswith("decimal") or kind.format in EPOCHS
    if takes_both and of in (str, Integer, Fraction):
        return str(value)
    if kind.any_kind and written is not None:
        return written.text
    raise _wrong_type(name, kind, value)


def held_type(kind: ColumnType) -> Any:
    """Returns the Arrow type of what `held` returns: dates, timestamps, decimals and bytes are
    texts.
    """
    if not kind.parts:
        is_own = kind.name in ("int", "bigint", "double", "boolean")
        return kind.arrow if is_own else pa.string()
    parts = {name: held_type(part) for name, part in kind.parts}
    if pa.types.is_struct(kind.arrow):
        return pa.struct([pa.field(name, part) for name, part in parts.items()])
    if pa.types.is_map(kind.arrow):
        return pa.map_(parts["key"], parts["value"])
    return pa.list_(pa.field("element", parts["element"]))


def _held_parts(name: str, kind: ColumnType, value: Any, written: Written | None) -> Any:
    """Returns the fields of a struct, the elements of an array, or the pairs of a map."""
    of, parts = kind.arrow, dict(kind.parts)
    if pa.types.is_list(of):
        if type(value) is not list:
            raise _wrong_type(name, kind, value)
        element = parts["element"]
        return [
            None if one is None else held(f"{name}[{n}]", element, one, written and written.at(n))
            for n, one in enumerate(value)
        ]
    if type(value) is not dict:
        raise _wrong_type(name, kind, value)
    if pa.types.is_map(of):
        pairs = [(key, parts["value"], one) for key, one in value.items()]
    else:
        pairs = [(key, part, value.get(key)) for key, part in kind.parts]
    found = [
        (
            key,
            None if one is None else held(f"{name}.{key}", part, one, written and written.at(key)),
        )
        for key, part, one in pairs
    ]
    return found if pa.types.is_map(of) else dict(found)


def _whole(name: str, wanted: str, value: str) -> int:
    low, high = RANGES[wanted]
    number = int(value) if len(value) <= _DIGITS_MAX else high + 1
    if low <= number <= high:
        return number
    raise WrongValue(_too_large(name, value, wanted))


def _wrong_type(name: str, kind: ColumnType, value: Any) -> WrongValue:
    of = type(value)
    said = f" {shown(value)}" if of is str else f" {value}".lower() if of is bool else ""
    detail = f"column {name}: {_kind_of(value)}{said} is no {kind.name}"
    return WrongValue(fault(Reason.WRONG_TYPE, detail))


def _too_large(name: str, value: str, wanted: str) -> Fault:
    return fault(Reason.OUT_OF_RANGE, f"column {name}: {value} does not fit {wanted}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise WrongValue(fault(Reason.FIELD_TWICE, f"field {shown(twice)} is there twice"))
    return found


def _constant(name: str) -> Any:
    raise WrongValue(fault(Reason.NOT_JSON, f"{name} is no JSON"))


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_unique, parse_int=Integer, parse_float=Fraction, parse_constant=_constant
)


def _first_value(body: str) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(body)
    except RecursionError:
        raise WrongValue(_too_deep()) from None
    except json.JSONDecodeError as why:
        detail = f"{why.msg} at character {why.pos}: {shown(body)}"
        raise WrongValue(fault(Reason.NOT_JSON, detail)) from None


def _too_deep() -> Fault:
    return fault(Reason.NESTED_TOO_DEEPLY, f"more than {NESTED_MAX} levels within each other")


def _check_surrogates(found: Any) -> None:
    """Raises WrongValue for half a surrogate pair, which JSON can spell but which is no
    character.
    """
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise WrongValue(fault(Reason.NOT_JSON, "a string has half a surrogate pair")) from None


def _depth(found: Any) -> int:
    """Returns the number of levels below the top."""
    depth = -1
    level: list[Any] = [found]
    while level:
        depth += 1
        inner = [each.values() if type(each) is dict else each for each in level]
        level = [one for each in inner for one in each if type(one) in (dict, list)]
    return depth
