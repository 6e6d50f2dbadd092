"""`strandline topic create`: a topic that is there may stay, and a starting cluster is awaited."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

import strandline
from strandline.errors import (
    InvalidReplicationFactor,
    InvalidTopic,
    NoBrokerReachable,
    TopicAlreadyExists,
)
from strandline_cli.commands.topic import create as command
from strandline_cli.main import run


class Admin:
    """Calls that fail as the script says; then the topic is created."""

    def __init__(self, *failures: Exception) -> None:
        self._failures = list(failures)

    def __call__(self, *_: Any, **__: Any) -> "Admin":
        return self

    async def __aenter__(self) -> "Admin":
        return self

    async def __aexit__(self, *_: object) -> None:
        """Holds nothing open."""

    async def create_topics(self, topics: list[Any]) -> list[Any]:
        if self._failures:
            raise self._failures.pop(0)
        return [SimpleNamespace(name=topics[0].name, partitions=3, replication_factor=2)]

    async def describe_topics(self, topics: list[str]) -> dict[str, Any]:
        partitions = [SimpleNamespace(replicas=(1, 2, 3))] * 6
        return {topics[0]: SimpleNamespace(partitions=partitions)}


class Clock:
    """A clock that only waiting moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(command, "time", clock)
    monkeypatch.setattr(command, "asyncio", clock)
    return clock


def create(monkeypatch: pytest.MonkeyPatch, admin: Admin, *options: str) -> int:
    monkeypatch.setattr(strandline, "Admin", admin)
    return run(["topic", "create", "orders", "--bootstrap", "a:1", *options])


@pytest.mark.usefixtures("clock")
def test_a_topic_that_is_there_stays_as_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there = TopicAlreadyExists("topic 'orders' exists")
    assert create(monkeypatch, Admin(there), "--if-not-exists") == 0
    kept = "already exists, kept: orders: partitions 6, replication factor 3\n"
    assert capsys.readouterr().out == kept
    assert create(monkeypatch, Admin(there), "--if-not-exists", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["created"] is False
    assert create(monkeypatch, Admin(there)) == 1
    assert "exists" in capsys.readouterr().err


@pytest.mark.usefixtures("clock")
def test_a_starting_cluster_is_awaited_with_a_message_for_each_obstacle(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failures = (
        *(NoBrokerReachable("no broker answered"), NoBrokerReachable("nor did another")),
        InvalidReplicationFactor("1 of 3 brokers live"),
    )
    assert create(monkeypatch, Admin(*failures), "--wait", "120") == 0
    shown = capsys.readouterr()
    assert shown.out == "created orders: partitions 3, replication factor 2\n"
    start = "waiting up to 120 s for a cluster that can hold orders: "
    first, second = shown.err.splitlines()
    assert first.startswith(f"{start}no broker answered")
    assert second.startswith(f"{start}1 of 3 brokers live")


def test_the_wait_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], clock: Clock
) -> None:
    failures = [NoBrokerReachable("no broker answered")] * 99
    assert create(monkeypatch, Admin(*failures), "--wait", "3") == 1
    assert clock.now_s == 3.0
    assert "no broker answered" in capsys.readouterr().err.splitlines()[-1]


def test_a_mistake_is_not_awaited(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], clock: Clock
) -> None:
    assert create(monkeypatch, Admin(InvalidTopic("no name")), "--wait", "60") == 1
    assert clock.now_s == 0.0
    assert "no name" in capsys.readouterr().err


def test_without_a_wait_the_first_failure_is_the_answer(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    assert create(monkeypatch, Admin(NoBrokerReachable("none"))) == 1
    assert clock.now_s == 0.0
