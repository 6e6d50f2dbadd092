"""The metrics of a running job in Prometheus' text format, for `--metrics-listen`.

Counters begin at 0 with the process, as usual in Prometheus. Each family has the label
`pipeline`: the name of the pipeline, or for `ingest bronze` the path of its table.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from strandline_spark.errors import EnvironmentProblem, first_line
from strandline_spark.silver.duplicates import REASON

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql.streaming.listener import StreamingQueryProgress

    from strandline_spark.bronze.micro_batch import BatchReport
    from strandline_spark.gold.step import StepReport
    from strandline_spark.silver.catch_up import Step
    from strandline_spark.source.lag import Lag
    from strandline_spark.state.step import StateReport

_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
_MICROSECONDS: Final = 1_000_000


class JobMetrics:
    """The metrics of one job. Spark's threads may report at the same time."""

    def __init__(self, pipeline: str, clock: Callable[[], float] = time.time) -> None:
        self.registry = registry = CollectorRegistry()
        self._pipeline = pipeline
        self._clock = clock
        self._declare_tables(registry)
        self._declare_gold(registry)
        self._declare_state(registry)
        self._declare_reports(registry)
        for one in (self._batches, self._bytes, self._lost, self._duplicates):
            one.labels(pipeline)
        for table in ("bronze", "silver", "quarantine"):
            self._rows.labels(pipeline, table)

    def _declare_tables(self, registry: CollectorRegistry) -> None:
        self._batches = Counter(
            "strandline_spark_batches",
            "Micro-batches that bronze holds.",
            ("pipeline",),
            registry=registry,
        )
        self._rows = Counter(
            "strandline_spark_rows",
            "Rows that a table took; `table` is bronze, silver or quarantine.",
            ("pipeline", "table"),
            registry=registry,
        )
        self._bytes = Counter(
            "strandline_spark_written_bytes",
            "Bytes of the data files that micro-batches wrote.",
            ("pipeline",),
            registry=registry,
        )
        self._lost = Counter(
            "strandline_spark_lost_offsets",
            "Offsets whose records retention had removed before they were read.",
            ("pipeline",),
            registry=registry,
        )
        self._duplicates = Counter(
            "strandline_spark_duplicate_rows",
            "Records that repeat an earlier row of silver, by `dedupe`; quarantine has them.",
            ("pipeline",),
            registry=registry,
        )
        self._quarantined = Counter(
            "strandline_spark_quarantined_rows",
            "Records that quarantine took: they did not parse, or are duplicates.",
            ("pipeline", "reason"),
            registry=registry,
        )

    def _declare_gold(self, registry: CollectorRegistry) -> None:
        self._gold_rows = Counter(
            "strandline_spark_gold_rows",
            "Rows of the windows that a gold step closed.",
            ("pipeline", "step"),
            registry=registry,
        )
        self._late = Counter(
            "strandline_spark_late_rows",
            "Rows of silver that came after a gold step had closed their window.",
            ("pipeline", "step"),
            registry=registry,
        )
        self._updated = Counter(
            "strandline_spark_updated_late_rows",
            "Late rows whose windows a gold step computed again with them.",
            ("pipeline", "step"),
            registry=registry,
        )
        self._windows = Counter(
            "strandline_spark_updated_windows",
            "Closed windows that a gold step computed again for late rows.",
            ("pipeline", "step"),
            registry=registry,
        )
        self._watermark = Gauge(
            "strandline_spark_watermark_timestamp_seconds",
            "Event time up to which a gold step has closed its windows, in seconds since 1970.",
            ("pipeline", "step"),
            registry=registry,
        )

    def _declare_state(self, registry: CollectorRegistry) -> None:
        self._changes = Counter(
            "strandline_spark_state_changes",
            "Keys that a state step changed; `change` is upserted or deleted.",
            ("pipeline", "step", "change"),
            registry=registry,
        )
        self._left_out = Counter(
            "strandline_spark_state_left_out_rows",
            "Rows of silver without a place in a state table, because `column` is null in them.",
            ("pipeline", "step", "column"),
            registry=registry,
        )
        self._keys = Gauge(
            "strandline_spark_state_keys",
            "Keys in the table of a state step.",
            ("pipeline", "step"),
            registry=registry,
        )

    def _declare_reports(self, registry: CollectorRegistry) -> None:
        self._failed = Gauge(
            "strandline_spark_step_failed",
            "1 while a step stands still, otherwise 0; `step` is silver, gold NAME or state NAME.",
            ("pipeline", "step"),
            registry=registry,
        )
        self._offsets = Gauge(
            "strandline_spark_lag_offsets",
            "Offsets behind the topics after a micro-batch; `of` is min, avg or max of all"
            " partitions.",
            ("pipeline", "of"),
            registry=registry,
        )
        self._seconds = Gauge(
            "strandline_spark_lag_seconds",
            "Age of the first unread record after a micro-batch, 0 if all are read; `of` is min,"
            " avg or max of all partitions.",
            ("pipeline", "of"),
            registry=registry,
        )
        self._reported = Gauge(
            "strandline_spark_last_report_timestamp_seconds",
            "Time of Spark's last report, of a micro-batch or of an idle query, in seconds since"
            " 1970.",
            ("pipeline",),
            registry=registry,
        )
        self._durations = Histogram(
            "strandline_spark_batch_seconds",
            "Duration of a micro-batch by Spark's stages; triggerExecution is the whole.",
            ("pipeline", "stage"),
            buckets=_SECONDS,
            registry=registry,
        )

    def batch(self, report: BatchReport) -> None:
        """Counts a micro-batch that bronze holds. A repeated batch is no new one."""
        if report.skipped:
            return
        self._batches.labels(self._pipeline).inc()
        self._rows.labels(self._pipeline, "bronze").inc(report.rows)
        self._bytes.labels(self._pipeline).inc(report.size)
        self._lost.labels(self._pipeline).inc(report.lost)
        self._parsed(report.parsed, report.reasons)

    def caught_up(self, step: Step) -> None:
        """Counts rows that silver and quarantine took from bronze later."""
        self._parsed(step.rows - step.quarantined, step.reasons)

    def _parsed(self, rows: int, reasons: dict[str, int]) -> None:
        self._rows.labels(self._pipeline, "silver").inc(rows)
        self._duplicates.labels(self._pipeline).inc(reasons.get(REASON, 0))
        for reason, count in reasons.items():
            self._rows.labels(self._pipeline, "quarantine").inc(count)
            self._quarantined.labels(self._pipeline, reason).inc(count)

    def gold(self, report: StepReport) -> None:
        """Takes the result of a gold step's run, with a commit or without one."""
        self._gold_rows.labels(self._pipeline, report.step).inc(report.rows)
        self._late.labels(self._pipeline, report.step).inc(report.late)
        if report.updated is not None:
            self._updated.labels(self._pipeline, report.step).inc(report.late)
            self._windows.labels(self._pipeline, report.step).inc(report.updated)
        if report.watermark is not None:
            seconds = report.watermark / _MICROSECONDS
            self._watermark.labels(self._pipeline, report.step).set(seconds)

    def state(self, report: StateReport) -> None:
        """Takes the result of a state step's run, with a commit or without one."""
        own = (self._pipeline, report.step)
        self._changes.labels(*own, "upserted").inc(report.upserted)
        self._changes.labels(*own, "deleted").inc(report.deleted)
        for column, rows in report.left_out.items():
            self._left_out.labels(*own, column).inc(rows)
        self._keys.labels(*own).set(report.keys)

    def standing(self, steps: Iterable[str], failed: Iterable[str]) -> None:
        """Takes the names of all steps, and of those that stand still."""
        still = set(failed)
        for step in steps:
            self._failed.labels(self._pipeline, step).set(step in still)

    def lag(self, lag: Lag) -> None:
        """Takes the lag after a micro-batch. An unknown lag in seconds leaves the last one out."""
        for gauge, spread in ((self._offsets, lag.offsets), (self._seconds, lag.seconds)):
            if spread is None:
                gauge.clear()
                continue
            for of, value in (("min", spread.least), ("avg", spread.average), ("max", spread.most)):
                gauge.labels(self._pipeline, of).set(value)

    def progress(self, progress: StreamingQueryProgress) -> None:
        """Takes Spark's report of a micro-batch."""
        self.idle()
        for stage, milliseconds in progress.durationMs.items():
            self._durations.labels(self._pipeline, stage).observe(milliseconds / 1000)

    def idle(self) -> None:
        """Notes that the query lives."""
        self._reported.labels(self._pipeline).set(self._clock())

    @contextlib.contextmanager
    def serving(self, host: str, port: int) -> Iterator[None]:
        """Serves /metrics from threads meanwhile. Raises EnvironmentProblem if the address cannot
        be bound.
        """
        try:
            server, thread = start_http_server(port, host, self.registry)
        except OSError as why:
            raise EnvironmentProblem(
                f"--metrics-listen {host}:{port}: the address cannot be bound"
                f" ({first_line(why)}); name a free port of this machine"
            ) from why
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
