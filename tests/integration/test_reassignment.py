"""Replicas move between real processes, and a broker leaves, while nothing is lost."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strandline import sync
from strandline.errors import NoReassignmentInProgress
from strandline_local.local_cluster import LocalCluster
from support.command import CompletedCommand, strandline

LINES = [f"value {number}" for number in range(500)]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("moves") / "cluster"
    up = strandline("up", "-n", 4, "--port", 0, "--detach", "--dir", path)
    assert up.status == 0, up
    _json(path, "topic", "create", "orders", "--partitions", 2, "-r", 3)
    yield path
    LocalCluster.open(path).kill_all()


def _in(directory: Path, *arguments: object, stdin: str = "") -> CompletedCommand:
    return strandline(*arguments, stdin=stdin, environ={"STRANDLINE_DIR": str(directory)})


def _json(directory: Path, *arguments: object) -> Any:
    return _in(directory, *arguments, "--format", "json").json


def _replicas(directory: Path) -> list[list[int]]:
    described = _json(directory, "topic", "describe", "orders")
    return [partition["replicas"] for partition in described["partitions"]]


def test_replicas_move_and_a_broker_leaves(directory: Path, tmp_path: Path) -> None:
    assert _in(directory, "produce", "orders", stdin="\n".join(LINES)).status == 0

    plan = tmp_path / "plan.json"
    wanted = {"topic": "orders", "partition": 0, "replicas": [4, 3, 2]}
    plan.write_text(json.dumps({"version": 1, "partitions": [wanted]}))
    moved = _json(directory, "reassign", "--file", plan, "--wait", 30)
    assert (moved["partitions"], moved["done"]) == ([wanted], True)
    assert _replicas(directory)[0] == [4, 3, 2]
    assert _json(directory, "reassign", "--status") == []

    left = _json(directory, "broker", "decommission", 4, "--shutdown", "--wait", 30)
    assert left["state"] == "UNREGISTERED"
    assert all(4 not in replicas and len(replicas) == 3 for replicas in _replicas(directory))
    assert not list((directory / "broker-4").glob("orders-*"))
    assert [b["id"] for b in _json(directory, "status")["brokers"]] == [1, 2, 3]
    assert "broker 4 was decommissioned" in _in(directory, "start", 4).error

    read = _in(directory, "consume", "orders", "--from-beginning", "--count", len(LINES))
    assert sorted(read.out.splitlines()) == sorted(LINES)


def test_a_move_is_throttled_shown_changed_and_cancelled(directory: Path) -> None:
    alone = ("--replication-factor", 1, "--config", "min.insync.replicas=1")
    _json(directory, "topic", "create", "slow", "--partitions", 1, *alone)
    lines = "\n".join("x" * 2000 for _ in range(1500))
    assert _in(directory, "produce", "slow", stdin=lines).status == 0
    with sync.Admin(LocalCluster.open(directory).bootstrap) as admin:
        (before,) = admin.describe_topics(["slow"])["slow"].partitions
        to = 1 + before.leader % 3
        begun = _json(
            directory, "reassign", "--partition", "slow:0", "--replicas", to,
            "--throttle", 1000,
        )  # fmt: skip
        assert begun["done"] is False
        (ongoing,) = admin.list_partition_reassignments(["slow"]).values()
        assert (ongoing.target, ongoing.adding, ongoing.original) == ((to,), (to,), before.replicas)
        (shown,) = _json(directory, "reassign", "--status")
        assert shown["records_left"] > 0
        assert _json(directory, "reassign", "--cancel")["cancelled"] == [
            {"topic": "slow", "partition": 0}
        ]
        assert admin.list_partition_reassignments() == {}
        (after,) = admin.describe_topics(["slow"])["slow"].partitions
        assert (after.replicas, after.leader) == (before.replicas, before.leader)
        (nothing,) = admin.alter_partition_reassignments({("slow", 0): None})
        assert isinstance(nothing.error, NoReassignmentInProgress)
    assert _in(directory, "reassign", "--throttle", 0).status == 0


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ((), 2, "nothing to do"),
        (("--status", "--cancel"), 2, "choose one"),
        (("--replicas", "1,2"), 2, "needs the --partition"),
        (("--partition", "orders:0"), 2, "nothing to do"),
        (("--status", "--partition", "orders:0"), 2, "--replicas or --cancel"),
        (("--partition", "orders:0", "--replicas", "1,x"), 2, "broker ids like 1,2,4"),
        (("--partition", "orders:0", "--replicas", "1,9"), 1, "broker 9"),
        (("--partition", "orders:7", "--replicas", "1"), 1, "has no partition 7"),
        (("--partition", "nowhere:0", "--replicas", "1"), 1, "nowhere"),
        (("--to-brokers", "1,9"), 1, "broker 9 cannot take replicas now"),
        (("--to-brokers", "1"), 1, "replicas, and only 1 brokers"),
        (("--file", "nowhere.json"), 1, "cannot read the plan nowhere.json"),
    ],
)
def test_a_mistake_is_one_line(
    directory: Path, arguments: tuple[object, ...], status: int, said: str
) -> None:
    refused = _in(directory, "reassign", *arguments)
    assert refused.status == status, refused
    assert said in refused.error


def test_a_broker_that_cannot_leave_is_told_why(directory: Path) -> None:
    states = {b["id"]: b["state"] for b in _json(directory, "status")["brokers"]}
    live = [broker for broker, state in states.items() if state == "UNFENCED"]
    _json(directory, "topic", "create", "everywhere", "-p", 1, "-r", len(live))
    refused = _in(directory, "broker", "decommission", 1)
    assert refused.status == 1
    assert f"and only {len(live) - 1} brokers can hold them" in refused.error
