"""What `verify` finds in gold tables: those that are sound, and those that somebody changed."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from deltalake import write_deltalake
from deltalake.transaction import AddAction, RemoveAction

from strandline_spark.gold.step import run_step
from strandline_spark.gold.table import GoldTable
from strandline_spark.gold.verify import GoldFindings, as_json, verify_step
from strandline_spark.maintenance.compaction import compact
from strandline_spark.maintenance.retention import retain
from strandline_spark.pipeline.steps import GoldStep
from support.silver_tables import SilverRow, take

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SECOND: Final = 1_000_000
SQL: Final = """SELECT window_start, window_end, carrier, count(*) AS n, sum(delay) AS delay
FROM silver GROUP BY ALL"""
TIMES: Final = ([1, 9, 30, 31], [33, 2, 55, 47], [58, 40, 90, 61])


@pytest.fixture(scope="module", params=["windows", "sessions"])
def made(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> GoldStep:
    """Its table has three commits, of late rows too; silver's is beside it."""
    root = tmp_path_factory.mktemp(request.param)
    size: dict[str, Any] = (
        {"window": 10 * SECOND} if request.param == "windows" else {"session": 10 * SECOND}
    )
    step = GoldStep(
        "delays", str(root / "gold"), SQL, 7, 5 * SECOND, **size, session_key=("carrier",)
    )
    for n, times in enumerate(TIMES):
        rows = [
            SilverRow(0, 4 * n + m, at * SECOND, "UA" if at % 2 else "AA", delay=at / 7)
            for m, at in enumerate(times)
        ]
        take(str(root / "silver"), rows)
        run_step(spark, step, str(root / "silver"), pipeline="flights")
    return step


ONE_KIND: Final = pytest.mark.parametrize("made", ["windows"], indirect=True, scope="module")
"""For what is the same of windows and of sessions."""
BY_TURNS: Final = pytest.mark.parametrize(
    "made",
    ["windows", pytest.param("sessions", marks=pytest.mark.proof)],
    indirect=True,
    scope="module",
)
"""For what differs in the statement alone: that sessions are sound is tested with windows."""


@pytest.fixture
def step(made: GoldStep, tmp_path: Path) -> GoldStep:
    """With copies of the tables."""
    shutil.copytree(os.path.dirname(made.table), tmp_path, dirs_exist_ok=True)
    return replace(made, table=str(tmp_path / "gold"))


@pytest.fixture
def silver(tmp_path: Path) -> str:
    return str(tmp_path / "silver")


def found(spark: SparkSession, step: GoldStep, silver: str) -> GoldFindings:
    return verify_step(spark, step, silver, pipeline="flights")


def rewrite(step: GoldStep, change: Any) -> None:
    """Puts another file in the place of the newest commit's."""
    handle = GoldTable.open(step, "flights").delta
    actions: Any = pa.table(handle.get_add_actions())
    newest = max(actions.to_pylist(), key=lambda file: file["modification_time"])["path"]
    path = os.path.join(step.table, "changed-" + newest)
    pq.write_table(change(pq.read_table(os.path.join(step.table, newest))), path)
    added = AddAction("changed-" + newest, os.path.getsize(path), {}, 2**42, False, "{}")
    removed = RemoveAction(newest, data_change=False, deletion_timestamp=1, partition_values={})
    handle.create_write_transaction([added, removed], "append", handle.schema())


def test_a_table_that_nobody_touched_is_sound(
    spark: SparkSession, step: GoldStep, silver: str
) -> None:
    take(silver, [SilverRow(0, 12, 500 * SECOND)])
    findings = found(spark, step, silver)
    assert as_json(findings) == {
        "step": "delays",
        "commits": 3,
        "noted": 0,
        "unchecked": 0,
        "rows": GoldTable.open(step, "flights").rows().num_rows,
        "rows_unchecked": 0,
        "watermark": "1970-01-01T00:01:25Z",
        "late": 2,
        "problems": [],
        "sound": True,
    }


@BY_TURNS
def test_a_changed_value_is_found_and_the_rounding_of_a_sum_is_not(
    spark: SparkSession, step: GoldStep, silver: str
) -> None:
    def scaled(by: float) -> Any:
        return lambda rows: rows.set_column(4, "delay", pc.multiply(rows.column("delay"), by))

    rewrite(step, scaled(1 + 1e-12))
    assert found(spark, step, silver).sound
    rewrite(step, scaled(1 + 1e-6))
    problems = found(spark, step, silver).problems
    assert problems
    assert re.match(
        r"window \[1970-01-01 00:.*\) of version 3: of what silver gives, . rows are not there: {"
        r".*; . rows are there that it does not give: {'window_start'",
        problems[0],
    )


@ONE_KIND
def test_a_row_that_was_taken_away_or_doubled_is_found(
    spark: SparkSession, step: GoldStep, silver: str
) -> None:
    rewrite(step, lambda rows: pa.concat_tables([rows.slice(0, 1), rows]))
    (problem,) = found(spark, step, silver).problems
    assert "0 rows are not there; 1 rows are there that it does not give: {" in problem
    rewrite(step, lambda rows: rows.slice(1, rows.num_rows - 2))
    (problem,) = found(spark, step, silver).problems
    assert "1 rows are not there: {" in problem


@ONE_KIND
def test_rows_that_somebody_else_wrote_are_found(
    spark: SparkSession, step: GoldStep, silver: str
) -> None:
    table = GoldTable.open(step, "flights").rows()
    never = pa.array([10**12, None], pa.timestamp("us", "UTC"))
    stray = table.slice(0, 2).set_column(1, "window_end", never)
    write_deltalake(step.table, stray, mode="append")
    (problem,) = found(spark, step, silver).problems
    assert problem.startswith("2 rows are of windows that no commit has closed: {")


@BY_TURNS
def test_a_row_of_silver_that_is_gone_is_found(
    spark: SparkSession, step: GoldStep, silver: str
) -> None:
    for folder, _, names in os.walk(silver):
        for name in names:
            path = os.path.join(folder, name)
            if name.endswith(".parquet") and "_delta_log" not in folder:
                rows = pq.read_table(path)
                pq.write_table(rows.filter(pc.not_equal(rows.column("offset"), 5)), path)
    # The row with offset 5 was late, so it is in no window.
    (problem,) = found(spark, step, silver).problems
    assert problem == "version 2 says 1 late rows, silver has 0"


@BY_TURNS
def test_commits_that_have_left_the_log_are_not_checked_and_said_to_be_so(
    spark: SparkSession, step: GoldStep, silver: str
) -> None:
    table = GoldTable.open(step, "flights")
    table.delta.create_checkpoint()
    for version in (0, 1):
        os.remove(os.path.join(step.table, "_delta_log", f"{version:020}.json"))
    findings = found(spark, step, silver)
    assert (findings.commits, findings.unchecked, findings.sound) == (1, 2, True)
    assert 0 < findings.rows_unchecked < findings.rows
    take(silver, [SilverRow(0, 12, 500 * SECOND)])
    run_step(spark, step, silver, pipeline="flights", close=True)
    assert found(spark, step, silver).sound


@ONE_KIND
def test_a_statement_that_sees_other_windows_is_not_sound_whoever_let_it_in(
    spark: SparkSession, step: GoldStep, silver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = SQL.replace("count(*) AS n", "rank() OVER (ORDER BY count(*)) AS n")
    step = replace(step, sql=sql, table=step.table + "2")
    with monkeypatch.context() as patch:
        patch.setattr("strandline_spark.gold.query.check_locality", lambda *_, **__: None)
        patch.setattr("strandline_spark.gold.definition._DEFINITIONS", {})
        run_step(spark, step, silver, pipeline="flights")
    (problem,) = found(spark, step, silver).problems
    assert problem.startswith("the statement is refused: [[gold]] delays, key sql, line 7: what")
    assert "the window function rank(" in problem


@ONE_KIND
def test_every_column_of_silver_as_it_is_passes(
    spark: SparkSession, step: GoldStep, silver: str
) -> None:
    whole = replace(step, sql="SELECT * FROM silver", table=step.table + "2")
    run_step(spark, whole, silver, pipeline="flights")
    findings = found(spark, whole, silver)
    assert (findings.problems, findings.commits) == ([], 1)
    assert findings.rows > 5


SUMS: Final = """SELECT window_start, window_end, carrier, count(*) AS n, sum(delay) AS total,
  avg(delay) AS mean, sum(CASE WHEN offset < 0 THEN delay ELSE -delay END) AS back,
  round(sum(delay * 3), 1) AS thrice
FROM silver GROUP BY ALL"""


@pytest.mark.parametrize(
    "key", ["carrier", pytest.param("carrier, window", marks=pytest.mark.proof)]
)
def test_a_sum_of_large_terms_that_cancel_may_be_off_by_a_share_of_the_terms(
    spark: SparkSession, tmp_path: Path, key: str
) -> None:
    silver, table = str(tmp_path / "silver"), str(tmp_path / "gold")
    size: dict[str, Any] = {"window": 10 * SECOND} if key == "carrier" else {"session": 10 * SECOND}
    keys = () if key == "carrier" else ("carrier",)
    step = GoldStep("delays", table, SUMS, 7, 0, **size, session_key=keys)
    large = [1e17, 1.0, -1e17, 3.0, 5e16, -5e16, 0.1]
    rows = [SilverRow(0, n, n * SECOND, "large", delay=x) for n, x in enumerate(large)]
    small = [SilverRow(1, n, n * SECOND, "small", delay=x) for n, x in enumerate([1.0, 0.1, -1.1])]
    take(silver, [*rows, *small])
    run_step(spark, step, silver, pipeline="flights", close=True)
    names = {"total", "mean", "back", "thrice"}

    def off_by(carrier: str, off: float) -> Any:
        def change(rows: Any) -> Any:
            new = [
                {
                    c: v + off if row["carrier"] == carrier and c in names else v
                    for c, v in row.items()
                }
                for row in rows.to_pylist()
            ]
            return pa.Table.from_pylist(new, schema=rows.schema)

        return change

    assert found(spark, step, silver).sound
    rewrite(step, off_by("large", 40.0))
    assert found(spark, step, silver).sound
    rewrite(step, off_by("large", 1e9))
    (problem,) = found(spark, step, silver).problems
    assert "1 rows are not there" in problem
    rewrite(step, off_by("large", -1e9 - 40))
    rewrite(step, off_by("small", 1e-9))
    (problem,) = found(spark, step, silver).problems
    assert "'carrier': 'small'" in problem


@ONE_KIND
def test_a_second_verify_computes_new_commits_alone_and_finds_changed_rows(
    spark: SparkSession, step: GoldStep, silver: str
) -> None:
    def again(*, full: bool = False) -> GoldFindings:
        return verify_step(spark, step, silver, pipeline="flights", full=full)

    first = again()
    assert (first.noted, first.sound) == (0, True)
    second = again()
    assert (second.noted, second.commits, second.sound) == (first.commits, 0, True)
    compact(step.table, 1 << 27)
    assert again().noted == first.commits
    assert again(full=True).commits == first.commits
    rewrite(step, lambda rows: rows.slice(1))
    found = again()
    assert found.noted == 0
    assert any("changed since they were verified" in one for one in found.problems)


@ONE_KIND
def test_removed_windows_and_rows_are_not_compared_and_others_are(
    spark: SparkSession, step: GoldStep, silver: str
) -> None:
    before = GoldTable.open(step, "flights").rows().num_rows
    assert retain(step.table, 3600).rows == before
    assert verify_step(spark, step, silver, pipeline="flights").sound
