"""The source as a table and a view of SQL: Spark's own properties of a table are no options."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strandline_spark.data_source import StrandlineDataSource
from strandline_spark.errors import OptionError
from strandline_spark.source.table_options import merged, options_of, users_options

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from support.fake_broker_sync import FakeBroker

OPTIONS = {"bootstrap.servers": "h:1", "subscribe": "t", "startingoffsets": "earliest"}
OF_TABLE = {
    **OPTIONS,
    **{f"option.{name}": value for name, value in OPTIONS.items()},
    **{"provider": "strandline", "owner": "root", "external": "true", "comment": "what it is"},
    **{"option.serialization.format": "1", "serialization.format": "1", "a": "b"},
    **{"transient_lastddltime": "1", "is_managed_location": "true"},
}


def test_of_a_tables_properties_those_are_options_that_the_user_gave_as_such() -> None:
    assert users_options(OF_TABLE) == OPTIONS
    assert users_options(OPTIONS) == OPTIONS
    source = StrandlineDataSource(OF_TABLE)
    assert options_of(source.schema()) == OPTIONS
    assert options_of(StrandlineDataSource(OPTIONS).schema()) == {}
    assert source.schema().names == StrandlineDataSource(OPTIONS).schema().names


def test_an_option_of_one_read_goes_before_that_of_the_table() -> None:
    columns = StrandlineDataSource(OF_TABLE).schema()
    assert merged(columns, {}) == OPTIONS
    given = {"startingOffsets": "latest", "maxOffsetsPerTrigger": "5"}
    assert merged(columns, given) == OPTIONS | {
        "startingoffsets": "latest",
        "maxoffsetspertrigger": "5",
    }


@pytest.mark.parametrize("name", ["path", "paths", "location"])
def test_a_path_is_refused_with_what_to_do(name: str) -> None:
    for options in (OPTIONS, OF_TABLE):
        with pytest.raises(OptionError, match=f"{name} '/x': records lie in topics and not below"):
            StrandlineDataSource(options | {name: "/x"}).schema()


@pytest.mark.parametrize("name", ["provider", "owner", "external", "serialization.format", "a"])
def test_what_is_spark_s_of_a_table_is_unknown_where_there_is_no_table(name: str) -> None:
    with pytest.raises(OptionError, match=f"option '{name}' is not supported"):
        StrandlineDataSource(OPTIONS | {name: "x"}).schema()


def test_a_typo_in_a_tables_options_is_refused() -> None:
    with pytest.raises(OptionError, match=r"'subscrib' is not supported .*did you mean subscribe"):
        StrandlineDataSource(OF_TABLE | {"option.subscrib": "x"}).schema()


@pytest.fixture
def options(spark: SparkSession, broker: FakeBroker) -> Iterator[str]:
    spark.dataSource.register(StrandlineDataSource)
    broker.create("t").partitions[0].append([(b"k", b"v%d" % n) for n in range(3)])
    yield (
        f"USING strandline OPTIONS ('kafka.bootstrap.servers' '{broker.address}', subscribe 't',"
        " startingOffsets 'earliest')"
    )
    for name in ("records", "declared"):
        spark.sql(f"DROP TABLE IF EXISTS {name}")


def rows(spark: SparkSession, statement: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in spark.sql(statement).collect()]


@pytest.mark.spark
def test_a_table_is_created_read_streamed_described_and_dropped(
    spark: SparkSession, options: str, tmp_path: Path
) -> None:
    spark.sql(f"CREATE TABLE records {options} COMMENT 'c' TBLPROPERTIES ('a' = 'b')")
    spark.sql(f"CREATE TABLE IF NOT EXISTS records {options}")
    assert rows(spark, "SELECT count(*), max(offset) FROM records") == [(3, 2)]
    wanted = "SELECT CAST(value AS STRING) FROM records WHERE offset > 1"
    assert rows(spark, wanted) == [("v2",)]
    assert spark.read.table("records").count() == spark.table("records").count() == 3
    one_read = spark.read.option("endingOffsets", '{"t": {"0": 1}}')
    assert one_read.table("records").count() == 1
    described = rows(spark, "DESCRIBE records")
    assert described[:2] == [("key", "binary", None), ("value", "binary", None)]
    query = (
        spark.readStream.table("records")
        .writeStream.format("memory")
        .queryName("streamed")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert rows(spark, "SELECT count(*) FROM streamed") == [(3,)]
    with pytest.raises(Exception, match=r"INSERT INTO and CREATE TABLE .* do not work: write with"):
        spark.sql("INSERT INTO records SELECT * FROM records")
    spark.sql("DROP TABLE records")
    assert rows(spark, "SHOW TABLES LIKE 'records'") == []


@pytest.mark.spark
def test_a_view_is_created_and_read_and_a_table_that_cannot_work_says_why(
    spark: SparkSession, options: str
) -> None:
    spark.sql(f"CREATE TEMPORARY VIEW seen {options}")
    assert rows(spark, "SELECT count(*) FROM seen") == [(3,)]
    spark.sql("DROP VIEW seen")
    spark.sql(f"CREATE TABLE declared (key BINARY) {options}")
    with pytest.raises(Exception, match="only if it was created without a list of columns"):
        rows(spark, "SELECT * FROM declared")
    with pytest.raises(Exception, match="records lie in topics and not below a path"):
        spark.sql(f"CREATE TABLE records {options} LOCATION '/tmp/x'")
