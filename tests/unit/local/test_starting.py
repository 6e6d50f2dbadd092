"""A process that cannot be started is named with the remedy."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, NoReturn

import pytest

from strandline_local import processes
from strandline_local.errors import ClusterError
from strandline_local.local_cluster import LocalCluster

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.EMFILE, r"raise the limit on open files \(ulimit -n\), or close some"),
        (errno.ENFILE, r"raise the limit on open files \(ulimit -n\), or close some"),
        (errno.ENOSPC, "make room on the disk"),
        (errno.ENETUNREACH, "bring the loopback up"),
        (errno.EAGAIN, r"limits of this user on processes and memory \(ulimit -a\)"),
    ],
)
def test_a_process_that_the_system_refuses_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, remedy: str
) -> None:
    def refuse(*_: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(processes, "spawn", refuse)
    cluster = LocalCluster.create(tmp_path, brokers=1, port=0)
    said = f"the controller cannot be started: {os.strerror(number)}: .*{remedy}"
    with pytest.raises(ClusterError, match=said):
        cluster.up()
