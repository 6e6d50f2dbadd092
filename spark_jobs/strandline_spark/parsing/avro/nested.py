"""The places in an Avro schema that paths lead to, and the readers of records, arrays and maps
within it.
"""

from __future__ import annotations

import base64
import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import msgspec

from strandline_spark.parsing.avro.columns import (
    EXPLODE,
    WIDE,
    SchemaProblem,
    duration_text,
    found_type,
    reader,
    type_of,
    uuid_text,
)
from strandline_spark.parsing.parts.paths import said

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from strandline_spark.parsing.parts.paths import Path
    from strandline_spark.parsing.settings import ColumnType

_RECORDS: Final = ("record", "error")
_IN_PYTHON: Final[Mapping[str, type]] = {
    "null": type(None),
    "boolean": bool,
    "float": float,
    "double": float,
    "bytes": bytes,
    "fixed": bytes,
    "array": list,
    "map": dict,
    "record": dict,
    "error": dict,
    "string": str,
    "enum": str,
}
"""The Python type of each Avro type's values; int for the others."""


def branches_at(name: str, path: Path, branches: list[Any], named: dict[str, Any]) -> list[Any]:
    """Returns the types that a column's field may have in values of these types. Raises
    SchemaProblem for a path that names nothing.
    """
    found = branches
    for number, step in enumerate(path.steps):
        inner: list[Any] = []
        for branch in found:
            of = _base(branch)
            if isinstance(step, str) and of in _RECORDS:
                inner += (one["type"] for one in branch["fields"] if one["name"] == step)
            elif of == ("map" if isinstance(step, str) else "array"):
                inner.append(branch["values" if of == "map" else "items"])
        if not inner:
            raise SchemaProblem(name, _nothing(path, number, found))
        found = [branch for one in inner for branch in _branches(one, named)]
    return found


def elements_at(path: Path, branches: list[Any], named: dict[str, Any]) -> list[Any]:
    """Returns the types of the elements that are exploded. Raises SchemaProblem for a path to no
    array.
    """
    found = [one for one in branches_at(EXPLODE, path, branches, named) if one != "null"]
    if [_base(one) for one in found] != ["array"]:
        is_now = " or ".join(sorted({str(_base(one)) for one in found})) or "null"
        raise SchemaProblem(
            EXPLODE, f"{path.text} is {is_now} in the Avro schema, and no array: name an array"
        )
    return _branches(found[0]["items"], named)


def nested_reader(
    name: str, kind: ColumnType, branches: list[Any], named: dict[str, Any]
) -> Callable[[Any], Any]:
    """Returns the reader of a struct, an array, a map or a json, and of what is within it. Raises
    SchemaProblem.
    """
    if kind.name == "json":
        return _JsonText(name, branches, named).of
    if not kind.is_nested:
        return reader(name, kind, branches)
    form = kind.name.partition("<")[0]
    wanted = _RECORDS if form == "struct" else (form,)
    others = [branch for branch in branches if branch != "null"]
    if len(others) != 1 or _base(others[0]) not in wanted:
        is_now = " or ".join(sorted({str(_base(one)) for one in others})) or "null"
        takes = f"one {wanted[0]}"
        raise SchemaProblem(
            name, f"{kind.name} does not fit the Avro field of type {is_now}: it takes {takes}"
        )
    (of,) = others
    if form == "struct":
        return _struct(name, kind, of, named)
    part = kind.parts[-1][1]
    inner = _branches(of["items" if form == "array" else "values"], named)
    read = _or_null(nested_reader(name, part, inner, named))
    if form == "array":
        return lambda value: [read(one) for one in value]
    return lambda value: [(key, read(one)) for key, one in value.items()]


def _struct(
    name: str, kind: ColumnType, of: Any, named: dict[str, Any]
) -> Callable[[Any], dict[str, Any]]:
    fields = {one["name"]: one["type"] for one in of["fields"]}
    readers = {}
    for part, inner in kind.parts:
        if part not in fields:
            raise SchemaProblem(
                name,
                f"the record {of['name']} of the Avro schema has no field {part}: it has"
                f" {', '.join(fields)}",
            )
        readers[part] = _or_null(nested_reader(name, inner, _branches(fields[part], named), named))
    return lambda value: {part: read(value[part]) for part, read in readers.items()}


def _or_null(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else read(value)


def _nothing(path: Path, number: int, found: Iterable[Any]) -> str:
    """Returns the words for a path whose step of this number leads nowhere."""
    step, before = path.steps[number], said(path.steps[:number])
    records = [branch for branch in found if _base(branch) in _RECORDS]
    if isinstance(step, str) and records:
        known = ", ".join(one["name"] for branch in records for one in branch["fields"])
        where = f" in {before}" if before else ""
        return f"the Avro schema has no field {step}{where}: it has {known}"
    is_now = " or ".join(sorted({str(_base(one)) for one in found} - {"null"})) or "null"
    parts = "fields" if isinstance(step, str) else "elements"
    return (
        f"{before or 'the record'} of {path.text} is {is_now} in the Avro schema, and has no"
        f" {parts}: shorten the path, or correct it"
    )


def _branches(of: Any, named: dict[str, Any]) -> list[Any]:
    return [found_type(one, named) for one in (of if isinstance(of, list) else [of])]


def _base(branch: Any) -> Any:
    return branch["type"] if isinstance(branch, dict) else branch


class _JsonText:
    """The writer of values as JSON. Decimals are numbers, bytes are base64, and dates and times are
    Avro's own numbers.
    """

    def __init__(self, name: str, branches: list[Any], named: dict[str, Any]) -> None:
        self._name = name
        self._branches = branches
        self._named = named
        self._encode = msgspec.json.Encoder(decimal_format="number").encode

    def of(self, value: Any) -> str:
        """Returns the text. Raises ValueError for a number that JSON does not have."""
        return self._encode(self._plain(value, self._branches)).decode()

    def _plain(self, value: Any, branches: list[Any]) -> Any:
        if value is None:
            return None
        branch = next(one for one in branches if self._is_of(value, one))
        base, logical = _base(branch), type_of(branch)
        if logical == "decimal":
            unscaled = int.from_bytes(value, "big", signed=True)
            return Decimal(unscaled).scaleb(-branch.get("scale", 0), WIDE)
        if logical in ("uuid", "duration"):
            return uuid_text(value) if logical == "uuid" else duration_text(value)
        if base in _RECORDS:
            fields = {one["name"]: one["type"] for one in branch["fields"]}
            return {
                name: self._plain(value[name], _branches(of, self._named))
                for name, of in fields.items()
            }
        if base in ("array", "map"):
            inner = _branches(branch["items" if base == "array" else "values"], self._named)
            if base == "array":
                return [self._plain(one, inner) for one in value]
            return {key: self._plain(one, inner) for key, one in value.items()}
        if isinstance(value, bytes):
            return base64.b64encode(value).decode()
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"column {self._name}: {value} is no number of JSON")
        return value

    @staticmethod
    def _is_of(value: Any, branch: Any) -> bool:
        """True if a value is of this branch of a union, as far as Python tells them apart."""
        base = _base(branch)
        of: type = type(value)
        if of is not _IN_PYTHON.get(base, int):
            return False
        if base in _RECORDS:
            return bool(value.keys() == {one["name"] for one in branch["fields"]})
        if base == "fixed":
            return len(value) == int(branch["size"])
        return base != "enum" or value in branch["symbols"]
