"""The sink through Spark into real brokers: what is written and refused, and what a rerun adds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from pyspark.sql.functions import udf
from pyspark.sql.types import BinaryType

from strandline import NewTopic
from strandline.sync import Admin, Producer
from strandline_proto.ids import CHOSEN_PRODUCER_IDS
from strandline_proto.partitioner import partition_for
from strandline_spark.errors import remedy_line
from support.cluster import cluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from strandline_local.local_cluster import LocalCluster

__all__ = ["cluster"]
pytestmark = pytest.mark.spark

DEADLINE_S: Final = 300
SCRIPT: Final = Path(__file__).parents[2] / "support" / "spark_topic_to_topic.py"
PARTITIONS: Final = 4


def create(cluster: LocalCluster, *topics: str, partitions: int = PARTITIONS) -> None:
    """Topics made anew, whatever a test before has left."""
    with Admin(cluster.bootstrap) as admin:
        there = set(admin.list_topics()) & set(topics)
        admin.delete_topics(there)
        admin.create_topics([NewTopic(topic, partitions, 3) for topic in topics])


def fill(cluster: LocalCluster, topic: str, rows: int) -> None:
    """`rows` numbered values in each partition."""
    with Producer(cluster.bootstrap) as producer:
        for p in range(PARTITIONS):
            values = (b"%d/%d" % (p, n) for n in range(rows))
            producer.send_many(topic, values, partition=p)


def read(spark: SparkSession, cluster: LocalCluster, topic: str) -> list[Row]:
    source = spark.read.format("strandline").option("bootstrap.servers", cluster.bootstrap)
    source = source.option("includeHeaders", "true").option("includeBatchMeta", "true")
    return source.option("subscribe", topic).load().collect()


def write(rows: DataFrame, cluster: LocalCluster, **options: str) -> None:
    mode = options.pop("mode", "append")
    sink = rows.write.format("strandline").option("kafka.bootstrap.servers", cluster.bootstrap)
    sink.options(**options).mode(mode).save()


def run(
    spark: SparkSession,
    cluster: LocalCluster,
    checkpoint: Path,
    *,
    change: Any = None,
    output_mode: str = "append",
    **options: str,
) -> None:
    """What is in topic `in` goes to topic `out`, and the query ends."""
    source = spark.readStream.format("strandline").option("bootstrap.servers", cluster.bootstrap)
    source = source.option("subscribe", "in").option("startingOffsets", "earliest")
    rows = source.load().select("key", "value")
    rows = rows if change is None else change(rows)
    sink = rows.writeStream.format("strandline").outputMode(output_mode)
    sink = sink.option("kafka.bootstrap.servers", cluster.bootstrap)
    sink = sink.option("checkpointLocation", str(checkpoint))
    query = sink.options(**options).trigger(availableNow=True).start()
    query.awaitTermination(DEADLINE_S)
    assert not query.isActive


def test_a_batch_write_puts_each_column_into_its_place(
    spark: SparkSession, cluster: LocalCluster
) -> None:
    create(cluster, "a", "b")
    rows = spark.range(100).selectExpr(
        "concat('v', id) AS value",
        "IF(id % 2 = 0, CAST(concat('k', id) AS BINARY), NULL) AS key",
        "IF(id < 50, 'a', 'b') AS topic",
        "IF(id = 7, 3, NULL) AS partition",
        "timestamp_millis(1700000000000 + id) AS timestamp",
        "IF(id = 7, array(struct('h' AS key, CAST('x' AS BINARY) AS value)), NULL) AS headers",
    )
    write(rows, cluster, **{"kafka.compression.type": "zstd"})
    found = {int(row.value[1:]): row for topic in "ab" for row in read(spark, cluster, topic)}
    assert sorted(found) == list(range(100))
    for n, row in found.items():
        assert row.topic == ("a" if n < 50 else "b")
        assert row.timestamp.timestamp() == 1_700_000_000 + n / 1000
        key = None if n % 2 else b"k%d" % n
        assert row.key == (None if key is None else bytearray(key))
        if key is not None:
            assert row.partition == partition_for(key, PARTITIONS)
        assert row.producerId not in CHOSEN_PRODUCER_IDS
    assert found[7].partition == 3
    assert [(h.key, bytes(h.value)) for h in found[7].headers] == [("h", b"x")]


def test_bad_input_is_refused_in_one_line(spark: SparkSession, cluster: LocalCluster) -> None:
    """By the driver and by a task; test_spark_sink_parts.py has all that can be wrong."""
    create(cluster, "t")
    for columns, topic, message in (
        ("id AS value", "t", "column 'value' is bigint"),
        ("'v' AS value", "absent", "topic absent does not exist; create it"),
        ("'v' AS value, 9 AS partition", "t", "names partition 9 of topic 't'"),
    ):
        with pytest.raises(Exception, match=r"strandline_spark\.errors") as caught:
            write(spark.range(3).selectExpr(*columns.split(", ")), cluster, topic=topic)
        assert message in (remedy_line(str(caught.value)) or "")
    with pytest.raises(Exception, match=r"strandline_spark\.errors") as caught:
        write(spark.range(3).selectExpr("'v' AS value"), cluster, topic="t", mode="overwrite")
    assert "only appended to" in (remedy_line(str(caught.value)) or "")
    assert read(spark, cluster, "t") == []


@pytest.mark.parametrize(
    ("mode", "said"),
    [("update", "does not support Update"), ("complete", "cannot be exactly once")],
)
def test_a_stream_refuses_a_mode_in_which_its_guarantee_cannot_hold(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path, mode: str, said: str
) -> None:
    create(cluster, "in", "out")
    fill(cluster, "in", 5)
    change = (
        None if mode == "update" else lambda rows: rows.groupBy("value").count().select("value")
    )
    with pytest.raises(Exception, match=said):
        run(spark, cluster, tmp_path, change=change, output_mode=mode, topic="out")
    assert read(spark, cluster, "out") == []


def test_complete_mode_appends_all_rows_of_each_micro_batch(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    create(cluster, "in", "out")

    def totals(rows: DataFrame) -> DataFrame:
        counts = rows.selectExpr("'all' AS key").groupBy("key").count()
        return counts.selectExpr("key", "CAST(count AS STRING) AS value")

    for _ in range(2):
        fill(cluster, "in", 5)
        more = {"topic": "out", "deliveryGuarantee": "at-least-once"}
        run(spark, cluster, tmp_path, change=totals, output_mode="complete", **more)
    assert [bytes(row.value) for row in read(spark, cluster, "out")] == [b"20", b"40"]


def test_a_stream_refuses_what_it_cannot_write_before_a_task_starts(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    create(cluster, "in", "out")
    fill(cluster, "in", 5)
    for number, (change, more, message) in enumerate(
        [
            (lambda rows: rows.selectExpr("value", "1 AS n"), {}, "column 'n' (int) is not one"),
            (None, {"topic": "absent"}, "topic absent does not exist"),
            (None, {"kafka.acks": "1"}, "cannot be exactly once"),
        ]
    ):
        with pytest.raises(Exception, match=r"strandline_spark\.errors") as caught:
            run(spark, cluster, tmp_path / f"c{number}", change=change, **{"topic": "out"} | more)
        assert message in (remedy_line(str(caught.value)) or "")
    assert read(spark, cluster, "out") == []


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_a_streaming_batch_that_is_run_again_writes_nothing_twice_unless_asked_to(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path, guarantee: str
) -> None:
    """The driver's commit of the last batch is taken back, as if it had died before it. Each task
    sends many more batches than a leader remembers one by one.
    """
    create(cluster, "in", "out")
    fill(cluster, "in", 500)
    options = {"topic": "out", "deliveryGuarantee": guarantee, "kafka.batch.size": "1000"}
    run(spark, cluster, tmp_path, **options)
    once = read(spark, cluster, "out")
    assert Counter(bytes(row.value) for row in once) == Counter(
        b"%d/%d" % (p, n) for p in range(PARTITIONS) for n in range(500)
    )
    chosen = {row.producerId in CHOSEN_PRODUCER_IDS for row in once}
    assert chosen == {guarantee == "exactly-once"}
    for commit in (tmp_path / "commits").iterdir():
        commit.unlink()
    run(spark, cluster, tmp_path, **options)
    again = read(spark, cluster, "out")
    times = 1 if guarantee == "exactly-once" else 2
    assert len(again) == times * len(once)
    # The next batch follows under the next epoch.
    fill(cluster, "in", 1)
    run(spark, cluster, tmp_path, **options)
    last = read(spark, cluster, "out")
    assert len(last) == len(again) + PARTITIONS
    if guarantee == "exactly-once":
        assert {row.producerEpoch for row in last} == {0, 1}
        assert {row.producerId for row in last} == {row.producerId for row in once}


def test_a_task_that_is_tried_again_writes_nothing_twice(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    create(cluster, "in", "out")
    fill(cluster, "in", 3000)
    marks = str(tmp_path)

    def fails_once(value: bytearray) -> bytes:
        partition, _, number = value.partition(b"/")
        mark = os.path.join(marks, f"tried-{partition.decode()}")
        if number == b"2500" and not os.path.exists(mark):
            with open(mark, "x"):
                raise OSError("this attempt fails")
        return bytes(value)

    def change(rows: DataFrame) -> DataFrame:
        passed = udf(fails_once, BinaryType(), useArrow=False)
        return rows.select("key", passed("value").alias("value"))

    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    spark.conf.set(name, 500)
    try:
        run(spark, cluster, tmp_path / "c", change=change, topic="out")
    finally:
        spark.conf.unset(name)
    assert len(list(tmp_path.glob("tried-*"))) == PARTITIONS
    counted = Counter(bytes(row.value) for row in read(spark, cluster, "out"))
    assert counted == Counter(b"%d/%d" % (p, n) for p in range(PARTITIONS) for n in range(3000))


@pytest.mark.proof
def test_a_driver_killed_between_tasks_writes_nothing_twice_when_it_runs_again(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    create(cluster, "in", "out")
    fill(cluster, "in", 4000)

    driver = subprocess.Popen(
        [sys.executable, str(SCRIPT), cluster.bootstrap, str(tmp_path), "2/2500"],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        _, err = driver.communicate(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.communicate()
        raise
    assert driver.returncode == -signal.SIGKILL, err
    before = Counter(bytes(row.value) for row in read(spark, cluster, "out"))
    assert 8000 <= sum(before.values()) < 16_000
    assert set(before.values()) == {1}
    run(spark, cluster, tmp_path, topic="out")
    counted = Counter(bytes(row.value) for row in read(spark, cluster, "out"))
    assert counted == Counter(b"%d/%d" % (p, n) for p in range(PARTITIONS) for n in range(4000))
