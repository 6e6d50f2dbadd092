"""What a test's cluster refuses before it starts a process."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
from typing import TYPE_CHECKING, NoReturn

import pytest

from strandline.testing import ClusterError, LocalCluster
from strandline.testing.local_cluster import DESCRIPTORS_MIN, check_descriptors
from strandline_local import cluster_files

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"log.retention.msx": 1}, r"unknown .*log.retention.msx.*\(in config\)"),
        ({"num.partitions": 0}, "num.partitions"),
        ({"node.id": 7}, "config sets node.id, which LocalCluster itself decides"),
        ({"listeners": "PLAINTEXT://h:1"}, "config sets listeners"),
    ],
)
def test_a_setting_that_no_server_takes_is_refused(config: dict[str, object], said: str) -> None:
    with pytest.raises(ClusterError, match=said):
        LocalCluster(config=config).check()
    with pytest.raises(ClusterError, match=said):
        LocalCluster(config=config).start()


def test_a_boolean_has_kafkas_spelling() -> None:
    LocalCluster(config={"auto.create.topics.enable": False, "log.segment.bytes": 1 << 20}).check()


@pytest.mark.parametrize("brokers", [0, -1])
def test_a_cluster_without_brokers_is_refused(brokers: int) -> None:
    with pytest.raises(ClusterError, match=f"at least one broker, not {brokers}"):
        LocalCluster(brokers).check()
    with pytest.raises(ClusterError, match=f"at least one broker, not {brokers}"):
        LocalCluster(brokers).start()


def test_too_few_descriptors_are_named_with_the_remedy() -> None:
    check_descriptors(DESCRIPTORS_MIN)
    with pytest.raises(ClusterError, match=r"may open 64 files here, and needs 256: .*ulimit -Hn"):
        check_descriptors(64)


def test_a_start_checks_the_limit_on_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, 64))
    with pytest.raises(ClusterError, match="may open 64 files here"):
        LocalCluster().start()


def test_too_few_ports_are_named_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_files, "reserve_port", lambda *_: False)
    with pytest.raises(ClusterError, match="fewer than 7 free ports"):
        LocalCluster(directory=tmp_path / "c").start()
    monkeypatch.undo()
    assert not (tmp_path / "c" / "run").exists()


def test_no_free_descriptor_is_named_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> NoReturn:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(cluster_files, "reserve_port", refuse)
    with pytest.raises(ClusterError, match=r"cannot be started: Too many open files: .*ulimit -n"):
        LocalCluster(directory=tmp_path / "c").start()


def test_a_directory_of_another_cluster_is_refused(tmp_path: Path) -> None:
    held = os.open(tmp_path / ".owner", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(ClusterError, match=r"another LocalCluster runs in .*own directory"):
            LocalCluster(directory=tmp_path).start()
    finally:
        os.close(held)


def test_a_temporary_directory_of_a_failed_start_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(ClusterError, match="at least one broker"):
        LocalCluster(0).start()
    assert list(tmp_path.iterdir()) == []
