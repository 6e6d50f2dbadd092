"""`strandline bench spark --age`: what a micro-batch costs on tables of a week, not of an hour.

A batch here is the driver's work and a gold step that closes a window: the files of three
partitions, the commits to bronze, silver and quarantine, and Spark's job over the window. What
Spark itself needs for a micro-batch is left out, as it is the same for both.
"""

import os
import tempfile
import time
from typing import TYPE_CHECKING, Any, Final

from strandline_bench.report import Report, median
from strandline_bench.spark.aged_lake import (
    BATCH_S,
    JOB,
    NAME,
    PARTITIONS,
    WEEK_BATCHES,
    WINDOW_US,
    Lake,
    batch_of,
    event_time,
    make_noted,
    tables_of,
)
from strandline_bench.spark.options import SparkOptions
from strandline_bench.spark.sides import end_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR: Final = 3600 // BATCH_S
WEEK: Final = min(WEEK_BATCHES, 60_000)
"""Batches; a week has 180,000 files in each of bronze and silver."""
MONTH: Final = 30 * 24 * HOUR
RATIO_MAX: Final = 1.3
VERIFY_MAX_S: Final = 60.0
_FILES_OF: Final = 12


def run(options: SparkOptions, report: Report) -> int:
    """Run the measure; the exit status is 1 if a limit is exceeded."""
    from strandline_spark.spark.session import start_session

    with tempfile.TemporaryDirectory(prefix="strandline-bench-age-") as folder:
        lakes = {
            name: Lake(os.path.join(folder, name), batches, _FILES_OF)
            for name, batches in (("hour", HOUR), ("week", WEEK))
        }
        for lake in lakes.values():
            os.mkdir(lake.folder)
            lake.make()
        spark = start_session(
            "strandline bench spark",
            master=options.master,
            memory=options.memory,
            log_path=f"{folder}/spark.log",
            direct=True,
        )
        try:
            taken = _measured(spark, lakes, options.rounds)
        finally:
            end_session(spark)
        shares = {name: _checkpoint_share(lake) for name, lake in lakes.items()}
        verified = _verify_after_a_month(folder)
    costs = {name: median(taken[name][2:]) + shares[name] for name in lakes}
    ratio = costs["week"] / costs["hour"]
    report.measured(
        "age",
        {
            "hour_files": HOUR * 3,
            "week_files": WEEK * 3,
            "hour_first_s": taken["hour"][0],
            "week_first_s": taken["week"][0],
            "hour_p50_s": costs["hour"],
            "week_p50_s": costs["week"],
            "hour_driver_s": median(taken["hour driver"][2:]),
            "week_driver_s": median(taken["week driver"][2:]),
            "week_checkpoints_s": shares["week"],
            "ratio": ratio,
            "ratio_max": RATIO_MAX,
            "missed": ratio > RATIO_MAX,
        },
    )
    _report_verify(report, verified)
    return int(ratio > RATIO_MAX or verified > VERIFY_MAX_S)


def _report_verify(report: Report, verified: float) -> None:
    report.measured(
        "verify",
        {
            "files": MONTH * PARTITIONS * 2,
            "new_files": HOUR * PARTITIONS * 2,
            "verify_s": verified,
            "max_s": VERIFY_MAX_S,
            "missed": verified > VERIFY_MAX_S,
        },
    )


def _verify_after_a_month(folder: str) -> float:
    """Returns the seconds in which `verify` reads the last hour of bronze, silver and quarantine of
    a month. The other files are empty: an earlier run has noted them.
    """
    from strandline_spark.pipeline.verify import verify_parsed, verify_raw
    from strandline_spark.verification.readings import Readings

    lake = Lake(os.path.join(folder, "month"), MONTH, HOUR)
    os.mkdir(lake.folder)
    pipeline = make_noted(lake)
    began = time.perf_counter()
    readings = Readings(full=False)
    found: list[Any] = [*verify_raw(pipeline, None, full=False, readings=readings)]
    found += verify_parsed(pipeline, full=False, readings=readings)
    taken = time.perf_counter() - began
    assert all(one.sound for one in found), found[0].problems[:3]
    assert len(found) == 2 * PARTITIONS
    return taken


def _measured(spark: "SparkSession", lakes: dict[str, Lake], rounds: int) -> dict[str, list[float]]:
    """Returns the seconds of each batch, and of them those of the driver's own processor time. The
    tables take turns.
    """
    taken: dict[str, list[float]] = {one: [] for name in lakes for one in (name, f"{name} driver")}
    _close_past(spark, lakes)
    for number in range(rounds + 2):
        for name, lake in lakes.items():
            began, used = time.perf_counter(), time.process_time()
            done = _batch(spark, lake, number)
            taken[name].append(time.perf_counter() - began)
            taken[f"{name} driver"].append(time.process_time() - used)
            assert number == 0 or done.rows == 1, done
    return taken


def _close_past(spark: "SparkSession", lakes: dict[str, Lake]) -> None:
    """Warms the JVM up, and makes the gold tables: their first commits close all windows of the
    past, of which the last has its files.
    """
    from strandline_bench.spark.aged_gold import make_gold
    from strandline_spark.gold.definition import check_step
    from strandline_spark.gold.identity import identity_of
    from strandline_spark.gold.silver import Silver

    for lake in lakes.values():
        schema = Silver.open(lake.silver).schema()
        columns = check_step(spark, lake.step, schema)
        make_gold(lake, columns, identity_of(spark, lake.step, schema))


def _batch(spark: "SparkSession", lake: Lake, number: int) -> Any:
    from strandline_spark.bronze.audit import AuditCopier
    from strandline_spark.gold.step import run_step

    batch = lake.batches + number
    # A minute of event time each, so that each batch closes one window.
    time_us = event_time(lake.batches) // WINDOW_US * WINDOW_US + (number + 1) * WINDOW_US
    for table in tables_of(lake):
        files, ranges = batch_of(table, batch, write=True, time_us=time_us)
        for one in ranges:
            table.check_fence(one.tp, one.start)
        if table.committed_batch(JOB) != batch - 1:
            raise AssertionError(table.path)
        AuditCopier(table.path)
        table.commit(JOB, batch, ranges, files)
    return run_step(spark, lake.step, lake.silver, pipeline=NAME)


def _checkpoint_share(lake: Lake) -> float:
    """Returns the seconds that checkpoints of the three tables cost one batch."""
    from strandline_spark.delta_log import checkpoints

    total = 0.0
    for table in tables_of(lake):
        actions = checkpoints.size_of_last(table.path)
        began = time.perf_counter()
        checkpoints.write(table.path)
        total += (time.perf_counter() - began) / checkpoints.interval(actions)
    return total
