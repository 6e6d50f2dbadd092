"""`strandline group reset`: it shows its plan, and commits offsets with --execute only."""

import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

import strandline
from strandline import OffsetAndMetadata, TopicPartition
from strandline_cli.main import run

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
PLAN = "nothing is changed: this is the plan, and --execute carries it out\n"


@dataclass
class Cluster:
    """Two partitions with offsets 0 to 20, of which a group has committed 15."""

    members: list[Any] = field(default_factory=list)
    committed: list[dict[TopicPartition, int]] = field(default_factory=list)

    def __call__(self, *_: Any, **__: Any) -> "Cluster":
        return self

    async def __aenter__(self) -> "Cluster":
        return self

    async def __aexit__(self, *_: object) -> None:
        """Holds nothing open."""

    async def describe_groups(self, groups: list[str]) -> dict[str, Any]:
        return {group: SimpleNamespace(members=self.members) for group in groups}

    async def list_group_offsets(self, _: str) -> dict[TopicPartition, OffsetAndMetadata]:
        return {P0: OffsetAndMetadata(15, "")}

    async def describe_topics(self, topics: set[str]) -> dict[str, Any]:
        partitions = [SimpleNamespace(partition=0), SimpleNamespace(partition=1)]
        return {topic: SimpleNamespace(partitions=partitions) for topic in topics}

    async def beginning_offsets(self, partitions: list[TopicPartition]) -> Any:
        return dict.fromkeys(partitions, 0)

    async def end_offsets(self, partitions: list[TopicPartition]) -> Any:
        return dict.fromkeys(partitions, 20)

    async def alter_group_offsets(self, _: str, offsets: dict[TopicPartition, int]) -> None:
        self.committed.append(offsets)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    cluster = Cluster()
    monkeypatch.setattr(strandline, "Admin", cluster)
    monkeypatch.setattr(strandline, "Consumer", cluster)
    return cluster


def reset(*options: str) -> int:
    return run(["group", "reset", "g", "--bootstrap", "a:1", "--shift-by", "-3", *options])


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_without_execute_a_plan_is_shown_and_nothing_is_committed(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    assert reset(*options) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines()[1].split() == ["t", "0", "15", "12"]
    assert shown.err == PLAN
    assert cluster.committed == []


def test_execute_commits_the_plan(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert reset("--execute") == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines()[1].split() == ["t", "0", "15", "12"]
    assert shown.err == ""
    assert cluster.committed == [{P0: 12}]


@pytest.mark.parametrize("executed", [False, True])
def test_a_script_reads_from_the_document_whether_offsets_are_set(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], *, executed: bool
) -> None:
    assert reset("--format", "json", *(["--execute"] if executed else [])) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["executed"], document["dry_run"]) == (executed, not executed)
    assert bool(cluster.committed) is executed


def test_a_group_with_members_gets_no_plan(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.members.append(SimpleNamespace(member_id="m-1", client_id="c", host="/127.0.0.1"))
    assert reset("--execute") == 1
    assert "m-1 (c, /127.0.0.1): stop them first" in capsys.readouterr().err
    assert cluster.committed == []


def test_execute_and_dry_run_exclude_each_other(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reset("--execute", "--dry-run") == 2
    assert "--execute and --dry-run exclude each other" in capsys.readouterr().err
    assert cluster.committed == []
