"""Bronze tables and their audit, as DuckDB and Polars read them: what is in the log, and no orphan;
before and after `compact`. These and Spark open only the files that a condition needs.
"""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from deltalake import DeltaTable

from strandline_spark.bronze.audit import AuditCopier, audit_path
from strandline_spark.bronze.columns import BronzeTable
from strandline_spark.bronze.commits import CommittedRange
from strandline_spark.bronze.compaction import compact
from strandline_spark.bronze.fenced_table import DataFile
from strandline_spark.bronze.task_files import write_range
from strandline_spark.cluster.offsets import TopicPartition
from strandline_spark.maintenance import compaction
from strandline_spark.source.options import parse_options
from strandline_spark.source.splitting import PlannedRange
from support.bronze_values import take
from support.deduped import level, make, pipeline_in
from support.deduped import record as event
from support.spark_batches import MadeBatch, MadeRecord, build

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from support.fake_broker_sync import FakeBroker, FakeTopic

DUCKDB_QUERY: Final = Path(__file__).parents[1] / "support" / "duckdb_query.py"
START_MS = 1_700_000_000_123
FULL = MadeRecord(b"\xff\x00", b"value", [("h", b"1"), ("n", None)], START_MS)
BARE = MadeRecord(None, None, [], START_MS + 1)
EXPECTED = [
    ("t", n, *((b"\xff\x00", b"value", START_MS) if n < 20 else (None, None, START_MS + 1)))
    for n in range(30)
]
HEADERS = [{"key": "h", "value": b"1"}, {"key": "n", "value": None}]


def write(broker: FakeBroker, topic: FakeTopic, root: str, start: int, stop: int) -> dict[str, Any]:
    planned = PlannedRange(TopicPartition("t", 0), topic.topic_id, start, stop, 0)
    options = parse_options({"bootstrap.servers": broker.address, "subscribe": "t"})
    return write_range(options, planned, root, 0)


@pytest.fixture
def root(broker: FakeBroker, tmp_path: Path) -> str:
    """30 records in three files, 20 of them with all that a record may have, and an orphan."""
    topic = broker.create("t")
    for record in (FULL, FULL, BARE):
        topic.partitions[0].append_bytes(build(MadeBatch([record] * 10))[0])
    path = str(tmp_path / "table")
    BronzeTable.open_or_create(path)
    for start in (0, 10, 20):
        made = write(broker, topic, path, start, start + 10)
        names = DataFile.__dataclass_fields__.keys() & made.keys()
        file = DataFile(**{name: made[name] for name in names})
        taken = CommittedRange("t", made["topic_id"], 0, start, start + 10, 10, 0, 0)
        BronzeTable.open(path).commit("j", start, [taken], [file])
    write(broker, topic, path, 0, 30)
    AuditCopier(path).copy(BronzeTable.open(path))
    return path


def by_duckdb(path: str, query: str) -> list[tuple[Any, ...]]:
    asked = [sys.executable, str(DUCKDB_QUERY), path, query]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return [tuple(row) for row in json.loads(done.stdout)]


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex().upper()


def by_polars(root: str) -> list[tuple[Any, ...]]:
    columns = ["topic", "offset", "key", "value", polars.col("timestamp").dt.epoch("ms")]
    return polars.scan_delta(root).select(columns).sort("offset").collect().rows()


@pytest.mark.parametrize("compacted", [False, True], ids=["as-written", "compacted"])
def test_every_record_is_read_once_and_as_it_was(root: str, compacted: bool) -> None:
    if compacted:
        assert compact(root).files_after == 1
    query = 'select topic, "offset", hex(key), hex(value), epoch_ms("timestamp") from delta'
    expected = [(t, n, _hex(key), _hex(value), at) for t, n, key, value, at in EXPECTED]
    assert by_duckdb(root, f"{query} order by 2") == expected
    assert by_polars(root) == EXPECTED
    headers = polars.scan_delta(root).sort("offset").select("headers").collect()["headers"]
    assert headers[0].to_list() == HEADERS
    assert headers[29] is None


def test_the_audit_is_read_too(root: str) -> None:
    query = "select topic, partition, sum(rows)::int, sum(lost)::int, max(end_offset) from delta"
    assert by_duckdb(audit_path(root), f"{query} group by all") == [("t", 0, 30, 0, 30)]
    found = polars.scan_delta(audit_path(root)).sort("start_offset").collect()
    assert found["start_offset"].to_list() == [0, 10, 20]
    assert found["committed_at"].null_count() == 0


DAY_S: Final = 86_400
SINCE: Final = datetime(1970, 1, 4, tzinfo=UTC)


@pytest.fixture
def by_day(tmp_path: Path) -> str:
    """A silver table after `compact`, of which only the files with rows since `SINCE` read: nine
    rows with the ids 100 to 108. The others have been overwritten.
    """
    pipeline = pipeline_in(tmp_path)
    make(pipeline)
    for n in range(9):
        rows = [event(0, 2 * n, n, DAY_S * (n % 3) + n), event(0, 2 * n + 1, 100 + n, 3 * DAY_S)]
        take(pipeline.bronze, n, rows)
        level(pipeline)
    compaction.compact(pipeline.silver, 1 << 27)
    files = [Path(pipeline.silver, one) for one in pipeline_files(pipeline.silver)]
    assert len(files) == 4
    for file in files:
        if min(pq.read_table(file, partitioning=None)["event_time"].to_pylist()) < SINCE:
            file.write_bytes(b"no file that reads")
    return pipeline.silver


def pipeline_files(path: str) -> list[str]:
    return [one.path for one in DeltaTable(path).to_pyarrow_dataset().get_fragments()]


@pytest.mark.parametrize("condition", ["event_time >= '1970-01-04 00:00:00+00'", "id >= 100"])
def test_duckdb_opens_only_the_files_that_a_condition_needs(by_day: str, condition: str) -> None:
    query = f"select count(*), min(id), max(id) from delta where {condition}"
    assert by_duckdb(by_day, query) == [(9, 100, 108)]
    asked = [sys.executable, str(DUCKDB_QUERY), by_day, "select sum(id) from delta"]
    assert subprocess.run(asked, capture_output=True, timeout=120, check=False).returncode != 0


def test_polars_opens_only_the_files_that_a_condition_needs(by_day: str) -> None:
    table = polars.scan_delta(by_day)
    found = table.filter(polars.col("event_time") >= SINCE).select("id").collect()
    assert sorted(found["id"].to_list()) == list(range(100, 109))


@pytest.mark.spark
def test_spark_opens_only_the_files_that_the_log_gives_it(spark: SparkSession, by_day: str) -> None:
    """As docs/guide/spark/maintenance.md says."""
    since = pc.field("event_time") >= SINCE
    files = DeltaTable(by_day).to_pyarrow_dataset().get_fragments(filter=since)
    rows = spark.read.option("basePath", by_day).parquet(*(f"{by_day}/{one.path}" for one in files))
    found = rows.where(rows.event_time >= SINCE).select("id", "topic").collect()
    assert sorted((row.id, row.topic) for row in found) == [(n, "t") for n in range(100, 109)]
