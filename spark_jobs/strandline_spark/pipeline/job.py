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
from strandline_spark.gold.pauses import Pauses
from strandline_spark.pipeline.failures import Failures
from strandline_spark.pipeline.gold import GoldSteps
from strandline_spark.pipeline.moved_topics import check_topics
from strandline_spark.pipeline.state import StateSteps
from strandline_spark.silver.batch import SilverBatchWriter, SilverPart
from strandline_spark.silver.catch_up import CatchUp
from strandline_spark.silver.range_output import SilverPlan, SilverPlans
from strandline_spark.silver.rebuild import check_places, running
from strandline_spark.silver.tables import QuarantineTable, SilverTable, settings_of
from strandline_spark.spark.listener import listen
from strandline_spark.spark.session import end_session, interrupts, start_session
from strandline_spark.spark.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from strandline_spark.bronze.micro_batch import BatchReport
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
    """Metrics that the run reports to; None if no reader wants them."""


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
    for part in pipeline.parts:
        check_places(part)
    try:
        for part in pipeline.parts:
            silver = SilverTable.find(part.silver, name)
            QuarantineTable.find(part.quarantine, name)
            if silver is not None:
                check_topics(part, pipeline, silver)
        check_surroundings(job, BronzeTable.find(pipeline.bronze, name))
        for part in pipeline.parts:
            parse = part.parse
            SilverTable.open_or_create(part.silver, parse.columns, name, settings_of(parse))
            QuarantineTable.open_or_create(part.quarantine, name)
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
        self._metrics = run.metrics
        job = self._job
        self._workers = Workers(spark, master=job.master, table=job.table, python=job.worker_python)
        self._lock = threading.Lock()
        self._pauses = Pauses(step.idle_after for step in pipeline.every_gold if run.gold)
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
        self._parts = [self._part(one, run) for one in self._writer.parts]
        self._say_who_stands()

    def _part(self, silver: SilverPart, run: PipelineRun) -> _Part:
        pipeline, metrics = silver.pipeline, run.metrics
        catch_up = CatchUp(self._spark, pipeline, silver.settings, self._note)
        if not run.gold:
            return _Part(silver, catch_up, None, None)
        on_gold, on_state = (None, None) if metrics is None else (metrics.gold, metrics.state)
        gold = GoldSteps(self._spark, pipeline, self._note, self.failures, on_gold)
        state = StateSteps(pipeline, self._note, self.failures, on_state)
        return _Part(silver, catch_up, gold, state)

    def run(self, start: str, interrupted: threading.Event | None = None) -> Totals:
        """Runs to the end, or until `interrupted` is set; `failures` has the failed steps."""
        copy_audit(self._pipeline.bronze, self._note)
        for part in self._parts:
            with self.failures.guard(part.silver.step):
                part.silver.is_behind = part.catch_up.is_behind()
        self._pauses.batch()
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
                for part in self._parts:
                    while self._take_step(part):
                        pass
            for part in self._parts:
                part.run_steps(self._spark, close=self._close)
            self._say_who_stands()
        self._copy_audits()
        return self.totals

    def _start(self, start: str) -> StreamingQuery:
        plans = []
        for part in self._writer.parts:
            pipeline = part.pipeline
            with self.failures.guard(part.step):
                parse = part.settings(SilverTable.open(pipeline.silver))
                if parse.dedupe_key:  # silver takes these topics from bronze
                    continue
                plan = SilverPlan(pipeline.silver, pipeline.quarantine, parse).to_json()
                plans.append((pipeline.own_topics, plan))
                part.known = tuple(parse.columns)
        more = {SILVER: SilverPlans(plans).to_json()} if plans else {}
        return start_query(self._spark, self._job, start, self._writer, more)

    def _wants_again(self) -> bool:
        added = [part.take_added() for part in self._writer.parts]
        return any(added)

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
        self._pauses.batch()

    def _idle(self) -> None:
        """Lets silver catch up while the query waits for records, and gold take topics for idle."""
        is_behind = any(part.is_behind for part in self._writer.parts)
        if (is_behind or self._pauses.is_due()) and self._lock.acquire(blocking=False):
            try:
                self._go_on(self._spark)
            finally:
                self._lock.release()

    def _go_on(self, spark: SparkSession) -> None:
        for part in self._parts:
            if part.silver.is_behind and self.failures.may_try(part.silver.step):
                self._take_step(part)
            part.run_steps(spark, again=False)
        self._say_who_stands()

    def _take_step(self, part: _Part) -> bool:
        """Takes one step. True if silver still lacks ranges, and can take them."""
        silver = part.silver
        if not silver.is_behind:
            return False
        with self.failures.guard(silver.step):
            step = part.catch_up.step()
            silver.added |= part.catch_up.take_added()
            silver.is_behind = step.left > 0 or part.catch_up.is_behind()
            if step.rows:
                self.totals.quarantined += step.quarantined - step.duplicates
                self.totals.duplicates += step.duplicates
                if self._metrics is not None:
                    self._metrics.caught_up(step)
                left = f", {step.left} ranges to go" if step.left else ""
                some = f" ({step.duplicates:,} of them duplicates)" if step.duplicates else ""
                self._note(f"{silver.step}: {step.rows:,} records from bronze{some}{left}")
            return silver.is_behind
        return False

    def _say_who_stands(self) -> None:
        if self._metrics is not None:
            pipeline = self._pipeline
            steps = [part.silver.step for part in self._parts]
            if any(part.gold is not None for part in self._parts):
                steps += (f"gold {step.name}" for step in pipeline.every_gold)
                steps += (f"state {step.name}" for step in pipeline.every_state)
            self._metrics.standing(steps, self.failures.said())

    def _copy_audits(self) -> None:
        copy_audit(self._pipeline.bronze, self._note)
        for part in self._pipeline.parts:
            with self.failures.guard(f"the audit of {part.silver_step}"):
                copy_audit(part.silver, self._note, SilverTable)
                copy_audit(part.quarantine, self._note, QuarantineTable)


@dataclass(frozen=True, slots=True)
class _Part:
    """One silver table of a running pipeline, and the steps over it."""

    silver: SilverPart
    catch_up: CatchUp
    gold: GoldSteps | None
    state: StateSteps | None

    def run_steps(self, spark: SparkSession, *, close: bool = False, again: bool = True) -> None:
        """Runs the state steps, and the gold steps unless silver lacks rows: windows would close
        without them, and they would be late.
        """
        if self.state is not None:
            self.state.run(again=again)
        if self.gold is not None and not self.silver.stands:
            self.gold.run(spark, close=close, again=again)
