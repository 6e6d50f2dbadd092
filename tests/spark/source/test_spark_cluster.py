"""Spark's side against real brokers: elections under its reads, and topics that come again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from strandline import ElectionType, NewTopic
from strandline.sync import Admin, Producer
from strandline_spark.bronze.bronze import BronzeJob, prepare, stream
from strandline_spark.bronze.columns import BronzeTable
from strandline_spark.bronze.verify import verify
from strandline_spark.cluster.offsets import StreamOffset, TopicPartition
from strandline_spark.errors import DataLoss, StrandlineSparkError
from strandline_spark.source import group_progress
from strandline_spark.source.later_names import ReadAllAvailable
from strandline_spark.source.options import parse_options
from strandline_spark.source.planner import Planner
from strandline_spark.source.ranges import RangeReader
from support.cluster import eventually, make_cluster
from support.spark_stream import EngineOfSpark

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from strandline_local.local_cluster import LocalCluster
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
    start = StreamOffset({tp: 0})
    end = planner.latest(start, None)
    (planned,) = planner.ranges(start, end)
    reader = RangeReader(planned, options.bootstrap, on_loss=options.on_loss)
    batches = reader.batches()
    values = next(batches)["value"].to_pylist()
    assert len(values) < 8000
    cluster.crash(leader_of(cluster, 0))
    for batch in batches:
        values += batch["value"].to_pylist()
    assert values == [b"%d" % n + bytes(2000) for n in range(8000)]
    # The plan that goes on from here finds its records in the new leader's log.
    produce(cluster, 8000, 10, 10)
    assert planner.latest(end, None).ends == {tp: 8010}


def values_of(query: EngineOfSpark, limit: int | None = None) -> list[bytes]:
    """What the tasks of the next batch read of partition 0."""
    assert query.plan(limit)
    options = query.reader.options
    (planned,) = query.tasks()
    reader = RangeReader(planned, options.bootstrap, on_loss=options.on_loss)
    values = [value for batch in reader.batches() for value in batch["value"].to_pylist()]
    query.done += 1
    return values


def four_streams(cluster: LocalCluster) -> tuple[list[EngineOfSpark], list[EngineOfSpark]]:
    """(those that stop at a loss, those that go on); one of each runs on, one is stopped."""
    made = []
    for on_loss in ("true", "false"):
        running, stopped = (
            EngineOfSpark(cluster.bootstrap, startingOffsets="earliest", failOnDataLoss=on_loss)
            for _ in range(2)
        )
        for query in (running, stopped):
            assert values_of(query) == [b"old %d" % n for n in range(200)]
        stopped.restart()
        made.append([running, stopped])
    return made[0], made[1]


def send(cluster: LocalCluster, word: bytes, first: int, stop: int) -> None:
    with Producer(cluster.bootstrap) as producer:
        producer.send_many("t", (b"%s %d" % (word, n) for n in range(first, stop)), partition=0)


def assert_stopped(streams: list[EngineOfSpark], loss: str) -> None:
    for query in streams:
        with pytest.raises(DataLoss, match=loss):
            query.trigger()


def test_an_unclean_election_and_deleted_records_are_noticed_running_and_stopped(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(brokers=2)
    with Admin(cluster.bootstrap) as admin:
        admin.create_topics([NewTopic("t", 1, 2, config={"min.insync.replicas": "1"})])
    send(cluster, b"old", 0, 100)
    leader = leader_of(cluster, 0)
    other = 3 - leader
    cluster.stop(other)
    send(cluster, b"old", 100, 200)
    strict, lenient = four_streams(cluster)
    # The one that leads next has the first hundred only.
    cluster.kill(leader)
    cluster.start(other)
    with Admin(cluster.bootstrap) as admin:
        admin.elect_leaders(ElectionType.UNCLEAN, [("t", 0)])
    send(cluster, b"new", 100, 250)
    assert_stopped(strict, r"t:0 \[100, 200\) by truncation \(the log left leader epoch \d+ at 100")
    for query in lenient:
        assert values_of(query) == [b"new %d" % n for n in range(100, 250)]
        assert query.trigger() is None

    send(cluster, b"new", 250, 300)
    with Admin(cluster.bootstrap) as admin:
        admin.delete_records({("t", 0): 280})
    running, stopped = lenient
    stopped.restart(failOnDataLoss="true")
    assert_stopped([stopped], r"t:0 \[250, 280\) by retention \(the log starts at 280")
    stopped.restart(failOnDataLoss="exceptRetention")
    for query in (running, stopped):
        assert values_of(query) == [b"new %d" % n for n in range(280, 300)]


def test_a_group_shows_how_far_a_stream_has_come(
    make_cluster: MakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_progress, "AGAIN_SECONDS", 0.0)
    cluster = make_cluster(brokers=1)
    with Admin(cluster.bootstrap) as admin:
        admin.create_topics([NewTopic("t", 1, 1)])
    send(cluster, b"old", 0, 200)
    query = EngineOfSpark(
        cluster.bootstrap, startingOffsets="earliest", **{"kafka.group.id": "spark-job"}
    )
    assert query.trigger(150) == [(0, 0, 150)]

    def shown() -> int:
        """The end of the batch before, whenever the coordinator is ready."""
        query.reader.latestOffset(json.loads(query.log[-1]), ReadAllAvailable())
        with Admin(cluster.bootstrap) as admin:
            found = admin.list_group_offsets("spark-job")
        return next((one.offset for one in found.values() if one is not None), -1)

    eventually(lambda: shown() == 150, "the group shows the first batch")
    assert query.trigger() == [(0, 150, 200)]
    eventually(lambda: shown() == 200, "the group shows the second batch")


def test_a_topic_created_anew_is_noticed_running_and_stopped(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(brokers=1)
    with Admin(cluster.bootstrap) as admin:
        admin.create_topics([NewTopic("t", 1, 1)])
    send(cluster, b"old", 0, 200)
    strict, lenient = four_streams(cluster)
    with Admin(cluster.bootstrap) as admin:
        old = admin.describe_topics(["t"])["t"].topic_id
        admin.delete_topics(["t"])
        admin.create_topics([NewTopic("t", 1, 1)])
        # The controller has answered; the broker takes records for the old one until it has heard.
        eventually(
            lambda: any(t.topic_id != old for t in admin.describe_topics().values()),
            "the broker knows of the new topic",
        )
    send(cluster, b"new", 0, 300)
    assert_stopped(strict, r"t:0 from 200 on by new topic \(deleted and created again")
    for query in lenient:
        assert values_of(query) == [b"new %d" % n for n in range(300)]
        assert query.trigger() is None


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
    stream(spark, job, prepare(job), lambda report: None)
    killed = leader_of(cluster, 0)
    cluster.crash(killed)
    produce(cluster, 1000, 1000, 10)
    stream(spark, job, prepare(job), lambda report: None)

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
    start = prepare(job)
    with pytest.raises(StrandlineSparkError, match=r"deleted and created again.*new table"):
        stream(spark, job, start, lambda report: None)
