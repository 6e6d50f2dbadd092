"""The gold steps of a pipeline, each independently over what silver holds now. A step that fails is
named, and the others continue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_spark.gold.definition import definition_of
from strandline_spark.gold.silver import Silver
from strandline_spark.gold.step import run_step
from strandline_spark.gold.watermark import time_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from strandline_spark.gold.step import StepReport
    from strandline_spark.pipeline.config import Pipeline
    from strandline_spark.pipeline.failures import Failures
    from strandline_spark.pipeline.steps import GoldStep


class GoldSteps:
    """The gold steps of one pipeline.

    Raises OptionError for a statement that does not compile, before a batch is read. If new fields
    may still become columns, that is the step's failure instead.
    """

    def __init__(
        self,
        spark: SparkSession,
        pipeline: Pipeline,
        note: Callable[[str], None],
        failures: Failures,
        on_report: Callable[[StepReport], None] | None = None,
    ) -> None:
        self._on_report = on_report
        self._pipeline = pipeline
        self._note = note
        self._failures = failures
        if pipeline.adds_columns:
            return
        schema = Silver.open(pipeline.silver).schema()
        for step in pipeline.gold:
            definition_of(spark, step, schema)

    def run(self, spark: SparkSession, *, close: bool = False, again: bool = True) -> None:
        """Makes one commit for each step whose windows close. With `again` it also retries steps
        that failed within the pause.
        """
        for step in self._pipeline.gold:
            name = f"gold {step.name}"
            if again or self._failures.may_try(name):
                with self._failures.guard(name):
                    self._run(spark, step, close=close)

    def _run(self, spark: SparkSession, step: GoldStep, *, close: bool) -> None:
        pipeline = self._pipeline
        report = run_step(
            spark, step, pipeline.silver, pipeline=pipeline.name, close=close, note=self._note
        )
        if self._on_report is not None:
            self._on_report(report)
        if report.version is None:
            return
        late = f"{report.late:,} rows came late, after their window was closed"
        if report.updated:
            late += f"; {report.updated:,} windows are computed again with them"
        reached = f"closed up to {time_text(report.watermark)}"
        if report.files == 0:
            self._note(f"gold {step.name}: {late} ({reached} before)")
        else:
            more = f"; {late}" if report.late else ""
            self._note(f"gold {step.name}: {report.rows:,} rows, {reached}{more}")
