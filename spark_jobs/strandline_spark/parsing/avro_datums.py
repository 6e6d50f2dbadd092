"""Values that are Avro datums without a header, each of the writer's schema in the settings."""

from __future__ import annotations

import io
import json
import struct
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any, Final

import fastavro
import pyarrow as pa  # type: ignore[import-untyped]

from strandline_spark.parsing.avro_walk import LEVELS_MAX, AvroWalk, TooDeepError
from strandline_spark.parsing.decoded import Decoded
from strandline_spark.parsing.faults import Fault, Reason, fault, shown
from strandline_spark.parsing.json_rows import RANGES
from strandline_spark.parsing.settings import fields_of
from strandline_spark.parsing.strptime import DAY_US
from strandline_spark.parsing.texts import TIME_US_MAX, TIME_US_MIN

if TYPE_CHECKING:
    from strandline_spark.parsing.settings import ColumnType, ParseSettings

_MILLIS: Final = ("timestamp-millis", "local-timestamp-millis")
_MICROS: Final = ("timestamp-micros", "local-timestamp-micros")
_BRANCHES: Final = {
    "string": {"string", "enum"},
    "int": {"int", "long"},
    "bigint": {"int", "long"},
    "double": {"int", "long", "float", "double"},
    "boolean": {"boolean"},
    "date": {"date"},
    "timestamp": {*_MILLIS, *_MICROS},
    "decimal": {"decimal"},
}
"""Avro types, or logical types, by the column type that they become."""
_BROKEN: Final = (
    EOFError,
    ValueError,
    LookupError,
    TypeError,
    OverflowError,
    MemoryError,
    ArithmeticError,
    RecursionError,
    struct.error,
)
"""Errors that fastavro raises for bytes that are no datum."""


_BITS_SHOWN: Final = 1024
_WIDE: Final = Context(prec=400, Emax=10**9, Emin=-(10**9))
"""Enough digits for a number of `_BITS_SHOWN` bits."""


class SchemaProblem(ValueError):
    """An unusable schema; `column` is None if the schema as a whole is wrong."""

    def __init__(self, column: str | None, what: str) -> None:
        super().__init__(what)
        self.column = column


def reader_plan(settings: ParseSettings) -> tuple[Any, dict[str, int]]:
    """Returns the schema for fastavro, and for each timestamp the microseconds of its unit, for
    each decimal its scale.

    In that schema times are plain numbers and decimals plain bytes: fastavro would round a decimal
    that has more digits than the schema says. Raises SchemaProblem.
    """
    try:
        schema = json.loads(settings.avro_schema or "")
        fastavro.parse_schema(schema)
    except RecursionError as why:
        raise SchemaProblem(None, "is nested too deeply") from why
    except (ValueError, TypeError, LookupError, fastavro.schema.SchemaParseException) as why:
        raise SchemaProblem(None, f"does not parse ({why})") from why
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise SchemaProblem(None, "is no record")
    try:
        return _plan(schema, settings)
    except (KeyError, TypeError, AttributeError) as why:
        raise SchemaProblem(None, f"is no record with fields ({why!r})") from why


def _plan(schema: dict[str, Any], settings: ParseSettings) -> tuple[Any, dict[str, int]]:
    fields = {each["name"]: each for each in schema["fields"]}
    named = {each["type"]["name"]: each["type"]["type"] for each in fields.values() if _named(each)}
    units: dict[str, int] = {}
    for name, field in fields_of(settings.columns).items():
        kind = settings.columns[name]
        if field not in fields:
            known = ", ".join(fields)
            raise SchemaProblem(name, f"the Avro schema has no field {field}: it has {known}")
        of = fields[field]["type"]
        branches = of if isinstance(of, list) else [of]
        found = {_type_of(branch, named) for branch in branches} - {"null"}
        accepted = _BRANCHES[kind.name.partition("(")[0]]
        if not found or not found <= accepted or (kind.name == "timestamp" and len(found) > 1):
            is_now, wanted = " or ".join(sorted(found)) or "null", ", ".join(sorted(accepted))
            raise SchemaProblem(
                name, f"{kind.name} does not fit the Avro field of type {is_now}: it takes {wanted}"
            )
        if kind.name == "timestamp":
            units[name] = 1000 if found <= set(_MILLIS) else 1
        elif found == {"decimal"}:
            scales = {one.get("scale", 0) for one in branches if isinstance(one, dict)}
            if len(scales) > 1:
                raise SchemaProblem(name, "the Avro field has decimals of several scales")
            (units[name],) = scales
        if kind.name in ("timestamp", "date") or found == {"decimal"}:
            plain = [_plain(branch) for branch in branches]
            fields[field]["type"] = plain if isinstance(of, list) else plain[0]
    return fastavro.parse_schema(schema), units


def _named(field: Any) -> bool:
    return isinstance(field["type"], dict) and "name" in field["type"]


def _type_of(branch: Any, named: dict[str, str]) -> str:
    if isinstance(branch, dict):
        return str(branch.get("logicalType", branch["type"]))
    return named.get(branch, str(branch))


def _plain(branch: Any) -> Any:
    if isinstance(branch, dict) and branch["type"] == "fixed":
        return {key: value for key, value in branch.items() if key != "logicalType"}
    return branch["type"] if isinstance(branch, dict) else branch


class AvroDecoder:
    """The decoder for the settings of one table."""

    def __init__(self, settings: ParseSettings) -> None:
        self._schema, self._units = reader_plan(settings)
        self._walk = AvroWalk(self._schema)
        self._columns = settings.columns
        self._fields = fields_of(settings.columns)

    def decode(self, values: Any) -> Decoded:
        faults: dict[int, Fault] = {}
        columns: list[list[Any]] = [[] for _ in self._columns]
        for row, value in enumerate(values.to_pylist()):
            stream = io.BytesIO(value)
            reason = Reason.NOT_AVRO
            try:
                self._walk.check(value)
                datum: Any = fastavro.schemaless_reader(stream, self._schema, None)
                left = len(value) - stream.tell()
                why = f"{left} bytes are left over" if left else None
            except TooDeepError:
                datum, reason = {}, Reason.NESTED_TOO_DEEPLY
                why = f"more than {LEVELS_MAX} levels within each other"
            except _BROKEN as error:
                datum, why = {}, _what_of(error)
            if why is not None:
                datum = {}
                faults[row] = fault(reason, f"{why}: {shown(value)}")
            for column, (name, kind) in zip(columns, self._columns.items(), strict=True):
                try:
                    column.append(self._value(name, kind, datum.get(self._fields[name])))
                except (ValueError, ArithmeticError) as error:
                    column.append(None)
                    faults.setdefault(row, fault(Reason.OUT_OF_RANGE, str(error)))
        arrays = [
            pa.array(column, type=kind.arrow)
            for column, kind in zip(columns, self._columns.values(), strict=True)
        ]
        return Decoded(arrays, faults)

    def _value(self, name: str, kind: ColumnType, value: Any) -> Any:
        """Returns the column's value. Raises ValueError for a value that the column cannot hold."""
        if value is None:
            return None
        if isinstance(value, bytes):
            return _decimal(
                name, kind, int.from_bytes(value, "big", signed=True), self._units[name]
            )
        wrong = ValueError(f"column {name}: {value} does not fit {kind.name}")
        if kind.name in RANGES:
            low, high = RANGES[kind.name]
        elif kind.name == "timestamp":
            value *= self._units[name]
            low, high = TIME_US_MIN, TIME_US_MAX
        elif kind.name == "date":
            low, high = TIME_US_MIN // DAY_US, TIME_US_MAX // DAY_US
        else:
            return float(value) if kind.name == "double" else value
        if not low <= value <= high:
            raise wrong
        return value


def _what_of(error: Exception) -> str:
    """Describes the error in our own words. A batch that runs again must give the same text, and
    fastavro's texts have addresses in them.
    """
    if isinstance(error, EOFError):
        return "the value ends before the datum does"
    if isinstance(error, UnicodeDecodeError):
        return "a string is not UTF-8"
    return "no datum of the schema"


def _decimal(name: str, kind: ColumnType, unscaled: int, scale: int) -> Decimal:
    """Returns the number for a column. Raises ValueError if a digit other than 0 has no place in
    it.
    """
    more = kind.arrow.scale - scale
    whole, left = (unscaled * 10**more, 0) if more >= 0 else divmod(unscaled, 10**-more)
    if left != 0 or abs(whole) >= 10**kind.arrow.precision:
        size = unscaled.bit_length()
        said = Decimal(unscaled).scaleb(-scale, _WIDE) if size < _BITS_SHOWN else f"{size} bits"
        raise ValueError(f"column {name}: {said} does not fit {kind.name}")
    return Decimal(whole).scaleb(-kind.arrow.scale, _WIDE)
