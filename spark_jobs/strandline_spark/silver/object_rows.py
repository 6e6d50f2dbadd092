"""Rows of a table in an object store, as a DataFrame: the tasks read the files by Python.

Spark's own reader would need jars of its version for each kind of store, and their settings. This
needs what wrote the files.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from strandline_spark.errors import TableError, first_line
from strandline_spark.stores import files

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_ROOT: Final = "root"
_FILES: Final = "files"
_BATCH_ROWS: Final = 1 << 15
_TASKS_FOR_A_CORE: Final = 2


def objects_as_rows(
    spark: SparkSession, root: str, paths: Sequence[str], schema: StructType
) -> DataFrame:
    """Returns all rows of the files, under the table's address. A column that a file lacks is null;
    those of the table's folders have the values in its path.
    """
    spark.dataSource.register(ObjectRows)
    cores = spark.sparkContext.defaultParallelism
    reader = spark.read.format(ObjectRows.name()).schema(schema)
    tasks = str(cores * _TASKS_FOR_A_CORE)
    return reader.options(root=root, files=json.dumps(list(paths)), tasks=tasks).load()


class ObjectRows(DataSource):
    """The source; its options are of the jobs alone."""

    @classmethod
    def name(cls) -> str:
        return "strandline_objects"

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader(schema, dict(self.options))


class _Reader(DataSourceReader):
    def __init__(self, schema: StructType, options: dict[str, str]) -> None:
        self._schema = schema
        self._root = options[_ROOT]
        self._paths: list[str] = json.loads(options[_FILES])
        self._tasks = int(options["tasks"])

    def partitions(self) -> list[InputPartition]:
        some = min(self._tasks, len(self._paths))
        return [InputPartition(self._paths[n::some]) for n in range(some)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        from pyspark.sql.pandas.types import to_arrow_schema

        wanted = to_arrow_schema(self._schema, timezone="UTC")
        for path in partition.value or ():
            yield from _rows(f"{self._root}/{path}", folders_of(path), wanted)


def folders_of(path: str) -> dict[str, str]:
    """Returns the partition values in a file's path."""
    steps = (step.partition("=") for step in path.split("/")[:-1])
    return {name: unquote(value) for name, is_one, value in steps if is_one}


def _rows(path: str, values: dict[str, str], wanted: Any) -> Iterator[Any]:
    """Yields a file's rows in the columns that are wanted. Raises TableError."""
    try:
        with files.parquet(path) as source:
            held = set(source.schema_arrow.names)
            columns = [name for name in wanted.names if name in held]
            for batch in source.iter_batches(_BATCH_ROWS, columns=columns):
                yield _fitted(batch, values, wanted)
    except (OSError, pa.ArrowInvalid) as why:
        raise TableError(
            f"the file {path} of silver does not read ({first_line(why)}): put it back from a copy"
        ) from why


def _fitted(batch: Any, values: dict[str, str], wanted: Any) -> Any:
    arrays = []
    for field in wanted:
        if field.name in batch.schema.names:
            arrays.append(batch.column(field.name).cast(field.type))
        elif field.name in values:
            one = pa.scalar(values[field.name]).cast(field.type)
            arrays.append(pa.repeat(one, batch.num_rows))
        else:
            arrays.append(pa.nulls(batch.num_rows, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=wanted)
