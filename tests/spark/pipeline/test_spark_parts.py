"""Pipelines of nested records, keys and headers, and of exploded arrays, on Spark."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pytest

from strandline_spark.gold.verify import verify_step
from strandline_spark.pipeline.failures import Failures, StepsFailed
from strandline_spark.pipeline.gold import GoldSteps
from strandline_spark.pipeline.verify import verify_parsed, verify_raw
from strandline_spark.silver.latest import latest
from strandline_spark.silver.rebuild import Rebuild
from support.pipelines import of_file, rows_of, run_pipeline_once
from support.spark_batches import Headers, MadeBatch, MadeRecord, build

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from strandline_spark.pipeline.config import Pipeline
    from support.fake_broker_sync import FakeBroker, FakeTopic

pytestmark = pytest.mark.spark

NOON: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)
VISITS: Final = """
[pipeline]
name = "visits"
topics = ["t"]

[bronze]
max_offsets_per_trigger = 20

[silver]
format = "json"
event_time = "at"
MORE

[silver.columns]
at = { type = "timestamp", format = "epoch_ms", field = "$.meta.at" }
url = { type = "string", field = "page.url" }
geo = "struct<country:string,point:array<double>>"
tags = "map<string,json>"
user = { type = "bigint", from = "key", field = "id" }
trace = { type = "string", from = "header:trace-id" }
ITEMS

[[gold]]
name = "by_country"
window = "1 minute"
watermark = "0 seconds"
sql = '''
SELECT window_start, window_end, geo.country AS country, AGGREGATE,
       map_from_entries(array_sort(collect_list(struct(user, url)))) AS seen
FROM silver GROUP BY window_start, window_end, geo.country
'''
"""
SEEN: Final = "map_from_entries(array_sort(collect_list(struct(user, url))))"
FLAT: Final = (
    VISITS.replace("MORE", 'on_new_field = "add"')
    .replace("ITEMS", 'items = "array<struct<sku:string,n:int>>"')
    .replace("AGGREGATE", "sum(aggregate(items, 0, (total, one) -> total + one.n)) AS n")
)
EXPLODED: Final = (
    VISITS.replace("MORE", 'explode = "items"\non_new_field = "ignore"')
    .replace("ITEMS", 'sku = { type = "string", field = "items.sku" }\nITEMS')
    .replace("ITEMS", 'n = { type = "int", field = "items.n" }')
    .replace("AGGREGATE", "count(position) AS items, sum(n) AS n")
    .replace(SEEN, "sort_array(collect_set(user))")
)


def visits(count: int) -> list[tuple[bytes | None, bytes | None, Headers]]:
    """Key, value and headers of records: one in five is wrong or a tombstone."""
    out: list[tuple[bytes | None, bytes | None, Headers]] = []
    for n in range(count):
        items: Any = [{"sku": f"s{i}", "n": n + i} for i in range(n % 4)]
        value: dict[str, Any] = {
            "meta": {"at": round((NOON + timedelta(seconds=10 * n)).timestamp() * 1000)},
            "page": {"url": f"/{n}", "title": "left out"},
            "geo": {"country": "de" if n % 2 else "fr", "point": [n / 2, None]},
            "tags": {"a": [n, 1.50]},
            "items": items,
        }
        key: bytes | None = json.dumps({"id": n % 6}).encode()
        headers: Headers = [("trace-id", b"old"), ("trace-id", b"t%d" % n)] if n % 3 else []
        if n % 10 == 4:
            out.append((key, None, headers))
            continue
        if n % 10 == 9:
            key, value["items"] = (b"{", items) if n % 20 == 9 else (key, {"no": "array"})
        out.append((key, json.dumps(value).encode(), headers))
    return out


def fill(topic: FakeTopic, records: list[tuple[bytes | None, bytes | None, Headers]]) -> None:
    stamp = round(NOON.timestamp() * 1000) + 3_600_000
    for n, (key, value, headers) in enumerate(records):
        made = MadeBatch([MadeRecord(key, value, headers, stamp)])
        topic.partitions[n % 2].append_bytes(build(made)[0])


def plainly(records: list[tuple[bytes | None, bytes | None, Headers]]) -> list[dict[str, Any]]:
    """Silver's rows of the flat pipeline by a plain loop."""
    out = []
    for n, (key, value, headers) in enumerate(records):
        if n % 10 == 9:
            continue
        fields = {} if value is None else json.loads(value)
        out.append(
            {
                "partition": n % 2,
                "offset": n // 2,
                "tombstone": value is None,
                "url": fields.get("page", {}).get("url"),
                "country": fields.get("geo", {}).get("country"),
                "point": fields.get("geo", {}).get("point"),
                "tags": [("a", f"[{n}, 1.5]")] if fields else None,
                "user": json.loads(key or b"")["id"],
                "trace": headers[-1][1].decode() if headers and headers[-1][1] else None,
                "items": fields.get("items"),
                "at": NOON + timedelta(seconds=10 * n),
            }
        )
    return out


def check(spark: SparkSession, pipeline: Pipeline, bootstrap: str) -> None:
    assert all(one.sound for one in verify_raw(pipeline, bootstrap, complete=True))
    found = verify_parsed(pipeline, values=True)
    assert all(one.sound and one.differing == 0 for one in found), found
    (step,) = pipeline.gold
    gold = verify_step(spark, step, pipeline.silver, pipeline=pipeline.name)
    assert gold.sound, gold


def silver_of(pipeline: Pipeline, *names: str) -> list[tuple[Any, ...]]:
    return rows_of(pipeline.silver, "partition", "offset", *names)


FLAT_NAMES: Final = ("tombstone", "url", "geo", "tags", "user", "trace", "items")


def flat_rows(records: list[Any]) -> list[tuple[Any, ...]]:
    rows = [
        (
            *(one[name] for name in ("partition", "offset", "tombstone", "url")),
            None if one["tombstone"] else {"country": one["country"], "point": one["point"]},
            *(one[name] for name in ("tags", "user", "trace", "items")),
        )
        for one in plainly(records)
    ]
    return sorted(rows, key=repr)


def test_nested_records_are_in_silver_and_gold_as_a_plain_loop_has_them(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path
) -> None:
    records = visits(60)
    topic = broker.create("t", 2)
    fill(topic, records[:30])
    pipeline = of_file(FLAT, tmp_path)
    run_pipeline_once(spark, pipeline, broker.address)
    fill(topic, records[30:])
    run_pipeline_once(spark, pipeline, broker.address, close=True)
    assert silver_of(pipeline, *FLAT_NAMES) == flat_rows(records)
    assert len(rows_of(pipeline.quarantine, "offset")) == 6
    check(spark, pipeline, broker.address)
    windows: dict[tuple[Any, str], list[dict[str, Any]]] = {}
    for one in plainly(records):
        if not one["tombstone"]:
            windows.setdefault((one["at"].replace(second=0), one["country"]), []).append(one)
    expected = [
        (start, country, sum(item["n"] for one in own for item in one["items"]))
        for (start, country), own in windows.items()
    ]
    (step,) = pipeline.gold
    assert rows_of(step.table, "window_start", "country", "n") == sorted(expected, key=repr)
    seen = dict(rows_of(step.table, "window_start", "seen"))
    assert ("/0") in dict(seen[NOON]).values() or ("/1") in dict(seen[NOON]).values()
    newest = {row["user"]: row["url"] for row in latest(spark, pipeline.silver).collect()}
    assert newest[5] in {one["url"] for one in plainly(records)}
    shutil.rmtree(pipeline.silver)
    shutil.rmtree(pipeline.quarantine)
    with pytest.raises(StepsFailed, match="gold reset"):
        run_pipeline_once(spark, pipeline, broker.address)
    assert silver_of(pipeline, *FLAT_NAMES) == flat_rows(records)


def exploded_rows(records: list[Any]) -> list[tuple[Any, ...]]:
    rows = []
    for one in plainly(records):
        own = (one["partition"], one["offset"])
        rest = (one["url"], one["user"], one["trace"])
        elements: list[tuple[int | None, Any]] = list(enumerate(one["items"] or []))
        rows += [
            (*own, at, item.get("sku"), item.get("n"), *rest)
            for at, item in elements or [(None, {})]
        ]
    return sorted(rows, key=repr)


EXPLODED_NAMES: Final = ("position", "sku", "n", "url", "user", "trace")


def test_each_element_is_a_row_once_also_after_a_rebuild(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path
) -> None:
    records = visits(60)
    topic = broker.create("t", 2)
    fill(topic, records)
    pipeline = of_file(EXPLODED, tmp_path)
    reports = run_pipeline_once(spark, pipeline, broker.address, close=True)
    assert sum(report.rows for report in reports) == 60
    assert sum(report.quarantined for report in reports) == 6
    assert silver_of(pipeline, *EXPLODED_NAMES) == exploded_rows(records)
    check(spark, pipeline, broker.address)
    (step,) = pipeline.gold
    windows: dict[tuple[Any, str], list[int]] = {}
    for one in plainly(records):
        if not one["tombstone"]:
            start = one["at"].replace(second=0)
            numbers = windows.setdefault((start, one["country"]), [])
            numbers += [item["n"] for item in one["items"]]
    expected = [(*key, len(own), sum(own) if own else None) for key, own in windows.items()]
    held = rows_of(step.table, "window_start", "country", "items", "n")
    assert held == sorted(expected, key=repr)
    newest = latest(spark, pipeline.silver).orderBy("partition", "offset", "position").collect()
    last = max(one["offset"] for one in plainly(records) if one["partition"] == 1)
    (items,) = (
        one["items"] for one in plainly(records) if (one["partition"], one["offset"]) == (1, last)
    )
    assert [row["sku"] for row in newest if (row["partition"], row["offset"]) == (1, last)] == [
        item["sku"] for item in items
    ]
    for quarantine_only in (True, False):
        Rebuild(pipeline, lambda line: None, quarantine_only=quarantine_only).run(spark)
        assert silver_of(pipeline, *EXPLODED_NAMES) == exploded_rows(records)
        failures = Failures(lambda line: None)
        GoldSteps(spark, pipeline, lambda line: None, failures).run(spark, close=True)
        assert failures.said() == {}
        check(spark, pipeline, broker.address)
        assert rows_of(step.table, "window_start", "country", "items", "n") == held


def test_what_is_no_array_stops_nothing_and_another_array_stops_silver(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path
) -> None:
    topic = broker.create("t", 2)
    fill(topic, visits(10))
    notes: list[str] = []
    text = EXPLODED.replace('field = "items.sku"', 'field = "items.skuu"')
    run_pipeline_once(spark, of_file(text, tmp_path), broker.address, note=notes.append)
    said = [one for one in notes if "none of which has field = 'items.skuu'" in one]
    assert len(said) == 1
    fill(topic, visits(10))
    other = of_file(text.replace('explode = "items"', 'explode = "lines"'), tmp_path)
    with pytest.raises(StepsFailed, match=r"explode = 'lines' .*rebuild silver"):
        run_pipeline_once(spark, other, broker.address)
    assert len(rows_of(other.bronze, "offset")) == 20
