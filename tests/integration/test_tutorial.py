"""The tutorial as a reader follows it: each command runs, and prints what the page shows."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from strandline_local.local_cluster import LocalCluster
from support.cluster import eventually
from support.command import clean_environ, strandline
from support.pages_that_run import Command, Program, steps
from support.tidy_tree import ROOT

pytestmark = pytest.mark.integration

TUTORIAL = ROOT / "docs" / "guide" / "tutorial.md"
UP = "strandline up -n 3 --detach"
ADDRESS = "127.0.0.1:9092"
"""The page's address. The test's cluster has free ports instead."""
ASKS = ("topic describe", "offsets", "group lag", "config describe", "health")
"""Commands that change nothing: their output becomes the page's after a while."""
COMMAND_S = 120.0
SHELL = frozenset("|<>&;$*?~`(\\")
"""A command without these means the same without a shell."""


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Path]:
    """The reader's empty directory."""
    yield tmp_path
    if (tmp_path / ".strandline").exists():
        LocalCluster.open(tmp_path / ".strandline").kill_all()


def run(command: str, directory: Path) -> "subprocess.CompletedProcess[str]":
    """The command as the page's reader runs it: in a shell if it needs one."""
    if command.startswith("strandline ") and not SHELL.intersection(command):
        words = shlex.split(command)[1:]
        done = strandline(*words, environ={"COLUMNS": "120"}, cwd=directory, deadline_s=COMMAND_S)
        return subprocess.CompletedProcess(command, done.status, done.out, done.err)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=directory,
        env=clean_environ({"PATH": path, "COLUMNS": "120"}),
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )


def here(text: str, directory: Path) -> str:
    """The page's text with the address of this cluster."""
    if not (directory / ".strandline").exists():
        return text
    return text.replace(ADDRESS, LocalCluster.open(directory / ".strandline").bootstrap)


def test_each_command_of_the_tutorial_prints_what_the_page_shows(reader: Path) -> None:
    commands = 0
    for step in steps(TUTORIAL):
        if isinstance(step, Program):
            (reader / step.name).write_text(here(step.text, reader), "utf-8")
            continue
        commands += 1
        if step.line == UP:
            assert run(f"{UP} --port 0", reader).returncode == 0
        elif step.line.startswith(tuple(f"strandline {each}" for each in ASKS)):
            eventually(lambda: is_shown(step, run(step.line, reader)), str(step))  # noqa: B023
        else:
            done = run(step.line, reader)
            assert is_shown(step, done), (step, done)
    assert commands > 20


def is_shown(step: Command, done: "subprocess.CompletedProcess[str]") -> bool:
    return done.returncode == 0 and step.gives(done.stdout)


def test_output_that_the_page_does_not_show_is_found() -> None:
    command = Command("strandline offsets orders", "partition  broker\n...\n")
    assert command.gives("partition broker\n0 1\n")
    assert not command.gives("partition leader\n0 1\n")
    assert not Command("strandline health", "healthy\n").gives("not healthy: broker 2 is FENCED\n")


def test_every_command_of_the_page_is_found() -> None:
    page = TUTORIAL.read_text("utf-8")
    found = [step for step in steps(TUTORIAL) if isinstance(step, Command)]
    assert len(found) == page.count("\n$ ")
    assert [step.name for step in steps(TUTORIAL) if isinstance(step, Program)] == [
        "pay.py",
        "audit.py",
    ]
