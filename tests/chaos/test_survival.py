"""Processes are killed while a checking workload writes and reads; its history must stay sound.

What is acknowledged is in the log afterwards, once, in order, at the offset that was answered
(I-14, I-18, I-19, I-59). Every run is bounded and ends by itself.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from strandline import NewTopic, TopicPartition
from strandline.sync import Admin, Consumer, Producer
from support.cluster import MakeCluster, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from strandline_local.local_cluster import LocalCluster

WORKLOAD_S = 120
"""At the most: a test ends its workload as soon as it has seen what it came for."""
RUN_S = 120
BUSY = 200
"""Acknowledged records after which the workload counts as under way."""
KILLS = pytest.mark.parametrize("kills", [1, 2])


class Run:
    """A workload process, and its verdict once it has ended."""

    def __init__(self, process: subprocess.Popen[str], history: Path) -> None:
        self._process = process
        self._history = history
        self._read = 0
        self._acknowledged = 0

    def acknowledged(self) -> int:
        """How many events have been answered so far; the history only grows."""
        if self._history.exists():
            with self._history.open("rb") as file:
                file.seek(self._read)
                news = file.read()
            self._read += len(news)
            self._acknowledged += news.count(b'"ok"')
        return self._acknowledged

    def wait_busy(self, more: int = BUSY) -> None:
        """Return when that many more records have been acknowledged."""
        goal = self.acknowledged() + more
        eventually(lambda: self.acknowledged() >= goal, f"{more} more acknowledged records")

    def verdict(self) -> dict[str, Any]:
        """End the writing, let it read everything back, and return what it found."""
        self._process.terminate()
        out, err = self._process.communicate(timeout=RUN_S)
        assert self._process.returncode == 0, f"{out}\n{err}"
        found: dict[str, Any] = json.loads(out)
        return found


@contextmanager
def workload(cluster: LocalCluster, tmp_path: Path, *options: str) -> Iterator[Run]:
    history = tmp_path / "history.jsonl"
    command = [sys.executable, "-m", "strandline_chaos.live.workload", "--format", "json"]
    command += ["--bootstrap", cluster.bootstrap, "--seconds", str(WORKLOAD_S)]
    command += ["--history", str(history), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield Run(process, history)
    finally:
        process.kill()
        process.communicate()


def leader_of(cluster: LocalCluster, topic: str, partition: int = 0) -> int:
    with Admin(cluster.bootstrap) as admin:
        described = admin.describe_topics([topic])
        return described[topic].partitions[partition].leader


def check(verdict: dict[str, Any]) -> None:
    assert verdict["verdict"] == "sound", verdict
    assert verdict["acknowledged"] > BUSY, verdict


@pytest.mark.proof
@KILLS
def test_a_killed_leader_loses_nothing(
    make_cluster: MakeCluster, tmp_path: Path, kills: int
) -> None:
    cluster = make_cluster(brokers=3)
    with workload(cluster, tmp_path) as run:
        run.wait_busy()
        for _ in range(kills):
            leader = leader_of(cluster, "chaos")
            cluster.kill(leader)
            run.wait_busy()
            cluster.start(leader)
        check(run.verdict())


@pytest.mark.proof
@KILLS
def test_the_data_plane_goes_on_while_the_controller_is_killed_and_restarted(
    make_cluster: MakeCluster, tmp_path: Path, kills: int
) -> None:
    cluster = make_cluster(brokers=3)
    with workload(cluster, tmp_path) as run:
        run.wait_busy()
        for _ in range(kills):
            cluster.kill("controller")
            run.wait_busy()
            cluster.start("controller")
            run.wait_busy()
        verdict = run.verdict()
    check(verdict)
    assert verdict["unknown"] == 0, "no send may even notice"


@pytest.mark.proof
def test_stopping_and_starting_brokers_one_by_one_loses_nothing(
    make_cluster: MakeCluster, tmp_path: Path
) -> None:
    cluster = make_cluster(brokers=3)
    with workload(cluster, tmp_path) as run:
        run.wait_busy()
        for broker_id in cluster.broker_ids:
            cluster.restart(broker_id)
            run.wait_busy(more=50)
        check(run.verdict())


def test_a_paused_leader_is_replaced_and_cannot_acknowledge_afterwards(
    make_cluster: MakeCluster, tmp_path: Path
) -> None:
    cluster = make_cluster(brokers=3, controller_config={"broker.session.timeout.ms": "2000"})
    with workload(cluster, tmp_path) as run:
        run.wait_busy()
        leader = leader_of(cluster, "chaos")
        cluster.pause(leader)
        try:
            eventually(lambda: leader_of(cluster, "chaos") not in (leader, -1), "a new leader")
            run.wait_busy(more=50)
        finally:
            cluster.resume(leader)
        check(run.verdict())


def write(cluster: LocalCluster, topic: str, values: list[bytes]) -> None:
    with Producer(cluster.bootstrap) as producer:
        result = producer.send_many(topic, values, partition=0)
        assert result.acknowledged == len(values), result


def read(cluster: LocalCluster, topic: str, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    with Consumer(bootstrap_servers=cluster.bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        while len(values) < count:
            batches = consumer.getmany(timeout_ms=10_000)
            assert batches, f"only {len(values)} of {count} records came back"
            for records in batches.values():
                values += [r.value for r in records]
    return values


def survives(
    make_cluster: MakeCluster, brokers: int, crash: Callable[[LocalCluster], None]
) -> None:
    cluster = make_cluster(brokers=brokers)
    minimum = {"min.insync.replicas": str(min(2, brokers))}
    topic = NewTopic("t", num_partitions=1, replication_factor=brokers, config=minimum)
    with Admin(cluster.bootstrap) as admin:
        admin.create_topics([topic])
    values = [b"%d" % i for i in range(1000)]
    write(cluster, "t", values)
    crash(cluster)
    for broker_id in cluster.broker_ids:
        cluster.launch(broker_id)
    cluster.wait_ready()
    eventually(lambda: leader_of(cluster, "t") != -1, "one of them leads again (I-53)")
    assert read(cluster, "t", len(values)) == values
    write(cluster, "t", [b"after"])
    assert read(cluster, "t", len(values) + 1)[-1] == b"after"


def kill_all_brokers(cluster: LocalCluster) -> None:
    for broker_id in cluster.broker_ids:
        cluster.kill(broker_id)


def test_three_brokers_killed_at_once_come_back_with_every_acknowledged_record(
    make_cluster: MakeCluster,
) -> None:
    survives(make_cluster, 3, kill_all_brokers)


def test_a_single_broker_that_is_killed_leads_again_with_every_acknowledged_record(
    make_cluster: MakeCluster,
) -> None:
    survives(make_cluster, 1, kill_all_brokers)


def test_everything_killed_at_once_controller_included_comes_back(
    make_cluster: MakeCluster,
) -> None:
    def crash(cluster: LocalCluster) -> None:
        cluster.kill_all()
        cluster.start("controller")

    survives(make_cluster, 3, crash)
