"""A Spark job with Spark's own Kafka connector: batch and stream, from a topic into two others.

Arguments: bootstrap addresses, topic, topic for the batch, topic for the stream, folder.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

STREAM_TIMEOUT_S = 300


def main() -> None:
    bootstrap, source, batch, stream, folder = sys.argv[1:]
    spark = SparkSession.builder.getOrCreate()
    where = {"kafka.bootstrap.servers": bootstrap, "includeHeaders": "true"}

    def with_options(started: Any, **more: str) -> Any:
        return started.format("kafka").options(**where, **more)

    columns = ("key", "value", "headers", "partition")
    rows = with_options(spark.read, subscribe=source, startingOffsets="earliest").load()
    with_options(rows.select(*columns).write, topic=batch).save()
    endless = with_options(spark.readStream, subscribe=source, startingOffsets="earliest").load()
    writer = with_options(endless.select(*columns).writeStream, topic=stream)
    query = writer.option("checkpointLocation", folder).trigger(availableNow=True).start()
    ended = query.awaitTermination(STREAM_TIMEOUT_S)
    sys.stdout.write(json.dumps({"read": rows.count(), "ended": ended}) + "\n")
    spark.stop()


if __name__ == "__main__":
    main()
