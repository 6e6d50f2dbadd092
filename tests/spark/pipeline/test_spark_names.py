"""Columns of silver with any name that a field of json can give them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest

from strandline_spark.gold.verify import verify_step
from strandline_spark.pipeline.verify import verify_parsed
from strandline_spark.silver.latest import latest
from support.pipelines import of_file, rows_of, run_pipeline_once

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from support.fake_broker_sync import FakeBroker

pytestmark = pytest.mark.spark

NAMES: Final = (
    *("a.b", "a`b", "`", ".", "select", "größe", "1st"),
    *("a-b", "x'y", 'q"r', "*", "a[0]", "$c"),
)
TEXT: Final = """
[pipeline]
name = "names"
topics = ["t"]

[silver]
format = "json"
event_time = "timestamp"
on_new_field = "add"

[silver.columns]
a = "int"

[[gold]]
name = "visits"
session = "1 second"
session_key = KEYS
watermark = "0 seconds"
sql = '''
SELECT window_start, window_end, `a.b`, max(`a``b`) AS `most.of`, count(*) AS n
FROM silver GROUP BY ALL
'''
"""


def test_each_name_is_one_column_in_latest_sessions_and_gold(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path
) -> None:
    topic = broker.create("t", 1)
    pipeline = of_file(TEXT.replace("KEYS", json.dumps(NAMES)), tmp_path)
    for n in range(4):
        row = {"a": n, **dict.fromkeys(NAMES, n // 2)}
        topic.partitions[0].append([(b"k%d" % n, json.dumps(row).encode())])
    run_pipeline_once(spark, pipeline, broker.address, close=True)
    assert rows_of(pipeline.silver, "a", *NAMES) == [(n, *[n // 2] * len(NAMES)) for n in range(4)]
    found = latest(spark, pipeline.silver).select(
        "a", *[f"`{n.replace('`', '``')}`" for n in NAMES]
    )
    assert sorted(map(tuple, found.collect())) == [(n, *[n // 2] * len(NAMES)) for n in range(4)]
    (step,) = pipeline.gold
    assert rows_of(step.table, "a.b", "most.of", "n") == [(0, 0, 2), (1, 1, 2)]
    assert all(one.sound for one in verify_parsed(pipeline))
    found_in_gold = verify_step(spark, step, pipeline.silver, pipeline=pipeline.name)
    assert found_in_gold.sound, found_in_gold
