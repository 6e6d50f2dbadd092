"""The pipelines that ship, over real input: their closed windows are those of a plain loop."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from strandline_cli.demo.flights_input import find_input
from strandline_spark.examples import text_of
from strandline_spark.pipeline.verify import verify_parsed
from support import plain_loops
from support.pipelines import of_file, rows_of, run_pipeline_once

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from support.fake_broker_sync import FakeBroker, FakeTopic

pytestmark = pytest.mark.spark

ACCESS_LOG: Final = Path(__file__).parents[4] / "shared" / "data" / "access.log"


def fill(topic: FakeTopic, lines: Iterable[bytes]) -> None:
    """In batches, the partitions in turn."""
    held = list(lines)
    for number, start in enumerate(range(0, len(held), 500)):
        batch = [(None, line) for line in held[start : start + 500]]
        topic.partitions[number % len(topic.partitions)].append(batch)


def assert_same(found: list[tuple[Any, ...]], expected: list[tuple[Any, ...]]) -> None:
    """Rows in any order; numbers with a fraction up to what adding them in another order gives."""

    def exact(row: tuple[Any, ...]) -> str:
        return repr([one for one in row if not isinstance(one, float)])

    assert len(found) == len(expected)
    for one, other in zip(sorted(found, key=exact), sorted(expected, key=exact), strict=True):
        for a, b in zip(one, other, strict=True):
            if isinstance(a, float) and isinstance(b, int | float):
                assert math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9), (one, other)
            else:
                assert a == b, (one, other)


@pytest.mark.skipif(not ACCESS_LOG.exists(), reason="the access log is not beside the checkout")
def test_an_access_log_by_minute(spark: SparkSession, broker: FakeBroker, tmp_path: Path) -> None:
    lines = ACCESS_LOG.read_bytes().splitlines()
    fill(broker.create("access", 3), lines)
    pipeline = of_file(text_of("access"), tmp_path)
    (report,) = run_pipeline_once(spark, pipeline, broker.address, close=True)
    rows = plain_loops.answers(lines)
    assert report.quarantined == len(lines) - len(rows) == 1
    assert all(one.sound for one in verify_parsed(pipeline))
    columns = {
        "status_by_minute": ("status", "answers"),
        "bytes_by_minute": ("answers", "bytes", "bytes_median", "clients"),
        "paths_by_minute": ("place", "path", "answers"),
    }
    for step in pipeline.gold:
        found = rows_of(step.table, "window_start", "window_end", *columns[step.name])
        assert_same(found, getattr(plain_loops, step.name)(rows))


def test_flights_by_hour_and_the_sessions_of_an_aircraft(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path
) -> None:
    lines = [one.value for one in find_input(None, small=True).records()]
    fill(broker.create("flights", 3), lines)
    pipeline = of_file(text_of("flights"), tmp_path)
    (report,) = run_pipeline_once(spark, pipeline, broker.address, close=True)
    assert (report.rows, report.quarantined) == (len(lines), 0)
    rows = plain_loops.flights(lines)
    columns = {
        "delay_by_hour": ("carrier", "flights", "cancelled", "delay_mean", "delay_p90"),
        "aircraft_sessions": ("tailnum", "flights", "places", "miles"),
    }
    for step in pipeline.gold:
        found = rows_of(step.table, "window_start", "window_end", *columns[step.name])
        assert_same(found, getattr(plain_loops, step.name)(rows))
