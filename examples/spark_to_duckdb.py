"""From a topic to a report: Spark writes a table, each record once, and DuckDB queries it.

    pip install 'strandline[spark]' duckdb       # and a Java 17 runtime
    printf '7:{"amount": 20}\\n8:{"amount": 5}\\n' | strandline produce payments -K :
    python spark_to_duckdb.py --tables tables

Run it again at any time, from a timer for instance. A run takes the records since the last run. One
that is killed is repeated: the table has each record once.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import duckdb
from deltalake import DeltaTable

BOOTSTRAP = os.environ.get("STRANDLINE_BOOTSTRAP", "127.0.0.1:9092")
TOPIC = "payments"

REPORT = """
    SELECT decode(key) AS customer,
           count(*) AS payments,
           sum((decode(value)::JSON ->> 'amount')::INTEGER) AS amount
    FROM payments GROUP BY ALL ORDER BY amount DESC
"""


def ingest(tables: Path) -> None:
    """Reads what is committed into the table."""
    where = ["--table", str(tables / TOPIC), "--checkpoint", str(tables / "checkpoint" / TOPIC)]
    job = [sys.executable, "-m", "strandline_spark.commands.main", "ingest", "bronze", "--once"]
    subprocess.run([*job, "--bootstrap", BOOTSTRAP, "--topics", TOPIC, *where], check=True)


def report(tables: Path) -> None:
    payments = DeltaTable(tables / TOPIC).to_pyarrow_dataset()
    with duckdb.connect() as connection:
        connection.register("payments", payments)
        for customer, count, amount in connection.execute(REPORT).fetchall():
            print(f"customer {customer}: {count} payments, {amount} EUR", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", type=Path, default=Path("tables"))
    chosen = parser.parse_args()
    try:
        ingest(chosen.tables)
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)  # the job has said why
    report(chosen.tables)
