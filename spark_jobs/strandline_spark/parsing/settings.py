"""The settings of parsers: pipeline.toml's keys, checked, in a form for parsers and tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa  # type: ignore[import-untyped]

from strandline_spark.parsing.parts.paths import path_of, path_to
from strandline_spark.source.schema import TIMESTAMP_TYPE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strandline_spark.parsing.parts.paths import Path

Format = Literal["json", "csv", "avro", "protobuf", "regex"]
BINARY: Final = ("avro", "protobuf")
"""Formats whose values are no texts."""
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
    "json": pa.string(),
}
"""Types by their names in Spark SQL, and the text of any JSON value. `decimal(p,s)` and types of
other types are added to them (`parts/type_names.py`).
"""
KEY: Final = "key"
HEADER: Final = "header:"
"""The parts of a record that a column may be read from, beside its value; the header's name
follows.
"""
POSITION: Final = "position"
"""The place of an exploded element, which a column may hold too."""
NOT_IN_NAMES: Final = frozenset(" ,;{}()\n\t=")
"""Characters that a Delta table does not allow in a column's name."""


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The type of one column."""

    name: str
    """One of PLAIN_TYPES, `decimal(p,s)`, or a type of other types."""
    arrow: Any
    format: str | None = None
    """Format of a date or timestamp for Python's strptime (None: ISO 8601), one of `epochs.EPOCHS`
    for a timestamp, one of `texts.BYTES` for a binary column.
    """
    zone: str | None = None
    """Zone of a timestamp's texts that have none; None for UTC."""
    field: str | None = None
    """Path of the json, avro or protobuf field that it is read from; None for its own name. In a
    key or a header: the path in its JSON; None for all of its text.
    """
    source: str | None = None
    """KEY, or HEADER and a name, if it is read from there; POSITION; None for the value."""
    parts: tuple[tuple[str, ColumnType], ...] = ()
    """The fields of a struct; the `element` of an array; `key` and `value` of a map."""
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

    @property
    def is_nested(self) -> bool:
        """True for a struct, an array and a map."""
        return self.parts != ()


def paths_of(columns: Mapping[str, ColumnType]) -> dict[str, Path]:
    """Returns the path of each column in the part of the record that it is read from. Raises
    OptionError.
    """
    return {
        name: path_to(name) if kind.field is None else path_of(kind.field)
        for name, kind in columns.items()
    }


def fields_of(columns: Mapping[str, ColumnType]) -> dict[str, str]:
    """Returns the value's own field that a column is, or may be, for columns that are one."""
    own = {name: kind for name, kind in columns.items() if kind.source is None}
    found = {
        name: path.name if path.plain is None else path.plain
        for name, path in paths_of(own).items()
    }
    return {name: field for name, field in found.items() if field is not None}


def of_value(columns: Mapping[str, ColumnType]) -> dict[str, ColumnType]:
    """Returns the columns that are read from the value, and that of an element's place."""
    return {name: kind for name, kind in columns.items() if kind.source in (None, POSITION)}


def reads_headers(columns: Mapping[str, ColumnType]) -> bool:
    """True if a column is read from a header."""
    return any((kind.source or "").startswith(HEADER) for kind in columns.values())


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
    """The avro schema, as JSON: the writer's, or with `schemas` the reader's."""
    registry: Literal["header"] | None = None
    """Set if avro and protobuf values begin with a registry's header."""
    schemas: Mapping[str, str] = field(default_factory=dict)
    """The avro writers' schemas, as JSON, by their ids in the header."""
    descriptor: str | None = None
    """The protobuf FileDescriptorSet that has `message`, in base64."""
    message: str | None = None
    """Full name of the protobuf message."""
    delimiter: str = ","
    quote: str = '"'
    """Quote of csv; empty for none."""
    null_values: tuple[str, ...] = ()
    """Texts that mean null in csv and regex, beside the empty one (for types other than string)."""
    explode: str | None = None
    """Path of an array of json or avro whose elements are rows."""
    ignores_new_fields: bool = False
    """True if fields of json without a column are not reported."""
    max_ahead: int | None = None
    """Microseconds that an event time may be after the record's own timestamp; None: no bound."""
    on_crash: Literal["stop", "quarantine"] = "stop"
    """The treatment of a record that ends the process that parses it."""
    deadline_seconds: int = DEADLINE_SECONDS
    """Limit for the time that one batch of records takes."""
    dedupe_key: tuple[str, ...] = ()
    """Columns of silver whose values are the same in duplicates; none if duplicates are rows."""
    dedupe_within: int = 0
    """Microseconds that the event times of duplicates may be apart."""


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
    tombstones: Any
    """A record batch like `good` of these rows: only columns of a key or a header have values."""
    seen: frozenset[str] = frozenset()
    """Columns with a `field` that had a value in a row, before defaults."""
    new_fields: dict[str, str] = field(default_factory=dict)
    """Fields of json without a column, or whose column does not hold a value, with the types that
    hold all values seen, narrowest first (`inference.py`). Their rows are among the good ones, and
    have null in such a column.
    """
    left_out: frozenset[str] = frozenset()
    """Fields within objects of json that columns read in part, which no column reads."""


DETAIL_MAX: Final = 200
