"""The bronze job: topics into a Delta table of raw records, each offset once.

In direct mode (the default) tasks write Parquet themselves, and the driver only commits. In
dataframe mode records pass through Spark's engine, which writes the Parquet files. That is slower,
and the place for a transformation of your own.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from strandline_proto.decompression import DECOMPRESSED_BYTES_MAX
from strandline_proto.ids import topic_id_bytes
from strandline_spark.bronze.audit import AuditCopier, accounts, audit_path, last_ranges
from strandline_spark.bronze.checkpoint import has_folders, has_planned, read_checkpoint
from strandline_spark.bronze.columns import BronzeTable
from strandline_spark.bronze.micro_batch import BatchReport, MicroBatchWriter, app_id
from strandline_spark.bronze.observed import observed
from strandline_spark.bronze.task_files import SILVER, TABLE_PATH, BronzeSource
from strandline_spark.cluster.cluster import Cluster, close_channels, unknown
from strandline_spark.cluster.offsets import StreamOffset, decimal, stream_to_json
from strandline_spark.data_source import StrandlineDataSource
from strandline_spark.errors import (
    DataLoss,
    EnvironmentProblem,
    OptionError,
    StrandlineSparkError,
    TableError,
    first_line,
    remedy_line,
)
from strandline_spark.source.losses import (
    JOB_DELETION_WAYS_OUT,
    Loss,
    OnLoss,
    Reason,
    described,
    for_job,
)
from strandline_spark.spark.listener import listen
from strandline_spark.spark.session import (
    check_java,
    end_session,
    interrupts,
    jvm_has_ended,
    start_session,
)
from strandline_spark.spark.task_failures import TaskFailures
from strandline_spark.spark.workers import Workers, check_python_here
from strandline_spark.stores.paths import is_remote

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from strandline_spark.bronze.checkpoint import Checkpoint
    from strandline_spark.bronze.fenced_table import FencedTable
    from strandline_spark.cluster.offsets import Offsets
    from strandline_spark.spark.listener import Watcher

POLL_SECONDS: Final = 0.2
EVERY_MAX: Final = 999_999
"""Largest count of any unit: Spark limits an interval, and reports that only after its start."""
RESTARTS_MAX: Final = 3
"""How often a query that Spark ended is restarted without a batch in between. A Python process that
starts too slowly for Spark (it waits 10 s for planners, 60 s for workers) ends a query.
"""


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
    """`earliest`, `latest`, or `table`: where the table ends. Only a new checkpoint uses it."""
    record_losses: bool = False
    """True to count records that retention removed, and continue; False to stop there."""
    max_offsets_per_trigger: int | None = None
    max_decompressed_bytes: int = DECOMPRESSED_BYTES_MAX
    master: str = "local[2]"
    memory: str = "1g"
    worker_python: str = sys.executable
    """The interpreter of Spark's workers: a path, or a name on each machine's PATH."""

    @property
    def offsets_file(self) -> str:
        """The file of earlier versions for the offsets that Spark's checkpoint now holds."""
        return os.path.join(self.checkpoint, "strandline", "initial-offsets.json")

    @property
    def log_file(self) -> str:
        return os.path.join(self.checkpoint, "strandline", "spark.log")


@dataclass(slots=True)
class Totals:
    batches: int = 0
    rows: int = 0
    lost: int = 0
    size: int = 0
    files: int = 0
    version: int = -1
    quarantined: int = 0
    """Records that did not parse."""
    duplicates: int = 0

    def add(self, report: BatchReport) -> None:
        self.batches += 0 if report.skipped else 1
        self.rows += report.rows
        self.lost += report.lost
        self.size += report.size
        self.files += report.files
        self.version = report.version
        self.quarantined += report.quarantined


def run_bronze(
    job: BronzeJob,
    on_batch: Callable[[BatchReport], None],
    note: Callable[[str], None],
    watcher: Watcher | None = None,
) -> Totals:
    """Runs the job to its end, and passes messages for the user to `note`, Spark's reports to
    `watcher`. Raises StrandlineSparkError.

    With `every` only an interrupt ends the job. The table, the topics and the start are checked
    first, because Spark takes seconds to start.
    """
    start = prepare(job)
    spark = start_session(
        "strandline ingest bronze",
        master=job.master,
        memory=job.memory,
        log_path=job.log_file,
        direct=job.direct,
        worker_python=job.worker_python,
    )
    listen(spark, job.bootstrap, note, watcher)
    try:
        with interrupts() as interrupted:
            totals = stream(spark, job, start, on_batch, interrupted, note)
    finally:
        end_session(spark)
    if interrupted.is_set():
        raise KeyboardInterrupt
    return totals


def prepare(job: BronzeJob) -> str:
    """Checks the topics and the checkpoint, and makes the table if it does not exist.

    Returns the start offsets of a new checkpoint, as the option startingOffsets.
    """
    try:
        check_surroundings(job, BronzeTable.find(job.table))
        return prepare_start(job, BronzeTable.open_or_create(job.table))
    finally:
        close_channels()


def stream(
    spark: SparkSession,
    job: BronzeJob,
    start: str,
    on_batch: Callable[[BatchReport], None],
    interrupted: threading.Event | None = None,
    note: Callable[[str], None] = lambda line: None,
) -> Totals:
    """Runs the prepared job on an existing session; ends early once `interrupted` is set."""
    totals = Totals(version=BronzeTable.open(job.table).version)
    copy_audit(job.table, note)

    def noted(report: BatchReport) -> None:
        totals.add(report)
        on_batch(report)

    workers = Workers(spark, master=job.master, table=job.table, python=job.worker_python)
    writer = MicroBatchWriter(
        table_path=job.table,
        checkpoint=job.checkpoint,
        offsets_file=job.offsets_file,
        direct=job.direct,
        on_batch=noted,
        check_workers=workers.check,
    )
    run_query(
        job, lambda: start_query(spark, job, start, writer), totals, workers, interrupted, note
    )
    copy_audit(job.table, note)
    return totals


def copy_audit(
    path: str, note: Callable[[str], None], kind: type[FencedTable] = BronzeTable
) -> None:
    """Copies the accounts of the table's commits into its audit."""
    if missing := AuditCopier(path).copy(kind.open(path)):
        note(
            f"{missing} versions of {path} had left its log before they were copied to"
            f" {audit_path(path)}"
        )


def run_query(
    job: BronzeJob,
    start: Callable[[], StreamingQuery],
    totals: Totals,
    workers: Workers,
    interrupted: threading.Event | None,
    note: Callable[[str], None],
    wants_again: Callable[[], bool] = lambda: False,
    idle: Callable[[], None] = lambda: None,
) -> None:
    """Runs the query to its end. Raises StrandlineSparkError.

    A query that Spark ended is restarted a few times. A query that ended by its own request
    (`wants_again`) is always restarted. `idle` is called repeatedly meanwhile.
    """
    restarts, batches = 0, 0
    failures = TaskFailures(workers.context, note)
    while True:
        try:
            _run(start(), workers, failures, interrupted, idle)
            return
        except Exception as why:
            if jvm_has_ended(why):
                raise EnvironmentProblem(
                    f"Spark's JVM has ended (killed, or short of memory? {job.log_file} has its"
                    " last words): start the job again, it goes on where the table ends"
                ) from why
            if wants_again():
                continue
            if totals.batches > batches:
                restarts, batches = 0, totals.batches
            if restarts == RESTARTS_MAX or _named(why) is not None:
                raise _of_ours(why, job.log_file) from why
            restarts += 1
            note(
                f"{_of_ours(why, job.log_file)}; starting the query again, {restarts} of"
                f" {RESTARTS_MAX} times"
            )


def _run(
    query: StreamingQuery,
    workers: Workers,
    failures: TaskFailures,
    interrupted: threading.Event | None,
    idle: Callable[[], None],
) -> None:
    try:
        while not query.awaitTermination(POLL_SECONDS):  # type: ignore[arg-type]
            if interrupted is not None and interrupted.is_set():
                break
            workers.watch(query)
            failures.look()
            idle()
    finally:
        query.stop()


def prepare_start(job: BronzeJob, table: BronzeTable) -> str:
    """Returns the start offsets, with the topic ids and leader epochs of the table's commits and
    audit.

    So a topic that was truncated or created again since then is detected, whatever checkpoint is
    used.
    """
    if has_planned(job.checkpoint):
        return "earliest"
    cluster = Cluster(job.bootstrap.split(","), read_committed=True)
    leaders = cluster.leaders(job.topics)
    marks = cluster.marks(leaders)
    latest = job.start == "latest"
    ends = {tp: mark.high_watermark if latest else mark.log_start for tp, mark in marks.items()}
    for tp in leaders:
        end = table.end(tp)
        if end is not None and job.start == "table":
            ends[tp] = end
        table.check_fence(tp, ends[tp])
    ids: dict[str, bytes] = {}
    epochs: Offsets = {}
    held = {tp for tp in leaders if table.end(tp) is not None}
    for tp, last in last_ranges(table, held, HISTORY_COMMITS_MAX).items():
        ids[tp.topic] = topic_id_bytes(last.topic_id)
        if last.leader_epoch >= 0:
            epochs[tp] = last.leader_epoch
    return json.dumps(stream_to_json(StreamOffset(ends, ids, epochs)))


def start_query(
    spark: SparkSession,
    job: BronzeJob,
    start: str,
    writer: MicroBatchWriter,
    more: Mapping[str, str] | None = None,
) -> StreamingQuery:
    """Starts the query; `more` are options of the direct source."""
    options: dict[str, Any] = {
        "bootstrap.servers": job.bootstrap,
        "subscribe": ",".join(job.topics),
        "startingOffsets": start,
        "failOnDataLoss": OnLoss.EXCEPT_RETENTION if job.record_losses else OnLoss.STOP,
        "initialOffsetsPath": job.offsets_file,
        "maxDecompressedBytes": str(job.max_decompressed_bytes),
        "isolation.level": "read_committed",
    }
    if job.max_offsets_per_trigger is not None:
        options["maxOffsetsPerTrigger"] = str(job.max_offsets_per_trigger)
    if job.direct:
        spark.dataSource.register(BronzeSource)
        stream = spark.readStream.format(BronzeSource.name()).option(TABLE_PATH, job.table)
        options |= more or {}
    else:
        # A source that Spark finds by itself runs with the driver's interpreter on the workers too.
        spark.dataSource.register(StrandlineDataSource)
        stream = spark.readStream.format("strandline").option("includeHeaders", "true")
    frame = stream.options(**options).load()
    if job.direct:
        frame = observed(frame, with_silver=SILVER in options)
    output = (
        frame.writeStream.queryName("bronze")
        .option("checkpointLocation", f"file://{os.path.abspath(job.checkpoint)}")
        .foreachBatch(writer)
    )
    if job.every is None:
        return output.trigger(availableNow=True).start()
    return output.trigger(processingTime=job.every).start()


def _named(why: Exception) -> str | None:
    """Returns the message of one of our errors inside Spark's; None if there is none. Without one,
    the failure may not recur.
    """
    return str(why) if isinstance(why, StrandlineSparkError) else remedy_line(str(why))


def _of_ours(why: Exception, log_file: str) -> StrandlineSparkError:
    """Returns an error with the message that matters: one of our own, else the first line of
    Spark's.
    """
    ours = _named(why)
    if ours is not None:
        return StrandlineSparkError(for_job(ours))
    first = first_line(why)
    return StrandlineSparkError(f"Spark stopped the query: {first} ({log_file} has the rest)")


def checked_interval(text: str) -> str:
    """Returns `10s`, `2m`, `1h` in Spark's form. Raises OptionError for anything else."""
    units = {"s": "seconds", "m": "minutes", "h": "hours"}
    word = text.replace("-", "").replace("_", "").lower()
    if word.startswith(("continuous", "realtime")):
        raise OptionError(
            f"--every {text!r}: Spark runs a source in Python in micro-batches alone, so there are"
            " no continuous triggers and no Real-time Mode; give a number with s, m or h, at best"
            " 1s"
        )
    number, unit = decimal(text[:-1]), text[-1:]
    if number is None or not 1 <= number <= EVERY_MAX or unit not in units:
        raise OptionError(
            f"--every {text!r}: give a number with s, m or h, at most {EVERY_MAX}, for instance 10s"
        )
    return f"{number} {units[unit]}"


HISTORY_COMMITS_MAX: Final = 1000
"""Number of commits whose log entries are read for a table's topic ids and epochs when a checkpoint
starts, before its audit is.
"""


def check_apart(table: str, checkpoint: str) -> None:
    """Raises OptionError if one is inside the other: each would contain the other's files."""
    if is_remote(table):
        return
    folders = [os.path.realpath(path) for path in (table, checkpoint)]
    if os.path.commonpath(folders) in folders:
        raise OptionError(
            f"--checkpoint {checkpoint!r} and --table {table!r} are one folder, or one is in the"
            " other; give each a folder of its own"
        )


def check_surroundings(job: BronzeJob, table: BronzeTable | None) -> None:
    """Checks Java, the workers' Python, the topics, and the checkpoint of `table`, which may not
    exist yet. Raises StrandlineSparkError, and then nothing was made.
    """
    check_java()
    check_python_here(job.worker_python)
    found = read_checkpoint(job.checkpoint)
    if found is None and has_folders(job.checkpoint):
        raise _of_another(job)
    read = None if found is None else _check_checkpoint(found, job, table)
    _, absent = Cluster(job.bootstrap.split(",")).existing(job.topics)
    if absent and read is None and table is not None:
        read = {one.tp: one.end for _, one in accounts(table, HISTORY_COMMITS_MAX)}
    _must_exist(absent, table, read or {})
    _make_checkpoint(job)


def _must_exist(absent: set[str], table: BronzeTable | None, read: Offsets) -> None:
    """Raises DataLoss for missing topics that the job has read, else UnknownTopic. Offsets that the
    table does not hold were planned at most.
    """
    lost = []
    for tp, end in read.items():
        if tp.topic in absent:
            held = None if table is None else table.end(tp)
            what = f"topic {tp.topic} does not exist"
            lost.append(Loss(tp, end if held is None else held, None, Reason.DELETION, what))
    if lost:
        raise DataLoss(f"{described(lost)}.{JOB_DELETION_WAYS_OUT}")
    if absent:
        raise unknown(absent)


def _check_checkpoint(found: Checkpoint, job: BronzeJob, table: BronzeTable | None) -> Offsets:
    """Returns the end of the checkpoint's last batch. Raises TableError unless the table holds the
    batches that the checkpoint counts as done, and its newest offsets are readable.
    """
    held = None if table is None else table.committed_batch(app_id(found.query))
    if found.done and held is None:
        raise _of_another(job)
    if held is not None:
        found.check_planned()
    ends: Offsets = {}
    for batch in found.planned[-1:]:
        ends = found.end(batch).ends
    return ends


def _of_another(job: BronzeJob) -> TableError:
    return TableError(
        f"{job.checkpoint} is a checkpoint of another job or of another table; give an empty path"
    )


def _make_checkpoint(job: BronzeJob) -> None:
    """Makes the checkpoint's folder and its log file. Raises OptionError on failure."""
    try:
        os.makedirs(os.path.dirname(job.log_file), exist_ok=True)
        with open(job.log_file, "ab"):
            pass
    except OSError as why:
        raise OptionError(
            f"the checkpoint {job.checkpoint} cannot be written ({why}): give a folder of its own,"
            " where you may write"
        ) from why
