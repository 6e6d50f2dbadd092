"""A standalone Spark cluster of real processes on this machine, from pip's package: a master and
workers, each at a loopback address of its own, so that messages can say which one they mean.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from pyspark.find_spark_home import _find_spark_home

from strandline_local.processes import ServerProcess
from strandline_spark.spark.class_archive import java_options
from support.cluster import eventually
from support.command import clean_environ

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PYTHON: Final = "worker-python"
"""The name under which each worker's PATH has an interpreter."""
MASTER: Final = "127.0.0.1"
_STARTED: Final = re.compile(r"Starting Spark master at (spark://[\w.]+:\d+)")
_FRUGAL: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_SHORT: Final = "-XX:TieredStopAtLevel=1"
"""For JVMs that live for seconds: code is compiled once, and soon."""
_WAIT_FOR_CORES: Final = (
    "-Dspark.cores.max={} -Dspark.scheduler.minRegisteredResourcesRatio=1"
    " -Dspark.scheduler.maxRegisteredResourcesWaitingTime=120s"
)
_COMPILED: Final = """
PYTHONPATH=$(printf %s "$PYTHONPATH" | tr : '\\n' | grep -Ev '[.](zip|jar)$' | paste -sd :)
"""
"""PySpark as pip has compiled it, not from Spark's zip file, which each process compiles anew."""
_END_S: Final = 20.0


class SparkStandalone:
    """One executor of one core on each worker."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.processes: dict[str, ServerProcess] = {}
        self.pids: dict[str, int] = {}
        """Of the master and of workers by address, dead ones too."""
        self.url = ""

    def start(self) -> None:
        self._start("master", MASTER, ["master.Master", "--host", MASTER], {})
        self.url = eventually(self._address, "Spark's master has started")

    def _start(
        self,
        name: str,
        host: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        before: Sequence[str] = (),
    ) -> None:
        spark_class = os.path.join(_find_spark_home(), "bin", "spark-class")
        kind, *rest = arguments
        command = [*before, spark_class, f"org.apache.spark.deploy.{kind}", "--port", "0", *rest]
        process = ServerProcess(
            name=name,
            pid_file=self.directory / f"{name}.pid",
            log_file=self.directory / f"{name}.log",
        )
        own = {
            "SPARK_LOCAL_IP": host,
            "SPARK_LOCAL_DIRS": str(self.directory / f"{name}.tmp"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": _FRUGAL,
            "JDK_JAVA_OPTIONS": " ".join([*java_options(), _SHORT]),  # of executors too
        }
        environ = {**os.environ, **own, **environment}
        self.pids[name] = process.start([*command, "--webui-port", "0"], environ)
        self.processes[name] = process

    def _address(self) -> str | None:
        found = _STARTED.search(self.processes["master"].log_file.read_text())
        return None if found is None else found[1]

    def add_worker(
        self,
        host: str,
        python: str | None = sys.executable,
        *,
        before: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """A worker with one core at the address `host`; `before` is put in front of its command.
        With None for Python its PATH has none of that name.
        """
        path = self.directory / f"{host}.bin"
        path.mkdir(exist_ok=True)
        (path / PYTHON).unlink(missing_ok=True)
        if python is not None:
            launcher = path / PYTHON
            first = _COMPILED if python == sys.executable else "\n"
            launcher.write_text(f'#!/bin/sh{first}exec "{python}" "$@"\n')
            launcher.chmod(0o755)
        work = ["--cores", "1", "--memory", "1g", "--work-dir", str(self.directory / host)]
        self._start(
            host,
            host,
            ["worker.Worker", "--host", host, *work, self.url],
            {"PATH": f"{path}:{os.environ['PATH']}", **(environment or {})},
            before,
        )
        log = self.processes[host].log_file
        eventually(
            lambda: "Successfully registered with master" in log.read_text(),
            f"Spark's worker {host} has registered",
        )

    def start_job(
        self,
        host: str,
        bootstrap: str,
        root: Path,
        *more: str,
        job: Sequence[str] = (),
        outputs: tuple[int | IO[str], int | IO[str]] = (subprocess.PIPE, subprocess.PIPE),
        executors: int = 1,
    ) -> subprocess.Popen[str]:
        """A job (else `ingest bronze` of topic `t` into `root`), planned by the Python of the
        worker `host`. Its first task waits for so many executors.
        """
        places = ("--table", str(root / "table"), "--checkpoint", str(root / "checkpoint"))
        own = {
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PATH": f"{self.directory / host}.bin:{os.environ['PATH']}",
        }
        if executors > 1:
            own["SPARK_SUBMIT_OPTS"] = _WAIT_FOR_CORES.format(executors)
        return start_job(
            job or ("ingest", "bronze", "--topics", "t", *places),
            bootstrap,
            *("--master", self.url, "--worker-python", PYTHON, *more),
            outputs=outputs,
            environment=own,
        )

    def kill_worker(self, host: str) -> None:
        """SIGKILL to the worker, its executor, and all Python processes of theirs."""
        end_session(self.pids[host])
        self.processes.pop(host).wait_until_gone(_END_S)

    def executors(self, host: str) -> list[int]:
        """Executors that live on the worker."""
        return with_word(self.pids[host], "CoarseGrainedExecutorBackend")

    def end(self) -> None:
        for pid in self.pids.values():
            end_session(pid)
        for process in self.processes.values():
            process.wait_until_gone(_END_S)
        shutil.rmtree(self.directory, ignore_errors=True)


def start_job(
    job: Sequence[str],
    bootstrap: str,
    *more: str,
    outputs: tuple[int | IO[str], int | IO[str]] = (subprocess.PIPE, subprocess.PIPE),
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[str]:
    """`strandline-spark JOB`, in a session of its own with all processes of Spark's that it starts;
    on a local master unless the options name another.
    """
    arguments = [*job, "--bootstrap", bootstrap, "--format", "json", *more]
    return subprocess.Popen(
        [sys.executable, "-m", "strandline_spark.commands.main", *arguments],
        stdout=outputs[0],
        stderr=outputs[1],
        text=True,
        env=clean_environ({"JDK_JAVA_OPTIONS": _SHORT, **(environment or {})}),
        start_new_session=True,
    )


def in_session(leader: int) -> dict[int, str]:
    """The command lines of the processes that live in the session of this one, by pid."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                fields = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()
                if fields[0] not in "ZX" and int(fields[3]) == leader:
                    line = Path("/proc", name, "cmdline").read_bytes()
                    found[int(name)] = line.replace(b"\0", b" ").decode()
    return found


def with_word(leader: int, word: str) -> list[int]:
    """Those of them whose command line has the word."""
    return [pid for pid, line in in_session(leader).items() if word in line]


def end_session(leader: int) -> None:
    """SIGKILL to all of them, until none is left."""
    deadline = time.monotonic() + _END_S
    while living := in_session(leader):
        assert time.monotonic() < deadline, living
        for pid in living:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


@contextlib.contextmanager
def spark_standalone(directory: Path) -> Iterator[SparkStandalone]:
    directory.mkdir()
    made = SparkStandalone(directory)
    try:
        made.start()
        yield made
    finally:
        made.end()
