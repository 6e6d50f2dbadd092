"""The two sides of `strandline bench spark`: the same records in a topic of ours and in one of
Kafka's, and Spark's reads of them into a sink. Every call here blocks.
"""

import asyncio
import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from strandline_bench.payloads import compressible
from strandline_bench.peers.kafka import KafkaPeer
from strandline_bench.spark.options import SparkOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.listener import QueryProgressEvent

    from strandline_spark.pipeline.config import Pipeline

FIELDS: Final = "id long, user string, price double, at timestamp, note string"
PIPELINE: Final = """
[pipeline]
name = "clicks"
topics = ["{topic}"]
start = "earliest"

[silver]
format = "json"
event_time = "at"
max_ahead = "unlimited"

[silver.columns]
id = "bigint"
user = "string"
price = "double"
at = "timestamp"
note = "string"
"""
STATE: Final = """
[[state]]
name = "clicks"
key = ["partition", "id"]
"""
FILL_S: Final = 3600.0
COLUMNS: Final = "key,value,topic,partition,offset,timestamp,timestampType"
"""The columns of Spark's Kafka source, on both sides."""


Values = Callable[[int, int], Iterator[bytes]]
"""A function that makes so many values of so many bytes."""


@dataclass(frozen=True, slots=True)
class Taken:
    """Seconds of one action."""

    action_s: float
    start_s: float = 0.0
    """Seconds of a stream outside its micro-batch."""
    around_s: float = 0.0
    """Seconds of a micro-batch before and after the call of its sink."""
    step_s: float = 0.0
    """Seconds of a state step over all rows, into a table of its own."""


class Side(Protocol):
    """One of the two sides, filled with records of one size."""

    def frame(self, spark: "SparkSession") -> "DataFrame": ...

    def run(self, spark: "SparkSession", sink: str) -> Taken: ...


@dataclass(frozen=True, slots=True)
class Ours:
    bootstrap: str
    topic: str
    records: int

    def frame(self, spark: "SparkSession") -> "DataFrame":
        source = spark.read.format("strandline").option("bootstrap.servers", self.bootstrap)
        return source.option("subscribe", self.topic).option("columns", COLUMNS).load()

    def run(self, spark: "SparkSession", sink: str) -> Taken:
        if sink in ("silver", "state"):
            return self._pipeline(spark, STATE if sink == "state" else "")
        return self._direct(spark) if sink == "delta" else _action(self.frame(spark), sink)

    def _pipeline(self, spark: "SparkSession", steps: str) -> Taken:
        """One micro-batch of a pipeline, with these steps, into new tables."""
        from strandline_spark.pipeline.config import parse_pipeline
        from strandline_spark.pipeline.job import (
            PipelineRun,
            PipelineStream,
            bronze_job,
            prepare_pipeline,
        )

        with _folder() as folder:
            text = PIPELINE.format(topic=self.topic) + steps
            pipeline = parse_pipeline(text, os.path.join(folder, "pipeline.toml"))
            run = PipelineRun(self.bootstrap, gold=bool(steps))
            started = time.perf_counter()
            start = prepare_pipeline(pipeline, bronze_job(pipeline, run))
            with _batches(spark) as batches:
                job = PipelineStream(spark, pipeline, run, lambda _: None, lambda _: None)
                totals = job.run(start)
            whole_s = time.perf_counter() - started
            step_s = _state_alone(pipeline, self.records)
        assert (totals.rows, totals.quarantined) == (self.records, 0), totals
        assert not job.failures.said(), job.failures.said()
        action_s = max(batches.trigger_ms) / 1e3
        return Taken(action_s, whole_s - action_s, max(batches.around_ms) / 1e3, step_s)

    def _direct(self, spark: "SparkSession") -> Taken:
        """One micro-batch of the bronze job into a new table."""
        from strandline_spark.bronze.bronze import BronzeJob, prepare, stream

        with _folder() as folder:
            job = BronzeJob(
                self.bootstrap,
                (self.topic,),
                os.path.join(folder, "table"),
                os.path.join(folder, "checkpoint"),
                start="earliest",
            )
            started = time.perf_counter()
            start = prepare(job)
            with _batches(spark) as batches:
                totals = stream(spark, job, start, lambda report: None)
            whole_s = time.perf_counter() - started
        assert totals.rows == self.records, (totals.rows, self.records)
        action_s = max(batches.trigger_ms) / 1e3
        around_s = max(batches.around_ms) / 1e3
        return Taken(action_s, whole_s - action_s, around_s)


def _state_alone(pipeline: "Pipeline", records: int) -> float:
    """Seconds of the pipeline's state step over all of silver, into a new table; 0 without one."""
    from strandline_spark.state.step import run_step

    if not pipeline.state:
        return 0.0
    step = replace(pipeline.state[0], name="alone", table=pipeline.state[0].table + "-alone")
    began = time.perf_counter()
    report = run_step(step, pipeline.silver, pipeline=pipeline.name)
    assert report.rows == records, report
    return time.perf_counter() - began


@dataclass(frozen=True, slots=True)
class Kafka:
    bootstrap: str
    topic: str

    def frame(self, spark: "SparkSession") -> "DataFrame":
        source = spark.read.format("kafka").option("kafka.bootstrap.servers", self.bootstrap)
        return source.option("subscribe", self.topic).load()

    def run(self, spark: "SparkSession", sink: str) -> Taken:
        if sink == "silver":
            return _action(self._parsed(spark), "parquet")
        return _action(self.frame(spark), "parquet" if sink == "delta" else sink)

    def _parsed(self, spark: "SparkSession") -> "DataFrame":
        from pyspark.sql import functions as F

        value = F.from_json(F.col("value").cast("string"), FIELDS)
        columns = ("topic", "partition", "offset", "timestamp", "key", "value.*")
        return self.frame(spark).withColumn("value", value).select(*columns)


def _action(frame: "DataFrame", sink: str) -> Taken:
    with _folder() as folder:
        writer = frame.write.mode("overwrite")
        started = time.perf_counter()
        if sink == "noop":
            writer.format("noop").save()
        else:
            writer.parquet(os.path.join(folder, "files"))
        return Taken(time.perf_counter() - started)


@contextlib.contextmanager
def _folder() -> Iterator[str]:
    folder = tempfile.mkdtemp(prefix="strandline-bench-spark-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(slots=True)
class _Batches:
    trigger_ms: list[float] = field(default_factory=list)
    around_ms: list[float] = field(default_factory=list)


@contextlib.contextmanager
def _batches(spark: "SparkSession") -> Iterator[_Batches]:
    """`triggerExecution` of the micro-batches that run meanwhile."""
    from pyspark.sql.streaming.listener import StreamingQueryListener

    found = _Batches()

    class Noting(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None: ...

        def onQueryProgress(self, event: "QueryProgressEvent") -> None:
            took = event.progress.durationMs
            found.trigger_ms.append(float(took["triggerExecution"]))
            found.around_ms.append(float(took["triggerExecution"] - took.get("addBatch", 0)))

        def onQueryIdle(self, event: Any) -> None: ...

        def onQueryTerminated(self, event: Any) -> None: ...

    listener = Noting()
    spark.streams.addListener(listener)
    try:
        yield found
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    finally:
        spark.streams.removeListener(listener)


def end_session(spark: "SparkSession") -> None:
    """Ends the JVM too, even if an interrupt has broken off a call to it."""
    from strandline_spark.spark.session import stop_jvm

    try:
        with contextlib.suppress(OSError):
            spark.stop()
    finally:
        stop_jvm()


async def fill(
    bootstrap: str,
    topic: str,
    size: int,
    count: int,
    options: SparkOptions,
    values: Values = compressible,
) -> None:
    """Fill a new topic of ours with so many records, the same number in each partition."""
    from strandline import Admin, NewTopic, Producer

    least = {"min.insync.replicas": str(options.min_insync_replicas)}
    new = NewTopic(topic, options.partitions, options.replication_factor, config=least)
    async with (
        asyncio.timeout(FILL_S),
        Admin(bootstrap) as admin,
        Producer(bootstrap, acks="all", batch_size=options.batch_size) as producer,
    ):
        await admin.create_topics([new])
        for partition, part in enumerate(shares(count, options.partitions)):
            await producer.send_many(topic, values(part, size), partition=partition)


def fill_kafka(
    kafka: KafkaPeer, size: int, count: int, options: SparkOptions, values: Values = compressible
) -> str:
    """Fill a new topic of Kafka's in the same way; returns its name."""
    topic, _ = kafka.create(options.partitions, options.min_insync_replicas)
    for partition, part in enumerate(shares(count, options.partitions)):
        kafka.fill(topic, partition, values(part, size), options.batch_size)
    return topic


def shares(count: int, partitions: int) -> list[int]:
    return [count * (n + 1) // partitions - count * n // partitions for n in range(partitions)]
