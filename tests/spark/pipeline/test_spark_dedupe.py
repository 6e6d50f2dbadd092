"""A pipeline with duplicates and late rows: what plain Python says of its records is in its tables,
however many runs read them.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest

from strandline_spark.pipeline.metrics import JobMetrics
from strandline_spark.pipeline.verify import verify_parsed
from support.pipelines import of_file, rows_of, run_pipeline_once

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from support.fake_broker_sync import FakeBroker

pytestmark = pytest.mark.spark

ORDERS: Final = """
[pipeline]
name = "orders"
topics = ["t"]

[bronze]
max_offsets_per_trigger = 7

[silver]
format = "json"
event_time = "at"
max_ahead = "unlimited"
dedupe = { key = ["id"], within = "60 seconds" }

[silver.columns]
id = "bigint"
at = { type = "timestamp", format = "epoch_s" }

[[gold]]
name = "per_minute"
window = "1 minute"
watermark = "0 seconds"
late = "update"
sql = "SELECT window_start, window_end, count(*) AS orders FROM silver GROUP BY ALL"
"""
FIRST: Final = [(1, 10), (2, 20), (1, 30), (3, 65), (2, 79), (2, 81), (4, 130), (1, 131)]
SECOND: Final = [(4, 140), (5, 40), (6, 150), (6, 150), (2, 141), (2, 142), (7, 185), (8, 50)]
"""(id, at) of each record of a partition, in the order of its offsets. Some come late."""


def plain(records: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """(offset, at) of the rows that stay."""
    stay: list[tuple[int, int, int]] = []
    for offset, (id_, at) in enumerate(records):
        newest = max((time for _, time, _ in stay), default=0)
        near = [one for one in stay if one[0] == id_ and abs(one[1] - at) <= 60]
        if not any(time >= newest - 60 for _, time, _ in near):
            stay.append((id_, at, offset))
    return [(offset, at) for _, at, offset in stay]


def test_duplicates_stay_out_and_late_rows_change_their_windows(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path
) -> None:
    topic = broker.create("t", 2)
    pipeline = of_file(ORDERS, tmp_path)
    metrics = JobMetrics("orders")
    notes: list[str] = []
    for records in (FIRST, SECOND):
        for partition in topic.partitions:
            values = [json.dumps({"id": id_, "at": at}).encode() for id_, at in records]
            partition.append([(b"k", one) for one in values], timestamp_ms=0)
        run_pipeline_once(spark, pipeline, broker.address, metrics=metrics, note=notes.append)
    stay = plain([*FIRST, *SECOND])
    assert len(stay) == 11
    offsets = [offset for offset, _ in stay]
    held = rows_of(pipeline.silver, "partition", "offset")
    assert sorted(held) == [(partition, offset) for partition in (0, 1) for offset in offsets]
    repeats = 2 * (len(FIRST) + len(SECOND) - len(stay))
    assert len(rows_of(pipeline.quarantine, "partition", "offset")) == repeats

    def value(name: str, **labels: str) -> float | None:
        labels = {"pipeline": "orders", **labels}
        return metrics.registry.get_sample_value(f"strandline_spark_{name}", labels)

    assert value("duplicate_rows_total") == repeats
    assert value("quarantined_rows_total", reason="duplicate") == repeats
    assert value("rows_total", table="silver") == 2 * len(stay)
    assert value("rows_total", table="bronze") == 2 * (len(FIRST) + len(SECOND))
    assert any("of them duplicates" in line for line in notes)
    for found in verify_parsed(pipeline, values=True):
        assert (found.problems, found.duplicates) == ([], repeats // 2)

    windows = Counter(at // 60 for _, at in stay)
    closed = {minute: 2 * n for minute, n in windows.items() if 60 * (minute + 1) <= 185}
    gold = rows_of(pipeline.gold[0].table, "window_start", "orders")
    assert {start.minute: orders for start, orders in gold} == closed
    assert (value("updated_windows_total", step="per_minute") or 0) >= 1
    assert value("updated_late_rows_total", step="per_minute") == value(
        "late_rows_total", step="per_minute"
    )
