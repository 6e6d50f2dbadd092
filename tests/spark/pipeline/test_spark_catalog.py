"""A pipeline's file as the catalog of its tables, which DuckDB and Spark open."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest

from strandline_spark.catalog import tables
from support import catalog_reader
from support.pipelines import of_file, run_pipeline_once

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from support.fake_broker_sync import FakeBroker

pytestmark = pytest.mark.spark

PIPELINE: Final = """
[pipeline]
name = "catalog"
topics = ["t"]
checkpoint = "checkpoint"

[silver]
format = "json"
event_time = "timestamp"

[silver.columns]
n = "bigint"
a_b = "string"

[[state]]
name = "latest"
key = ["n"]
order = ["event_time"]

[[gold]]
name = "later"
window = "1 minute"
watermark = "0 seconds"
sql = "SELECT window_start, window_end, count(*) AS n FROM silver GROUP BY ALL"
"""


def test_both_engines_see_each_table_that_exists(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path
) -> None:
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    path = str(tmp_path / "pipeline.toml")
    assert tables(path) == {}
    topic = broker.create("t", 2)
    for n in range(30):
        value = json.dumps({"n": n % 5, "a_b": "x"}).encode() if n % 10 else b"none"
        topic.partitions[n % 2].append([(b"k", value)], timestamp_ms=1_700_000_000_000 + n)
    pipeline = of_file(PIPELINE, tmp_path)
    run_pipeline_once(spark, pipeline, broker.address)
    assert tables(path)["silver"] == pipeline.silver
    asked = [sys.executable, catalog_reader.__file__, path, "duckdb"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["duckdb"]
    rows = {"bronze": 30, "silver": 27, "quarantine": 3, "state_latest": 5}
    assert catalog_reader.rows_of_spark(spark, path) == found
    assert list(found) == list(tables(path))
    assert {name: found[name] for name in rows} == rows
