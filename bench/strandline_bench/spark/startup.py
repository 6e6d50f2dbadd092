"""`strandline bench spark --startup`: the processor time of `ingest bronze --once` with nothing to
read. It is compared with a streaming source in Python that does nothing, on the same Spark.
"""

import asyncio
import os
import resource
import subprocess
import sys
import tempfile
import time
from typing import Final

from strandline_bench.report import Report, median
from strandline_bench.spark.options import SparkOptions
from strandline_bench.target import fresh_topic, own_running

FLOOR: Final = 1.5
DEADLINE_S: Final = 300.0
EMPTY: Final = """
import sys
from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from strandline_spark.spark.session import end_session, start_session

class Reader(DataSourceStreamReader):
    def initialOffset(self):
        return {"at": 0}
    def latestOffset(self):
        return {"at": 0}
    def partitions(self, start, end):
        return []
    def read(self, partition):
        return iter(())

class Empty(DataSource):
    @classmethod
    def name(cls):
        return "empty"
    def schema(self):
        return "value BINARY"
    def streamReader(self, schema):
        return Reader()

spark = start_session("empty", master=sys.argv[1], memory=sys.argv[2],
                      log_path=sys.argv[3] + "/log", direct=True)
spark.dataSource.register(Empty)
stream = spark.readStream.format("empty").load().writeStream
stream = stream.option("checkpointLocation", "file://" + sys.argv[3] + "/checkpoint")
query = stream.foreachBatch(lambda frame, number: None).trigger(availableNow=True).start()
query.awaitTermination()
end_session(spark)
"""


def run(options: SparkOptions, report: Report) -> int:
    """Run the measure; the exit status is 1 if the ratio exceeds its limit."""
    import uvloop

    with own_running(options) as target:
        return uvloop.run(_rounds(target.bootstrap, options, report))


async def _rounds(bootstrap: str, options: SparkOptions, report: Report) -> int:
    ours, empty = [], []
    async with fresh_topic(bootstrap, "bench-startup", options) as topic:
        for number in range(options.rounds + 1):
            taken = await asyncio.to_thread(_round, bootstrap, topic, options)
            if number > 0:  # the first one brings files into the page cache
                ours.append(taken[0])
                empty.append(taken[1])
    ratio = median([a[0] / b[0] for a, b in zip(ours, empty, strict=True)])
    report.measured(
        "startup",
        {
            "ours_cpu_s": round(median([cpu for cpu, _ in ours]), 2),
            "empty_cpu_s": round(median([cpu for cpu, _ in empty]), 2),
            "ratio": round(ratio, 2),
            "ours_s": round(median([wall for _, wall in ours]), 2),
            "empty_s": round(median([wall for _, wall in empty]), 2),
            "floor": FLOOR,
            "missed": ratio > FLOOR,
        },
    )
    return int(ratio > FLOOR)


def _round(
    bootstrap: str, topic: str, options: SparkOptions
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Seconds of processor and of the clock, of ours and of the empty source."""
    with tempfile.TemporaryDirectory(prefix="strandline-bench-startup-") as folder:
        places = ("--table", f"{folder}/table", "--checkpoint", f"{folder}/checkpoint")
        spark = ("--master", options.master, "--memory", options.memory)
        job = ["ingest", "bronze", "--bootstrap", bootstrap, "--topics", topic, *places, *spark]
        ours = _taken([sys.executable, "-m", "strandline_spark.commands.main", *job, "--once"])
        os.mkdir(f"{folder}/empty")
        arguments = (options.master, options.memory, f"{folder}/empty")
        return ours, _taken([sys.executable, "-c", EMPTY, *arguments])


def _taken(command: list[str]) -> tuple[float, float]:
    """The processor time of a process and all children that it has waited for."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    wall_s, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr[-2000:]
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall_s
