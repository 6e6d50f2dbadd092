"""A gold step over silver tables made by hand: what closes, what is committed, what is refused."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from strandline_spark.cluster.offsets import TopicPartition
from strandline_spark.errors import OptionError, TableError
from strandline_spark.gold.step import StepReport, run_step
from strandline_spark.gold.table import GoldTable
from strandline_spark.gold.verify import verify_step
from strandline_spark.pipeline.steps import GoldStep
from support.silver_tables import EPOCH, SilverRow, create, take

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SECOND: Final = 1_000_000
COUNTS: Final = """SELECT window_start, window_end, carrier, count(*) AS n, sum(delay) AS delay
FROM silver GROUP BY ALL"""


@pytest.fixture
def silver(tmp_path: Path) -> str:
    return str(tmp_path / "silver")


@pytest.fixture
def step(tmp_path: Path) -> GoldStep:
    table = str(tmp_path / "gold")
    return GoldStep("delays", table, COUNTS, 7, watermark=5 * SECOND, window=10 * SECOND)


@pytest.fixture
def sessions(step: GoldStep) -> GoldStep:
    return replace(step, window=None, session=10 * SECOND, session_key=("carrier",))


def run(spark: SparkSession, step: GoldStep, silver: str, **other: Any) -> StepReport:
    return run_step(spark, step, silver, pipeline="flights", **other)


def rows(
    partition: int, first: int, *seconds: float | None, carrier: str = "UA"
) -> list[SilverRow]:
    """Rows of these event times, at offsets from `first` on."""
    return [
        SilverRow(partition, first + n, None if at is None else round(at * SECOND), carrier)
        for n, at in enumerate(seconds)
    ]


def held(step: GoldStep) -> list[tuple[float, float, str | None, int]]:
    """(window_start, window_end, carrier, n) in seconds, in order."""
    table = GoldTable.open(step, "flights").rows().to_pylist()
    return sorted(
        (
            (row["window_start"] - EPOCH).total_seconds(),
            (row["window_end"] - EPOCH).total_seconds(),
            row["carrier"],
            row["n"],
        )
        for row in table
    )


def test_windows_come_out_once_when_the_watermark_has_passed_them(
    spark: SparkSession, step: GoldStep, silver: str
) -> None:
    take(silver, [*rows(0, 0, 1, 9, 12, 24.9), *rows(1, 0, 3)])
    assert run(spark, step, silver) == StepReport("delays", 1, 19_900_000, rows=1, files=2)
    assert held(step) == [(0, 10, "UA", 3)]
    assert run(spark, step, silver).version is None
    take(silver, rows(0, 4, 25))
    assert run(spark, step, silver) == StepReport("delays", 2, 20 * SECOND, rows=1, files=1)
    assert held(step) == [(0, 10, "UA", 3), (10, 20, "UA", 1)]


def test_a_window_is_closed_by_rows_of_files_that_are_not_read(
    spark: SparkSession, step: GoldStep, silver: str
) -> None:
    take(silver, rows(0, 0, 100, 130))
    run(spark, step, silver)
    take(silver, rows(0, 2, 1000))
    report = run(spark, step, silver)
    assert (report.rows, report.files) == (1, 1)


def test_nothing_is_committed_where_no_row_can_be_in_what_closes(
    spark: SparkSession, step: GoldStep, silver: str
) -> None:
    create(silver)
    assert run(spark, step, silver) == StepReport("delays", None, None)
    take(silver, rows(0, 0, None, None))
    assert run(spark, step, silver) == StepReport("delays", None, None)
    take(silver, rows(0, 2, 12, 15))
    assert run(spark, step, silver) == StepReport("delays", None, None)
    assert run(spark, step, silver, close=True).watermark == 20 * SECOND
    take(silver, rows(0, 4, 55))
    assert run(spark, step, silver) == StepReport("delays", None, 20 * SECOND)


def test_hopping_windows_hold_a_row_each(spark: SparkSession, step: GoldStep, silver: str) -> None:
    hopping = replace(step, slide=5 * SECOND)
    take(silver, rows(0, 0, 7, 12, 18))
    run(spark, hopping, silver)
    assert held(hopping) == [(0, 10, "UA", 1)]
    run(spark, hopping, silver, close=True)
    assert held(hopping) == [
        (0, 10, "UA", 1),
        (5, 15, "UA", 2),
        (10, 20, "UA", 2),
        (15, 25, "UA", 1),
    ]


def test_a_backlog_holds_windows_open(spark: SparkSession, step: GoldStep, silver: str) -> None:
    take(silver, [*rows(0, 0, 1, 50), *rows(1, 0, 2)], high_watermarks={1: 2})
    assert run(spark, step, silver).version is None
    ahead = {TopicPartition("t", 2): True}
    assert run(spark, step, silver, backlog=ahead).version is None
    take(silver, rows(1, 1, 4))
    assert run(spark, step, silver).watermark == 45 * SECOND
    assert held(step) == [(0, 10, "UA", 3)]


def test_late_rows_are_counted_and_in_no_window_that_was_closed(
    spark: SparkSession, step: GoldStep, silver: str
) -> None:
    hopping = replace(step, slide=5 * SECOND)
    take(silver, rows(0, 0, 1, 16))
    assert run(spark, hopping, silver).watermark == 11 * SECOND
    take(silver, [*rows(0, 2, 6, 10, None, 26), *rows(1, 0, 4.9)])
    report = run(spark, hopping, silver)
    # Of the row at 6 s, one window was closed and one open; at 4.9 s both were closed.
    assert (report.watermark, report.late) == (21 * SECOND, 2)
    assert held(hopping) == [
        *((-5, 5, "UA", 1), (0, 10, "UA", 1)),
        *((5, 15, "UA", 2), (10, 20, "UA", 2)),
    ]
    take(silver, rows(0, 6, 40))
    assert run(spark, hopping, silver).late == 0


def test_rows_that_are_late_are_counted_once_though_nothing_closes(
    spark: SparkSession, step: GoldStep, sessions: GoldStep, silver: str
) -> None:
    sessions = replace(sessions, table=step.table + "2")
    take(silver, rows(0, 0, 1, 30))
    for one in (step, sessions):
        assert run(spark, one, silver).version == 1
    take(silver, [*rows(0, 2, 3, 31), *rows(1, 0, 5, 8)])
    for one in (step, sessions):
        expected = StepReport("delays", 2, 25 * SECOND, rows=0, late=3, files=0)
        assert run(spark, one, silver) == expected
        assert run(spark, one, silver).version is None
        assert [account.late for account in GoldTable.open(one, "flights").accounts()] == [0, 3]
        assert verify_step(spark, one, silver, pipeline="flights").problems == []
    take(silver, rows(0, 4, 9, 24, 80))
    assert run(spark, step, silver).late == 1
    assert run(spark, sessions, silver).late == 2
    assert held(step) == [(0, 10, "UA", 1), (20, 30, "UA", 1), (30, 40, "UA", 2)]
    assert held(sessions) == [(1, 11, "UA", 1), (30, 41, "UA", 2)]
    for one in (step, sessions):
        assert verify_step(spark, one, silver, pipeline="flights").problems == []


def test_by_hand_all_windows_close_and_rows_that_follow_are_late(
    spark: SparkSession, step: GoldStep, silver: str
) -> None:
    take(silver, rows(0, 0, 1, 9.999_999, 12), high_watermarks={0: 9})
    assert run(spark, step, silver, close=True).watermark == 20 * SECOND
    assert held(step) == [(0, 10, "UA", 2), (10, 20, "UA", 1)]
    assert run(spark, step, silver, close=True).version is None
    take(silver, rows(0, 3, 19, 29))
    assert run(spark, step, silver, close=True).late == 1
    assert held(step)[2:] == [(20, 30, "UA", 1)]


def test_times_of_milliseconds_in_statistics_stand_for_all_of_their_microseconds(
    spark: SparkSession, step: GoldStep, silver: str
) -> None:
    fine = replace(step, window=500, watermark=0)
    at = [SilverRow(0, 0, 400), SilverRow(0, 1, 900), SilverRow(0, 2, 2_700)]
    for one in at:
        take(silver, [one], digits=3)
    assert run(spark, fine, silver).watermark == 2_000
    assert [n for *_, n in held(fine)] == [1, 1]
    assert run(spark, fine, silver, close=True).watermark == 3_000
    assert [n for *_, n in held(fine)] == [1, 1, 1]


def test_sessions_end_with_a_gap_and_at_the_watermark(
    spark: SparkSession, sessions: GoldStep, silver: str
) -> None:
    take(silver, [*rows(0, 0, 0, 9.9, 19.9), *rows(1, 0, 3, carrier="AA")])
    assert run(spark, sessions, silver).watermark == 14_900_000
    assert held(sessions) == [(3, 13, "AA", 1)]
    assert run(spark, sessions, silver).version is None
    take(silver, rows(0, 3, 25, 40))
    assert run(spark, sessions, silver).watermark == 35 * SECOND
    # 9.9 and 19.9 are a gap apart, so they are no longer of one session; 35 is reached.
    closed = [(0, 19.9, "UA", 2), (3, 13, "AA", 1), (19.9, 35, "UA", 2)]
    assert held(sessions) == closed
    run(spark, sessions, silver, close=True)
    assert held(sessions) == [*closed, (40, 50, "UA", 1)]


def test_a_late_row_is_in_no_session_however_often_it_is_read(
    spark: SparkSession, sessions: GoldStep, silver: str
) -> None:
    take(silver, [*rows(0, 0, 0, 30, carrier="AA"), *rows(1, 0, 21, 29)])
    assert run(spark, sessions, silver).watermark == 25 * SECOND
    # Late rows that would lengthen what is closed, begin earlier what is open, or be in it.
    take(silver, [*rows(0, 2, 8, 24.9, 25, 36, 45, carrier="AA"), *rows(1, 2, 22, 38, 46)])
    take(silver, [*rows(2, 0, 26, 52, carrier="BB")])
    report = run(spark, sessions, silver)
    assert (report.late, report.rows) == (3, 1)
    take(silver, rows(0, 7, 100, carrier="AA"))
    assert run(spark, sessions, silver).late == 0
    assert held(sessions) == [
        *((0, 10, "AA", 1), (21, 56, "UA", 4), (25, 55, "AA", 4)),
        *((26, 36, "BB", 1), (52, 62, "BB", 1)),
    ]


def test_rows_without_a_key_are_sessions_of_their_own(
    spark: SparkSession, sessions: GoldStep, silver: str
) -> None:
    take(silver, [SilverRow(0, n, n * SECOND, None) for n in range(3)])
    run(spark, sessions, silver, close=True)
    assert held(sessions) == [(0, 12, None, 3)]


def test_a_file_without_the_column_gives_nulls_and_a_topic_of_digits_is_text(
    spark: SparkSession, step: GoldStep, silver: str
) -> None:
    take(silver, [SilverRow(0, 0, 1, topic="007")], without=("carrier",))
    by_topic = replace(
        step, sql=COUNTS.replace("carrier", "topic || coalesce(carrier, '-') AS carrier")
    )
    run(spark, by_topic, silver, close=True)
    assert held(by_topic) == [(0, 10, "007-", 1)]


def test_of_two_drivers_the_later_is_refused(
    spark: SparkSession, step: GoldStep, silver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(silver, rows(0, 0, 1, 30))
    opened = GoldTable.last

    def after_another(table: GoldTable) -> Any:
        found = opened(table)
        monkeypatch.undo()
        run(spark, step, silver)
        return found

    create(silver)
    monkeypatch.setattr(GoldTable, "last", after_another)
    with pytest.raises(TableError, match="another driver committed step delays"):
        run(spark, step, silver, close=True)
    assert held(step) == [(0, 10, "UA", 1)]


def test_a_crash_between_file_and_commit_leaves_no_trace_in_the_rows(
    spark: SparkSession, step: GoldStep, silver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(silver, rows(0, 0, 1, 30))
    with monkeypatch.context() as patch:
        patch.setattr("strandline_spark.gold.table.to_metadata", lambda account: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(spark, step, silver)
    assert held(step) == []
    assert any(name.endswith(".parquet") for name in os.listdir(step.table))
    run(spark, step, silver)
    assert held(step) == [(0, 10, "UA", 1)]


def test_a_disk_that_does_not_let_gold_commit_is_named_in_one_line(
    spark: SparkSession, step: GoldStep, silver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(silver, rows(0, 0, 1, 30))

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(TableError, match=r"gold cannot be made \(.*No space left"):
        run(spark, step, silver)
    with pytest.raises(TableError, match=r"cannot commit to .*silver \(.*No space left"):
        run(spark, step, silver)
    monkeypatch.undo()
    run(spark, step, silver)
    assert held(step) == [(0, 10, "UA", 1)]


def test_a_step_that_computes_something_else_is_refused(
    spark: SparkSession, step: GoldStep, silver: str
) -> None:
    take(silver, rows(0, 0, 1, 30))
    run(spark, step, silver)
    take(silver, rows(0, 2, 50))
    for same in (COUNTS + " ", f"-- of each\n{COUNTS}", COUNTS.replace("count(*)", "count(1)")):
        assert run(spark, replace(step, sql=same), silver, close=same != COUNTS).late == 0
    take(silver, rows(0, 3, 90))
    shouted = replace(step, sql=COUNTS.upper())
    run(spark, shouted, silver, close=True)
    assert held(shouted) == [(n, n + 10, "UA", 1) for n in (0, 30, 50, 90)]
    assert verify_step(spark, shouted, silver, pipeline="flights").sound
    before = GoldTable.open(step, "flights").delta.version()
    for other in (
        replace(step, sql=COUNTS.replace("sum(", "max(")),
        replace(step, window=20 * SECOND),
        replace(step, slide=5 * SECOND),
        replace(step, window=None, session=SECOND, session_key=("carrier",)),
    ):
        with pytest.raises(TableError, match=r"the step delays has changed .*gold reset delays"):
            run(spark, other, silver)
    take(silver, rows(0, 4, 200))
    assert run(spark, replace(step, watermark=0), silver).version == before + 1
    corrected = replace(step, sql=COUNTS.replace("sum(", "max("))
    aside = GoldTable.open(step, "flights").set_aside()
    assert run(spark, corrected, silver, close=True).version == 1
    assert held(corrected) == [(n, n + 10, "UA", 1) for n in (0, 30, 50, 90, 200)]
    assert len(held(replace(step, table=aside))) == 4
    assert verify_step(spark, corrected, silver, pipeline="flights").sound
    with pytest.raises(TableError, match="of step delays of pipeline flights, not of step delays"):
        run_step(spark, step, silver, pipeline="other")
    with pytest.raises(TableError, match="not of step second of pipeline flights"):
        run(spark, replace(step, name="second"), silver)


def test_tables_that_are_not_the_steps_own_are_refused(
    spark: SparkSession, step: GoldStep, silver: str, tmp_path: Path
) -> None:
    take(silver, rows(0, 0, 1, 30))
    with pytest.raises(TableError, match="is a table that no gold step has made"):
        run(spark, replace(step, table=silver), silver)
    (tmp_path / "gold").mkdir()
    (tmp_path / "gold" / "notes").touch()
    with pytest.raises(TableError, match="exists and is no Delta table"):
        run(spark, step, silver)
    other = replace(step, table=str(tmp_path / "second"))
    assert run(spark, other, silver, backlog={TopicPartition("t", 1): True}).version is None
    renamed = replace(other, sql=COUNTS.replace("AS delay", "AS d"))
    assert run(spark, renamed, silver).version == 1
    assert [field.name for field in GoldTable.open(other, "flights").delta.schema().fields][
        -1
    ] == "d"


def test_another_silver_table_in_the_place_of_the_first_is_refused(
    spark: SparkSession, step: GoldStep, silver: str, tmp_path: Path
) -> None:
    take(silver, rows(0, 0, 1, 30))
    run(spark, step, silver)
    second = str(tmp_path / "silver2")
    take(second, rows(0, 0, 1, 90))
    with pytest.raises(TableError, match="was computed from another silver table"):
        run(spark, step, second)


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        (
            "SELECT window_start, window_end, 1/(delay - 1) AS x FROM silver",
            r"line 7: .*failed.*ZERO.* divisor being 0 and return NULL instead\. SQLSTATE: 22012$",
        ),
    ],
)
def test_a_statement_that_fails_on_rows_says_so_and_commits_nothing(
    spark: SparkSession, step: GoldStep, silver: str, sql: str, words: str
) -> None:
    take(silver, rows(0, 0, 1, 30))
    with pytest.raises(OptionError, match=words):
        run(spark, replace(step, sql=sql), silver)
    assert GoldTable.open(step, "flights").delta.version() == 0


@pytest.mark.parametrize("end", ["timestamp'2000-01-01'", "nullif(window_end, window_end)"])
def test_no_row_is_committed_that_is_of_no_window_which_closes(
    spark: SparkSession, step: GoldStep, silver: str, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    take(silver, rows(0, 0, 1, 30))
    monkeypatch.setattr("strandline_spark.gold.query.check_locality", lambda *_, **__: None)
    monkeypatch.setattr("strandline_spark.gold.definition._DEFINITIONS", {})
    sql = f"SELECT window_start, {end} AS window_end FROM silver"
    with pytest.raises(OptionError, match="window_end is null or not"):
        run(spark, replace(step, sql=sql), silver)
    assert GoldTable.open(step, "flights").delta.version() == 0


def test_a_corrected_statement_takes_the_place_of_one_that_never_gave_a_row(
    spark: SparkSession, step: GoldStep, silver: str
) -> None:
    take(silver, rows(0, 0, 1, 30))
    failing = replace(
        step,
        sql=COUNTS.replace("sum(delay)", "sum(1 div (n - n))")
        .replace("FROM silver", "FROM (SELECT *, 1 AS n FROM silver)")
        .replace("count(*) AS n", "count(*) AS n, max(carrier) AS last"),
    )
    with pytest.raises(OptionError, match="failed on the rows of silver"):
        run(spark, failing, silver)
    assert run(spark, step, silver).version == 1
    assert held(step) == [(0, 10, "UA", 1)]
