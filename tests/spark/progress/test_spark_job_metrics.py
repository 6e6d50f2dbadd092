"""A pipeline's run in the figures of its metrics, and of Spark's progress."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pytest
from pyspark.sql.streaming.listener import StreamingQueryListener

from strandline_spark.pipeline.metrics import JobMetrics
from support.pipelines import of_file, run_pipeline_once

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    from support.fake_broker_sync import FakeBroker

pytestmark = pytest.mark.spark

CLICKS: Final = """
[pipeline]
name = "clicks"
topics = ["t"]

[silver]
format = "json"
event_time = "at"
on_new_field = "ignore"

[silver.columns.at]
type = "timestamp"
format = "epoch_s"

[[gold]]
name = "per_minute"
window = "1 minute"
watermark = "10 seconds"
sql = "SELECT window_start, window_end, count(*) AS clicks FROM silver GROUP BY ALL"
"""


class Progress(StreamingQueryListener):
    """The figures of each micro-batch in Spark's progress."""

    def __init__(self) -> None:
        self.observed: list[dict[str, Any]] = []
        self.ended = threading.Event()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Does nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        found = event.progress.observedMetrics.get("strandline")
        if found is not None:
            self.observed.append(found.asDict())

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Does nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self.ended.set()


@contextlib.contextmanager
def heard(spark: SparkSession, listener: Progress) -> Iterator[None]:
    """The listener has heard of the end of the query when this ends."""
    spark.streams.addListener(listener)
    try:
        yield
        assert listener.ended.wait(60)
    finally:
        spark.streams.removeListener(listener)


def scraped(metrics: JobMetrics) -> dict[tuple[str, str], float]:
    """The metrics with a label beside the pipeline, without the name's first part."""
    return {
        (sample.name.removeprefix("strandline_spark_"), one): sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if not sample.name.endswith("_created")
        for key, one in sample.labels.items()
        if key != "pipeline"
    }


def test_a_run_is_counted_in_the_metrics_and_in_sparks_progress(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path
) -> None:
    topic = broker.create("t", 2)
    good = [b'{"at": %d}' % at for at in range(0, 150, 3)]
    topic.partitions[0].append([(b"k", one) for one in good], timestamp_ms=0)
    bad = [b"{", b"[", b"[]", b'{"n": 1}', b'{"at": 200}']
    topic.partitions[1].append([(b"k", one) for one in bad], timestamp_ms=0)
    metrics, progress = JobMetrics("clicks"), Progress()
    with heard(spark, progress):
        run_pipeline_once(spark, of_file(CLICKS, tmp_path), broker.address, metrics=metrics)
    reasons = {"not JSON": 2, "not an object": 1, "no event time": 1}
    assert scraped(metrics) == {
        ("rows_total", "bronze"): 55,
        ("rows_total", "silver"): 51,
        ("rows_total", "quarantine"): 4,
        **{("quarantined_rows_total", reason): n for reason, n in reasons.items()},
        ("gold_rows_total", "per_minute"): 3,
        ("late_rows_total", "per_minute"): 0,
        ("watermark_timestamp_seconds", "per_minute"): 190,
        ("step_failed", "silver"): 0,
        ("step_failed", "gold per_minute"): 0,
    }
    totals = sum((Counter(one["quarantinedByReason"]) for one in progress.observed), Counter())
    assert totals == reasons
    assert sum(one["rows"] for one in progress.observed) == 55
    assert sum(one["silverRows"] for one in progress.observed) == 51
    assert sum(one["quarantinedRows"] for one in progress.observed) == 4
    assert sum(one["bytes"] for one in progress.observed) > 0
    assert sum(one["lostOffsets"] for one in progress.observed) == 0
