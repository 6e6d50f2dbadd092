"""The columns of an Avro record: the Avro types that each takes, and how values become its own.

fastavro reads each value as its plain type, without the logical one: it would round a decimal that
has more digits than the schema says, and a time beyond Python's years would end the datum. A
logical type that Avro does not define, or that stands on another base type, counts as its base
type, as Avro's specification asks.
"""

from __future__ import annotations

import struct
import uuid
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import fastavro

from strandline_spark.parsing.epochs import EPOCHS, EpochNumbers
from strandline_spark.parsing.parts.explode import explode_of
from strandline_spark.parsing.parts.json_parts import RANGES
from strandline_spark.parsing.settings import POSITION, paths_of
from strandline_spark.parsing.strptime import DAY_US
from strandline_spark.parsing.texts import TIME_US_MAX, TIME_US_MIN

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_spark.parsing.parts.paths import Path
    from strandline_spark.parsing.settings import ColumnType, ParseSettings

_UNITS: Final = {"millis": (1000, 1), "micros": (1, 1), "nanos": (1, 1000)}
"""Microseconds of each unit of a timestamp, as a numerator and a denominator."""
_PLACES: Final = {"time-millis": 3, "time-micros": 6}
"""Digits of a second in a time of day."""
_TIMESTAMPS: Final = {
    f"{place}timestamp-{unit}": ratio for place in ("", "local-") for unit, ratio in _UNITS.items()
}
LOGICAL: Final = {
    "date": ("int",),
    "decimal": ("bytes", "fixed"),
    "duration": ("fixed",),
    "time-micros": ("long",),
    "time-millis": ("int",),
    "uuid": ("string", "fixed"),
    **dict.fromkeys(_TIMESTAMPS, ("long",)),
}
"""Logical types, and the base types on which they may stand."""
_SIZES: Final = {"duration": 12, "uuid": 16}
"""Bytes of a `fixed` with these logical types."""
_TAKES: Final = {
    "string": {"string", "enum", "uuid", "duration", *_PLACES},
    "int": {"int", "long", *_PLACES},
    "bigint": {"int", "long", *_PLACES},
    "double": {"int", "long", "float", "double"},
    "boolean": {"boolean"},
    "date": {"date"},
    "timestamp": set(_TIMESTAMPS),
    "decimal": {"decimal"},
    "binary": {"bytes", "fixed"},
}
"""Avro types, or logical types, by the column type that they become."""
_TAKES_EPOCH: Final = {"int", "long", "float", "double", "string"}
_PARSERS_OWN: Final = ("__fastavro_parsed__", "__named_schemas", "logicalType")
_BITS_SHOWN: Final = 1024
WIDE: Final = Context(prec=400, Emax=10**9, Emin=-(10**9))
"""Enough digits for a number of `_BITS_SHOWN` bits."""


EXPLODE: Final = "[silver] explode"


class SchemaProblem(ValueError):
    """An unusable schema. `column` is None if the schema as a whole is wrong, and EXPLODE if the
    array of that key is; `key` is the schema's id among `schemas`.
    """

    def __init__(self, column: str | None, what: str, key: str | None = None) -> None:
        super().__init__(what)
        self.column = column
        self.key = key


@dataclass(frozen=True, slots=True)
class AvroColumn:
    """The reader of one column."""

    name: str
    path: Path
    """Place in the record."""
    read: Callable[[Any], Any]
    """Returns the value for Arrow of a value of the plain schema that is not null. Raises
    ValueError for one that the column cannot hold.
    """


def reader_plan(
    schema: dict[str, Any], named: dict[str, Any], settings: ParseSettings
) -> tuple[Any, list[AvroColumn]]:
    """Returns the plain schema for fastavro, and the columns in their order. Raises
    SchemaProblem.
    """
    try:
        columns = columns_of(schema, named, settings)
        return fastavro.parse_schema(plain_schema(schema)), columns
    except (KeyError, TypeError, AttributeError) as why:
        raise SchemaProblem(None, f"is no record with fields ({why!r})") from why


def columns_of(
    schema: dict[str, Any], named: dict[str, Any], settings: ParseSettings
) -> list[AvroColumn]:
    from strandline_spark.parsing.avro.nested import branches_at, elements_at, nested_reader

    explode = explode_of(settings.columns, settings.explode)
    elements = [] if explode is None else elements_at(explode.path, [schema], named)
    columns = []
    for name, path in paths_of(settings.columns).items():
        kind = settings.columns[name]
        if kind.source == POSITION:
            columns.append(AvroColumn(name, path, _same))
            continue
        branches = [schema]
        if explode is not None and name in explode.inner:
            path, branches = explode.inner[name], elements
        branches = branches_at(name, path, branches, named)
        if kind.is_nested or kind.name == "json":
            columns.append(AvroColumn(name, path, nested_reader(name, kind, branches, named)))
        else:
            columns.append(AvroColumn(name, path, reader(name, kind, branches)))
    return columns


def reader(name: str, kind: ColumnType, branches: list[Any]) -> Callable[[Any], Any]:
    """Returns the reader of a column without others within it. Raises SchemaProblem."""
    of = _fitting_type(name, kind, branches)
    if kind.format in EPOCHS:
        return partial(_since_1970, name, kind, EpochNumbers(kind.format))
    if of in _TIMESTAMPS:
        return partial(_timestamp, name, kind, *_TIMESTAMPS[of])
    if of == "decimal":
        scales = {branch.get("scale", 0) for branch in branches if isinstance(branch, dict)}
        if len(scales) > 1:
            raise SchemaProblem(name, "the Avro field has decimals of several scales")
        return partial(_decimal, name, kind, *scales)
    if kind.name in RANGES:
        return partial(_within, name, kind, *RANGES[kind.name])
    if kind.name == "date":
        return partial(_within, name, kind, TIME_US_MIN // DAY_US, TIME_US_MAX // DAY_US)
    if kind.name == "string" and of in _PLACES:
        return partial(_time_of_day, name, _PLACES[of])
    plain = {"duration": duration_text, "uuid": uuid_text}
    return plain.get(of, float if kind.name == "double" else _same)


def _fitting_type(name: str, kind: ColumnType, branches: list[Any]) -> str:
    """Returns the Avro type; one of them, if the column takes several alike. Raises SchemaProblem
    if the column does not take it.
    """
    found = {type_of(branch) for branch in branches} - {"null"}
    accepted = _TAKES_EPOCH if kind.format in EPOCHS else _TAKES[kind.name.partition("(")[0]]
    if not found or not found <= accepted or (found & set(LOGICAL) and len(found) > 1):
        is_now, wanted = " or ".join(sorted(found)) or "null", ", ".join(sorted(accepted))
        form = "" if kind.format is None else f" with the format {kind.format!r}"
        raise SchemaProblem(
            name,
            f"{kind.name}{form} does not fit the Avro field of type {is_now}: it takes {wanted}",
        )
    of = min(found)
    if kind.zone is not None and not of.startswith("local-"):
        raise SchemaProblem(
            name, f"zone {kind.zone!r} is for a local-timestamp, and the Avro field is {of}"
        )
    return of


def found_type(branch: Any, named: dict[str, Any]) -> Any:
    """Returns the definition of a named type, else the branch itself."""
    return named.get(branch, branch) if isinstance(branch, str) else branch


def type_of(branch: Any) -> str:
    """Returns the logical type, if Avro defines it on this base type, else the base type."""
    if not isinstance(branch, dict):
        return str(branch)
    base, logical = branch["type"], str(branch.get("logicalType"))
    if base not in LOGICAL.get(logical, ()):
        return str(base)
    fits = base != "fixed" or branch["size"] == _SIZES.get(logical, branch["size"])
    return logical if fits else str(base)


def plain_schema(schema: Any) -> Any:
    """Returns the schema without its logical types."""
    if isinstance(schema, list):
        return [plain_schema(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {key: value for key, value in schema.items() if key not in _PARSERS_OWN}
    for key in ("type", "items", "values"):
        if key in plain:
            plain[key] = plain_schema(plain[key])
    if "fields" in plain:
        plain["fields"] = [plain_schema(field) for field in plain["fields"]]
    return plain


def _same(value: Any) -> Any:
    return value


def _within(name: str, kind: ColumnType, low: int, high: int, value: int) -> int:
    if not low <= value <= high:
        raise ValueError(f"column {name}: {value} does not fit {kind.name}")
    return value


def _timestamp(name: str, kind: ColumnType, times: int, parts: int, value: int) -> int:
    """Returns microseconds. A local time keeps a day from the ends of the years, for its zone."""
    margin = 0 if kind.zone is None else DAY_US
    found = value * times // parts
    if not TIME_US_MIN + margin <= found <= TIME_US_MAX - margin:
        raise ValueError(f"column {name}: {value} does not fit {kind.name}")
    return found


def _since_1970(name: str, kind: ColumnType, numbers: EpochNumbers, value: Any) -> int:
    try:
        found = numbers.one(value if isinstance(value, str) else repr(value))
    except ValueError as why:
        text = f"column {name}: {value!r} is no {kind.name} in the format {kind.format!r}"
        raise ValueError(text) from why
    if not TIME_US_MIN <= found <= TIME_US_MAX:
        raise ValueError(f"column {name}: {value!r} does not fit {kind.name}")
    return found


def _time_of_day(name: str, places: int, value: int) -> str:
    """Returns the time of day, like 23:59:59.999."""
    seconds, part = divmod(value, 10**places)
    if not 0 <= seconds < DAY_US // 10**6:
        raise ValueError(f"column {name}: {value} is no time of a day")
    minutes, second = divmod(seconds, 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{second:02}.{part:0{places}}"


def duration_text(value: bytes) -> str:
    """Returns months, days and milliseconds as ISO 8601 has them, like P1M2DT3.004S."""
    months, days, millis = struct.unpack("<III", value)
    return f"P{months}M{days}DT{millis // 1000}.{millis % 1000:03}S"


def uuid_text(value: Any) -> str:
    return str(uuid.UUID(bytes=value)) if isinstance(value, bytes) else str(value)


def _decimal(name: str, kind: ColumnType, scale: int, value: bytes) -> Decimal:
    """Returns the number. Raises ValueError if a digit other than 0 has no place in it."""
    unscaled = int.from_bytes(value, "big", signed=True)
    more = kind.arrow.scale - scale
    whole, left = (unscaled * 10**more, 0) if more >= 0 else divmod(unscaled, 10**-more)
    if left != 0 or abs(whole) >= 10**kind.arrow.precision:
        size = unscaled.bit_length()
        said = Decimal(unscaled).scaleb(-scale, WIDE) if size < _BITS_SHOWN else f"{size} bits"
        raise ValueError(f"column {name}: {said} does not fit {kind.name}")
    return Decimal(whole).scaleb(-kind.arrow.scale, WIDE)
