"""A pipeline's job: one streaming query, whose tasks write bronze, silver and quarantine. After
each batch the gold and state steps run over silver.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from strandline_spark.bronze.bronze import (
    BronzeJob,
    Totals,
    check_surroundings,
    copy_audit,
    prepare_start,
    run_query,
    start_query,
)
from strandline_spark.bronze.columns import BronzeTable
from strandline_spark.bronze.task_files import SILVER
from strandline_spark.cluster.cluster import close_channels
from strandline_spark.pipeline.columns import with_columns_of
from strandline_spark.pipeline.failures import Failures
from strandline_spark.pipeline.gold import GoldSteps
from strandline_spark.pipeline.state import StateSteps
from strandline_spark.silver.batch import SILVER as SILVER_STEP
from strandline_spark.silver.batch import SilverBatchWriter
from strandline_spark.silver.catch_up import CatchUp
from strandline_spark.silver.range_output import SilverPlan
from strandline_spark.silver.rebuild import check_places, running
from strandline_spark.silver.tables import QuarantineTable, SilverTable
from strandline_spark.spark.listener import listen
from strandline_spark.spark.session import end_session, interrupts, start_session
from strandline_spark.spark.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from strandline_spark.bronze.micro_batch import BatchReport
    from strandline_spark.parsing.settings import ParseSettings
    from strandline_spark.pipeline.config import Pipeline
    from strandline_spark.pipeline.metrics import JobMetrics


@dataclass(frozen=True, slots=True)
class PipelineRun:
    """The way in which a pipeline is run, beside the settings of its file."""

    bootstrap: str
    every: str | None = None
    """Time between micro-batches; None reads what is available and ends."""
    close: bool = False
    """True if open windows come out at the end too."""
    gold: bool = True
    """True if the gold and state steps run."""
    master: str = "local[2]"
    memory: str = "1g"
    worker_python: str | None = None
    metrics: JobMetrics | None = None
    """Metrics that the run reports to; None if nobody reads them."""


def bronze_job(pipeline: Pipeline, run: PipelineRun) -> BronzeJob:
    job = BronzeJob(
        bootstrap=run.bootstrap,
        topics=pipeline.topics,
        table=pipeline.bronze,
        checkpoint=pipeline.checkpoint,
        every=run.every,
        start=pipeline.start,
        record_losses=pipeline.record_losses,
        max_offsets_per_trigger=pipeline.max_offsets_per_trigger,
        master=run.master,
        memory=run.memory,
    )
    return job if run.worker_python is None else replace(job, worker_python=run.worker_python)


def run_pipeline(
    pipeline: Pipeline,
    run: PipelineRun,
    on_batch: Callable[[BatchReport], None],
    note: Callable[[str], None],
) -> tuple[Totals, dict[str, str]]:
    """Runs the pipeline to its end, and returns the totals and the failed steps with their reasons.
    Raises StrandlineSparkError.

    With `every` only an interrupt ends it. Tables, topics and the start are checked before Spark
    starts, statements before a batch is read.
    """
    job = bronze_job(pipeline, run)
    start = prepare_pipeline(pipeline, job)
    spark = start_session(
        f"strandline {pipeline.name}",
        master=job.master,
        memory=job.memory,
        log_path=job.log_file,
        direct=True,
        worker_python=job.worker_python,
    )
    listen(spark, job.bootstrap, note, run.metrics)
    try:
        with running(pipeline), interrupts() as interrupted:
            stream = PipelineStream(spark, pipeline, run, on_batch, note)
            totals = stream.run(start, interrupted)
    finally:
        end_session(spark)
    if interrupted.is_set():
        raise KeyboardInterrupt
    return totals, stream.failures.said()


def prepare_pipeline(pipeline: Pipeline, job: BronzeJob) -> str:
    """Makes the missing tables, and checks the owner of the others. Returns the start offsets of a
    new checkpoint, as the option startingOffsets.
    """
    name = pipeline.name
    check_places(pipeline)
    try:
        SilverTable.find(pipeline.silver, name)
        QuarantineTable.find(pipeline.quarantine, name)
        check_surroundings(job, BronzeTable.find(pipeline.bronze, name))
        SilverTable.open_or_create(pipeline.silver, pipeline.parse.columns, name)
        QuarantineTable.open_or_create(pipeline.quarantine, name)
        bronze = BronzeTable.open_or_create(pipeline.bronze, name)
        return prepare_start(job, bronze)
    finally:
        close_channels()


class PipelineStream:
    """The prepared pipeline on an existing session.

    Bronze always continues. Silver and each gold or state step may fail independently, and catch up
    later.
    """

    def __init__(
        self,
        spark: SparkSession,
        pipeline: Pipeline,
        run: PipelineRun,
        on_batch: Callable[[BatchReport], None],
        note: Callable[[str], None],
    ) -> None:
        """Prepares the steps. Raises OptionError for a gold statement that does not compile, or a
        state step that silver's columns do not allow.
        """
        self.totals = Totals(version=BronzeTable.open(pipeline.bronze).version)
        self.failures = Failures(note)
        self._spark = spark
        self._pipeline = pipeline
        self._job = bronze_job(pipeline, run)
        self._close = run.close
        self._on_batch = on_batch
        self._note = note
        self._metrics = metrics = run.metrics
        self._gold: GoldSteps | None = None
        self._state: StateSteps | None = None
        if run.gold:
            reports = (None, None) if metrics is None else (metrics.gold, metrics.state)
            self._gold = GoldSteps(spark, pipeline, note, self.failures, reports[0])
            self._state = StateSteps(pipeline, note, self.failures, reports[1])
        self._say_who_stands()
        job = self._job
        self._workers = Workers(spark, master=job.master, table=job.table, python=job.worker_python)
        self._lock = threading.Lock()
        self._writer = SilverBatchWriter(
            pipeline,
            offsets_file=job.offsets_file,
            on_batch=self._noted,
            after_batch=lambda frame: self._after_batch(frame.sparkSession),
            check_workers=self._workers.check,
            note=note,
            failures=self.failures,
            lock=self._lock,
        )
        self._catch_up = CatchUp(spark, pipeline, self._settings, note)

    def run(self, start: str, interrupted: threading.Event | None = None) -> Totals:
        """Runs to the end, or until `interrupted` is set; `failures` has the failed steps."""
        copy_audit(self._pipeline.bronze, self._note)
        with self.failures.guard(SILVER_STEP):
            self._writer.is_behind = self._catch_up.is_behind()
        run_query(
            self._job,
            lambda: self._start(start),
            self.totals,
            self._workers,
            interrupted,
            self._note,
            self._wants_again,
            self._idle,
        )
        with self._lock:
            if interrupted is None or not interrupted.is_set():
                while self._take_step():
                    pass
            self._run_steps(self._spark, close=self._close)
        self._copy_audits()
        return self.totals

    def _start(self, start: str) -> StreamingQuery:
        pipeline = self._pipeline
        more: dict[str, str] = {}
        with self.failures.guard(SILVER_STEP):
            parse = self._settings(SilverTable.open(pipeline.silver))
            more = {SILVER: SilverPlan(pipeline.silver, pipeline.quarantine, parse).to_json()}
            self._writer.known = tuple(parse.columns)
        return start_query(self._spark, self._job, start, self._writer, more)

    def _settings(self, silver: SilverTable) -> ParseSettings:
        return with_columns_of(self._pipeline, silver).parse

    def _wants_again(self) -> bool:
        added, self._writer.added = self._writer.added, {}
        return bool(added)

    def _noted(self, report: BatchReport) -> None:
        self.totals.add(report)
        self._on_batch(report)
        if self._metrics is not None:
            self._metrics.batch(report)

    def _after_batch(self, spark: SparkSession) -> None:
        """Lets silver take one step if it lacks something, then state, and gold if it lacks
        nothing.
        """
        with self._lock:
            self._go_on(spark)

    def _idle(self) -> None:
        """Lets silver catch up while the query waits for records."""
        if self._writer.is_behind and self._lock.acquire(blocking=False):
            try:
                self._go_on(self._spark)
            finally:
                self._lock.release()

    def _go_on(self, spark: SparkSession) -> None:
        if self._writer.is_behind and self.failures.may_try(SILVER_STEP):
            self._take_step()
        self._run_steps(spark, again=False)

    def _take_step(self) -> bool:
        """Takes one step. True if silver still lacks ranges, and can take them."""
        if not self._writer.is_behind:
            return False
        with self.failures.guard(SILVER_STEP):
            step = self._catch_up.step()
            self._writer.added |= self._catch_up.take_added()
            self._writer.is_behind = step.left > 0 or self._catch_up.is_behind()
            if step.rows:
                self.totals.quarantined += step.quarantined
                if self._metrics is not None:
                    self._metrics.caught_up(step)
                left = f", {step.left} ranges to go" if step.left else ""
                self._note(f"silver: {step.rows:,} records from bronze{left}")
            return self._writer.is_behind
        return False

    def _run_steps(self, spark: SparkSession, *, close: bool = False, again: bool = True) -> None:
        """Runs the state steps, and the gold steps unless silver lacks rows: windows would close
        without them, and they would be late.
        """
        if self._state is not None:
            self._state.run(again=again)
        stands = self._writer.is_behind or self.failures.has(SILVER_STEP)
        if self._gold is not None and not stands:
            self._gold.run(spark, close=close, again=again)
        self._say_who_stands()

    def _say_who_stands(self) -> None:
        if self._metrics is not None:
            pipeline = self._pipeline
            steps = [SILVER_STEP]
            if self._gold is not None:
                steps += (f"gold {step.name}" for step in pipeline.gold)
                steps += (f"state {step.name}" for step in pipeline.state)
            self._metrics.standing(steps, self.failures.said())

    def _copy_audits(self) -> None:
        pipeline = self._pipeline
        copy_audit(pipeline.bronze, self._note)
        with self.failures.guard("the audit of silver"):
            copy_audit(pipeline.silver, self._note, SilverTable)
            copy_audit(pipeline.quarantine, self._note, QuarantineTable)
