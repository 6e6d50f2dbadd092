"""The metrics of a job: what a scrape shows after what Spark and the steps reported."""

from __future__ import annotations

import urllib.error
import urllib.request
from argparse import Namespace
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from strandline_spark.bronze.micro_batch import BatchReport
from strandline_spark.commands.monitoring import listen_address, metrics_served
from strandline_spark.errors import EnvironmentProblem, OptionError
from strandline_spark.gold.step import StepReport
from strandline_spark.pipeline.metrics import JobMetrics
from strandline_spark.silver.catch_up import Step
from strandline_spark.source.lag import Lag, Spread
from support.processes import free_ports


def report(batch: int, *, skipped: bool = False, **more: Any) -> BatchReport:
    return BatchReport(batch, rows=10, size=500, files=2, version=1, skipped=skipped, **more)


def value(metrics: JobMetrics, name: str, **labels: str) -> float | None:
    labels = {"pipeline": "clicks", **labels}
    return metrics.registry.get_sample_value(f"strandline_spark_{name}", labels)


@pytest.fixture
def metrics() -> JobMetrics:
    return JobMetrics("clicks", clock=lambda: 1000.0)


def test_a_new_job_shows_zero_for_what_it_counts(metrics: JobMetrics) -> None:
    assert value(metrics, "batches_total") == 0
    for table in ("bronze", "silver", "quarantine"):
        assert value(metrics, "rows_total", table=table) == 0


def test_a_batch_counts_for_each_table_and_reason_and_once(metrics: JobMetrics) -> None:
    metrics.batch(report(0, parsed=7, quarantined=3, reasons={"json": 2, "type": 1}, lost=4))
    metrics.batch(report(0, skipped=True))
    assert value(metrics, "batches_total") == 1
    assert value(metrics, "rows_total", table="bronze") == 10
    assert value(metrics, "rows_total", table="silver") == 7
    assert value(metrics, "rows_total", table="quarantine") == 3
    assert value(metrics, "quarantined_rows_total", reason="json") == 2
    assert value(metrics, "quarantined_rows_total", reason="type") == 1
    assert value(metrics, "written_bytes_total") == 500
    assert value(metrics, "lost_offsets_total") == 4


def test_rows_that_silver_takes_later_count_for_silver_alone(metrics: JobMetrics) -> None:
    metrics.caught_up(Step(rows=20, quarantined=5, left=0, reasons={"json": 5}))
    assert value(metrics, "rows_total", table="bronze") == 0
    assert value(metrics, "rows_total", table="silver") == 15
    assert value(metrics, "quarantined_rows_total", reason="json") == 5


def test_duplicates_are_counted_apart_and_among_the_rows_of_quarantine(metrics: JobMetrics) -> None:
    assert value(metrics, "duplicate_rows_total") == 0
    metrics.caught_up(Step(rows=20, quarantined=5, left=0, reasons={"json": 2, "duplicate": 3}))
    assert value(metrics, "duplicate_rows_total") == 3
    assert value(metrics, "rows_total", table="silver") == 15
    assert value(metrics, "rows_total", table="quarantine") == 5
    assert value(metrics, "quarantined_rows_total", reason="duplicate") == 3


def test_a_gold_step_shows_its_watermark_in_seconds_and_late_rows(metrics: JobMetrics) -> None:
    metrics.gold(StepReport("per_minute", 1, 90_500_000, rows=3, late=1, files=1))
    metrics.gold(StepReport("per_minute", None, 90_500_000))
    metrics.gold(StepReport("other", None, None))
    assert value(metrics, "watermark_timestamp_seconds", step="per_minute") == 90.5
    assert value(metrics, "gold_rows_total", step="per_minute") == 3
    assert value(metrics, "late_rows_total", step="per_minute") == 1
    assert value(metrics, "watermark_timestamp_seconds", step="other") is None
    assert value(metrics, "late_rows_total", step="other") == 0


def test_late_rows_that_change_windows_are_counted_with_these(metrics: JobMetrics) -> None:
    metrics.gold(StepReport("per_minute", 1, 90, rows=3, late=5, files=1, updated=2))
    metrics.gold(StepReport("other", 1, 90, rows=3, late=5, files=1))
    assert value(metrics, "late_rows_total", step="per_minute") == 5
    assert value(metrics, "updated_late_rows_total", step="per_minute") == 5
    assert value(metrics, "updated_windows_total", step="per_minute") == 2
    assert value(metrics, "late_rows_total", step="other") == 5
    assert value(metrics, "updated_late_rows_total", step="other") is None


def test_a_step_that_stands_still_is_named_until_it_goes_on(metrics: JobMetrics) -> None:
    steps = ("silver", "gold per_minute")
    metrics.standing(steps, ["gold per_minute"])
    assert value(metrics, "step_failed", step="gold per_minute") == 1
    assert value(metrics, "step_failed", step="silver") == 0
    metrics.standing(steps, [])
    assert value(metrics, "step_failed", step="gold per_minute") == 0


def test_an_unknown_lag_in_seconds_shows_nothing_and_no_old_value(metrics: JobMetrics) -> None:
    offsets = Spread(0, 2.5, 5)
    metrics.lag(Lag("bronze", 0, ("t",), offsets, Spread(0, 1.5, 3)))
    assert value(metrics, "lag_seconds", of="max") == 3
    assert value(metrics, "lag_seconds", of="avg") == 1.5
    assert value(metrics, "lag_offsets", of="max") == 5
    metrics.lag(Lag("bronze", 1, ("t",), offsets, None))
    assert value(metrics, "lag_seconds", of="max") is None
    assert value(metrics, "lag_offsets", of="min") == 0


def test_sparks_report_gives_durations_in_seconds_and_the_time(metrics: JobMetrics) -> None:
    progress: Any = SimpleNamespace(durationMs={"triggerExecution": 1500, "addBatch": 1200})
    metrics.progress(progress)
    assert value(metrics, "batch_seconds_sum", stage="triggerExecution") == 1.5
    assert value(metrics, "batch_seconds_count", stage="addBatch") == 1
    assert value(metrics, "last_report_timestamp_seconds") == 1000


def test_a_scrape_reads_the_metrics_while_the_job_runs_and_no_longer() -> None:
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}/metrics"
    with metrics_served(Namespace(metrics_listen=f"127.0.0.1:{port}"), "clicks") as metrics:
        assert metrics is not None
        metrics.batch(report(0))
        with urllib.request.urlopen(url) as answer:
            families = {f.name: f for f in text_string_to_metric_families(answer.read().decode())}
        samples = families["strandline_spark_rows"].samples
        rows = {s.labels["table"]: s.value for s in samples if s.name.endswith("_total")}
        assert rows == {"bronze": 10, "silver": 0, "quarantine": 0}
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url)


def test_without_the_flag_nothing_is_served() -> None:
    with metrics_served(Namespace(metrics_listen=None), "clicks") as metrics:
        assert metrics is None


def test_an_address_in_use_is_named() -> None:
    (port,) = free_ports(1)
    asked = Namespace(metrics_listen=f"127.0.0.1:{port}")
    with (
        metrics_served(asked, "clicks"),
        pytest.raises(EnvironmentProblem, match=f"--metrics-listen 127.0.0.1:{port}: .*free port"),
        metrics_served(asked, "others"),
    ):
        pass


@pytest.mark.parametrize("text", ["", "9464", ":9464", "host:", "host:0", "host:65536", "host:x"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match=r"--metrics-listen .* is not HOST:PORT"):
        listen_address(text)


def test_an_address_of_version_6_has_brackets() -> None:
    assert listen_address("[::1]:9464") == ("::1", 9464)
