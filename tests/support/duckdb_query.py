"""What DuckDB answers to a query about a Delta table, as a process: its binding reports leaks at
the end of one that has run tests.

    python duckdb_query.py TABLE QUERY          the table is `delta` in the query; prints JSON
"""

from __future__ import annotations

import json
import os
import sys

import duckdb
from deltalake import DeltaTable


def main(path: str, query: str) -> None:
    with duckdb.connect() as connection:
        connection.register("delta", DeltaTable(path).to_pyarrow_dataset())
        rows = connection.execute(query).fetchall()
    print(json.dumps(rows), flush=True)  # noqa: T201 - the answer
    # Threads of Arrow's may still run: on a busy machine the interpreter's end has met them.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
