"""Late rows that change windows, and topics with watermarks of their own, against plain Python."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from strandline_spark.errors import TableError
from strandline_spark.gold import verify
from strandline_spark.gold.batch import Batch, compute
from strandline_spark.gold.step import run_step
from strandline_spark.gold.table import GoldTable
from strandline_spark.gold.verify import verify_step
from strandline_spark.gold.watermark import Window, WindowKind
from strandline_spark.pipeline.steps import GoldStep
from support.silver_tables import EPOCH, SilverRow, take

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

UNIT: Final = 700
"""Microseconds: no window or row lies on whole milliseconds alone."""
KINDS: Final = {
    "tumbling": WindowKind(10 * UNIT, 10 * UNIT),
    "hopping": WindowKind(10 * UNIT, 4 * UNIT),
}
SQL: Final = """SELECT window_start, window_end,
  sort_array(collect_list(struct(topic, partition, offset))) AS members
FROM silver GROUP BY window_start, window_end"""
Members = tuple[tuple[str, int, int], ...]


def history_of(chance: random.Random) -> list[list[SilverRow]]:
    """For each batch its rows, many of them after their window is closed."""
    offsets = [0, 0, 0]
    batches = []
    for n in range(4):
        batch = []
        for partition in chance.sample(range(3), k=chance.randint(1, 3)):
            for _ in range(chance.randint(1, 6)):
                at = UNIT * (11 * n - 20 + chance.randint(-30, 14))
                time = None if chance.random() < 0.1 else at
                batch.append(SilverRow(partition, offsets[partition], time))
                offsets[partition] += chance.randint(1, 2)
        batches.append(batch)
    return batches


def held(step: GoldStep) -> dict[Window, Members]:
    found = {}
    for row in GoldTable.open(step, "p").rows().to_pylist():
        start, end = (
            round((row[name] - EPOCH).total_seconds() * 1e6)
            for name in ("window_start", "window_end")
        )
        window = Window(start, end)
        assert window not in found
        found[window] = tuple(
            (one["topic"], one["partition"], one["offset"]) for one in row["members"]
        )
    return found


def plain(step: GoldStep, kind: WindowKind, rows: list[SilverRow]) -> dict[Window, Members]:
    """The windows that the newest commit's watermark has passed, with all rows that it held."""
    commit = GoldTable.open(step, "p").accounts()[-1].closed.commit
    windows: dict[Window, list[tuple[str, int, int]]] = {}
    for row in rows:
        if row.time is None or not commit.has(row.tp, row.offset):
            continue
        for window in kind.windows_of(row.time):
            if window.end <= commit.watermark:
                windows.setdefault(window, []).append((row.topic, row.partition, row.offset))
    return {window: tuple(sorted(members)) for window, members in windows.items()}


@pytest.mark.proof
def test_late_rows_are_in_their_windows_however_batches_are_cut(
    spark: SparkSession, tmp_path: Path
) -> None:
    chance = random.Random(2)
    silver = str(tmp_path / "silver")
    batches = history_of(chance)
    rows = [row for batch in batches for row in batch]
    steps = {
        (name, cut): GoldStep(
            *(f"{name}{cut}", str(tmp_path / f"{name}{cut}"), SQL, 1, 4 * UNIT),
            window=kind.size,
            slide=kind.slide,
            updates=True,
        )
        for name, kind in KINDS.items()
        for cut in ("often", "seldom")
    }
    updated = noted = 0
    for n, batch in enumerate(batches):
        take(silver, batch, digits=chance.choice([3, 6]))
        last = n == len(batches) - 1
        for (name, cut), step in steps.items():
            if last or cut == "often" or n == 1:
                report = run_step(spark, step, silver, pipeline="p", close=last)
                assert report.updated is None or report.late >= (report.updated > 0)
                updated += report.updated or 0
                if report.version is not None:
                    assert held(step) == plain(step, KINDS[name], rows)
                    again = verify_step(spark, step, silver, pipeline="p", full=False)
                    assert again.problems == []
                    noted += again.noted
    assert updated > 3
    assert noted > 3
    for name in KINDS:
        often, seldom = steps[name, "often"], steps[name, "seldom"]
        assert held(often) == held(seldom)
        assert len(GoldTable.open(often, "p").accounts()) > len(
            GoldTable.open(seldom, "p").accounts()
        )
        found = verify_step(spark, often, silver, pipeline="p")
        assert (found.problems, found.late > 0) == ([], True)


def test_verify_finds_a_window_without_its_late_row_and_another_count(
    spark: SparkSession, tmp_path: Path
) -> None:
    silver = str(tmp_path / "silver")
    step = GoldStep("s", str(tmp_path / "gold"), SQL, 1, 0, window=10 * UNIT, updates=True)
    take(silver, [SilverRow(0, 0, 5 * UNIT), SilverRow(0, 1, 25 * UNIT)])
    run_step(spark, step, silver, pipeline="p")
    first = GoldTable.open(step, "p").rows()
    take(silver, [SilverRow(0, 2, 6 * UNIT)])
    report = run_step(spark, step, silver, pipeline="p")
    assert (report.late, report.updated, report.rows) == (1, 1, 1)
    assert held(step)[Window(0, 10 * UNIT)] == (("t", 0, 0), ("t", 0, 2))
    assert run_step(spark, step, silver, pipeline="p").version is None
    assert verify_step(spark, step, silver, pipeline="p").sound

    table = GoldTable.open(step, "p")
    account = table.accounts()[-1]
    wrong = replace(account, number=3, previous=account.watermark, late=5)
    table.commit(first, wrong, frozenset([10 * UNIT]))
    problems = verify_step(spark, step, silver, pipeline="p").problems
    assert problems[0] == "version 3 says 5 late rows, silver has 0"
    assert problems[1].startswith("window [1970-01-01 00:00:00.000000Z, 1970-01-01 00:00:00.007")
    assert "1 rows are not there" in problems[1]


def test_a_second_verify_computes_only_windows_that_closed_or_changed_since(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silver = str(tmp_path / "silver")
    step = GoldStep("s", str(tmp_path / "gold"), SQL, 1, 0, window=10 * UNIT, updates=True)
    files: list[int] = []

    def again(*, full: bool = False) -> verify.GoldFindings:
        return verify_step(spark, step, silver, pipeline="p", full=full)

    def counted(*given: Any, **more: Any) -> Batch | None:
        batch = compute(*given, **more)
        files.append(0 if batch is None else batch.files)
        return batch

    for offset, time in enumerate((5, 15, 25, 35, 45)):
        take(silver, [SilverRow(0, offset, time * UNIT)])
        run_step(spark, step, silver, pipeline="p")
    monkeypatch.setattr(verify, "compute", counted)
    first, second = again(), again()
    assert (first.noted, first.problems) == (0, [])
    assert (second.noted, second.commits, second.problems) == (first.commits, 0, [])
    take(silver, [SilverRow(0, 5, 16 * UNIT), SilverRow(0, 6, 55 * UNIT)])
    run_step(spark, step, silver, pipeline="p")
    third = again()
    assert (third.noted, third.commits, third.late, third.problems) == (first.commits, 1, 1, [])
    assert files == [4, 0, 3]

    for lost in (0, -1):
        run_step(spark, step, silver, pipeline="p")
        place = sorted(GoldTable.open(step, "p").rows()["window_end"].to_pylist())[lost]
        kept = {}
        for path in Path(step.table).glob("*.parquet"):
            kept[path] = path.read_bytes()
            rows = pq.ParquetFile(path).read()
            pq.write_table(rows.filter(pc.not_equal(rows["window_end"], place)), path)
        found = again()
        assert (found.noted, len(found.problems)) == (0, 1)
        assert found.problems == again(full=True).problems
        for path, data in kept.items():
            path.write_bytes(data)
    assert again().problems == []


def test_a_step_cannot_begin_to_update_windows_that_lack_late_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    silver = str(tmp_path / "silver")
    step = GoldStep("s", str(tmp_path / "gold"), SQL, 1, 0, window=10 * UNIT)
    take(silver, [SilverRow(0, 0, 5 * UNIT), SilverRow(0, 1, 25 * UNIT)])
    run_step(spark, step, silver, pipeline="p")
    with pytest.raises(TableError, match=r"session_key or late\) since .* gold reset s"):
        run_step(spark, replace(step, updates=True), silver, pipeline="p")


def test_a_window_that_late_rows_leave_without_a_result_loses_its_row(
    spark: SparkSession, tmp_path: Path
) -> None:
    silver = str(tmp_path / "silver")
    sql = SQL + " HAVING count(*) < 3"
    step = GoldStep("s", str(tmp_path / "gold"), sql, 1, 0, window=10 * UNIT, updates=True)
    take(silver, [SilverRow(0, n, at * UNIT) for n, at in enumerate([5, 6, 15, 25])])
    run_step(spark, step, silver, pipeline="p")
    assert set(held(step)) == {Window(0, 10 * UNIT), Window(10 * UNIT, 20 * UNIT)}
    take(silver, [SilverRow(0, 4, 7 * UNIT)])
    run_step(spark, step, silver, pipeline="p")
    assert set(held(step)) == {Window(10 * UNIT, 20 * UNIT)}
    assert verify_step(spark, step, silver, pipeline="p").sound


def test_a_driver_that_commits_meanwhile_makes_an_update_conflict(
    spark: SparkSession, tmp_path: Path
) -> None:
    silver = str(tmp_path / "silver")
    step = GoldStep("s", str(tmp_path / "gold"), SQL, 1, 0, window=10 * UNIT, updates=True)
    take(silver, [SilverRow(0, 0, 5 * UNIT), SilverRow(0, 1, 25 * UNIT)])
    run_step(spark, step, silver, pipeline="p")
    behind = GoldTable.open(step, "p")
    account = behind.accounts()[-1]
    take(silver, [SilverRow(0, 2, 6 * UNIT)])
    run_step(spark, step, silver, pipeline="p")
    with pytest.raises(TableError, match="another driver committed step s"):
        behind.commit(pa.table({}), account, frozenset([10 * UNIT]))
    assert verify_step(spark, step, silver, pipeline="p").sound


def test_a_slow_topic_holds_the_watermark_until_it_is_idle(
    spark: SparkSession, tmp_path: Path
) -> None:
    silver = str(tmp_path / "silver")
    step = GoldStep(
        *("s", str(tmp_path / "gold"), SQL, 1, 5 * UNIT),
        window=10 * UNIT,
        delays=(("a", 0), ("b", 5 * UNIT)),
        idle_after=60_000_000,
    )
    now = [0.0]

    def run() -> int | None:
        return run_step(spark, step, silver, pipeline="p", clock=lambda: now[0]).watermark

    take(silver, [SilverRow(0, 0, 45 * UNIT, topic="a")])
    now[0] = _newest(silver)
    assert run() is None  # nothing of b came yet
    take(silver, [SilverRow(0, 0, 25 * UNIT, topic="b"), SilverRow(0, 1, 3 * UNIT, topic="b")])
    now[0] = _newest(silver)
    assert run() == 20 * UNIT
    now[0] += 59
    assert run() == 20 * UNIT
    now[0] += 2
    assert run() == 45 * UNIT
    assert verify_step(spark, step, silver, pipeline="p").sound


def _newest(silver: str) -> float:
    from deltalake import DeltaTable

    return float(DeltaTable(silver).history(1)[0]["timestamp"]) / 1000
