"""Several silver tables of one pipeline: each has its topics, its failures, and its gold."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pytest

from strandline_spark.bronze.columns import BronzeTable
from strandline_spark.commands.main import main
from strandline_spark.errors import TableError
from strandline_spark.gold.verify import verify_step
from strandline_spark.pipeline.failures import StepsFailed
from strandline_spark.pipeline.verify import verify_parsed, verify_raw
from strandline_spark.silver.rebuild import Rebuild
from strandline_spark.silver.tables import SilverTable
from support.pipelines import commands_on, of_file, rows_of, run_pipeline_once

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from strandline_spark.pipeline.config import Pipeline
    from support.fake_broker_sync import FakeBroker, FakeTopic

pytestmark = pytest.mark.spark

NOON: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)
SHOP: Final = """
[pipeline]
name = "shop"
topics = ["orders", "clicks", "returns"]

[bronze]
max_offsets_per_trigger = 25

[[silver]]
name = "orders"
topics = ["orders", "returns"]
format = "json"
event_time = "at"
on_new_field = "add"

[silver.columns]
at = "timestamp"
price = "bigint"

[[silver]]
name = "clicks"
topics = ["clicks"]
format = "csv"
event_time = "at"

[silver.columns]
at = "timestamp"
page = "string"

[[gold]]
name = "sales"
silver = "orders"
window = "1 hour"
watermark = "0 hours"
sql = '''
SELECT window_start, window_end, sum(price) AS total FROM silver GROUP BY ALL
'''

[[gold]]
name = "views"
silver = "clicks"
window = "1 hour"
watermark = "0 hours"
sql = '''
SELECT window_start, window_end, page, count(*) AS n FROM silver GROUP BY ALL
'''
"""


def at(hours: float) -> str:
    return (NOON + timedelta(hours=hours)).isoformat()


def put(topic: FakeTopic, *values: bytes | None) -> None:
    stamp = round(NOON.timestamp() * 1000) + 86_400_000
    topic.partitions[0].append([(None, value) for value in values], timestamp_ms=stamp)


def order(hours: float, price: int, **more: Any) -> bytes:
    return json.dumps({"at": at(hours), "price": price, **more}).encode()


def click(hours: float, page: str) -> bytes:
    return f"{at(hours)},{page}".encode()


def check(spark: SparkSession, pipeline: Pipeline, bootstrap: str) -> None:
    assert all(one.sound for one in verify_raw(pipeline, bootstrap, complete=True))
    found = verify_parsed(pipeline, values=True)
    assert all(one.sound for one in found), found
    for part in pipeline.parts:
        for step in part.gold:
            if os.path.isdir(step.table):
                one = verify_step(spark, step, part.silver, pipeline=pipeline.name)
                assert one.sound, one


def test_each_topic_goes_to_its_own_tables_and_gold(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path
) -> None:
    orders, clicks, returns = (broker.create(name) for name in ("orders", "clicks", "returns"))
    put(orders, *(order(n / 10, n) for n in range(25)), b"{")
    put(clicks, *(click(n / 10, "ab"[n % 2]) for n in range(25)), b"-", None)
    put(returns, order(0, -5), order(1, -7, why="late"))
    pipeline = of_file(SHOP, tmp_path)
    sales, views = pipeline.parts
    reports = run_pipeline_once(spark, pipeline, broker.address, close=True)
    assert sum(one.rows for one in reports) == 26 + 27 + 2
    assert sum(one.quarantined for one in reports) == 2
    assert rows_of(sales.quarantine, "topic", "value") == [("orders", b"{")]
    assert rows_of(views.quarantine, "topic", "value") == [("clicks", b"-")]
    expected: list[Any] = [("orders", n, None) for n in range(25)]
    expected += [("returns", -5, None), ("returns", -7, "late")]
    assert rows_of(sales.silver, "topic", "price", "why") == sorted(expected, key=repr)
    assert {topic for (topic,) in rows_of(views.silver, "topic")} == {"clicks"}
    assert len(rows_of(views.silver, "page")) == 26
    totals = [(45 - 5,), (145 - 7,), (110,)]
    assert rows_of(sales.gold[0].table, "total") == sorted(totals, key=repr)
    views_of_hours = [*[("a", n) for n in (3, 5, 5)], *[("b", n) for n in (2, 5, 5)]]
    assert rows_of(views.gold[0].table, "page", "n") == views_of_hours
    check(spark, pipeline, broker.address)


def test_a_table_that_stands_still_holds_back_itself_alone(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path
) -> None:
    orders, clicks, _ = (broker.create(name) for name in ("orders", "clicks", "returns"))
    put(orders, order(0, 1), order(2, 2))
    put(clicks, click(0, "a"), b"-", b"-", click(2, "b"))
    limited = SHOP.replace('format = "csv"', 'format = "csv"\nquarantine_limit = 1')
    pipeline = of_file(limited, tmp_path)
    with pytest.raises(StepsFailed, match=r"^silver clicks: 2 of 4 records .* do not parse"):
        run_pipeline_once(spark, pipeline, broker.address, close=True)
    sales, views = pipeline.parts
    assert rows_of(sales.silver, "price") == [(1,), (2,)]
    assert rows_of(sales.gold[0].table, "total") == [(1,), (2,)]
    assert rows_of(views.silver, "page") == []
    assert len(rows_of(pipeline.bronze, "offset")) == 6

    put(orders, order(4, 3))
    pipeline = of_file(SHOP, tmp_path)
    run_pipeline_once(spark, pipeline, broker.address, close=True)
    assert rows_of(views.silver, "page") == [("a",), ("b",)]
    assert rows_of(sales.silver, "price") == [(1,), (2,), (3,)]
    check(spark, pipeline, broker.address)


def test_a_topic_that_moves_is_refused_until_its_old_table_is_made_again(
    spark: SparkSession,
    broker: FakeBroker,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    orders, _, returns = (broker.create(name) for name in ("orders", "clicks", "returns"))
    put(orders, order(0, 1))
    put(returns, order(0, -1), order(1, -2))
    run_pipeline_once(spark, of_file(SHOP, tmp_path), broker.address)
    moved = SHOP.replace('topics = ["orders", "returns"]', 'topics = ["orders"]')
    moved += """
[[silver]]
name = "returns"
topics = ["returns"]
format = "json"
event_time = "at"

[silver.columns]
at = "timestamp"
price = "bigint"
"""
    pipeline = of_file(moved, tmp_path)
    sales, _, back = pipeline.parts
    said = r"silver_orders has records of the topic returns, which \[\[silver\]\] returns .*--table"
    with pytest.raises(TableError, match=said):
        run_pipeline_once(spark, pipeline, broker.address)

    file = tmp_path / "pipeline.toml"
    file.write_text(moved)
    with commands_on(spark), pytest.raises(SystemExit) as ended:
        main(["rebuild", "silver", str(file), "--table", "nothing"])
    assert ended.value.code == 1
    assert "--table nothing: " in (err := capsys.readouterr().err)
    assert "it has orders, clicks, returns" in err
    Rebuild(sales, lambda line: None).run(spark)
    run_pipeline_once(spark, pipeline, broker.address)
    assert rows_of(sales.silver, "price") == [(1,)]
    assert rows_of(back.silver, "price") == [(-1,), (-2,)]
    check(spark, pipeline, broker.address)


def test_a_lost_table_is_filled_from_bronze_and_rebuilt_alone(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path
) -> None:
    orders, clicks, _ = (broker.create(name) for name in ("orders", "clicks", "returns"))
    put(orders, order(0, 1), order(1, 2))
    put(clicks, click(0, "a"))
    pipeline = of_file(SHOP, tmp_path)
    run_pipeline_once(spark, pipeline, broker.address)
    other = SHOP.replace('price = "bigint"', 'price = "string"')
    changed = of_file(other, tmp_path)
    with pytest.raises(StepsFailed, match=r"silver orders: .*price of type long"):
        run_pipeline_once(spark, changed, broker.address)
    before = SilverTable.open(pipeline.parts[1].silver).version
    Rebuild(changed.parts[0], lambda line: None).run(spark)
    assert SilverTable.open(pipeline.parts[1].silver).version == before
    # A number is no text.
    assert rows_of(changed.parts[0].quarantine, "reason") == [("wrong type",)] * 2
    assert BronzeTable.open(pipeline.bronze).version > 0
    run_pipeline_once(spark, changed, broker.address)
    check(spark, changed, broker.address)
