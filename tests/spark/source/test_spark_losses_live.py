"""What real brokers lose under queries that Spark itself runs, all three kinds at once: one topic
cut back by an unclean election, one whose records were deleted, one created anew.
"""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Any, Final

import pytest

from strandline import ElectionType, NewTopic
from strandline.sync import Admin, Producer
from support.cluster import eventually, make_cluster

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from strandline_local.local_cluster import LocalCluster
    from support.cluster import MakeCluster

__all__ = ["make_cluster"]

TOPICS: Final = ("anew", "cut", "deleted")
DEADLINE_S: Final = 120
CONFIG: Final = {"min.insync.replicas": "1"}
BEFORE: Final = {topic: [f"old {n}" for n in range(200)] for topic in TOPICS}
AFTER: Final = {
    "anew": [f"new {n}" for n in range(300)],
    "cut": [f"new {n}" for n in range(100, 250)],
    "deleted": [f"new {n}" for n in range(250, 300)],
}
LOSSES: Final = (
    r"anew:0 from 200 on by new topic \(deleted and created again",
    r"cut:0 \[100, 200\) by truncation \(the log left leader epoch \d+ at 100",
    r"deleted:0 \[200, 250\) by retention \(the log starts at 250",
)


class Query:
    """A query, what its batches have brought, and a gate that its first batch waits at."""

    def __init__(self, spark: SparkSession, options: dict[str, str], checkpoint: Path) -> None:
        self.values: dict[str, list[str]] = {topic: [] for topic in TOPICS}
        self.gate = threading.Event()
        frame = spark.readStream.format("strandline").options(**options).load()
        writer = frame.writeStream.foreachBatch(self._take)
        self._writer = writer.option("checkpointLocation", str(checkpoint))
        self._query: StreamingQuery | None = None

    def _take(self, frame: DataFrame, batch_id: int) -> None:
        for row in frame.orderBy("topic", "offset").collect():
            self.values[row.topic].append(row.value.decode())
        assert self.gate.wait(DEADLINE_S)

    def start(self) -> None:
        self._query = self._writer.start()

    def has(self, values: dict[str, list[str]]) -> bool:
        assert self._query is not None
        why = self._query.exception()
        assert why is None, why
        return all(len(self.values[topic]) >= len(values[topic]) for topic in TOPICS)

    def run(self) -> None:
        """What is available, and then it is stopped."""
        self.gate.set()
        self._query = self._writer.trigger(availableNow=True).start()
        assert self._query.awaitTermination(DEADLINE_S)

    def error(self) -> str:
        """That of a query which must end with one."""
        assert self._query is not None
        with pytest.raises(Exception, match="DataLoss") as caught:
            self._query.awaitTermination(DEADLINE_S)
        return str(caught.value)

    def stop(self) -> None:
        self.gate.set()
        if self._query is not None:
            self._query.stop()


def send(cluster: LocalCluster, topic: str, word: str, first: int, stop: int) -> None:
    with Producer(cluster.bootstrap) as producer:
        values = (f"{word} {n}".encode() for n in range(first, stop))
        producer.send_many(topic, values, partition=0)


def fill(cluster: LocalCluster) -> tuple[int, int]:
    """(the broker that leads and has all, the one that lacks the end of `cut` and is stopped)."""
    with Admin(cluster.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, 1, 2, config=CONFIG) for topic in TOPICS])
        leader = admin.describe_topics(["cut"])["cut"].partitions[0].leader
    send(cluster, "cut", "old", 0, 100)
    for topic in ("anew", "deleted"):
        send(cluster, topic, "old", 0, 200)
    cluster.stop(3 - leader)
    send(cluster, "cut", "old", 100, 200)
    return leader, 3 - leader


def lose(cluster: LocalCluster, leader: int, other: int) -> None:
    cluster.kill(leader)
    cluster.start(other)
    with Admin(cluster.bootstrap) as admin:
        described: Any = admin.describe_topics(list(TOPICS))
        without = [(t, 0) for t in TOPICS if described[t].partitions[0].leader != other]
        admin.elect_leaders(ElectionType.UNCLEAN, without)
        send(cluster, "cut", "new", 100, 250)
        send(cluster, "deleted", "new", 200, 300)
        admin.delete_records({("deleted", 0): 250})
        admin.delete_topics(["anew"])
        admin.create_topics([NewTopic("anew", 1, 1)])
        send(cluster, "anew", "new", 0, 300)


@pytest.mark.spark
def test_all_that_is_lost_is_reported_or_passed_by_queries_that_run_and_that_were_stopped(
    spark: SparkSession, make_cluster: MakeCluster, tmp_path: Path
) -> None:
    cluster = make_cluster(brokers=2)
    leader, other = fill(cluster)
    options = {
        "bootstrap.servers": cluster.bootstrap,
        "subscribe": ",".join(TOPICS),
        "startingOffsets": "earliest",
    }

    def query(on_loss: str, state: str) -> Query:
        given = options | {"failOnDataLoss": on_loss}
        return Query(spark, given, tmp_path / f"{on_loss}-{state}")

    running = {on_loss: query(on_loss, "running") for on_loss in ("true", "false")}
    try:
        for one in running.values():
            one.start()
            eventually(lambda one=one: one.has(BEFORE), "the first batch was read")  # type: ignore[misc]
        for on_loss in running:
            stopped = query(on_loss, "stopped")
            stopped.run()
            assert stopped.values == BEFORE

        lose(cluster, leader, other)
        for one in running.values():
            one.values = {topic: [] for topic in TOPICS}
            one.gate.set()
        goes_on = running["false"]
        eventually(lambda: goes_on.has(AFTER), "the query goes on behind what is lost")
        assert goes_on.values == AFTER
        again = query("false", "stopped")
        again.run()
        assert again.values == AFTER

        stops = query("true", "stopped")
        stops.gate.set()
        stops.start()
        for one in (running["true"], stops):
            error = one.error()
            assert all(re.search(loss, error) for loss in LOSSES), error
            assert not any(one.values.values())
    finally:
        for one in running.values():
            one.stop()
