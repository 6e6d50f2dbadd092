"""The source through Spark itself: batch queries and streams, as a user writes them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from strandline_proto.batch import Compression
from strandline_runtime.grpc_experiments import WITHOUT_EVENT_ENGINE
from strandline_spark.cluster import cluster as cluster_module
from strandline_spark.source.schema import PLAIN, arrow_schema, column_names, spark_schema
from support.spark_batches import MadeBatch, MadeRecord, build

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader

    from support.fake_broker_sync import FakeBroker, FakeTopic

pytestmark = pytest.mark.spark


@pytest.fixture
def topic(broker: FakeBroker) -> FakeTopic:
    """Two partitions of 1,000 records in batches of 100."""
    made = broker.create("t", 2)
    for p, partition in enumerate(made.partitions):
        for i in range(10):
            records = [(b"%d-%d" % (p, 100 * i + j), b"v") for j in range(100)]
            partition.append(records, compression=Compression.ZSTD if i % 2 else Compression.NONE)
    return made


def batch(spark: SparkSession, broker: FakeBroker, **more: str) -> DataFrame:
    options = {"bootstrap.servers": broker.address, "subscribe": "t"} | more
    return spark.read.format("strandline").options(**options).load()


def stream(spark: SparkSession, broker: FakeBroker, **more: str) -> DataStreamReader:
    options = {"bootstrap.servers": broker.address, "subscribe": "t"} | more
    return spark.readStream.format("strandline").options(**options)


def run(
    source: DataStreamReader, checkpoint: Path, sink: Any, *, once: bool = False
) -> list[dict[str, Any]]:
    """Runs what is available; the progress of its batches."""
    trigger: dict[str, Any] = {"once": True} if once else {"availableNow": True}
    query = (
        source.load()
        .writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(checkpoint))
        .trigger(**trigger)
        .start()
    )
    try:
        query.awaitTermination()
    finally:
        query.stop()
    return [json.loads(progress.json) for progress in query.recentProgress]


class Collected:
    """A sink that keeps (batch, partition, offset) of every row."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, int]] = []

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        found = frame.select("partition", "offset").collect()
        self.rows += [(batch_id, row.partition, row.offset) for row in found]

    def offsets(self, partition: int) -> list[int]:
        return [offset for _, p, offset in self.rows if p == partition]


@pytest.mark.parametrize("headers", [True, False])
def test_the_schema_that_spark_makes_is_the_one_that_arrow_batches_have(
    spark: SparkSession, headers: bool
) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    columns = column_names(include_headers=headers, include_batch_meta=headers)
    made = spark_schema(columns)
    assert to_arrow_schema(made, timezone="UTC").equals(arrow_schema(columns))


def test_a_batch_query_reads_every_record_once_in_one_task_for_each_partition(
    spark: SparkSession, broker: FakeBroker, topic: FakeTopic
) -> None:
    frame = batch(spark, broker)
    assert frame.rdd.getNumPartitions() == 2
    rows = frame.select("partition", "offset", "key", "value", "topic", "leaderEpoch").collect()
    assert {(r.partition, r.offset, bytes(r.key)) for r in rows} == {
        (p, n, b"%d-%d" % (p, n)) for p in range(2) for n in range(1000)
    }
    assert len(rows) == 2000
    assert {(bytes(r.value), r.topic, r.leaderEpoch) for r in rows} == {(b"v", "t", 0)}


def test_nulls_headers_and_times_arrive_as_kafkas_columns(
    spark: SparkSession, broker: FakeBroker
) -> None:
    partition = broker.create("t").partitions[0]
    records = [
        MadeRecord(None, None, [], 1_700_000_000_123),
        MadeRecord(b"k", b"", [("a", b"1"), ("a", None), ("", b"")], 1_700_000_000_456),
    ]
    partition.append_bytes(build(MadeBatch(records, append_time=True))[0])
    partition.append_control()
    first, second = (
        batch(spark, broker, includeHeaders="true")
        .selectExpr("*", "unix_millis(timestamp) AS ms")
        .orderBy("offset")
        .collect()
    )
    assert (first.key, first.value, first.headers) == (None, None, None)
    assert (bytes(second.key), bytes(second.value)) == (b"k", b"")
    assert [(h.key, h.value) for h in second.headers] == [("a", b"1"), ("a", None), ("", b"")]
    assert {first.timestampType, second.timestampType} == {1}
    assert {first.ms, second.ms} == {1_700_000_000_456}


def test_only_the_columns_that_are_named_come(
    spark: SparkSession, broker: FakeBroker, topic: FakeTopic
) -> None:
    frame = batch(spark, broker, columns="producerId,offset,value", includeBatchMeta="true")
    assert frame.columns == ["value", "offset", "producerId"]
    rows = frame.where("offset = 7").collect()
    assert [(bytes(r.value), r.producerId) for r in rows] == [(b"v", -1)] * 2


def test_bounds_of_a_batch_query_are_taken(
    spark: SparkSession, broker: FakeBroker, topic: FakeTopic
) -> None:
    frame = batch(
        spark,
        broker,
        startingOffsets='{"t":{"0":150,"1":-2}}',
        endingOffsets='{"t":{"0":151,"1":2}}',
    )
    rows = frame.select("partition", "offset").collect()
    assert sorted((r.partition, r.offset) for r in rows) == [(0, 150), (1, 0), (1, 1)]


def test_an_empty_topic_has_no_rows_and_no_error(spark: SparkSession, broker: FakeBroker) -> None:
    broker.create("t")
    assert batch(spark, broker).count() == 0


def test_a_limit_leaves_no_stream_on_the_server(
    spark: SparkSession, broker: FakeBroker, topic: FakeTopic
) -> None:
    assert len(batch(spark, broker).limit(3).collect()) == 3
    for _ in cluster_module.pauses(10):
        if broker.open_ranges == 0:
            break
    assert broker.open_ranges == 0


def test_an_option_that_is_not_known_is_refused_with_a_suggestion(
    spark: SparkSession, broker: FakeBroker
) -> None:
    with pytest.raises(Exception, match="did you mean startingOffsets"):
        batch(spark, broker, startingOfset="earliest")


def test_a_failing_read_fails_the_query_with_our_message(
    spark: SparkSession, broker: FakeBroker, topic: FakeTopic
) -> None:
    base, following, data = topic.partitions[1].batches[3]
    topic.partitions[1].batches[3] = (base, following, data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(Exception, match=r"t:1 at offset 300: CRC-32C does not match"):
        batch(spark, broker).count()


def test_available_now_goes_on_in_limited_batches_to_its_target_and_ends(
    spark: SparkSession, broker: FakeBroker, topic: FakeTopic, tmp_path: Path
) -> None:
    """(3) and (4): unstable offset text would make this run never end."""
    sink = Collected()
    source = stream(spark, broker, startingOffsets="earliest", maxOffsetsPerTrigger="700")
    progress = run(source, tmp_path / "c", sink)
    assert sink.offsets(0) == sink.offsets(1) == list(range(1000))
    assert [p["numInputRows"] for p in progress if p["numInputRows"]] == [700, 700, 600]
    ended = progress[0]["sources"][0]["endOffset"]
    assert ended["t"] == {"0": 350, "1": 350}
    assert ended["@lineage"]["t"]["starts"] == {"0": 0, "1": 0}
    latest = progress[0]["sources"][0]["latestOffset"]
    assert latest.pop("@behind")["maxOffsetsBehindLatest"] > 0
    assert latest == {"t": {"0": 1000, "1": 1000}}

    topic.partitions[0].append([(b"later", b"")])
    assert run(source, tmp_path / "c", sink)[0]["numInputRows"] == 1
    assert sink.offsets(0) == list(range(1001))


def test_a_crash_in_batch_0_loses_nothing_that_latest_has_meant(
    spark: SparkSession, broker: FakeBroker, topic: FakeTopic, tmp_path: Path
) -> None:
    """(1) and (2): `latest` is decided once, and the checkpoint keeps it over the restart."""
    source = stream(spark, broker, startingOffsets="latest")

    def append_and_fail(frame: DataFrame, batch_id: int) -> None:
        topic.partitions[0].append([(b"x", b"")] * 10)
        raise RuntimeError("the driver dies in batch 0")

    with pytest.raises(Exception, match="dies in batch 0"):
        run(source, tmp_path / "c", append_and_fail)
    topic.partitions[0].append([(b"y", b"")] * 5)
    sink = Collected()
    run(source, tmp_path / "c", sink)
    assert sink.offsets(0) == list(range(1000, 1015))


@pytest.mark.parametrize("on_loss", ["true", "false"])
def test_a_topic_created_anew_stops_the_resumed_stream_or_is_read_from_its_beginning(
    spark: SparkSession, broker: FakeBroker, topic: FakeTopic, tmp_path: Path, on_loss: str
) -> None:
    source = stream(spark, broker, startingOffsets="earliest", failOnDataLoss=on_loss)
    run(source, tmp_path / "c", Collected())
    again = broker.create("t", 2)
    for old, new in zip(topic.partitions, again.partitions, strict=True):
        new.batches = old.batches
        new.append([(b"more", b"")])
    sink = Collected()
    if on_loss == "true":
        with pytest.raises(Exception, match="deleted and created again"):
            run(source, tmp_path / "c", sink)
    else:
        run(source, tmp_path / "c", sink)
        assert sink.offsets(0) == sink.offsets(1) == list(range(1001))


def test_a_new_leader_without_new_records_makes_no_batch(
    spark: SparkSession, broker: FakeBroker, topic: FakeTopic, tmp_path: Path
) -> None:
    source = stream(spark, broker, startingOffsets="earliest")
    run(source, tmp_path / "c", Collected())
    topic.partitions[0].elect()
    progress = run(source, tmp_path / "c", Collected())
    assert [p["batchId"] for p in progress if p["numInputRows"]] == []
    assert [path.name for path in (tmp_path / "c" / "offsets").glob("[0-9]*")] == ["0"]


@pytest.mark.parametrize("streaming", [False, True], ids=["batch", "stream"])
def test_a_schema_of_ones_own_is_refused_before_a_task_starts(
    spark: SparkSession, broker: FakeBroker, topic: FakeTopic, tmp_path: Path, streaming: bool
) -> None:
    options = {"bootstrap.servers": broker.address, "subscribe": "t"}

    def query() -> object:
        if streaming:
            return run(stream(spark, broker).schema("value STRING"), tmp_path / "c", Collected())
        reader = spark.read.format("strandline").options(**options)
        return reader.schema("value STRING").load().count()

    with pytest.raises(Exception, match=r"leave \.schema out, and select or cast"):
        query()
    assert "FetchRange" not in broker.calls
    # The schema that it has may be said.
    own = spark_schema(PLAIN)
    frame = spark.read.format("strandline").options(**options).schema(own).load()
    assert frame.count() == 2000


def test_a_worker_of_sparks_runs_without_grpcs_event_engine(spark: SparkSession) -> None:
    def imported(_: int) -> str | None:
        import os

        import strandline_spark.cluster.cluster  # noqa: F401 - imports grpc

        return os.environ.get("GRPC_EXPERIMENTS")

    assert spark.sparkContext.parallelize([0], 1).map(imported).collect() == [WITHOUT_EVENT_ENGINE]


@pytest.mark.parametrize(
    ("trigger", "mode", "message"),
    [
        ({"continuous": "1 second"}, "append", "strandline does not support continuous processing"),
        ({"realTime": "5 minutes"}, "update", r"STREAMING_REAL_TIME_MODE\.INPUT_STREAM_NOT_SUPP"),
    ],
)
def test_triggers_other_than_micro_batches_are_refused_by_spark_before_anything_is_read(
    spark: SparkSession,
    broker: FakeBroker,
    topic: FakeTopic,
    tmp_path: Path,
    trigger: dict[str, str],
    mode: str,
    message: str,
) -> None:
    """The words are Spark's: docs/guide/spark/README.md quotes them and says what to do."""
    writer = stream(spark, broker).load().writeStream.format("console").outputMode(mode)
    writer = writer.option("checkpointLocation", str(tmp_path / "c"))
    with pytest.raises(Exception, match=message):
        writer.trigger(**trigger).start().awaitTermination()
    assert broker.calls == []


@pytest.mark.parametrize("once", [True, False])
def test_a_trigger_that_ends_waits_for_no_least_size(
    spark: SparkSession, broker: FakeBroker, topic: FakeTopic, tmp_path: Path, once: bool
) -> None:
    source = stream(
        spark, broker, startingOffsets="earliest", minOffsetsPerTrigger="5000", maxTriggerDelay="1h"
    )
    counts: list[int] = []
    for _ in range(2):
        run(source, tmp_path, lambda rows, _: counts.append(rows.count()), once=once)
        topic.partitions[0].append([(b"k", b"v")] * 10)
    assert sum(counts) == 2010
