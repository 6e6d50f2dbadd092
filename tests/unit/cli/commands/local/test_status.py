"""What `strandline status` says where part of a cluster is down."""

import os
from pathlib import Path
from typing import Any

import pytest

from strandline_cli.cluster.target import Target
from strandline_cli.commands.local.status import describe
from strandline_local import probe
from strandline_local.local_cluster import LocalCluster, ProcessId
from strandline_local.processes import start_identity
from strandline_proto.v1.metadata_pb2 import (
    BrokerDescription,
    ControllerDescription,
    DescribeClusterResponse,
    MetadataResponse,
)


class Answers:
    """Which processes seem to run, by a pid file that names this one, and which answer."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster = LocalCluster.create(directory, brokers=2, port=0)
        (directory / "run").mkdir()
        self.controller = self.broker = False
        self.state = "FENCED"
        self.builds = ["", "", ""]
        """Of the controller and the two brokers."""
        monkeypatch.setattr(probe, "ask_controller", self._ask_controller)
        monkeypatch.setattr(probe, "ask_cluster", self._ask_cluster)
        monkeypatch.setattr(probe, "ask_metadata", self._ask_metadata)

    def run(self, *process_ids: ProcessId) -> None:
        pid = os.getpid()
        for process_id in process_ids:
            file = self.cluster.process(process_id).pid_file
            file.write_text(f"{pid}\n{start_identity(pid)}\n")

    def states(self) -> tuple[str, list[str], Any]:
        document = describe(Target(self.cluster.bootstrap, self.cluster))
        brokers = [broker["state"] for broker in document["brokers"]]
        return document["controller"]["state"], brokers, document["problem"]

    def _ask_controller(self, address: str, timeout_s: float) -> DescribeClusterResponse:
        if not self.controller:
            raise probe.NoAnswer(f"{address} does not answer")
        controller, *builds = self.builds
        return DescribeClusterResponse(
            controller=ControllerDescription(state="ACTIVE", version=controller),
            brokers=[
                BrokerDescription(id=broker_id, state=self.state, version=build)
                for broker_id, build in zip((1, 2), builds, strict=True)
            ],
        )

    def _ask_cluster(self, address: str, timeout_s: float) -> DescribeClusterResponse:
        if not self.broker:
            raise probe.NoAnswer(f"{address} does not answer")
        if not self.controller:
            return DescribeClusterResponse(error_code=1)
        return self._ask_controller(address, timeout_s)

    def _ask_metadata(self, address: str, timeout_s: float) -> MetadataResponse:
        return MetadataResponse()


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Answers:
    return Answers(tmp_path, monkeypatch)


def test_a_controller_whose_brokers_were_all_killed_is_asked_itself(answers: Answers) -> None:
    answers.run("controller")
    answers.controller = True
    state, brokers, problem = answers.states()
    assert (state, brokers) == ("ACTIVE", ["DEAD", "DEAD"])
    assert problem.startswith("no broker runs: nothing is served")
    assert "`strandline start 1`, `strandline start 2`" in problem


def test_brokers_that_run_and_do_not_answer_are_not_called_dead(answers: Answers) -> None:
    answers.run("controller", 1)
    answers.controller = True
    _, brokers, problem = answers.states()
    assert brokers == ["FENCED", "DEAD"]
    assert problem.startswith("no broker answers: nothing is served")
    answers.controller = False
    state, _, problem = answers.states()
    assert state == "UNREACHABLE"
    assert problem.startswith("no broker answers, and the controller cannot be reached:")


def test_brokers_without_a_controller_go_on_serving(answers: Answers) -> None:
    answers.run(1, 2)
    answers.broker = True
    state, _, problem = answers.states()
    assert state == "DEAD"
    assert "brokers go on serving" in problem
    answers.run("controller")
    assert answers.states()[::2] == ("UNREACHABLE", problem)


def test_a_cluster_that_is_down_is_started_by_up(answers: Answers) -> None:
    state, brokers, problem = answers.states()
    assert (state, brokers) == ("DEAD", ["DEAD", "DEAD"])
    assert problem == "nothing of this cluster runs: `strandline up` starts it"


def test_a_cluster_that_is_well_has_no_problem(answers: Answers) -> None:
    answers.run("controller", 1, 2)
    answers.controller = answers.broker = True
    assert answers.states() == ("ACTIVE", ["FENCED", "FENCED"], None)


def test_an_upgrade_that_is_half_done_is_seen(answers: Answers) -> None:
    answers.run("controller", 1, 2)
    answers.controller = answers.broker = True
    answers.state = "UNFENCED"
    answers.builds = ["0.1.0+b", "0.1.0+b", "0.1.0"]
    document = describe(Target(answers.cluster.bootstrap, answers.cluster))
    assert document["controller"]["build"] == "0.1.0+b"
    assert [broker["build"] for broker in document["brokers"]] == ["0.1.0+b", "0.1.0"]
    assert "2 builds run (0.1.0+b: controller, broker 1; 0.1.0: broker 2)" in document["problem"]
    answers.builds = ["0.1.0+b"] * 3
    assert answers.states()[2] is None


def test_a_broker_that_does_not_run_is_no_half_of_an_upgrade(answers: Answers) -> None:
    answers.run("controller", 1)
    answers.controller = answers.broker = True
    answers.state = "UNFENCED"
    answers.builds = ["0.1.0+b", "0.1.0+b", "0.1.0+a"]
    assert answers.states() == ("ACTIVE", ["UNFENCED", "DEAD"], None)
