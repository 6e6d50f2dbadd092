"""What DuckDB and Spark say of a pipeline's tables, by its file alone, as a process: DuckDB's
binding reports leaks at the end of one that has run tests.

    python catalog_reader.py PIPELINE           prints JSON: engine, table, number of rows
"""

from __future__ import annotations

import json
import os
import sys
import tempfile

import duckdb

from strandline_spark.catalog import tables, views_of_duckdb, views_of_spark
from strandline_spark.spark.session import end_session, start_session


def main(pipeline: str) -> None:
    found: dict[str, dict[str, int]] = {"duckdb": {}, "spark": {}}
    with duckdb.connect() as connection:
        for name in views_of_duckdb(connection, pipeline):
            rows = connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()
            found["duckdb"][name] = rows[0] if rows is not None else -1
    with tempfile.TemporaryDirectory() as folder:
        session = start_session(
            "catalog", master="local[2]", memory="1g", log_path=f"{folder}/log", direct=True
        )
        for name in views_of_spark(session, pipeline):
            # Every column is read.
            rows = session.sql(f"SELECT count(DISTINCT struct(*)) FROM `{name}`").first()
            found["spark"][name] = rows[0] if rows is not None else -1
        end_session(session)
    assert list(tables(pipeline)) == list(found["spark"])
    print(json.dumps(found), flush=True)  # noqa: T201 - the answer
    # Threads of Arrow's may still run: on a busy machine the interpreter's end has met them.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
