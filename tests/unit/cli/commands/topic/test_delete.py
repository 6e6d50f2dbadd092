"""`strandline topic delete`: names at once, a pattern with a plan and a confirmation."""

import io
import json
import os
import sys
from types import SimpleNamespace
from typing import Any

import pytest

import strandline
from strandline_cli.main import run

PLAN = "nothing is deleted: this is the plan, and --yes carries it out"


class Admin:
    """Topics that can be described and deleted."""

    def __init__(self) -> None:
        self.topics = dict.fromkeys(("test-a", "test-b", "orders"), 3)
        self.deletions: list[list[str]] = []

    def __call__(self, *_: Any, **__: Any) -> "Admin":
        return self

    async def __aenter__(self) -> "Admin":
        return self

    async def __aexit__(self, *_: object) -> None:
        """Holds nothing open."""

    async def describe_topics(self, names: Any = None, *, include_internal: bool = False) -> Any:
        chosen = self.topics if names is None else names
        partitions = [SimpleNamespace(replicas=(1, 2))] * 3
        return {name: SimpleNamespace(name=name, partitions=partitions) for name in chosen}

    async def delete_topics(self, names: list[str]) -> None:
        self.deletions.append(list(names))


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Admin:
    admin = Admin()
    monkeypatch.setattr(strandline, "Admin", admin)
    monkeypatch.setattr(os, "isatty", lambda _: False)
    return admin


def delete(*arguments: str) -> int:
    return run(["topic", "delete", *arguments, "--bootstrap", "a:1"])


def test_a_named_topic_is_deleted_at_once(admin: Admin, capsys: pytest.CaptureFixture[str]) -> None:
    assert delete("orders") == 0
    assert capsys.readouterr().out == "deleted orders\n"
    assert delete("orders", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out) == {"name": "orders", "deleted": True}
    assert admin.deletions == [["orders"], ["orders"]]


def test_several_names_are_deleted_or_none(
    admin: Admin, capsys: pytest.CaptureFixture[str]
) -> None:
    assert delete("test-b", "orders", "test-b") == 0
    assert admin.deletions == [["test-b", "orders"]]
    assert capsys.readouterr().out == "deleted test-b\ndeleted orders\n"
    assert delete("test-b", "ordres") == 1
    assert "'ordres' does not exist, and nothing is deleted" in capsys.readouterr().err
    assert len(admin.deletions) == 1


def test_a_pattern_shows_its_plan_and_deletes_nothing_in_a_script(
    admin: Admin, capsys: pytest.CaptureFixture[str]
) -> None:
    assert delete("--pattern", "test-.*") == 0
    shown = capsys.readouterr()
    assert [line.split() for line in shown.out.splitlines()[1:]] == [
        ["test-a", "3", "2"],
        ["test-b", "3", "2"],
    ]
    assert shown.err.strip() == PLAN
    assert delete("--pattern", "test-.*", "--format", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document == {"topics": ["test-a", "test-b"], "deleted": False}
    assert admin.deletions == []


def test_yes_deletes_what_matches(admin: Admin, capsys: pytest.CaptureFixture[str]) -> None:
    assert delete("--pattern", "test-.*", "--yes") == 0
    assert capsys.readouterr().out.splitlines()[-2:] == ["deleted test-a", "deleted test-b"]
    assert admin.deletions == [["test-a", "test-b"]]
    assert delete("--pattern", "orders", "-y", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out) == {"topics": ["orders"], "deleted": True}


@pytest.mark.parametrize(
    ("answer", "deleted"),
    [("y\n", True), ("YES\n", True), ("n\n", False), ("\n", False), ("", False)],
)
def test_a_person_is_asked(
    admin: Admin,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answer: str,
    *,
    deleted: bool,
) -> None:
    monkeypatch.setattr(os, "isatty", lambda _: True)
    monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
    assert delete("--pattern", "test-.*") == 0
    shown = capsys.readouterr().err
    assert shown.startswith("delete 2 topics with all records? [y/N] ")
    assert (PLAN in shown) is not deleted
    assert bool(admin.deletions) is deleted


@pytest.mark.parametrize(
    ("arguments", "status", "why"),
    [
        ((), 2, "name topics"),
        (("orders", "--pattern", "o"), 2, "name topics"),
        (("--pattern", "test-*["), 2, "is no regular expression"),
        (("--pattern", "test"), 1, "no topic matches the pattern 'test', which must match a whole"),
    ],
)
def test_what_names_no_topic_is_refused(
    admin: Admin,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    status: int,
    why: str,
) -> None:
    assert delete(*arguments) == status
    assert why in capsys.readouterr().err
    assert admin.deletions == []
