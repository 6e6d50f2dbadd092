"""The tables of a pipeline as views of DuckDB and of Spark: its file is the catalog.

No library has a catalog of Delta tables that both engines open without a server
(docs/internals/adr/0036). Each call makes the views of the tables as they are then.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]

from strandline_spark.delta_log.entries import NoLogError
from strandline_spark.delta_log.table_log import snapshot
from strandline_spark.pipeline.config import load_pipeline
from strandline_spark.stores import files
from strandline_spark.stores.paths import is_remote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from strandline_spark.delta_log.table_log import Snapshot


def tables(pipeline: str) -> dict[str, str]:
    """Returns name and place of each table of a pipeline.toml that exists: `bronze`, `silver`,
    `quarantine`, `gold_STEP`, `state_STEP`. Raises OptionError and TableError.
    """
    return {name: state.path for name, state in _states(pipeline).items()}


def views_of_duckdb(connection: Any, pipeline: str) -> list[str]:
    """Makes a view of each table on a DuckDB connection, and returns their names. A query of one
    column reads that column's bytes alone.
    """
    found = _states(pipeline)
    for name, state in found.items():
        place = files.file_system(state.path)
        connection.register(name, state.handle().to_pyarrow_dataset(filesystem=place))
    return list(found)


def views_of_spark(session: SparkSession, pipeline: str) -> list[str]:
    """Makes a temporary view of each table in a Spark session, and returns their names."""
    found = _states(pipeline)
    for name, state in found.items():
        _frame(session, state).createOrReplaceTempView(name)
    return list(found)


def _states(pipeline: str) -> dict[str, Snapshot]:
    out = {}
    for key, place in load_pipeline(pipeline).tables:
        try:
            out[key.replace(" ", "_")] = snapshot(place)
        except NoLogError:  # the next run makes it
            continue
    return out


def _frame(session: SparkSession, state: Snapshot) -> DataFrame:
    from pyspark.sql.types import StructType

    from strandline_spark.silver.object_rows import objects_as_rows

    schema = StructType.fromJson(json.loads(state.metadata["schemaString"]))
    actions: Any = pa.table(state.handle().get_add_actions())
    paths: list[str] = actions.column("path").to_pylist()
    if not paths:
        return session.createDataFrame([], schema)
    if is_remote(state.path):
        return objects_as_rows(session, state.path, paths, schema)
    reader = session.read.schema(schema).option("basePath", state.path)
    whole = [os.path.join(state.path, path) for path in paths]
    columns = [f"`{name.replace('`', '``')}`" for name in schema.names]
    return reader.option("__globPaths__", "false").parquet(*whole).select(*columns)
