"""Forks in place of the interpreters that Spark starts are processes of their own, as those are."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from support.planner_forks import RUNNER, planner_forks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DEADLINE_S = 120


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with planner_forks(tmp_path_factory.mktemp("forks")) as program:
        yield program


def run(*command: str, **environ: str) -> subprocess.CompletedProcess[str]:
    around = {name: text for name, text in os.environ.items() if name != "PYTHONHASHSEED"}
    return subprocess.run(
        command,
        env=around | environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )


AS_SPARK_STARTS_IT = {
    "PYTHONHASHSEED": "0",
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": "67108864",
    "MALLOC_TRIM_THRESHOLD_": "268435456",
    "MIMALLOC_PURGE_DELAY": "-1",
    "PYTHONPATH": os.pathsep.join(
        filter(None, ["/nowhere/spark-core.jar", os.environ.get("PYTHONPATH")])
    ),
    "PYTHON_WORKER_FACTORY_SOCK_PATH": "/nowhere/socket",
}


def test_a_fork_has_the_streams_the_environment_and_the_exit_status_of_its_caller(
    python: str,
) -> None:
    ended = run(python, "-m", RUNNER, **AS_SPARK_STARTS_IT)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "/nowhere/socket" in ended.stderr
    assert "planner_forks.py" in ended.stderr


def test_what_an_interpreter_reads_at_its_start_is_read_by_an_interpreter(python: str) -> None:
    ended = run(python, "-m", RUNNER, **(AS_SPARK_STARTS_IT | {"PYTHONPATH": "/nowhere/else"}))
    assert ended.returncode == 1
    assert "/nowhere/socket" in ended.stderr
    assert "planner_forks.py" not in ended.stderr


def test_all_else_is_run_by_an_interpreter(python: str, tmp_path: Path) -> None:
    said = run(python, "-c", "import sys; print(sys.executable, sys.argv)", "a word")
    assert said.stdout.split(" ", 1)[1] == "['-c', 'a word']\n"
    assert run(python, "-c", "raise SystemExit(3)").returncode == 3
    program = tmp_path / "program.py"
    program.write_text("print(__name__)")
    assert run(python, str(program)).stdout == "__main__\n"
