"""What works with the installed version of PySpark, and what it refuses by name. `make sparks` runs
this file with each version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from strandline import NewTopic
from strandline.sync import Admin
from strandline_spark.source.later_names import HAS_STREAM_READS, HAS_STREAM_WRITES
from strandline_spark.spark_versions import installed
from support.cluster import cluster

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from strandline_local.local_cluster import LocalCluster
    from support.fake_broker_sync import FakeBroker

__all__ = ["cluster"]
pytestmark = pytest.mark.spark

DEADLINE_S: Final = 120
ROWS: Final = 1000


def source(reader: Any, address: str, topic: str, **options: str) -> DataFrame:
    given = {"bootstrap.servers": address, "subscribe": topic, "startingOffsets": "earliest"}
    found: DataFrame = reader.format("strandline").options(**given, **options).load()
    return found


def test_a_batch_reads_every_column_and_a_table_is_made_in_sql(
    spark: SparkSession, broker: FakeBroker
) -> None:
    broker.create("t").partitions[0].append([(b"k", b"v%d" % n) for n in range(ROWS)])
    more = {"includeHeaders": "true", "includeBatchMeta": "true", "minPartitions": "3"}
    found = source(spark.read, broker.address, "t", **more).collect()
    assert sorted(row.offset for row in found) == list(range(ROWS))
    assert {bytes(row.value) for row in found} == {b"v%d" % n for n in range(ROWS)}
    assert {(row.topic, row.partition, bytes(row.key)) for row in found} == {("t", 0, b"k")}
    spark.sql(
        "CREATE TABLE of_versions USING strandline OPTIONS (subscribe 't',"
        f" startingOffsets 'earliest', 'bootstrap.servers' '{broker.address}')"
    )
    try:
        assert spark.read.table("of_versions").where("offset >= 10").count() == ROWS - 10
    finally:
        spark.sql("DROP TABLE of_versions")


def test_a_batch_is_written_and_each_row_is_read_back_once(
    spark: SparkSession, cluster: LocalCluster
) -> None:
    create(cluster, "written")
    rows = spark.range(ROWS).selectExpr("CAST(id AS STRING) AS key", "concat('v', id) AS value")
    sink = rows.write.format("strandline").option("bootstrap.servers", cluster.bootstrap)
    sink.option("topic", "written").mode("append").save()
    found = source(spark.read, cluster.bootstrap, "written").collect()
    assert sorted(bytes(row.value) for row in found) == sorted(b"v%d" % n for n in range(ROWS))


def test_a_stream_is_read_or_refused_with_the_version(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path
) -> None:
    broker.create("t").partitions[0].append([(b"k", b"v%d" % n) for n in range(ROWS)])

    def read() -> int:
        query = (
            source(spark.readStream, broker.address, "t", maxOffsetsPerTrigger="300")
            .writeStream.format("memory")
            .queryName("of_versions")
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(DEADLINE_S)
        return spark.table("of_versions").count()

    if HAS_STREAM_READS:
        assert read() == ROWS
    else:
        with pytest.raises(Exception, match=rf"readStream: PySpark {installed()} does not tell"):
            read()


def test_a_stream_is_written_or_refused_with_the_version(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    """Another source than ours, which is refused where this works."""
    create(cluster, "streamed")
    spark.range(ROWS).selectExpr("concat('v', id) AS value").write.text(str(tmp_path / "texts"))
    rows = spark.readStream.schema("value STRING").text(str(tmp_path / "texts"))

    def write() -> None:
        sink = rows.writeStream.format("strandline").option("topic", "streamed")
        sink = sink.option("bootstrap.servers", cluster.bootstrap)
        sink = sink.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = sink.trigger(availableNow=True).start()
        query.awaitTermination(DEADLINE_S)

    if HAS_STREAM_WRITES:
        write()
        found = source(spark.read, cluster.bootstrap, "streamed").collect()
        assert sorted(bytes(row.value) for row in found) == sorted(b"v%d" % n for n in range(ROWS))
    else:
        with pytest.raises(Exception, match=rf"writeStream: PySpark {installed()} passes no Arrow"):
            write()


def create(cluster: LocalCluster, topic: str) -> None:
    with Admin(cluster.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, 2, 3)])
