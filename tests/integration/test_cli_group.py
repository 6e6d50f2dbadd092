"""Consumer groups through the command line, on real processes."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from strandline_local.local_cluster import LocalCluster
from support.cluster import eventually
from support.command import CompletedCommand, start_strandline, strandline

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.integration
PARTITIONS = 4


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Three brokers, and a topic with ten numbered records in each partition."""
    path = tmp_path_factory.mktemp("groups") / "cluster"
    up = strandline("up", "-n", 3, "--port", 0, "--detach", "--format", "json", "--dir", path)
    assert up.status == 0, up
    assert _in(path, "topic", "create", "numbers", "-p", PARTITIONS).status == 0
    for partition in range(PARTITIONS):
        lines = "".join(f"{partition}:{n}\n" for n in range(10))
        assert _in(path, "produce", "numbers", "-p", partition, stdin=lines).status == 0
    yield path
    LocalCluster.open(path).kill_all()


def _in(directory: Path, *arguments: object, stdin: str | bytes = b"") -> CompletedCommand:
    return strandline(*arguments, stdin=stdin, environ={"STRANDLINE_DIR": str(directory)})


def _json(directory: Path, *arguments: object) -> Any:
    return _in(directory, *arguments, "--format", "json").json


def _read(directory: Path, group: str, *options: object) -> list[str]:
    """What a member prints that reads to the end and leaves."""
    ended = _in(
        directory, "consume", "numbers", "--group", group, "--from-beginning", "-e", *options
    )
    assert ended.status == 0, ended
    return ended.out.splitlines()


def _committed(directory: Path, group: str) -> dict[int, int | None]:
    lag = _json(directory, "group", "lag", group)
    return {p["partition"]: p["committed"] for p in lag["partitions"]}


def test_a_group_goes_on_where_it_was(directory: Path) -> None:
    first = _read(directory, "goes-on", "-c", 15)
    assert len(first) == 15
    rest = _read(directory, "goes-on")
    assert sorted(first + rest) == sorted(f"{p}:{n}" for p in range(PARTITIONS) for n in range(10))
    assert _read(directory, "goes-on") == []
    assert _committed(directory, "goes-on") == dict.fromkeys(range(PARTITIONS), 10)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_the_group_with_what_was_printed_committed(
    directory: Path, number: signal.Signals
) -> None:
    group = f"ended-by-{number.name}"
    member = start_strandline(
        ("consume", "numbers", "--group", group, "--from-beginning"),
        environ={"STRANDLINE_DIR": str(directory)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert member.stdout is not None
    printed = [member.stdout.readline() for _ in range(PARTITIONS * 10)]
    assert len(set(printed)) == PARTITIONS * 10
    listed = _json(directory, "group", "list", "--state", "stable")
    assert group in [g["group_id"] for g in listed]
    member.send_signal(number)
    _, err = member.communicate(timeout=300)
    assert (member.returncode, err) == (130, b"")
    described = _json(directory, "group", "describe", group)
    assert (described["state"], described["members"], described["lag"]) == ("Empty", [], 0)


def test_two_members_share_and_a_reset_is_refused_while_they_read(directory: Path) -> None:
    arguments = ("consume", "numbers", "--group", "shared", "--from-beginning")
    members = [
        start_strandline(
            arguments, environ={"STRANDLINE_DIR": str(directory)}, stdout=subprocess.PIPE
        )
        for _ in range(2)
    ]
    try:

        def shares() -> list[int]:
            found = _in(directory, "group", "describe", "shared", "--format", "json")
            owners = [] if found.status else json.loads(found.out)["members"]
            return sorted(len(m["assignment"].get("numbers", [])) for m in owners)

        eventually(lambda: shares() == [2, 2], "two members with two partitions each")
        refused = _in(directory, "group", "reset", "shared", "--to-earliest")
        assert refused.status == 1
        assert "group 'shared' has members that commit what they read" in refused.error
        assert refused.error.count("127.0.0.1") == 2
        assert "NonEmptyGroup" in _in(directory, "group", "delete", "shared").error
        assert _in(directory, "group", "delete-offsets", "shared", "--topic", "numbers").status == 1
    finally:
        for member in members:
            member.terminate()
        for member in members:
            member.communicate(timeout=300)
    assert _json(directory, "group", "describe", "shared")["members"] == []


def test_offsets_of_a_topic_that_a_member_reads_are_kept_before_its_first_commit(
    directory: Path,
) -> None:
    assert _in(directory, "topic", "create", "silent", "-p", 1).status == 0
    member = start_strandline(
        ("consume", "silent", "--group", "mute"), environ={"STRANDLINE_DIR": str(directory)}
    )

    def is_stable() -> bool:
        found = _in(directory, "group", "describe", "mute", "--format", "json")
        return not found.status and json.loads(found.out)["state"] == "Stable"

    try:
        eventually(is_stable, "a member that reads")
        assert set(_committed(directory, "mute").values()) == {None}
        for named in ("silent", "silent:0"):
            refused = _in(directory, "group", "delete-offsets", "mute", "--topic", named)
            assert (refused.status, "GroupSubscribedToTopic" in refused.error) == (1, True), refused
    finally:
        member.terminate()
        member.communicate(timeout=300)


def test_a_member_that_hangs_is_removed(directory: Path) -> None:
    member = start_strandline(
        ("consume", "numbers", "--group", "hung", "--from-beginning"),
        environ={"STRANDLINE_DIR": str(directory)},
        stdout=subprocess.PIPE,
    )

    def members() -> list[str]:
        found = _in(directory, "group", "describe", "hung", "--format", "json")
        return [] if found.status else [m["member_id"] for m in json.loads(found.out)["members"]]

    try:
        eventually(lambda: bool(members()), "a member that reads")
        member.send_signal(signal.SIGSTOP)
        unknown = _in(directory, "group", "remove-members", "hung", "--member", "nobody")
        assert (unknown.status, "no member 'nobody'" in unknown.error) == (1, True), unknown
        for mistake in ((), ("--all", "--instance", "i")):
            assert _in(directory, "group", "remove-members", "hung", *mistake).status == 2
        (found,) = members()
        removed = _json(directory, "group", "remove-members", "hung", "--member", found)
        assert removed == {"group": "hung", "removed": [found]}
        reset = _in(
            directory, "group", "reset", "hung", "--to-earliest", "--topic", "numbers", "--execute"
        )
        assert reset.status == 0, reset
        again = _in(directory, "group", "remove-members", "hung", "--all")
        assert again.out == "removed 0 members of group hung\n"
    finally:
        member.send_signal(signal.SIGCONT)
        member.terminate()
        member.communicate(timeout=300)
    missing = _in(directory, "group", "remove-members", "nosuch", "--all")
    assert (missing.status, "GroupIdNotFound" in missing.error) == (1, True), missing


def test_a_reset_goes_where_it_says_and_says_what_it_clamped(directory: Path) -> None:
    assert len(_read(directory, "reset")) == 40
    plan = _in(directory, "group", "reset", "reset", "--shift-by", -3, "--format", "json")
    assert [p["after"] for p in plan.json["partitions"]] == [7] * PARTITIONS
    assert plan.err == "nothing is changed: this is the plan, and --execute carries it out\n"
    assert set(_committed(directory, "reset").values()) == {10}
    shifted = _in(
        *(directory, "group", "reset", "reset", "--shift-by", -3, "--topic", "numbers:1,2"),
        "--execute",
    )
    assert shifted.status == 0, shifted
    assert _committed(directory, "reset") == {0: 10, 1: 7, 2: 7, 3: 10}
    again = _read(directory, "reset")
    assert sorted(again) == ["1:7", "1:8", "1:9", "2:7", "2:8", "2:9"]
    clamped = _in(directory, "group", "reset", "reset", "--to-offset", 99)
    assert clamped.out.count("99 is outside the log") == PARTITIONS
    new = _json(
        *(directory, "group", "reset", "new", "--to-datetime", "2000-01-01", "--topic", "numbers"),
        "--execute",
    )
    assert [p["after"] for p in new["partitions"]] == [0] * PARTITIONS
    assert _committed(directory, "new") == dict.fromkeys(range(PARTITIONS), 0)


def test_offsets_and_groups_are_forgotten_by_name(directory: Path) -> None:
    assert len(_read(directory, "forgotten")) == 40
    forgot = _in(directory, "group", "delete-offsets", "forgotten", "--topic", "numbers:0,3")
    assert forgot.out == "forgot 2 offsets of group forgotten\n"
    assert _committed(directory, "forgotten") == {1: 10, 2: 10}
    assert _json(directory, "group", "delete", "forgotten") == {
        "group": "forgotten",
        "deleted": True,
    }
    for command in ("describe", "lag", "delete"):
        assert "GroupIdNotFound" in _in(directory, "group", command, "forgotten").error


def test_what_a_group_cannot_do_is_said_in_a_line(directory: Path) -> None:
    assert "'others' does not exist" in _in(directory, "consume", "numbers", "others").error
    assert "group reset" in _in(directory, "consume", "numbers", "-g", "g", "-p", 0).error
    assert (
        "say what to set with --topic"
        in _in(directory, "group", "reset", "nobody", "--to-latest").error
    )
    assert (
        "no partition 9"
        in _in(directory, "group", "reset", "nobody", "--to-latest", "--topic", "numbers:9").error
    )
    assert (
        "'missing' does not exist"
        in _in(directory, "group", "reset", "nobody", "--to-latest", "--topic", "missing").error
    )
