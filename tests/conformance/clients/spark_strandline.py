"""A Spark job with Strandline's data source: prints the records of topics as JSON.

Arguments: bootstrap addresses, topics.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from conformance.clients.loop import record


def main() -> None:
    bootstrap, *topics = sys.argv[1:]
    spark = SparkSession.builder.getOrCreate()
    read = {}
    for topic in topics:
        options = {"subscribe": topic, "startingOffsets": "earliest", "includeHeaders": "true"}
        rows = (
            spark.read.format("strandline")
            .option("bootstrap.servers", bootstrap)
            .options(**options)
            .load()
        )
        read[topic] = _records(rows)
    sys.stdout.write(json.dumps(read) + "\n")
    spark.stop()


def _records(rows: DataFrame) -> list[dict[str, Any]]:
    return [_record(row) for row in rows.orderBy("partition", "offset").collect()]


def _record(row: Row) -> dict[str, Any]:
    def raw(value: bytearray | None) -> bytes | None:
        return None if value is None else bytes(value)

    headers = [(each.key, raw(each.value)) for each in row.headers or ()]
    timestamp = round(row.timestamp.timestamp() * 1000)
    place = (row.partition, row.offset)
    return record(place, timestamp, raw(row.key), raw(row.value), headers)


if __name__ == "__main__":
    main()
