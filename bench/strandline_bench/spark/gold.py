"""`strandline bench spark --gold`: a gold step over a million rows of silver, in a thousand windows
that close at once.
"""

import os
import tempfile
import time
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from strandline_bench.report import Report, median
from strandline_bench.spark.options import SparkOptions
from strandline_bench.spark.sides import end_session

if TYPE_CHECKING:
    from strandline_spark.bronze.fenced_table import DataFile

ROWS: Final = 1_000_000
WINDOWS: Final = 1_000
WINDOW_US: Final = 60_000_000
FLOOR_S: Final = 3.0
TOPIC_ID: Final = "AAECAwQFBgcICQoLDA0ODw"
SQL: Final = """
SELECT window_start, window_end, count(*) AS clicks, sum(price) AS revenue, max(id) AS newest
FROM silver
GROUP BY ALL
"""


def run(options: SparkOptions, report: Report) -> int:
    """Run the measure; the exit status is 1 if the median exceeds its limit."""
    from strandline_spark.gold.step import run_step
    from strandline_spark.pipeline.steps import GoldStep
    from strandline_spark.spark.session import start_session

    with tempfile.TemporaryDirectory(prefix="strandline-bench-gold-") as folder:
        silver = os.path.join(folder, "silver")
        make_silver(silver, options.partitions)
        spark = start_session(
            "strandline bench spark",
            master=options.master,
            memory=options.memory,
            log_path=f"{folder}/spark.log",
            direct=True,
        )
        try:
            taken_s = []
            for number in range(options.rounds):
                table = os.path.join(folder, f"gold-{number}")
                step = GoldStep(f"step-{number}", table, SQL, 1, watermark=0, window=WINDOW_US)
                began = time.perf_counter()
                done = run_step(spark, step, silver, pipeline="bench", close=True)
                taken_s.append(time.perf_counter() - began)
                assert done.rows == WINDOWS, done
        finally:
            end_session(spark)
    report.measured(
        "gold",
        {
            "rows": ROWS,
            "windows": WINDOWS,
            "first_s": round(taken_s[0], 2),
            "p50_s": round(median(taken_s), 2),
            "floor_s": FLOOR_S,
            "missed": median(taken_s) > FLOOR_S,
        },
    )
    return int(median(taken_s) > FLOOR_S)


def make_silver(path: str, partitions: int) -> None:
    """A silver table whose partitions have event times spread over all windows, in one commit."""
    from strandline_spark.bronze.commits import CommittedRange
    from strandline_spark.parsing.parts.type_names import column_type
    from strandline_spark.silver.tables import SilverTable

    columns = {"id": column_type("bigint"), "price": column_type("double")}
    table = SilverTable.open_or_create(path, columns, "bench")
    share = ROWS // partitions
    files, ranges = [], []
    for partition in range(partitions):
        files.append(_file(path, columns, partition, share))
        taken = CommittedRange("t", TOPIC_ID, partition, 0, share, share, 0, 0)
        ranges.append(taken)
    table.commit("bench", 0, ranges, files)


def _file(path: str, columns: Any, partition: int, rows: int) -> "DataFile":
    import pyarrow as pa  # type: ignore[import-untyped]

    from strandline_spark.bronze.fenced_table import DataFile
    from strandline_spark.bronze.range_file import RangeFile
    from strandline_spark.silver.tables import silver_file_schema
    from strandline_spark.source.schema import TIMESTAMP_TYPE

    schema = silver_file_schema(columns)
    offsets = np.arange(rows)
    times = pa.array(offsets * (WINDOWS * WINDOW_US) // rows).cast(TIMESTAMP_TYPE)
    arrays = {
        "partition": pa.array(np.full(rows, partition, np.int32)),
        "offset": pa.array(offsets),
        "timestamp": times,
        "event_time": times,
        "key": pa.nulls(rows, pa.binary()),
        "tombstone": pa.repeat(pa.scalar(False), rows),
        "id": pa.array(offsets),
        "price": pa.array(np.random.default_rng(partition).random(rows)),
        "batch_id": pa.repeat(pa.scalar(0, pa.int64()), rows),
    }
    name = f"topic=t/ingest_date=2026-03-01/{partition}.parquet"
    file = RangeFile(path, name, schema, {"compression": "snappy"})
    file.add(pa.RecordBatch.from_arrays([arrays[n] for n in schema.names], schema=schema))
    described = file.description(file.close())
    return DataFile(topic="t", ingest_date="2026-03-01", partition=partition, **described)
