"""The silver table, whose columns follow the pipeline, and the quarantine table beside it.

Columns are added and never removed. Earlier rows have null in a new column, like records that do
not mention the field. A column's type becomes wider if a new field made the column (`widening.py`).
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from deltalake.schema import Field

from strandline_spark.bronze.fenced_table import (
    PARTITION_COLUMNS,
    POSITION_KEY,
    FencedTable,
    committing,
)
from strandline_spark.delta_log.commit import Change, ConflictError
from strandline_spark.errors import TableError, first_line
from strandline_spark.parsing.parts.explode import explode_of
from strandline_spark.parsing.parts.type_names import OWN_NAMES, name_of_delta, stored
from strandline_spark.silver.names import OWN_COLUMNS
from strandline_spark.source.schema import TIMESTAMP_TYPE
from strandline_spark.stores.durable import sync_log

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from strandline_spark.bronze.fenced_table import DataFile
    from strandline_spark.parsing.settings import ColumnType, ParseSettings
    from strandline_spark.silver.widening import OldFile

_BEFORE: Final = (
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", TIMESTAMP_TYPE),
    pa.field("event_time", TIMESTAMP_TYPE),
    pa.field("key", pa.binary()),
    pa.field("tombstone", pa.bool_()),
)
_BATCH_ID: Final = pa.field("batch_id", pa.int64())
_TOPIC: Final = pa.field("topic", pa.string())
_INGEST_DATE: Final = pa.field("ingest_date", pa.date32())
QUARANTINE_FILE_SCHEMA: Final[Any] = pa.schema(
    [
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", TIMESTAMP_TYPE),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("reason", pa.string()),
        pa.field("detail", pa.string()),
        _BATCH_ID,
    ]
)
"""The columns in a file; `topic` and `ingest_date` are in its path."""
_QUARANTINE_SCHEMA: Final[Any] = pa.schema([_TOPIC, *QUARANTINE_FILE_SCHEMA, _INGEST_DATE])
EXPLODE_KEY: Final = "strandline.explode"
"""Key in the configuration of a table whose rows are elements: the array's path."""
_YEARS_US: Final = (-62_135_596_800_000_000, 253_402_300_800_000_000)
"""The years 1 to 9999, for which statistics have a text."""


DEDUPE_KEY: Final = "strandline.dedupe"
"""Key in the configuration of a table without duplicates: how they are found."""


def settings_of(parse: ParseSettings) -> dict[str, str]:
    """Returns the settings of a table by which its rows are of a kind of their own: exploded
    elements, or without duplicates.
    """
    found = {}
    explode = explode_of(parse.columns, parse.explode)
    if explode is not None:
        found = {EXPLODE_KEY: explode.path.text, POSITION_KEY: explode.position}
    if parse.dedupe_key:
        within = timedelta(microseconds=parse.dedupe_within)
        keys = ", ".join(f'"{name}"' for name in parse.dedupe_key)
        found[DEDUPE_KEY] = f'{{ key = [{keys}], within = "{within.total_seconds():.0f} seconds" }}'
    return found


def silver_file_schema(columns: Mapping[str, ColumnType]) -> Any:
    """Returns the schema of a file; `topic` and `ingest_date` are in its path."""
    parsed = [pa.field(name, kind.arrow) for name, kind in columns.items()]
    return pa.schema([*_BEFORE, *parsed, _BATCH_ID])


class SilverTable(FencedTable):
    KIND = "silver"
    MADE_BY = "strandline-spark ingest silver"
    COLUMNS = frozenset(OWN_COLUMNS)
    IS_CLOSED = False

    @classmethod
    def open_or_create(
        cls,
        path: str,
        columns: Mapping[str, ColumnType],
        owner: str,
        settings: Mapping[str, str] | None = None,
    ) -> SilverTable:
        schema = pa.schema([_TOPIC, *silver_file_schema(columns), _INGEST_DATE])
        return cls._open_or_create(
            path,
            schema,
            name="silver",
            description="Records of Strandline topics, parsed, each offset once",
            owner=owner,
            settings=settings,
        )

    def parsed_columns(self) -> dict[str, str]:
        """Name and Delta type of each column into which records are parsed, in order."""
        return {
            field["name"]: name_of_delta(field["type"])
            for field in self.state.fields
            if field["name"] not in OWN_COLUMNS
        }

    def fit_columns(self, declared: Mapping[str, ColumnType]) -> dict[str, str]:
        """Adds declared columns that the table lacks, and returns its further columns.

        The result has name and type, in our words. Raises TableError for a column of another
        type.
        """
        there = self.parsed_columns()
        for name, kind in declared.items():
            if name in there and there[name] != stored(kind):
                raise TableError(
                    f"{self.path} has the column {name} of type {there[name]}, and [silver.columns]"
                    f" says {kind.name}: a type does not change; give the column another name, or"
                    " make silver again with `strandline-spark rebuild silver` and the pipeline's"
                    " file"
                )
        self.add_columns({n: kind for n, kind in declared.items() if n not in there})
        return self.columns_beside(declared)

    def check_kind(self, parse: ParseSettings, file: str) -> None:
        """Raises TableError if the table's rows are elements of another array, or of none, or if
        duplicates were found in another way.
        """
        given = settings_of(parse)
        known = {key: self.setting(key) for key in (EXPLODE_KEY, POSITION_KEY, DEDUPE_KEY)}
        there = {key: value for key, value in known.items() if value is not None}
        if given == there:
            return
        if given.get(DEDUPE_KEY) != there.get(DEDUPE_KEY):
            said = [
                f"dedupe = {one[DEDUPE_KEY]}" if DEDUPE_KEY in one else "no dedupe"
                for one in (there, given)
            ]
        else:
            said = [
                "no explode"
                if not one.get(EXPLODE_KEY)
                else f"explode = {one[EXPLODE_KEY]!r} and places in the column {one[POSITION_KEY]}"
                for one in (there, given)
            ]
        raise TableError(
            f"{self.path} was made with {said[0]}, and [silver] of {file} has {said[1]}: its rows"
            " would be of two kinds; make silver again with `strandline-spark rebuild silver` and"
            " the pipeline's file"
        )

    def columns_beside(self, declared: Mapping[str, ColumnType]) -> dict[str, str]:
        """Returns the columns that fields have added: name and type, in our words."""
        there = self.parsed_columns()
        return {n: type_of_delta(found) for n, found in there.items() if n not in declared}

    def add_columns(self, columns: Mapping[str, ColumnType]) -> None:
        """Adds the columns in one commit, which is synced on return."""
        if not columns:
            return
        before = self.version
        fields = pa.schema([pa.field(name, kind.arrow) for name, kind in columns.items()])
        try:
            self.delta.alter.add_columns([Field.from_arrow(one) for one in fields])
        except Exception as why:  # delta-rs raises errors other than DeltaError
            raise TableError(
                f"{self.path} cannot take the columns {', '.join(columns)} ({first_line(why)}):"
                " start the job again"
            ) from why
        with committing(self.path):
            sync_log(self.path, before + 1)
            self.refresh()

    def replace_files(
        self, columns: Mapping[str, ColumnType], old: Iterable[OldFile], new: Iterable[DataFile]
    ) -> None:
        """Sets these types, and replaces the files `old` by `new`, in one commit that is synced on
        return. Raises TableError.

        delta-rs changes no type. The entry of the log has no data change: the rows are the same.
        """
        change = Change("CHANGE COLUMN", metadata=self._metadata_with(columns))
        for one in old:
            values = {"topic": one.topic, "ingest_date": one.ingest_date}
            change.remove(one.path, one.size, values, data_change=False)
        for file in new:
            self.add_to(change, file, data_change=False)
        try:
            self.write(change)
        except ConflictError as why:
            raise TableError(
                f"another writer committed to {self.path} meanwhile: run one job for a table;"
                " nothing was committed, start the job again"
            ) from why

    def _metadata_with(self, columns: Mapping[str, ColumnType]) -> dict[str, Any]:
        """Returns the metadata of the table's log, with other types for these columns."""
        schema = json.loads(self.state.metadata["schemaString"])
        for field in schema["fields"]:
            if field["name"] in columns:
                field["type"] = stored(columns[field["name"]])
        return {**self.state.metadata, "schemaString": json.dumps(schema)}

    def statistics(self, file: DataFile) -> tuple[dict[str, Any], dict[str, Any], dict[str, int]]:
        least, most, nulls = super().statistics(file)
        first, last = file.event_time_min_us, file.event_time_max_us
        if first is None or last is None:
            nulls["event_time"] = file.rows
        elif _YEARS_US[0] <= first and last < _YEARS_US[1] - 1000:
            least["event_time"] = _text_of_ms(first // 1000)
            most["event_time"] = _text_of_ms(-(-last // 1000))
        return least, most, nulls


class QuarantineTable(FencedTable):
    KIND = "quarantine"
    MADE_BY = "strandline-spark ingest silver"
    COLUMNS = frozenset(_QUARANTINE_SCHEMA.names)

    @classmethod
    def open_or_create(
        cls, path: str, owner: str, settings: Mapping[str, str] | None = None
    ) -> QuarantineTable:
        return cls._open_or_create(
            path,
            _QUARANTINE_SCHEMA,
            name="quarantine",
            description="Records of Strandline topics that did not parse, each offset once",
            owner=owner,
            settings=settings,
        )


def type_of_delta(name: str) -> str:
    """Returns the type in our words for one of `parsed_columns`."""
    return OWN_NAMES.get(name, name)


def _text_of_ms(ms: int) -> str:
    """Returns a time in the form of Delta's statistics."""
    return f"{np.datetime64(ms, 'ms')}Z"


__all__ = [
    "PARTITION_COLUMNS",
    "QUARANTINE_FILE_SCHEMA",
    "QuarantineTable",
    "SilverTable",
    "settings_of",
    "silver_file_schema",
    "type_of_delta",
]
