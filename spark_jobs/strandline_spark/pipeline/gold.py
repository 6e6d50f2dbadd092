"""The gold steps of a pipeline, each over what silver holds now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strandline_spark.gold.definition import check_step
from strandline_spark.gold.silver import Silver
from strandline_spark.gold.step import run_step

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from strandline_spark.pipeline.config import Pipeline


class GoldSteps:
    """Raises OptionError for a statement that does not compile, before a batch is read."""

    def __init__(
        self, spark: SparkSession, pipeline: Pipeline, note: Callable[[str], None]
    ) -> None:
        self._pipeline = pipeline
        self._note = note
        schema = Silver.open(pipeline.silver).schema()
        for step in pipeline.gold:
            check_step(spark, step, schema)

    def run(self, spark: SparkSession, *, close: bool = False) -> None:
        """One commit for each step whose windows close."""
        for step in self._pipeline.gold:
            report = run_step(
                spark, step, self._pipeline.silver, pipeline=self._pipeline.name, close=close
            )
            if report.version is not None:
                late = f", {report.late:,} rows came late" if report.late else ""
                self._note(
                    f"gold {step.name}: {report.rows:,} rows, closed up to"
                    f" {_text(report.watermark)}{late}"
                )


def _text(us: int | None) -> str:
    """UTC; event times may lie where Python's have no name."""
    return "-" if us is None else f"{np.datetime64(us // 1_000_000, 's')}Z"
