"""`broker decommission` in a cluster of `up`: what it keeps of a broker that has left."""

import asyncio
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from strandline_cli.cluster.target import Target
from strandline_cli.commands.server import broker_decommission as command
from strandline_cli.main import run
from strandline_local.local_cluster import LocalCluster
from strandline_local.processes import start_identity


@pytest.fixture
def cluster(tmp_path: Path) -> LocalCluster:
    """Three brokers, none of which runs."""
    return LocalCluster.create(tmp_path, brokers=3, port=0)


def now(cluster: LocalCluster) -> LocalCluster:
    return LocalCluster.open(cluster.directory)


def seems_to_run(cluster: LocalCluster, broker: int) -> None:
    """By its pid file, which names this process."""
    pid = os.getpid()
    cluster.process(broker).pid_file.parent.mkdir(exist_ok=True)
    cluster.process(broker).pid_file.write_text(f"{pid}\n{start_identity(pid)}\n")


@dataclass
class RegisteredBroker:
    id: int
    state: str = "FENCED"


@dataclass
class Admin:
    """A controller that knows these brokers."""

    brokers: list[RegisteredBroker]
    unregistered: list[int] = field(default_factory=list)

    async def describe_cluster(self) -> "Admin":
        return self

    async def unregister_broker(self, broker: int) -> None:
        self.unregistered.append(broker)


def leave(cluster: LocalCluster, admin: Admin, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, str]:
    """Broker 3 leaves: it hosts two replicas, and whoever has to stop it does."""

    async def empty(*_: object) -> int:
        return 2

    monkeypatch.setattr(command, "_empty", empty)
    known: Any = admin
    target = Target(cluster.bootstrap, cluster)
    return asyncio.run(command._leave(known, target, 3, wait_s=1.0, stop_within_s=None))


def test_a_broker_that_has_left_is_taken_out_of_what_up_starts(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = Admin([RegisteredBroker(1), RegisteredBroker(3)])
    document, line = leave(cluster, admin, monkeypatch)
    assert document == {"broker": 3, "moved": 2, "state": "UNREGISTERED"}
    assert "`strandline up` starts it no more" in line
    assert admin.unregistered == [3]
    assert now(cluster).broker_ids == [1, 2]


def test_what_was_configured_during_the_moves_stays(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    LocalCluster.create(cluster.directory, broker_config={"flush.policy": "always"})
    leave(cluster, Admin([RegisteredBroker(3)]), monkeypatch)
    assert now(cluster).file.broker_config == {"flush.policy": "always"}


def test_a_broker_that_runs_stays_in_the_cluster(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    document, line = leave(cluster, Admin([RegisteredBroker(3, "UNFENCED")]), monkeypatch)
    assert document["state"] == "EMPTY"
    assert "stop it, and give this command again" in line
    assert now(cluster).broker_ids == [1, 2, 3]
    seems_to_run(cluster, 3)
    leave(cluster, Admin([RegisteredBroker(3)]), monkeypatch)
    assert now(cluster).broker_ids == [1, 2, 3]


def test_a_command_that_was_interrupted_at_its_very_end_is_given_again(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    document, _ = leave(cluster, Admin([RegisteredBroker(1), RegisteredBroker(2)]), monkeypatch)
    assert document == {"broker": 3, "moved": 0, "state": "UNREGISTERED"}
    assert now(cluster).broker_ids == [1, 2]


def test_undo_takes_it_in_again_and_says_how_to_start_it(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.keep(cluster.file.without(3))
    where = ("--dir", str(cluster.directory))
    assert run(["broker", "decommission", "3", *where]) == 2
    assert "decommission 3 --undo" in capsys.readouterr().err
    assert run(["broker", "decommission", "3", "--undo", *where]) == 0
    assert "strandline start 3" in capsys.readouterr().out
    assert now(cluster).broker_ids == [1, 2, 3]


def test_the_last_broker_is_not_shut_down(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = LocalCluster.create(tmp_path, brokers=1, port=0)
    where = ("--dir", str(cluster.directory))
    assert run(["broker", "decommission", "1", "--shutdown", *where]) == 2
    assert "the only one left" in capsys.readouterr().err
