"""The bronze job on a standalone Spark cluster: a worker with an interpreter of its own, one that
is killed in mid-batch, and workers that cannot do the work, which end the job by name.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import pytest

from strandline_spark.bronze.columns import BronzeTable
from strandline_spark.bronze.verify import verify
from support.spark_standalone import SparkStandalone, spark_standalone

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.fake_broker_sync import FakeBroker, FakeTopic

DEADLINE_S: Final = 240
GOOD, OTHER, BARE, OLD, APART = (f"127.0.0.{n}" for n in range(2, 7))
HIDE: Final = 'mount -t tmpfs none "$0" && exec "$@"'
"""In a mount namespace of its own: another machine, on which the folder is empty."""


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkStandalone]:
    """A master and one good worker."""
    with spark_standalone(tmp_path_factory.mktemp("standalone") / "spark") as made:
        made.add_worker(GOOD)
        yield made


def start_job(
    standalone: SparkStandalone, broker: FakeBroker, root: Path, *more: str, executors: int = 1
) -> subprocess.Popen[str]:
    return standalone.start_job(GOOD, broker.address, root, *more, executors=executors)


def finished(job: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        out, err = job.communicate(timeout=DEADLINE_S)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)
    return job.returncode, out, err


def fill(topic: FakeTopic, batches: int) -> None:
    for p, partition in enumerate(topic.partitions):
        for _ in range(batches):
            first = partition.log_end
            partition.append([(None, b"%d/%d" % (p, first + j)) for j in range(100)])


def python_of_its_own(directory: Path) -> str:
    """An interpreter with the packages of this one; test_testing_wheel installs the wheel."""
    python = bare_python(directory)
    (packages,) = (directory / "lib").glob("python*/site-packages")
    # Folders of modules: what stands in .pth files there is not read.
    folders = [path for path in sys.path if path and os.path.isdir(path)]
    (packages / "dependencies.pth").write_text("\n".join([*folders, ""]))
    return python


def bare_python(directory: Path) -> str:
    """An interpreter of this version with no package at all."""
    command = [sys.executable, "-m", "venv", "--without-pip", str(directory)]
    subprocess.run(command, check=True, timeout=DEADLINE_S)
    return str(directory / "bin" / "python")


def other_python(directory: Path) -> tuple[str, dict[str, str]]:
    """An interpreter of another version, and its environment. Where this machine has no second
    one, it is this one, which says that it is another.
    """
    for minor in range(8, 20):
        name = shutil.which(f"python3.{minor}")
        if name is not None and minor != sys.version_info.minor:
            run = subprocess.run([name, "-c", "pass"], capture_output=True, check=False, timeout=60)
            if run.returncode == 0:
                return name, {}
    directory.mkdir()
    (directory / "sitecustomize.py").write_text("import sys\nsys.version_info = (3, 7, 0)\n")
    return sys.executable, {"PYTHONPATH": str(directory)}


@pytest.mark.spark
def test_a_worker_that_is_killed_in_mid_batch_loses_and_doubles_nothing(
    standalone: SparkStandalone, broker: FakeBroker, tmp_path: Path
) -> None:
    topic = broker.create("t", 4)
    fill(topic, 4)
    standalone.add_worker(OTHER, python_of_its_own(tmp_path / "own"))
    # Two slots: when two ranges are being read, the worker that dies is reading one of them.
    reading = threading.Barrier(2, timeout=DEADLINE_S)
    died = threading.Event()

    def die() -> None:
        if not died.is_set() and reading.wait() == 0:
            died.set()
            standalone.kill_worker(OTHER)

    for partition in topic.partitions:
        partition.on_range = die
    # A second worker must be there, or the barrier would have nobody else to wait for.
    status, out, err = finished(start_job(standalone, broker, tmp_path))
    assert status == 0, err
    assert died.is_set()
    assert json.loads(out)["rows"] == 1600
    for partition in topic.partitions:
        partition.on_range = None
    table = str(tmp_path / "table")
    found = verify(table, "t", broker.address, complete=True, values=True)
    assert [(one.rows, one.sound) for one in found] == [(400, True)] * 4
    rows = BronzeTable.open(table).delta.to_pyarrow_table(columns=["partition", "value"])
    values = set(rows.column("value").to_pylist())
    assert values == {b"%d/%d" % (p, n) for p in range(4) for n in range(400)}


EXPECTED: Final = {
    BARE: r"lacks the package for \S+ \(No module named 'strandline_spark'\): install it there",
    OLD: r"runs Python 3\.\d+ \(\S+\), this job Python 3\.\d+: install that there, or name an",
    APART: r"does not share the table's folder \S+/table \(No such file or directory\): mount it",
}


@pytest.mark.spark
@pytest.mark.proof
def test_a_worker_that_cannot_do_the_work_ends_the_job_by_name(
    standalone: SparkStandalone, broker: FakeBroker, tmp_path: Path
) -> None:
    """Each answer of a worker, and what the job then says, is in test_spark_workers."""
    fill(broker.create("t", 2), 4)
    hidden = tmp_path / "data"
    hidden.mkdir()
    apart = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", HIDE, str(hidden))
    with ThreadPoolExecutor() as pool:
        added = [pool.submit(standalone.add_worker, APART, before=apart)]
        added += [pool.submit(standalone.add_worker, BARE, bare_python(tmp_path / "bare"))]
        python, environment = other_python(tmp_path / "old")
        added += [pool.submit(standalone.add_worker, OLD, python, environment=environment)]
        for each in added:
            each.result()
    left = {APART, BARE, OLD}
    while left:
        # It goes on until it knows: an executor may join after the first batch.
        there = len(left) + 1
        job = start_job(standalone, broker, hidden, "--every", "1s", executors=there)
        status, out, err = finished(job)
        assert (status, out) == (1, ""), err
        (line,) = (one for one in err.splitlines() if one.startswith("error: "))
        assert "Traceback" not in err
        assert line.endswith("nothing was committed")
        named = {host for host in left if f"the worker at {host}:" in line}
        assert named, line
        assert GOOD not in line
        for host in named:
            assert re.search(EXPECTED[host], line), line
            standalone.kill_worker(host)
        left -= named
