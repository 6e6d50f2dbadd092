"""The state steps of a pipeline, each independently over what silver holds now. A step that fails
is named, and the others continue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_spark.gold.silver import Silver
from strandline_spark.state.definition import check_step
from strandline_spark.state.step import run_step

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_spark.pipeline.config import Pipeline
    from strandline_spark.pipeline.failures import Failures
    from strandline_spark.pipeline.steps import StateStep
    from strandline_spark.state.step import StateReport


class StateSteps:
    """The state steps of one pipeline.

    Raises OptionError for a column that silver does not have, and for a `delete_when` that does not
    compile, before a batch is read. If new fields may still become columns, that is the step's
    failure instead.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        note: Callable[[str], None],
        failures: Failures,
        on_report: Callable[[StateReport], None] | None = None,
    ) -> None:
        self._on_report = on_report
        self._pipeline = pipeline
        self._note = note
        self._failures = failures
        if pipeline.adds_columns or not pipeline.state:
            return
        silver = Silver.open(pipeline.silver)
        for step in pipeline.state:
            check_step(step, silver)

    def run(self, *, again: bool = True) -> None:
        """Merges into each table what silver got since. With `again` it also retries steps that
        failed within the pause.
        """
        for step in self._pipeline.state:
            name = f"state {step.name}"
            if again or self._failures.may_try(name):
                with self._failures.guard(name):
                    self._run(step)

    def _run(self, step: StateStep) -> None:
        pipeline = self._pipeline
        report = run_step(step, pipeline.silver, pipeline=pipeline.name, note=self._note)
        if self._on_report is not None:
            self._on_report(report)
        if report.version is None:
            return
        self._note(
            f"state {step.name}: {report.rows:,} rows of silver, {report.upserted:,} keys changed"
            f" and {report.deleted:,} deleted; {report.keys:,} keys"
        )
        for column, number in report.left_out.items():
            self._note(
                f"state {step.name}: {number:,} rows are left out, because {column} is null in them"
            )
