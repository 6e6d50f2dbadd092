"""Silver made again from bronze: after a corrected rule, a lost table, and killed in the middle."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from strandline_spark.bronze.fenced_table import FencedTable
from strandline_spark.cluster.cluster import close_channels
from strandline_spark.errors import TableError
from strandline_spark.gold.verify import verify_step
from strandline_spark.pipeline.failures import Failures
from strandline_spark.pipeline.gold import GoldSteps
from strandline_spark.pipeline.verify import verify_parsed
from strandline_spark.silver.rebuild import Rebuild, running
from support.fake_broker_sync import FakeBroker
from support.pipelines import of_file, rows_of, run_pipeline_once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from strandline_spark.pipeline.config import Pipeline
    from support.fake_broker_sync import FakeTopic

pytestmark = pytest.mark.spark

DAYS: Final = """
[pipeline]
name = "days"
topics = ["t"]

[bronze]
max_offsets_per_trigger = 4

[silver]
format = "json"
event_time = "day"

[silver.columns]
day = { type = "timestamp", format = "%Y-%m-%d" }
n = "int"

[[gold]]
name = "count"
window = "1 day"
watermark = "0 days"
sql = '''
SELECT window_start, window_end, sum(n) AS total FROM silver GROUP BY ALL
'''
"""
OTHER: Final = DAYS.replace('"%Y-%m-%d"', '"%Y%m%d"')


def fill(topic: FakeTopic, first: int, count: int) -> None:
    """Every third value has its day without hyphens, and one in ten has none."""
    for n in range(first, first + count):
        day = f"2023-10-{1 + n:02}" if n % 3 else f"202310{1 + n:02}"
        text = json.dumps({"day": "" if n % 10 == 9 else day, "n": n})
        partition = topic.partitions[n % len(topic.partitions)]
        partition.append([(None, None if n == 5 else text.encode())])


def numbers(pipeline: Pipeline) -> list[int]:
    return sorted(n for (n,) in rows_of(pipeline.silver, "n") if n is not None)


def offsets(path: str) -> list[tuple[Any, ...]]:
    return rows_of(path, "partition", "offset", "batch_id")


def check(spark: SparkSession, pipeline: Pipeline) -> None:
    found = verify_parsed(pipeline)
    assert all(one.sound for one in found), found
    both = offsets(pipeline.silver) + offsets(pipeline.quarantine)
    assert sorted(both, key=repr) == offsets(pipeline.bronze)
    failures = Failures(lambda line: None)
    GoldSteps(spark, pipeline, lambda line: None, failures).run(spark, close=True)
    assert failures.said() == {}
    (step,) = pipeline.gold
    gold = verify_step(spark, step, pipeline.silver, pipeline=pipeline.name)
    assert gold.sound, gold
    assert sorted(total for (total,) in rows_of(step.table, "total")) == numbers(pipeline)


def rebuild(spark: SparkSession, pipeline: Pipeline, *, quarantine_only: bool = False) -> Any:
    rebuilt = Rebuild(pipeline, lambda line: None, quarantine_only=quarantine_only)
    return rebuilt.run(spark)


class Killed(Exception):
    """In the place of a driver's death."""


class Dies:
    """After so many commits and renames of a run the driver is dead."""

    def __init__(self, after: int) -> None:
        self._left = after

    def of(self, act: Callable[..., Any]) -> Callable[..., Any]:
        def acts(*given: Any) -> Any:
            if self._left == 0:
                raise Killed
            self._left -= 1
            return act(*given)

        return acts


class Days(NamedTuple):
    """What all tests of this file begin with."""

    folder: Path
    copy: Path
    bootstrap: str


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Days]:
    """Run in several batches; the topic holds none of the records any more."""
    folder = tmp_path_factory.mktemp("days")
    with FakeBroker() as broker:  # type: ignore[abstract] # as in conftest.py
        fill(broker.create("t", 2), 0, 25)
        pipeline = of_file(DAYS, folder / "own")
        run_pipeline_once(spark, pipeline, broker.address, close=True)
        assert numbers(pipeline) == [n for n in range(25) if n % 3 and n % 10 != 9 and n != 5]
        shutil.copytree(folder / "own", folder / "copy")
        yield Days(folder / "own", folder / "copy", broker.address)
        close_channels()


@pytest.fixture
def folder(made: Days) -> Path:
    """The pipeline's, as it was after that run."""
    shutil.rmtree(made.folder)
    shutil.copytree(made.copy, made.folder)
    return made.folder


@pytest.fixture
def days(folder: Path) -> Pipeline:
    return of_file(DAYS, folder)


def test_a_corrected_rule_makes_silver_what_it_would_have_been(
    spark: SparkSession, days: Pipeline, folder: Path
) -> None:
    other = of_file(OTHER, folder)
    done = rebuild(spark, other)
    assert done.rows == 25
    assert len(done.aside) == 2
    assert numbers(other) == [n for n in range(25) if n % 3 == 0 and n % 10 != 9]
    check(spark, other)
    again = rebuild(spark, days)
    assert again.rows == 25
    assert numbers(days) == [n for n in range(25) if n % 3 and n % 10 != 9 and n != 5]
    check(spark, days)


def test_what_is_in_quarantine_is_parsed_again_alone(
    spark: SparkSession, days: Pipeline, folder: Path
) -> None:
    other = of_file(OTHER, folder)
    rebuild(spark, other, quarantine_only=True)
    assert numbers(other) == [n for n in range(25) if n % 10 != 9 and n != 5]
    assert len(rows_of(other.quarantine, "offset")) == 2
    check(spark, other)


@pytest.mark.parametrize("lost", ["silver", "quarantine", "both"])
def test_a_lost_table_is_made_again(spark: SparkSession, days: Pipeline, lost: str) -> None:
    before = offsets(days.silver), offsets(days.quarantine)
    for name in ("silver", "quarantine") if lost == "both" else (lost,):
        shutil.rmtree(getattr(days, name))
    rebuild(spark, days)
    assert (offsets(days.silver), offsets(days.quarantine)) == before
    check(spark, days)


@pytest.mark.parametrize(
    ("quarantine_only", "places", "deaths"),
    [
        (False, (0, 2, 4, 7, 40), 3),
        (True, (1, 3, 40), 2),
        pytest.param(False, range(40), 5, marks=pytest.mark.proof),
        pytest.param(True, range(40), 5, marks=pytest.mark.proof),
    ],
    ids=str,
)
def test_wherever_it_breaks_off_a_second_run_goes_on(
    spark: SparkSession,
    made: Days,
    days: Pipeline,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    quarantine_only: bool,
    places: Sequence[int],
    deaths: int,
) -> None:
    """Each run comes so many commits and renames further than the one before."""
    monkeypatch.setattr("strandline_spark.silver.catch_up.CHUNK_RANGES", 4)
    other = of_file(OTHER, folder)
    before = offsets(days.silver), offsets(days.quarantine)
    died = 0
    for number in places:
        with monkeypatch.context() as patch:
            dies = Dies(number)
            patch.setattr(FencedTable, "commit", dies.of(FencedTable.commit))
            patch.setattr(os, "rename", dies.of(os.rename))
            with contextlib.suppress(Killed):
                rebuild(spark, other, quarantine_only=quarantine_only)
                break
            died += 1
        if os.path.isdir(f"{days.silver}.rebuild") and os.path.isdir(days.silver):
            assert (offsets(days.silver), offsets(days.quarantine)) == before
    else:
        pytest.fail("the rebuild has no end")
    assert died >= deaths
    check(spark, other)
    run_pipeline_once(spark, other, made.bootstrap)
    assert len(offsets(other.silver)) + len(offsets(other.quarantine)) == 25


def test_a_pipeline_that_is_run_is_not_rebuilt_and_the_other_way_round(days: Pipeline) -> None:
    busy = pytest.raises(TableError, match="is run by another process")
    with running(days), running(days), busy, running(days, alone=True):
        pass
    busy = pytest.raises(TableError, match="has its silver rebuilt")
    with running(days, alone=True), busy, running(days):
        pass
