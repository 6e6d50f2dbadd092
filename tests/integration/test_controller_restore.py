"""A controller whose store is lost or too old: refused, restored by command, and all is there."""

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from strandline_local.local_cluster import LocalCluster
from support.cluster import eventually
from support.command import strandline

REFUSED = 70
"""Exit status of a server that must not go on."""


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "cluster"
    assert strandline("up", "-n", 3, "--port", 0, "-d", "--dir", path).status == 0
    yield path
    LocalCluster.open(path).kill_all()


def made(directory: Path, topic: str, *lines: str) -> None:
    if topic not in strandline("topic", "list", "--dir", directory).out:
        assert strandline("topic", "create", topic, "--dir", directory).status == 0
    text = "".join(f"{line}\n" for line in lines)
    assert strandline("produce", topic, "--dir", directory, stdin=text).status == 0


def read(directory: Path, topic: str) -> list[str]:
    found = strandline("consume", topic, "--from-beginning", "-e", "--dir", directory)
    assert found.status == 0, found
    return found.out.split()


def led(directory: Path, topic: str) -> bool:
    """Whether every replica is in sync again: the leader comes when all who held it are back."""
    described = strandline("topic", "describe", topic, "--format", "json", "--dir", directory)
    return described.status == 0 and all(
        partition["leader"] is not None and len(partition["isr"]) == 3
        for partition in described.json["partitions"]
    )


def refused(directory: Path, why: str) -> None:
    """Nothing was pushed: no broker has stopped for it, or told of anything new."""
    up = strandline("up", "-d", "--dir", directory)
    assert f"exit status {REFUSED}" in up.err, up
    assert why in up.err
    assert "strandline controller restore" in up.err
    strandline("down", "--dir", directory)


def ended_at_the_first_broker(directory: Path) -> None:
    """It has answered by then, so that alone proves nothing."""
    data, kept = directory / "controller", directory / "kept"
    assert strandline("kill", "controller", "--dir", directory).status == 0
    data.rename(kept)
    started = strandline("start", "controller", "--dir", directory)
    assert (started.status, started.out) == (1, "")
    assert f"exit status {REFUSED}" in started.err
    assert "the controller's data directory was replaced" in started.err
    shutil.rmtree(data)
    kept.rename(data)


def test_an_old_copy_and_an_empty_directory_are_refused_and_restored(directory: Path) -> None:
    data = directory / "controller"
    made(directory, "old", "a", "b")
    strandline("down", "--dir", directory)
    shutil.copytree(data, directory / "copy")
    assert strandline("up", "-d", "--dir", directory).status == 0
    made(directory, "old", "c")
    made(directory, "new", "d")
    ended_at_the_first_broker(directory)
    strandline("down", "--dir", directory)

    shutil.rmtree(data)
    refused(directory, "the controller's data directory was replaced")
    shutil.rmtree(data)
    shutil.copytree(directory / "copy", data)
    refused(directory, "the controller's data directory is an older copy")

    restore = ("controller", "restore", "--dir", directory)
    planned = strandline(*restore, "--dry-run")
    assert planned.status == 0, planned
    assert "topic new: 1 partitions, not known to the store" in planned.out
    assert "--yes" in strandline(*restore).error
    done = strandline(*restore, "--yes", "--format", "json").json
    assert done["restored"]

    assert strandline("up", "-d", "--dir", directory).status == 0
    for topic in ("old", "new"):
        eventually(partial(led, directory, topic), f"{topic} is led and in sync", 60.0)
    assert (read(directory, "old"), read(directory, "new")) == (["a", "b", "c"], ["d"])
    made(directory, "new", "e")
    assert read(directory, "new") == ["d", "e"]
    again = strandline(*restore, "--yes")
    assert "is in use by a running server: stop it" in again.error
