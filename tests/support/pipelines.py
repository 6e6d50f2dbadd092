"""A pipeline run on a session that is there already, and what its tables hold then."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from pyspark.sql.streaming.query import StreamingQueryManager

from strandline_spark.pipeline import job
from strandline_spark.pipeline.config import parse_pipeline
from strandline_spark.pipeline.failures import StepsFailed
from strandline_spark.pipeline.job import PipelineRun, PipelineStream, bronze_job, prepare_pipeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryListener

    from strandline_spark.bronze.micro_batch import BatchReport
    from strandline_spark.pipeline.config import Pipeline
    from strandline_spark.pipeline.metrics import JobMetrics


def run_pipeline_once(
    spark: SparkSession,
    pipeline: Pipeline,
    bootstrap: str,
    *,
    close: bool = False,
    note: Callable[[str], None] = lambda line: None,
    metrics: JobMetrics | None = None,
) -> list[BatchReport]:
    """Until all that is available is read, as `strandline-spark run --once`. Raises StepsFailed if
    a step stands still then.
    """
    run = PipelineRun(bootstrap, close=close, metrics=metrics)
    start = prepare_pipeline(pipeline, bronze_job(pipeline, run))
    reports: list[BatchReport] = []
    stream = PipelineStream(spark, pipeline, run, reports.append, note)
    stream.run(start)
    if failed := stream.failures.said():
        raise StepsFailed("; ".join(f"{step}: {said}" for step, said in failed.items()))
    return reports


@contextlib.contextmanager
def commands_on(session: SparkSession) -> Iterator[None]:
    """`strandline-spark run` in this process uses this session, and starts and ends none."""
    plain = StreamingQueryManager.addListener
    added: list[StreamingQueryListener] = []

    def add(streams: StreamingQueryManager, listener: StreamingQueryListener) -> None:
        added.append(listener)
        plain(streams, listener)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StreamingQueryManager, "addListener", add)
        patch.setattr(job, "start_session", lambda name, **settings: session)
        patch.setattr(job, "end_session", lambda ended: None)
        try:
            yield
        finally:
            for listener in added:
                session.streams.removeListener(listener)


def rows_of(path: str, *columns: str) -> list[tuple[Any, ...]]:
    """Sorted by what they say."""
    table = DeltaTable(path).to_pyarrow_table(columns=list(columns))
    return sorted((tuple(row[c] for c in columns) for row in table.to_pylist()), key=repr)


def of_file(text: str, folder: object) -> Pipeline:
    return parse_pipeline(text, f"{folder}/pipeline.toml")
