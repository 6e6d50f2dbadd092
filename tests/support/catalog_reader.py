"""What DuckDB and Spark say of a pipeline's tables, by its file alone, as a process: DuckDB's
binding reports leaks at the end of one that has run tests.

    python catalog_reader.py PIPELINE ENGINE...    prints JSON: engine, table, number of rows
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from typing import TYPE_CHECKING

from strandline_spark.catalog import tables, views_of_duckdb, views_of_spark
from strandline_spark.spark.session import end_session, start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rows_of_duckdb(pipeline: str) -> dict[str, int]:
    import duckdb  # in the process of this program alone

    found = {}
    with duckdb.connect() as connection:
        for name in views_of_duckdb(connection, pipeline):
            rows = connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()
            found[name] = rows[0] if rows is not None else -1
    return found


def rows_of_spark(session: SparkSession, pipeline: str) -> dict[str, int]:
    """In a session of the caller's, which has no views of these names afterwards."""
    found = {}
    for name in views_of_spark(session, pipeline):
        # Every column is read.
        rows = session.sql(f"SELECT count(DISTINCT struct(*)) FROM `{name}`").first()
        found[name] = rows[0] if rows is not None else -1
        session.catalog.dropTempView(name)
    return found


def main(pipeline: str, *engines: str) -> None:
    found = {"duckdb": rows_of_duckdb(pipeline)}
    assert list(tables(pipeline)) == list(found["duckdb"])
    if "spark" in engines:
        with tempfile.TemporaryDirectory() as folder:
            session = start_session(
                "catalog", master="local[2]", memory="1g", log_path=f"{folder}/log", direct=True
            )
            found["spark"] = rows_of_spark(session, pipeline)
            end_session(session)
    print(json.dumps(found), flush=True)  # noqa: T201 - the answer
    # Threads of Arrow's may still run: on a busy machine the interpreter's end has met them.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
