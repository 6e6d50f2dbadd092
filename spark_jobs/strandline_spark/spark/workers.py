"""The checks of a Spark cluster's executors before a job commits anything that they did: Python
version, package, and the table's folder. On a local master no check is needed.

Each executor is checked once, before the first batch in which it may take part is committed. Its
JVM runs the interpreter as for a task. So a Python of another version or without the package shows
in the answer. In a task it would only cause an error of Spark that names neither machine nor
remedy, and that another machine may hide.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from strandline_spark.errors import EnvironmentProblem
from strandline_spark.spark.session import is_local
from strandline_spark.stores.paths import is_remote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

WAIT_SECONDS: Final = 60.0
"""How long a cluster may take to give the job an executor, and an executor to answer."""
POLL_SECONDS: Final = 0.2
LOOK_SECONDS: Final = 5.0
"""Interval at which a batch's executors are counted while it runs."""
HERE_SECONDS: Final = 60.0
_NAMED_MAX: Final = 3
_SOURCE: Final = Path(__file__).with_name("worker_probe.py").read_text(encoding="utf-8")
# Input is read to its end: Spark treats a pipe that is closed early as a failure of the task. A
# standalone worker passes the executor's number only in the addresses of its logs.
_ASK: Final = (
    'cat >/dev/null; printf "%s\\n" "$SPARK_LOG_URL_STDOUT"; "$1" -c "$2" "$3" 2>&1; exit 0'
)
_NUMBER: Final = re.compile(r"executorId=(\w+)")


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of one interpreter about itself."""

    python: str
    executable: str
    package: str | None
    missing: str | None
    """Reason why the package does not load, or what it lacks; None if it is complete."""
    file: str
    """Name of the file that the interpreter wrote."""
    unwritable: str | None
    """Reason why it could not write the file; None if it could."""


class Workers:
    """The executors of one session that passed the checks."""

    def __init__(self, spark: SparkSession, *, master: str, table: str, python: str) -> None:
        self.context = spark.sparkContext
        self._master = master
        self._table = table
        self._python = python
        self._fit: set[str] = set()
        self._look_at = 0.0
        self._lost_at: float | None = None

    def watch(self, query: StreamingQuery) -> None:
        """Raises EnvironmentProblem once a running batch has had no executor for the limit.

        Spark would wait for ever. Call it repeatedly. A stream without work needs no executor.
        """
        now = time.monotonic()
        if is_local(self._master) or now < self._look_at:
            return
        self._look_at = now + LOOK_SECONDS
        if self._executors() or not query.status["isTriggerActive"]:
            self._lost_at = None
        elif self._lost_at is None:
            self._lost_at = now
        elif now - self._lost_at > WAIT_SECONDS:
            raise EnvironmentProblem(f"{self._silent({})}; start the job again then, it goes on")

    def check(self) -> None:
        """Raises EnvironmentProblem, with machine and remedy, unless all present executors pass. An
        executor that passed is not checked again.
        """
        if is_local(self._master):
            return
        deadline = time.monotonic() + WAIT_SECONDS
        while not (executors := self._executors()) or not executors.keys() <= self._fit:
            if executors:
                self._ask(executors)
            if time.monotonic() > deadline:
                raise EnvironmentProblem(self._silent(executors))
            time.sleep(POLL_SECONDS)

    def _executors(self) -> dict[str, str]:
        """Returns the address of each executor by its number. Spark knows executors before it lists
        them.
        """
        context: Any = self.context._jsc.sc()
        addresses = {
            one.id(): one.hostPort() for one in _each(context.statusStore().executorList(True))
        }
        return {number: addresses.get(number, "?") for number in _each(context.getExecutorIds())}

    def _ask(self, executors: dict[str, str]) -> None:
        problems = []
        with _meeting_place(self._table) as folder:
            for number, text in self._answers(folder).items():
                why = unfit(text, folder, table=self._table, python=self._python)
                if why is None:
                    self._fit.add(number)
                else:
                    at = executors.get(number, "?")
                    problems.append(f"the worker at {at} (executor {number}) {why}")
        if problems:
            raise EnvironmentProblem(f"{_some(sorted(problems))}; nothing was committed")

    def _answers(self, folder: str) -> dict[str, str]:
        """Returns the output of each executor's interpreter. There is one task for each slot, so an
        executor without an answer was busy.
        """
        jobs: Any = self.context._jsc
        java: Any = self.context._jvm
        tasks, command = java.java.util.ArrayList(), java.java.util.ArrayList()
        for task in range(self.context.defaultParallelism):
            tasks.add(task)
        for part in ("/bin/sh", "-c", _ASK, "sh", self._python, _SOURCE, folder):
            command.add(part)
        answers = {}
        for lines in jobs.parallelize(tasks, tasks.size()).pipe(command).glom().collect():
            number = _NUMBER.search(lines[0])
            if number is not None:
                answers[number[1]] = "\n".join(lines[1:])
        return answers

    def _silent(self, executors: dict[str, str]) -> str:
        unheard = sorted(executors[number] for number in executors.keys() - self._fit)
        if unheard:
            return (
                f"the workers at {_some(unheard)} have answered nothing for {WAIT_SECONDS:.0f} s:"
                f" see there what keeps them; nothing was committed"
            )
        return (
            f"{self._master} has given this job no executor for {WAIT_SECONDS:.0f} s: see on the"
            " master's page whether workers are alive, with a core and the memory of an executor"
            " free (spark.executor.memory, 1 GiB unless set)"
        )


def check_python_here(python: str) -> None:
    """Raises EnvironmentProblem unless the workers' interpreter passes on this machine, where it
    plans the batches. The table may not exist yet, so the check writes into a temporary folder.
    """
    if python == sys.executable:
        return
    with tempfile.TemporaryDirectory() as folder:
        try:
            run = subprocess.run(
                [python, "-c", _SOURCE, folder],
                capture_output=True,
                text=True,
                timeout=HERE_SECONDS,
                check=False,
            )
            text = run.stdout + run.stderr
        except (OSError, subprocess.TimeoutExpired) as failure:
            text = str(failure)
        why = unfit(text, folder, table=folder, python=python)
    if why is not None:
        raise EnvironmentProblem(f"this machine, which plans the batches, {why}")


def unfit(text: str, folder: str, *, table: str, python: str) -> str | None:
    """Returns why the machine with this answer cannot work for the job, and the remedy; None if it
    can.
    """
    answer = understood(text)
    if answer is None:
        last = (text.strip().splitlines() or ["no output"])[-1]
        return (
            f"cannot run {python} ({last}): install it there, or name an interpreter that every"
            " machine has with --worker-python"
        )
    own = "{}.{}".format(*sys.version_info[:2])
    if answer.python != own:
        return (
            f"runs Python {answer.python} ({answer.executable}), this job Python {own}: install"
            " that there, or name an interpreter that every machine has with --worker-python"
        )
    version = metadata.version("strandline")
    if answer.missing is not None:
        needed = "strandline[spark,objects]" if is_remote(folder) else "strandline[spark]"
        return (
            f"lacks the package for {answer.executable} ({answer.missing}): install it there, with"
            f" {answer.executable} -m pip install '{needed}=={version}'"
        )
    if answer.package != version:
        return (
            f"has strandline {answer.package} for {answer.executable}, this job {version}: install"
            " the same version on every machine"
        )
    if is_remote(folder):
        return None
    if answer.unwritable is not None or not os.path.exists(os.path.join(folder, answer.file)):
        why = answer.unwritable or "what it writes there is not seen here"
        return (
            f"does not share the table's folder {table} ({why}): mount it there under the same"
            " path, or choose one that all machines can write to"
        )
    return None


def understood(text: str) -> Answer | None:
    """Parses an answer; None for text that no probe printed. Warnings of the interpreter may
    precede it.
    """
    try:
        return Answer(**json.loads(text.strip().splitlines()[-1]))
    except (IndexError, ValueError, TypeError, RecursionError):
        return None


@contextlib.contextmanager
def _meeting_place(table: str) -> Iterator[str]:
    """Yields a folder inside the table's that is no part of the table, for files that all sides
    should see. An object store's address is yielded as it is: each file is looked for there before
    a commit.
    """
    if is_remote(table):
        yield table
        return
    folder = tempfile.mkdtemp(prefix="_workers-", dir=table)
    try:
        # Workers may run as other users, who can access the table's folder.
        shutil.copymode(table, folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _each(sequence: Any) -> Iterator[Any]:
    """Yields the elements of a Scala sequence."""
    return (sequence.apply(place) for place in range(sequence.size()))


def _some(texts: list[str]) -> str:
    more = len(texts) - _NAMED_MAX
    return "; ".join(texts[:_NAMED_MAX]) + (f"; and {more} more" if more > 0 else "")
