"""Processes end with the pipe of their owner, and a guard undoes a fault that outlives it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from strandline_local.ownership import Guard, Owner
from support.cluster import eventually

if TYPE_CHECKING:
    from pathlib import Path

END_S = 60.0
SERVER = (
    "import sys, threading; from strandline_runtime.real import end_with_owner;"
    " end_with_owner(int(sys.argv[1])); print('up', flush=True); threading.Event().wait()"
)


def started(owner: Owner) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(owner.descriptor)],
        pass_fds=[owner.descriptor],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


def test_a_server_ends_when_its_owner_closes_the_pipe() -> None:
    owner = Owner()
    process = started(owner)
    assert process.poll() is None
    owner.close()
    _, said = process.communicate(timeout=END_S)
    assert process.returncode == 70
    assert said == "strandline: stopping at once: the program that owns this server has ended\n"


def test_a_forked_child_of_the_owner_does_not_keep_the_servers() -> None:
    owner = Owner()
    process = started(owner)
    waits, ends = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ends)
        os.read(waits, 1)
        os._exit(0)
    os.close(waits)
    try:
        owner.close()
        process.communicate(timeout=END_S)
        assert process.returncode == 70
    finally:
        os.close(ends)
        os.waitpid(child, 0)


def test_an_owner_closes_once() -> None:
    owner = Owner()
    owner.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(owner.descriptor)
    owner.close()


def touch(file: Path) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", f"open({str(file)!r}, 'w').close()"]


def test_a_guard_undoes_what_its_program_cannot(tmp_path: Path) -> None:
    guard = Guard(touch(tmp_path / "undone"))
    guard._end.close()  # as the kernel does when the program ends
    eventually((tmp_path / "undone").exists, "the guard has worked")
    guard.dismiss()


def test_a_dismissed_guard_does_nothing(tmp_path: Path) -> None:
    guard = Guard(touch(tmp_path / "undone"))
    guard.dismiss()
    guard.dismiss()
    assert not (tmp_path / "undone").exists()
