"""A stream from topic `in` to topic `out`, as a process that kills itself between two tasks.

    python spark_topic_to_topic.py BOOTSTRAP CHECKPOINT VALUE

One task runs after the other. The driver and its JVM are killed where a task meets the VALUE.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

from pyspark.sql.functions import udf
from pyspark.sql.types import BinaryType

from strandline_spark.spark.session import start_session

if TYPE_CHECKING:
    from collections.abc import Callable


def dying(at: bytes, driver: int) -> Callable[[bytearray], bytes]:
    def value(given: bytearray) -> bytes:
        if given == at:
            os.killpg(driver, signal.SIGKILL)
        return bytes(given)

    return value


def main(bootstrap: str, checkpoint: str, at: bytes) -> None:
    log = os.path.join(checkpoint, "strandline", "spark.log")
    spark = start_session("sink", master="local[1]", memory="1g", log_path=log, direct=True)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 500)
    passed = udf(dying(at, os.getpgid(0)), BinaryType(), useArrow=False)
    rows = (
        spark.readStream.format("strandline")
        .option("bootstrap.servers", bootstrap)
        .option("subscribe", "in")
        .option("startingOffsets", "earliest")
        .load()
        .select("key", passed("value").alias("value"))
    )
    query = (
        rows.writeStream.format("strandline")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", "out")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3].encode())
