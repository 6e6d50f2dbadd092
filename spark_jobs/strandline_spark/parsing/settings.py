"""How values are parsed: what pipeline.toml says, checked, as parsers and tables use it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa  # type: ignore[import-untyped]

from strandline_spark.source.schema import TIMESTAMP_TYPE

if TYPE_CHECKING:
    from collections.abc import Mapping

Format = Literal["json", "csv", "avro", "regex"]
RECORD_TIME: Final = "timestamp"
"""In place of a column's name: the event time is the record's own timestamp."""
DEADLINE_SECONDS: Final = 120
PLAIN_TYPES: Final[Mapping[str, Any]] = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP_TYPE,
}
"""By their names in Spark SQL; `decimal(p,s)` comes beside them."""


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The type of one column."""

    name: str
    """Of PLAIN_TYPES, or `decimal(p,s)`."""
    arrow: Any
    format: str | None = None
    """Of a date or timestamp, as Python's strptime reads it; None for ISO 8601."""
    field: str | None = None
    """Of json and avro: the field that it is read from; None for that of its name."""
    any_kind: bool = False
    """Of a column of json that was made for a new field: it takes any value. One of strings has
    what is no string as its JSON text, as written; of another type the column becomes wider.
    """


def fields_of(columns: Mapping[str, ColumnType]) -> dict[str, str]:
    """By column: the field that it is read from."""
    return {name: name if kind.field is None else kind.field for name, kind in columns.items()}


@dataclass(frozen=True, slots=True)
class ParseSettings:
    """What one parser does."""

    format: Format
    columns: Mapping[str, ColumnType]
    """In their order, which is that of the fields for csv and of no matter otherwise."""
    event_time: str
    """A timestamp or date of `columns`, or RECORD_TIME."""
    pattern: str | None = None
    """Of regex: RE2's syntax, with a named group for each column."""
    avro_schema: str | None = None
    """Of avro: the writer's schema, as JSON."""
    delimiter: str = ","
    quote: str = '"'
    """Of csv; empty for none."""
    null_values: tuple[str, ...] = ()
    """Of csv and regex: texts that stand for null, beside the empty one (of types other than
    string).
    """
    max_ahead: int | None = None
    """Microseconds that an event time may lie after the record's own timestamp; None for no bound.
    """
    on_crash: Literal["stop", "quarantine"] = "stop"
    """What becomes of a record that ends the process that parses it."""
    deadline_seconds: int = DEADLINE_SECONDS
    """How long one batch of records may take."""


@dataclass(slots=True)
class Parsed:
    """What came of one batch: each of its rows is in exactly one of good, bad and tombstones."""

    good: Any
    """A record batch of the settings' columns and `event_time` (UTC microseconds, never null), in
    the order of the rows.
    """
    good_rows: Any
    """Int64 array: which row of the input each of them was."""
    bad_rows: Any
    reasons: list[str]
    """Of each bad row, a short category that is the same for rows of one kind."""
    details: list[str]
    """Of each bad row, what exactly, cut to DETAIL_MAX characters."""
    tombstone_rows: Any
    """Rows whose value is null."""
    new_fields: dict[str, str] = field(default_factory=dict)
    """Fields of json that are no column yet, or whose column does not hold a value: the types that
    hold all values seen, the narrowest first, as `inference.py` has them. The rows are among the
    good ones, and have null in such a column.
    """


DETAIL_MAX: Final = 200
