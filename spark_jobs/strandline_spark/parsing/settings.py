"""The settings of parsers: pipeline.toml's keys, checked, in a form for parsers and tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa  # type: ignore[import-untyped]

from strandline_spark.source.schema import TIMESTAMP_TYPE

if TYPE_CHECKING:
    from collections.abc import Mapping

Format = Literal["json", "csv", "avro", "regex"]
RECORD_TIME: Final = "timestamp"
"""Word in place of a column's name: the event time is the record's own timestamp."""
DEADLINE_SECONDS: Final = 120
PLAIN_TYPES: Final[Mapping[str, Any]] = {
    "string": pa.string(),
    "binary": pa.binary(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP_TYPE,
}
"""Types by their names in Spark SQL; `decimal(p,s)` is added to them."""


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The type of one column."""

    name: str
    """One of PLAIN_TYPES, or `decimal(p,s)`."""
    arrow: Any
    format: str | None = None
    """Format of a date or timestamp for Python's strptime (None: ISO 8601), one of `epochs.EPOCHS`
    for a timestamp, one of `texts.BYTES` for a binary column.
    """
    zone: str | None = None
    """Zone of a timestamp's texts that have none; None for UTC."""
    field: str | None = None
    """Name of the json or avro field that it is read from; None for its own name."""
    trim: bool = False
    """True if blanks at both ends of a text do not count."""
    null_values: tuple[str, ...] = ()
    """Texts that mean null in this column."""
    required: bool = False
    """True if a record without a value goes to quarantine."""
    default: str | None = None
    """The text of the value in place of null."""
    any_kind: bool = False
    """True for a json column that was made for a new field: it takes any value. A string column
    keeps the JSON text of a value that is no string, as written; a column of another type becomes
    wider.
    """


def fields_of(columns: Mapping[str, ColumnType]) -> dict[str, str]:
    """Returns the field from which each column is read."""
    return {name: name if kind.field is None else kind.field for name, kind in columns.items()}


@dataclass(frozen=True, slots=True)
class ParseSettings:
    """The settings of one parser."""

    format: Format
    columns: Mapping[str, ColumnType]
    """Columns in their order, which is that of the fields for csv and does not matter otherwise."""
    event_time: str
    """A timestamp or date of `columns`, or RECORD_TIME."""
    pattern: str | None = None
    """The regex in RE2's syntax, with a named group for each column."""
    avro_schema: str | None = None
    """The avro writer's schema, as JSON."""
    delimiter: str = ","
    quote: str = '"'
    """Quote of csv; empty for none."""
    null_values: tuple[str, ...] = ()
    """Texts that mean null in csv and regex, beside the empty one (for types other than string)."""
    ignores_new_fields: bool = False
    """True if fields of json without a column are not reported."""
    max_ahead: int | None = None
    """Microseconds that an event time may be after the record's own timestamp; None: no bound."""
    on_crash: Literal["stop", "quarantine"] = "stop"
    """The treatment of a record that ends the process that parses it."""
    deadline_seconds: int = DEADLINE_SECONDS
    """Limit for the time that one batch of records takes."""


@dataclass(slots=True)
class Parsed:
    """The result of one batch: each of its rows is in exactly one of good, bad and tombstones."""

    good: Any
    """A record batch of the settings' columns and `event_time` (UTC microseconds, never null), in
    the order of the rows.
    """
    good_rows: Any
    """Int64 array: the input row of each of them."""
    bad_rows: Any
    reasons: list[str]
    """A short category for each bad row, the same for rows of one kind."""
    details: list[str]
    """The exact fault of each bad row, cut to DETAIL_MAX characters."""
    tombstone_rows: Any
    """Rows whose value is null."""
    new_fields: dict[str, str] = field(default_factory=dict)
    """Fields of json without a column, or whose column does not hold a value, with the types that
    hold all values seen, narrowest first (`inference.py`). Their rows are among the good ones, and
    have null in such a column.
    """


DETAIL_MAX: Final = 200
