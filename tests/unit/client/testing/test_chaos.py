"""Faults name their victim exactly, and a cluster without processes takes none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strandline.testing import Chaos, ClusterError, ExternalCluster, RunningCluster
from strandline_local.separable import SeparableCluster
from support.processes import REFUSED_CONNECTION

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def cluster(tmp_path: Path) -> RunningCluster:
    """A cluster whose processes do not run."""
    return RunningCluster(SeparableCluster.create(tmp_path, brokers=2, port=0))


@pytest.mark.parametrize("fault", ["kill", "stop", "pause", "cut_off", "restart"])
def test_a_fault_names_one_victim(cluster: RunningCluster, fault: str) -> None:
    chaos = Chaos(cluster)
    strike = getattr(chaos, fault)
    for arguments in ({}, {"process": 1, "leader_of": "t"}):
        with pytest.raises(ClusterError, match=rf"{fault}\(\) takes a process.*leader_of=topic"):
            strike(**arguments)
    assert not chaos.has_struck


def test_a_fault_of_an_unknown_process_names_those_that_there_are(cluster: RunningCluster) -> None:
    noted: list[str] = []
    chaos = Chaos(cluster, noted.append)
    with pytest.raises(ClusterError, match=r"no process 7 in .*: it has controller, 1, 2"):
        chaos.kill(7)
    assert noted == ["the test: kill(7)"]
    with pytest.raises(ClusterError, match="broker 2 is not running"):
        chaos.pause(2)
    assert cluster.processes.paused == [], "no guard stays beside a process that does not run"


def test_an_external_cluster_takes_no_faults() -> None:
    with pytest.raises(ClusterError, match="leave out --strandline-bootstrap and"):
        Chaos(ExternalCluster(REFUSED_CONNECTION))


def test_an_external_cluster_that_does_not_answer_is_named() -> None:
    cluster = ExternalCluster(REFUSED_CONNECTION)
    with pytest.raises(ClusterError) as refused:
        cluster.check_answers(timeout_s=0.2, said_by="--strandline-bootstrap x")
    assert str(refused.value) == (
        "no broker of the cluster of --strandline-bootstrap x answers within 0.2 s: 127.0.0.1:1"
        " does not answer: connection refused, nothing listens there. Start the cluster, or correct"
        " the address"
    )


def test_a_wait_names_the_brokers_that_are_dead(cluster: RunningCluster) -> None:
    with pytest.raises(ClusterError, match=r"not within 0 s: t:0 has a leader.*brokers 1, 2 are"):
        cluster.leader_of("t", timeout_s=0)
    with pytest.raises(ClusterError, match="not within 0 s: all replicas of t are in sync"):
        cluster.wait_in_sync("t", timeout_s=0)
