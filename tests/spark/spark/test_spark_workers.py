"""What a worker's interpreter answers, and what is made of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest
from pyspark.sql.streaming.query import StreamingQuery

from strandline_spark.errors import EnvironmentProblem, OptionError
from strandline_spark.spark import workers
from strandline_spark.spark.session import checked_master
from strandline_spark.spark.workers import Answer, Workers, check_python_here, understood, unfit

HERE: Final = "{}.{}".format(*sys.version_info[:2])
BUSY: Final = {"busy": "yes"}
VERSION: Final = metadata.version("strandline")


def answer(folder: Path, **other: Any) -> str:
    """That of a fit worker, but for what is given."""
    (folder / "f").touch()
    fit = {"python": HERE, "executable": "/bin/py", "package": VERSION, "missing": None}
    return json.dumps(fit | {"file": "f", "unwritable": None} | other)


def judged(folder: Path, text: str) -> str | None:
    return unfit(text, str(folder), table="/tables/b", python="py")


def test_a_worker_like_the_driver_is_fit_whatever_its_python_says_before(tmp_path: Path) -> None:
    assert judged(tmp_path, answer(tmp_path)) is None
    assert judged(tmp_path, f"warning: something\n{answer(tmp_path)}\n") is None


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"python": "3.7"}, f"runs Python 3.7 (/bin/py), this job Python {HERE}: install that"),
        ({"missing": "No module named 'strandline_spark'"}, "-m pip install 'strandline[spark]=="),
        ({"package": "0.0.1"}, f"has strandline 0.0.1 for /bin/py, this job {VERSION}: install"),
        ({"unwritable": "Permission denied"}, "the table's folder /tables/b (Permission denied)"),
        ({"file": "elsewhere"}, "what it writes there is not seen here): mount it there"),
    ],
)
def test_what_a_worker_lacks_is_said_with_the_remedy(
    tmp_path: Path, other: dict[str, str], why: str
) -> None:
    found = judged(tmp_path, answer(tmp_path, **other))
    assert found is not None
    assert why in found


@pytest.mark.parametrize("text", ["", "sh: 1: py: not found", '{"python": "3.11"}', "[]", "7"])
def test_an_interpreter_that_does_not_answer_is_named(tmp_path: Path, text: str) -> None:
    found = judged(tmp_path, text)
    assert found is not None
    assert found.startswith(f"cannot run py ({text or 'no output'}): install it there")


def asked(python: str, folder: Path, *options: str) -> Answer:
    source = Path(workers.__file__).with_name("worker_probe.py").read_text()
    command = [python, *options, "-c", source, str(folder)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    found = understood(run.stdout)
    assert found is not None
    return found


def test_an_interpreter_says_what_it_is_and_leaves_a_file(tmp_path: Path) -> None:
    found = asked(sys.executable, tmp_path)
    assert os.listdir(tmp_path) == [found.file]
    assert found == Answer(HERE, sys.executable, VERSION, None, found.file, None)
    absent = asked(sys.executable, tmp_path / "absent")
    assert absent.unwritable == "No such file or directory"
    # Without its packages.
    assert asked(sys.executable, tmp_path, "-S").missing == "No module named 'strandline_spark'"


def test_the_drivers_machine_must_have_the_workers_python_too(tmp_path: Path) -> None:
    check_python_here(sys.executable)
    link = tmp_path / "python"
    link.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    link.chmod(0o755)
    with pytest.raises(EnvironmentProblem, match=r"this machine, .* lacks the package for"):
        check_python_here(str(link))
    with pytest.raises(EnvironmentProblem, match=r"cannot run nowhere \(.*No such file"):
        check_python_here("nowhere")


class Cluster(Workers):
    """Executors that answer what a test says."""

    def __init__(self, table: Path, answers: dict[str, dict[str, str]]) -> None:
        self._master, self._table, self._python = "spark://m:1", str(table), "py"
        self._fit, self._look_at, self._lost_at = set(), 0.0, None
        self.answers = answers
        self.asked: list[list[str]] = []

    def _executors(self) -> dict[str, str]:
        return {number: f"h{number}:1" for number in self.answers}

    def _answers(self, folder: str) -> dict[str, str]:
        self.asked.append(sorted(self.answers))
        idle = {n: other for n, other in self.answers.items() if other != BUSY}
        return {n: answer(Path(folder), **other) for n, other in idle.items()}


class Query(StreamingQuery):
    """A streaming query as far as it is watched."""

    status: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        self.status["isTriggerActive"] = True


def test_an_executor_is_asked_once_and_one_that_joins_is_asked_too(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, {"0": {}})
    cluster.check()
    cluster.check()
    assert cluster.asked == [["0"]]
    cluster.answers["1"] = {"python": "3.7"}
    for _ in range(2):
        with pytest.raises(EnvironmentProblem, match=r"worker at h1:1 \(executor 1\) runs Python"):
            cluster.check()
    del cluster.answers["1"]
    cluster.check()
    assert len(cluster.asked) == 3
    assert os.listdir(tmp_path) == []


def test_executors_are_waited_for_with_a_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "WAIT_SECONDS", 0.3)
    with pytest.raises(EnvironmentProblem, match="spark://m:1 has given this job no executor for"):
        Cluster(tmp_path, {}).check()
    busy = Cluster(tmp_path, {"0": {}, "1": BUSY})
    with pytest.raises(EnvironmentProblem, match="workers at h1:1 have answered nothing for"):
        busy.check()
    assert len(busy.asked) > 1


def test_a_batch_without_executors_is_ended_and_an_idle_stream_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "WAIT_SECONDS", 0.2)
    monkeypatch.setattr(workers, "LOOK_SECONDS", 0.0)
    cluster, query = Cluster(tmp_path, {"0": {}}), Query()

    def watched(seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            cluster.watch(query)

    watched(0.4)
    cluster.answers.clear()
    query.status["isTriggerActive"] = False
    watched(0.4)
    query.status["isTriggerActive"] = True
    cluster.watch(query)
    cluster.answers["1"] = {}
    time.sleep(0.3)
    cluster.watch(query)
    cluster.answers.clear()
    cluster.watch(query)
    with pytest.raises(EnvironmentProblem, match=r"spark://m:1 has given this job no executor for"):
        watched(60)


def test_only_so_many_machines_are_named(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, {str(n): {"python": "3.7"} for n in range(5)})
    with pytest.raises(EnvironmentProblem, match=r"h2:1 [^;]*; and 2 more; nothing was committed$"):
        cluster.check()


@pytest.mark.parametrize(
    "master",
    [
        "local",
        "local[4]",
        "local[*]",
        "local[2,8]",
        "spark://h:7077",
        "spark://a.b:7077,10.0.0.2:7078",
    ],
)
def test_masters_that_are_taken(master: str) -> None:
    assert checked_master(master) == master


@pytest.mark.parametrize(
    "master",
    ["", "yarn", "k8s://h:1", "spark://h", "local[x]", "local[0]", "local[2,0]", "localhost"],
)
def test_a_master_that_the_jobs_cannot_work_with_is_refused(master: str) -> None:
    with pytest.raises(OptionError, match=r"give local\[N\], N above 0, or a standalone master"):
        checked_master(master)
