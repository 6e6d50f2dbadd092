"""The types of Protobuf that each column takes, and how values become its own."""

from __future__ import annotations

from datetime import date
from decimal import Context, Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.descriptor import FieldDescriptor as Field

from strandline_spark.parsing.epochs import EPOCHS, EpochNumbers
from strandline_spark.parsing.parts.json_parts import RANGES
from strandline_spark.parsing.protobuf.descriptors import DescriptorProblem
from strandline_spark.parsing.texts import TIME_US_MAX, TIME_US_MIN

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_spark.parsing.settings import ColumnType

_WHOLE: Final = {
    Field.TYPE_INT32: "int32",
    Field.TYPE_INT64: "int64",
    Field.TYPE_UINT32: "uint32",
    Field.TYPE_UINT64: "uint64",
    Field.TYPE_SINT32: "sint32",
    Field.TYPE_SINT64: "sint64",
    Field.TYPE_FIXED32: "fixed32",
    Field.TYPE_FIXED64: "fixed64",
    Field.TYPE_SFIXED32: "sfixed32",
    Field.TYPE_SFIXED64: "sfixed64",
}
_NAMES: Final = _WHOLE | {
    Field.TYPE_BOOL: "bool",
    Field.TYPE_BYTES: "bytes",
    Field.TYPE_DOUBLE: "double",
    Field.TYPE_ENUM: "enum",
    Field.TYPE_FLOAT: "float",
    Field.TYPE_STRING: "string",
}
_INTEGERS: Final = frozenset(_WHOLE.values())
_TIMESTAMP: Final = "google.protobuf.Timestamp"
_DURATION: Final = "google.protobuf.Duration"
_DATE: Final = "google.type.Date"
_WRAPPERS: Final = {
    f"google.protobuf.{one}Value"
    for one in ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64")
}
"""Messages of one field, by which older files give a value presence."""
_TAKES: Final[dict[str, frozenset[str]]] = {
    "string": frozenset(("string", "enum", _DURATION)),
    "int": _INTEGERS | {"enum"},
    "bigint": _INTEGERS | {"enum"},
    "double": _INTEGERS | {"float", "double"},
    "boolean": frozenset(("bool",)),
    "date": frozenset((_DATE,)),
    "timestamp": frozenset((_TIMESTAMP,)),
    "decimal": _INTEGERS,
    "binary": frozenset(("bytes",)),
}
"""Protobuf types by the column type that they become."""
_TAKES_EPOCH: Final = _INTEGERS | {"float", "double", "string"}
_NANOS: Final = 10**9
_EXACT: Final = Context(prec=60)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()


def reader(name: str, kind: ColumnType, field: Any) -> Callable[[Any], Any]:
    """Returns the reader of one value of a field, of a column without others within it. It raises
    ValueError for a value that the column cannot hold. Raises DescriptorProblem.
    """
    inner = field.message_type
    if inner is not None and inner.full_name in _WRAPPERS:
        read = reader(name, kind, inner.fields_by_name["value"])
        return lambda value: read(value.value)
    of = type_name(field)
    _check_type(name, kind, of)
    if kind.format in EPOCHS:
        return partial(_since_1970, name, kind, EpochNumbers(kind.format))
    if kind.name in RANGES:
        return partial(_within, name, kind, *RANGES[kind.name])
    if kind.name.startswith("decimal"):
        return partial(_decimal, name, kind)
    readers: dict[str, Callable[[Any], Any]] = {
        "enum": partial(_symbol, name, field),
        _DATE: partial(_date, name),
        _DURATION: partial(_duration, name),
        _TIMESTAMP: partial(_timestamp, name),
        "string": partial(text_of, name),
    }
    return readers.get(of, float if kind.name == "double" else _same)


def type_name(field: Any) -> str:
    """Returns the name of the type of one value of the field."""
    inner = field.message_type
    return _NAMES[field.type] if inner is None else str(inner.full_name)


def _check_type(name: str, kind: ColumnType, of: str) -> None:
    accepted = _TAKES_EPOCH if kind.format in EPOCHS else _TAKES[kind.name.partition("(")[0]]
    if of not in accepted:
        form = "" if kind.format is None else f" with the format {kind.format!r}"
        raise DescriptorProblem(
            "message",
            f"{kind.name}{form} does not fit the Protobuf field of type {of}: it takes"
            f" {', '.join(sorted(accepted))}",
            name,
        )
    if kind.zone is not None:
        raise DescriptorProblem(
            "message", f"zone {kind.zone!r}: a {of} is in UTC; leave the zone out", name
        )


def _same(value: Any) -> Any:
    return value


def text_of(name: str, value: Any) -> str:
    if isinstance(value, bytes):  # proto2 does not check a string
        raise TypeError(f"column {name}: a string is not UTF-8")
    return str(value)


def _within(name: str, kind: ColumnType, low: int, high: int, value: int) -> int:
    if not low <= value <= high:
        raise ValueError(f"column {name}: {value} does not fit {kind.name}")
    return value


def _decimal(name: str, kind: ColumnType, value: int) -> Decimal:
    if abs(value) >= 10 ** (kind.arrow.precision - kind.arrow.scale):
        raise ValueError(f"column {name}: {value} does not fit {kind.name}")
    return Decimal(value * 10**kind.arrow.scale).scaleb(-kind.arrow.scale, _EXACT)


def _symbol(name: str, field: Any, value: int) -> str:
    found = field.enum_type.values_by_number.get(value)
    if found is None:
        raise ValueError(f"column {name}: {value} is no value of {field.enum_type.full_name}")
    return str(found.name)


def _since_1970(name: str, kind: ColumnType, numbers: EpochNumbers, value: Any) -> int:
    try:
        found = numbers.one(text_of(name, value) if isinstance(value, str | bytes) else repr(value))
    except ValueError as why:
        text = f"column {name}: {value!r} is no {kind.name} in the format {kind.format!r}"
        raise ValueError(text) from why
    if not TIME_US_MIN <= found <= TIME_US_MAX:
        raise ValueError(f"column {name}: {value!r} does not fit {kind.name}")
    return found


def _timestamp(name: str, value: Any) -> int:
    """Returns microseconds; finer digits are cut off."""
    found = int(value.seconds) * 10**6 + int(value.nanos) // 1000
    if not 0 <= value.nanos < _NANOS or not TIME_US_MIN <= found <= TIME_US_MAX:
        raise ValueError(
            f"column {name}: {value.seconds} seconds and {value.nanos} nanos do not fit timestamp"
        )
    return found


def _duration(name: str, value: Any) -> str:
    """Returns seconds as ISO 8601 has them, like PT3.5S or PT-0.25S."""
    seconds, nanos = int(value.seconds), int(value.nanos)
    if abs(nanos) >= _NANOS or seconds * nanos < 0:
        raise ValueError(f"column {name}: {seconds} seconds and {nanos} nanos are no duration")
    sign = "-" if seconds < 0 or nanos < 0 else ""
    part = f".{abs(nanos):09}".rstrip("0") if nanos else ""
    return f"PT{sign}{abs(seconds)}{part}S"


def _date(name: str, value: Any) -> int:
    """Returns the days since 1970."""
    try:
        return date(value.year, value.month, value.day).toordinal() - _EPOCH_DAY
    except ValueError as why:
        said = f"year {value.year}, month {value.month}, day {value.day}"
        raise ValueError(f"column {name}: {said} is no date") from why
