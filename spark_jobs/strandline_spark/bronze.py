"""The bronze job: topics into a Delta table of raw records, each offset once.

Direct mode (the default): tasks write Parquet themselves and the driver only commits. Dataframe
mode: records pass through Spark's engine, which writes the Parquet files; slower, and the place
where a transformation of one's own would go.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from strandline_proto.decompression import DECOMPRESSED_BYTES_MAX
from strandline_proto.ids import topic_id_bytes
from strandline_spark.bronze_source import TABLE_PATH, BronzeSource
from strandline_spark.cluster import Cluster, close_channels
from strandline_spark.errors import OptionError, StrandlineSparkError, TableError, remedy_line
from strandline_spark.micro_batch import BatchReport, MicroBatchWriter
from strandline_spark.options import EARLIEST, LATEST
from strandline_spark.positions import Lineage, PositionFiles
from strandline_spark.session import check_java, interrupts, start_session, stop_jvm
from strandline_spark.table import BronzeTable

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from strandline_spark.offsets import Offsets

POLL_SECONDS: Final = 0.2
HISTORY_COMMITS_MAX: Final = 1000
"""How far back the topic ids and epochs of a table are looked for when a checkpoint starts."""


@dataclass(frozen=True, slots=True)
class BronzeJob:
    bootstrap: str
    topics: tuple[str, ...]
    table: str
    checkpoint: str
    every: str | None = None
    """Time between micro-batches; None reads what is available and ends."""
    direct: bool = True
    start: str = "table"
    """`earliest`, `latest`, or `table`: where the table ends. Used by a new checkpoint only."""
    max_offsets_per_trigger: int | None = None
    max_decompressed_bytes: int = DECOMPRESSED_BYTES_MAX
    master: str = "local[2]"
    memory: str = "1g"

    @property
    def offsets_file(self) -> str:
        return os.path.join(self.checkpoint, "strandline", "initial-offsets.json")

    @property
    def log_file(self) -> str:
        return os.path.join(self.checkpoint, "strandline", "spark.log")


@dataclass(slots=True)
class Totals:
    batches: int = 0
    rows: int = 0
    size: int = 0
    files: int = 0
    version: int = -1

    def add(self, report: BatchReport) -> None:
        self.batches += 0 if report.skipped else 1
        self.rows += report.rows
        self.size += report.size
        self.files += report.files
        self.version = report.version


def run_bronze(job: BronzeJob, on_batch: Callable[[BatchReport], None]) -> Totals:
    """Runs the job to its end (`every` has none but an interrupt). Raises StrandlineSparkError.

    The table, the topics and the start are checked first: Spark takes seconds to start.
    """
    prepare(job)
    spark = start_session(
        "strandline ingest bronze",
        master=job.master,
        memory=job.memory,
        log_path=job.log_file,
        direct=job.direct,
    )
    try:
        with interrupts() as interrupted:
            totals = stream(spark, job, on_batch, interrupted)
    finally:
        spark.stop()
        stop_jvm()
    if interrupted.is_set():
        raise KeyboardInterrupt
    return totals


def prepare(job: BronzeJob) -> None:
    """The table is there, the topics are, and the checkpoint knows where it starts."""
    check_java()
    try:
        prepare_start(job, BronzeTable.open_or_create(job.table))
    finally:
        close_channels()


def stream(
    spark: SparkSession,
    job: BronzeJob,
    on_batch: Callable[[BatchReport], None],
    interrupted: threading.Event | None = None,
) -> Totals:
    """The prepared job on a session that is there already; ends early once `interrupted` is set."""
    totals = Totals(version=BronzeTable.open(job.table).version)

    def noted(report: BatchReport) -> None:
        totals.add(report)
        on_batch(report)

    writer = MicroBatchWriter(
        table_path=job.table,
        checkpoint=job.checkpoint,
        offsets_file=job.offsets_file,
        direct=job.direct,
        on_batch=noted,
    )
    query = _start(spark, job, writer)
    try:
        while not query.awaitTermination(POLL_SECONDS):  # type: ignore[arg-type]
            if interrupted is not None and interrupted.is_set():
                break
    except Exception as why:
        raise _of_ours(why, job.log_file) from why
    finally:
        query.stop()
    return totals


def prepare_start(job: BronzeJob, table: BronzeTable) -> None:
    """Decides once where a new checkpoint starts, and stores it before Spark can ask.

    With the offsets go the topic ids and leader epochs that the table's last commits name, so a
    topic that was truncated or created anew since then is noticed, whatever checkpoint is used.
    """
    files = PositionFiles(job.offsets_file)
    cluster = Cluster(job.bootstrap.split(","))
    leaders = cluster.leaders(job.topics)
    if files.initial() is not None:
        return
    if os.path.isdir(os.path.join(job.checkpoint, "offsets")):
        raise TableError(f"{job.checkpoint} is a checkpoint of another job; give an empty path")
    wanted = LATEST if job.start == "latest" else EARLIEST
    offsets: Offsets = {
        tp: end.offset for tp, end in cluster.offsets_at(dict.fromkeys(leaders, wanted)).items()
    }
    ends = {tp: table.end(tp) for tp in leaders}
    for tp, end in ends.items():
        if end is not None and job.start == "table":
            offsets[tp] = end
        table.check_fence(tp, offsets[tp])
    lineage = Lineage()
    for tp, last in table.last_ranges(HISTORY_COMMITS_MAX).items():
        if tp in leaders:
            lineage.topic_ids[tp.topic] = topic_id_bytes(last.topic_id)
            if last.leader_epoch >= 0:
                lineage.note(tp, epoch=last.leader_epoch, end=last.end)
    files.write_lineage(lineage)
    files.write_initial(offsets)


def _start(spark: SparkSession, job: BronzeJob, writer: MicroBatchWriter) -> StreamingQuery:
    options: dict[str, Any] = {
        "bootstrap.servers": job.bootstrap,
        "subscribe": ",".join(job.topics),
        "initialOffsetsPath": job.offsets_file,
        "maxDecompressedBytes": str(job.max_decompressed_bytes),
    }
    if job.max_offsets_per_trigger is not None:
        options["maxOffsetsPerTrigger"] = str(job.max_offsets_per_trigger)
    if job.direct:
        spark.dataSource.register(BronzeSource)
        stream = spark.readStream.format(BronzeSource.name()).option(TABLE_PATH, job.table)
    else:
        stream = spark.readStream.format("strandline").option("includeHeaders", "true")
    output = (
        stream.options(**options)
        .load()
        .writeStream.queryName("bronze")
        .option("checkpointLocation", f"file://{os.path.abspath(job.checkpoint)}")
        .foreachBatch(writer)
    )
    if job.every is None:
        return output.trigger(availableNow=True).start()
    return output.trigger(processingTime=job.every).start()


def _of_ours(why: Exception, log_file: str) -> StrandlineSparkError:
    """The message that matters in what Spark raised: one of our own, else its first line."""
    if isinstance(why, StrandlineSparkError):
        return why
    text = str(why)
    ours = remedy_line(text)
    if ours is not None:
        return StrandlineSparkError(ours)
    first = next((line.strip() for line in text.splitlines() if line.strip()), repr(why))
    return StrandlineSparkError(f"Spark stopped the query: {first} ({log_file} has the rest)")


def checked_interval(text: str) -> str:
    """`10s`, `2m`, `1h` as Spark wants it. Raises OptionError for anything else."""
    units = {"s": "seconds", "m": "minutes", "h": "hours"}
    number, unit = text[:-1], text[-1:]
    if not number.isdigit() or int(number) < 1 or unit not in units:
        raise OptionError(f"--every {text!r}: give a number with s, m or h, for instance 10s")
    return f"{number} {units[unit]}"
