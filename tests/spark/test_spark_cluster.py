"""Spark's side against real brokers: elections under its reads, and topics that come again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strandline import NewTopic
from strandline.sync import Admin, Producer
from strandline_spark.bronze import BronzeJob, prepare, stream
from strandline_spark.errors import StrandlineSparkError
from strandline_spark.offsets import TopicPartition
from strandline_spark.options import parse_options
from strandline_spark.planner import Planner
from strandline_spark.ranges import RangeReader
from strandline_spark.table import BronzeTable
from strandline_spark.verify import verify
from support.cluster import make_cluster

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from strandline_cli.local_cluster import LocalCluster
    from support.cluster import MakeCluster

__all__ = ["make_cluster"]

TOPIC = NewTopic("t", 2, 3)


def produce(cluster: LocalCluster, first: int, count: int, size: int) -> None:
    """Acknowledged records, numbered, to partition 0 and 1 in turn."""
    with Producer(cluster.bootstrap) as producer:
        for partition in range(2):
            values = (b"%d" % n + bytes(size) for n in range(first, first + count))
            producer.send_many("t", values, partition=partition)


def leader_of(cluster: LocalCluster, partition: int) -> int:
    with Admin(cluster.bootstrap) as admin:
        return admin.describe_topics(["t"])["t"].partitions[partition].leader


def test_a_range_is_read_whole_although_its_leader_is_killed_meanwhile(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster()
    with Admin(cluster.bootstrap) as admin:
        admin.create_topics([TOPIC])
    produce(cluster, 0, 8000, 2000)
    options = parse_options({"bootstrap.servers": cluster.bootstrap, "assign": '{"t":[0]}'})
    planner = Planner(options)
    tp = TopicPartition("t", 0)
    (planned,) = planner.ranges({tp: 0}, planner.latest({tp: 0}, None))
    reader = RangeReader(planned, options.bootstrap, include_headers=False, fail_on_data_loss=True)
    batches = reader.batches()
    values = next(batches)["value"].to_pylist()
    assert len(values) < 8000
    cluster.crash(leader_of(cluster, 0))
    for batch in batches:
        values += batch["value"].to_pylist()
    assert values == [b"%d" % n + bytes(2000) for n in range(8000)]
    # The plan that goes on from here finds its records in the new leader's log.
    produce(cluster, 8000, 10, 10)
    assert planner.latest({tp: 8000}, None) == {tp: 8010}


@pytest.mark.spark
def test_the_bronze_table_follows_elections_and_refuses_a_topic_that_came_again(
    spark: SparkSession, make_cluster: MakeCluster, tmp_path: Path
) -> None:
    cluster = make_cluster()
    with Admin(cluster.bootstrap) as admin:
        admin.create_topics([TOPIC])
    job = BronzeJob(
        bootstrap=cluster.bootstrap,
        topics=("t",),
        table=str(tmp_path / "table"),
        checkpoint=str(tmp_path / "checkpoint"),
    )
    produce(cluster, 0, 1000, 10)
    prepare(job)
    stream(spark, job, lambda report: None)
    killed = leader_of(cluster, 0)
    cluster.crash(killed)
    produce(cluster, 1000, 1000, 10)
    prepare(job)
    stream(spark, job, lambda report: None)

    rows = BronzeTable.open(job.table).delta.to_pyarrow_table().to_pylist()
    for partition in range(2):
        mine = sorted((r for r in rows if r["partition"] == partition), key=lambda r: r["offset"])
        assert [r["offset"] for r in mine] == list(range(2000))
        assert [r["value"] for r in mine] == [b"%d" % n + bytes(10) for n in range(2000)]
    assert {r["leader_epoch"] for r in rows if r["partition"] == 0} == {0, 1}
    assert all(one.sound and one.lag == 0 for one in verify(job.table, "t", cluster.bootstrap))

    cluster.start(killed)
    with Admin(cluster.bootstrap) as admin:
        admin.delete_topics(["t"])
        admin.create_topics([TOPIC])
    produce(cluster, 0, 5000, 10)
    prepare(job)
    with pytest.raises(StrandlineSparkError, match="deleted and created again"):
        stream(spark, job, lambda report: None)
