"""The widening of a column that a new field has made, if records have values that do not fit. The
new type is the narrowest that holds these values and the column's own.

The files that have the column are written again, with the column's values from the records in
bronze. So the column is as if it had had the new type from the start. One commit replaces the old
files by the new ones, under the new type. It changes no row, fence or account.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.dataset as ds  # type: ignore[import-untyped]

from strandline_spark.bronze.fenced_table import DataFile
from strandline_spark.bronze.range_file import RangeFile
from strandline_spark.errors import TableError, first_line
from strandline_spark.parsing.inference import (
    BOOLEAN,
    DECIMAL,
    common,
    holds,
    is_decimal,
    narrowest,
    types_of_number,
    types_of_whole,
)
from strandline_spark.parsing.json_values import JsonDecoder
from strandline_spark.parsing.parts.type_names import column_type
from strandline_spark.parsing.settings import ColumnType
from strandline_spark.silver.range_output import silver_options
from strandline_spark.stores import files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from strandline_spark.bronze.columns import BronzeTable
    from strandline_spark.silver.tables import SilverTable

_ROWS: Final = 50_000
"""Number of rows that are written at a time."""
_EXACT_MAX: Final = 2**53
"""Largest whole number up to which all are doubles too."""


@dataclass(frozen=True, slots=True)
class OldFile:
    """A file of the table that a new one will replace."""

    path: str
    size: int
    topic: str
    ingest_date: str


def widen(silver: SilverTable, bronze: BronzeTable, found: Mapping[str, str]) -> dict[str, str]:
    """Widens the columns so that they hold values of the types in `found`.

    Returns the new type of each such column. Raises TableError, and then nothing was committed.
    """
    held = list(_files(silver))
    there = silver.parsed_columns()
    kinds = {}
    for name, types in found.items():
        kind = narrowest(common(types, _types_held(silver, held, name, there[name], types)))
        made = column_type(kind)
        kinds[name] = ColumnType(made.name, made.arrow, any_kind=True)
    dataset = bronze.delta.to_pyarrow_dataset(filesystem=files.file_system(bronze.path))
    replaced: list[tuple[OldFile, DataFile]] = []
    try:
        for file in held:
            new = _rewritten(silver, bronze, dataset, file, kinds)
            if new is not None:
                replaced.append((file, new))
        silver.replace_files(kinds, [old for old, _ in replaced], [new for _, new in replaced])
    except BaseException:
        for _, new in replaced:
            if new.path not in type(silver).open(silver.path).file_paths():
                files.remove(os.path.join(silver.path, new.path))
        raise
    return {name: kind.name for name, kind in kinds.items()}


def _files(silver: SilverTable) -> Iterator[OldFile]:
    for one in pa.table(silver.delta.get_add_actions(flatten=True)).to_pylist():
        yield OldFile(
            one["path"],
            one["size_bytes"],
            one["partition.topic"],
            str(one["partition.ingest_date"]),
        )


def _types_held(silver: SilverTable, files: list[OldFile], name: str, kind: str, types: str) -> str:
    """Returns the types that hold the column's values. Types that `types` lacks do not matter."""
    if kind == "boolean":
        return BOOLEAN
    if kind == DECIMAL:
        return f"{DECIMAL} string"
    held = types_of_whole("0") if kind == "long" else types_of_number("0")
    in_doubt = "double" if kind == "long" else DECIMAL
    if not holds(types, in_doubt):
        return held
    for file in files:
        for values in _column(silver, file, name):
            held = common(held, _types_of(values, kind))
    return held


def _types_of(values: Any, kind: str) -> str:
    if kind == "long":
        outside = pc.or_(pc.greater(values, _EXACT_MAX), pc.less(values, -_EXACT_MAX))
        beyond = pc.filter(values, outside).drop_null()
        exact = all(holds(types_of_whole(str(one)), "double") for one in beyond.to_pylist())
        return types_of_whole("0" if exact else str(_EXACT_MAX + 1))
    exact = all(is_decimal(repr(one)) for one in values.drop_null().to_pylist())
    return types_of_number("0" if exact else "1e300")


def _column(silver: SilverTable, file: OldFile, name: str) -> Iterator[Any]:
    with silver.reading(file.path):
        source = files.parquet(os.path.join(silver.path, file.path))
    with source:
        if name in source.schema_arrow.names:
            for number in range(source.num_row_groups):
                with silver.reading(file.path):
                    rows = source.read_row_group(number, columns=[name])
                yield rows.column(0).combine_chunks()


def _rewritten(
    silver: SilverTable,
    bronze: BronzeTable,
    records: Any,
    file: OldFile,
    kinds: Mapping[str, ColumnType],
) -> DataFile | None:
    """Writes a file of the same rows; None for a file without any of the columns."""
    with silver.reading(file.path):
        source = files.parquet(os.path.join(silver.path, file.path))
    with source:
        schema = source.schema_arrow.remove_metadata()
        names = [name for name in kinds if name in schema.names]
        if not names:
            return None
        for name in names:
            schema = schema.set(schema.names.index(name), pa.field(name, kinds[name].arrow))
        path = f"{os.path.dirname(file.path)}/wider-{os.urandom(8).hex()}.parquet"
        target = RangeFile(silver.path, path, schema, silver_options(schema))
        partitions: set[int] = set()
        try:
            for number in range(source.num_row_groups):
                with silver.reading(file.path):
                    group = source.read_row_group(number)
                for rows in group.to_batches(max_chunksize=_ROWS):
                    partitions.update(pc.unique(rows.column("partition")).to_pylist())
                    if len(partitions) > 1:
                        raise _of_several_partitions(silver, file)
                    target.add(_with_columns(bronze, records, file, rows, schema, kinds))
            size = target.close()
        except BaseException:
            target.discard()
            raise
    (partition,) = partitions
    return DataFile(
        topic=file.topic,
        ingest_date=file.ingest_date,
        partition=partition,
        **target.description(size),
    )


def _of_several_partitions(silver: SilverTable, file: OldFile) -> TableError:
    return TableError(
        f"{os.path.join(silver.path, file.path)} has rows of several partitions, so another tool"
        " wrote it: name the new fields in [silver.columns] instead of having them added"
    )


def _with_columns(
    bronze: BronzeTable,
    records: Any,
    file: OldFile,
    rows: Any,
    schema: Any,
    kinds: Mapping[str, ColumnType],
) -> Any:
    """Returns the rows, with the columns as the records have them."""
    columns = [rows.column(name) for name in rows.schema.names]
    for place, name in enumerate(rows.schema.names):
        if name in kinds:
            columns[place] = _read_again(bronze, records, file, rows, name, kinds[name])
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _read_again(
    bronze: BronzeTable, records: Any, file: OldFile, rows: Any, name: str, kind: ColumnType
) -> Any:
    is_there = rows.column(name).is_valid()
    wanted = rows.filter(is_there)
    if wanted.num_rows == 0:
        return pa.nulls(rows.num_rows, kind.arrow)
    partition, offsets = wanted.column("partition")[0].as_py(), wanted.column("offset")
    first, last = offsets[0].as_py(), offsets[-1].as_py()
    where = (
        (ds.field("topic") == file.topic)
        & (ds.field("partition") == partition)
        & (ds.field("offset") >= first)
        & (ds.field("offset") <= last)
    )
    said = (
        f"records {first} to {last} of {file.topic}:{partition}, whose field {name} is to be read"
    )
    remedy = (
        f" as {kind.name}: put bronze back from a copy, or name {name} in [silver.columns]; nothing"
        " was committed"
    )
    try:
        found = records.to_table(columns=["offset", "value"], filter=where).combine_chunks()
    except (OSError, pa.ArrowInvalid) as why:
        raise TableError(
            f"{bronze.path} does not read ({first_line(why)}), and has {said}{remedy}"
        ) from why
    places = pc.index_in(offsets, value_set=found.column("offset"))
    texts = found.column("value").take(places).combine_chunks()
    values = JsonDecoder({name: kind}).decode(texts.drop_null().cast(pa.string())).columns[0]
    if texts.null_count or values.null_count:
        raise TableError(f"{bronze.path} does not hold as silver does the {said}{remedy}")
    counted = pc.cumulative_sum(is_there.cast(pa.int64()))
    back = pc.if_else(is_there, pc.subtract(counted, 1), None)
    return values.take(back)
