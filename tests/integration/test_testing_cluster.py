"""The cluster of `strandline.testing` as real processes: its methods, its end with its owner."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from strandline.testing import Chaos, ClusterError, LocalCluster
from strandline_local import probe
from strandline_local.processes import start_identity
from support.cluster import eventually

if TYPE_CHECKING:
    from strandline.testing import RunningCluster

pytestmark = pytest.mark.integration


def test_a_cluster_is_broken_and_healed_and_loses_nothing() -> None:
    with LocalCluster(brokers=3, config={"num.partitions": 2}) as cluster:
        topic = cluster.create_topic("t")
        with cluster.producer() as producer:
            producer.send_and_wait(topic, b"before", partition=0)
            leader = cluster.leader_of(topic)
            assert Chaos(cluster, cluster.story.note).kill(leader_of=topic) == leader
            assert cluster.leader_of(topic) != leader
            producer.send(topic, b"meanwhile", b"k", partition=0).result()
            cluster.start(leader)
            cluster.wait_in_sync(topic)
            producer.send_many(topic, [b"a", b"b"], partition=1)
        assert [(r.partition, r.offset, r.value) for r in cluster.records(topic)] == [
            (0, 0, b"before"),
            (0, 1, b"meanwhile"),
            (1, 0, b"a"),
            (1, 1, b"b"),
        ]
        assert cluster.assert_nothing_lost() == 4
        commits(cluster, topic)
        reports(cluster, leader)
        if cluster.cannot_cut_off() is None:
            cuts_off(cluster)
        pauses(cluster, topic)
        directory = cluster.directory
        pids = [cluster.processes.process(each).pid for each in cluster.processes.process_ids]
    assert not directory.exists()
    assert [start_identity(pid) for pid in pids if pid is not None] == [None] * 4


def commits(cluster: RunningCluster, topic: str) -> None:
    assert cluster.committed("g") == {}
    with cluster.consumer(topic, group_id="g", enable_auto_commit=False) as consumer:
        count = 0
        while count < 4:
            count += sum(map(len, consumer.getmany(timeout_ms=500).values()))
        consumer.commit()
    assert cluster.committed("g") == {(topic, 0): 2, (topic, 1): 2}


def reports(cluster: RunningCluster, leader: int) -> None:
    def is_told() -> bool:
        said = "\n".join(cluster.story.lines())
        wanted = (
            f"the test: kill({leader}), the leader of t:0",
            f"leader of t:0 broker {leader} -> broker ",
            f"broker {leader} fenced: its process is gone",
            "ISR of t:1 [",
        )
        return all(each in said for each in wanted)

    eventually(is_told, "the controller's events have arrived")


def cuts_off(cluster: RunningCluster) -> None:
    cluster.cut_off(2)
    address = cluster.processes.grpc_address(2)
    with pytest.raises(probe.NoAnswer, match="no answer in time"):
        probe.ask_metadata(address, 0.5)
    cluster.rejoin(2)
    eventually(lambda: answers(address), "the broker answers again")


def answers(address: str) -> bool:
    try:
        return len(probe.ask_metadata(address, 5.0).brokers) > 0
    except probe.NoAnswer:
        return False


def pauses(cluster: RunningCluster, topic: str) -> None:
    cluster.pause(2)
    with pytest.raises(ClusterError, match="brokers 2 are dead, paused or cut off"):
        cluster.wait_in_sync(topic, timeout_s=0.1)
    cluster.stop(1)
    cluster.heal()
    cluster.wait_in_sync(topic)


OWNER = """
import json, os, signal
from strandline.testing import LocalCluster
from strandline_local.processes import start_identity
with LocalCluster(brokers=1) as cluster:
    cluster.pause(1)
    processes = cluster.processes
    pids = [processes.process(i).pid for i in processes.process_ids]
    print(json.dumps([(pid, start_identity(pid)) for pid in pids]), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_processes_end_with_an_owner_that_is_killed_even_a_paused_one() -> None:
    done = subprocess.run(
        [sys.executable, "-c", OWNER], capture_output=True, text=True, check=False, timeout=180
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    started: list[tuple[int, str]] = json.loads(done.stdout)
    assert len(started) == 2
    eventually(
        lambda: all(start_identity(pid) != identity for pid, identity in started),
        "the controller and the paused broker have ended",
    )
