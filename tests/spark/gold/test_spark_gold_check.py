"""What of a gold step is refused before a batch is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql.types import DoubleType, StringType, StructType, TimestampType

from strandline_spark.errors import OptionError, TableError
from strandline_spark.gold import definition
from strandline_spark.gold.definition import check_step, definition_of
from strandline_spark.gold.table import GoldTable
from strandline_spark.pipeline.steps import GoldStep

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SILVER = (
    StructType()
    .add("topic", StringType())
    .add("event_time", TimestampType())
    .add("carrier", StringType())
    .add("delay", DoubleType())
)


def selecting(columns: str, table: str = "") -> GoldStep:
    sql = f"SELECT window_start, window_end, {columns} FROM silver"
    return GoldStep("s", table, sql, 12, watermark=0, window=10)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("delay, carrier AS DELAY", "two columns of the result are named DELAY; rename one"),
        ("delay + 1", r"cannot have a column named '\(delay \+ 1\)'; give it a name with AS"),
        ("null AS x", "column x is of type null, which a Delta table cannot hold"),
        ("array(interval 1 month) AS x", "column x is of type interval month, which"),
        ("map('a', struct(parse_json('1') AS v)) AS x", "column x is of type variant"),
        ("nobody", "does not compile: .*`nobody`.*line 12 pos 33"),
    ],
)
def test_a_result_that_no_table_holds_is_refused_with_its_line(
    spark: SparkSession, columns: str, words: str
) -> None:
    with pytest.raises(OptionError, match=rf"^\[\[gold\]\] s, key sql, line 12: .*{words}"):
        check_step(spark, selecting(columns), SILVER)


def test_a_step_is_checked_again_once_it_or_silvers_columns_change(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[GoldStep] = []

    def check(spark: SparkSession, step: GoldStep, silver: StructType) -> StructType:
        checked.append(step)
        return check_step(spark, step, silver)

    monkeypatch.setattr(definition, "_DEFINITIONS", {})
    monkeypatch.setattr(definition, "check_step", check)
    step, other = selecting("1 AS x"), selecting("2 AS x")
    found = [definition_of(spark, step, SILVER) for _ in range(2)]
    assert found[0] == found[1]
    assert found[0].columns == check_step(spark, step, SILVER)
    assert checked == [step]
    assert definition_of(spark, other, SILVER).identity != found[0].identity
    wider = StructType([*SILVER.fields]).add("more", DoubleType())
    definition_of(spark, step, wider)
    assert checked == [step, other, step]
    for _ in range(2):
        with pytest.raises(OptionError):
            definition_of(spark, selecting("nobody"), SILVER)
    assert len(checked) == 5


def test_windows_of_another_type_and_columns_of_their_name_are_refused(
    spark: SparkSession,
) -> None:
    text = GoldStep("s", "", "SELECT '' AS window_start, window_end FROM silver", 1, 0, window=1)
    with pytest.raises(OptionError, match="window_start is of type string, so it"):
        check_step(spark, text, SILVER)
    taken = StructType().add("Window_End", TimestampType())
    with pytest.raises(OptionError, match="silver has a column Window_End, and a step adds one"):
        check_step(spark, selecting("1 AS x"), taken)
    keyed = GoldStep("s", "", text.sql, 1, 0, session=1, session_key=("aircraft",))
    with pytest.raises(OptionError, match="key session_key: silver has no column aircraft; it has"):
        check_step(spark, keyed, SILVER)


def test_a_table_holds_every_type_that_is_not_refused(spark: SparkSession, tmp_path: Path) -> None:
    step = selecting(
        "carrier, delay, cast(delay AS float) AS f, cast(delay AS decimal(9, 2)) AS d,"
        " topic = 't' AS b, cast(event_time AS date) AS day, cast(carrier AS binary) AS raw,"
        " cast(event_time AS timestamp_ntz) AS local,"
        " cast(delay AS tinyint) AS t, cast(delay AS smallint) AS s,"
        " cast(delay AS int) AS i, cast(delay AS bigint) AS l, array(carrier) AS list,"
        " map(carrier, delay) AS m, struct(carrier, array(delay) AS delays) AS st",
        str(tmp_path / "gold"),
    )
    columns = check_step(spark, step, SILVER)
    table = GoldTable.open_or_create(step, "p", columns, "a:b")
    GoldTable.open_or_create(step, "p", columns, "a:b")
    assert [field.name for field in table.delta.schema().fields] == columns.names


def test_a_file_is_no_table(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "gold").write_text("")
    step = selecting("carrier", str(tmp_path / "gold"))
    with pytest.raises(TableError, match="gold exists and is no Delta table; give an empty path"):
        GoldTable.open_or_create(step, "p", check_step(spark, step, SILVER), "a:b")
