"""A sweep: a process for each core, one plan at a time.

A worker that dies, or does not end its run in time, takes only that run with it. The run counts as
broken, with the worker's last output, and another worker takes its place.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Final

from strandline_proof.sim.run.report import Broken, RunSummary, read_summary
from strandline_proof.sim.sweep.worker import READY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from strandline_proof.sim.plan.plan import Plan

START_S: Final = 300.0
RUN_S: Final = 180.0
"""Longest time of a run; one takes half a second, so a run of that time would never end."""
END_S: Final = 5.0
LOOK_S: Final = 1.0
TAIL: Final = 4000
COMMAND: Final = (sys.executable, "-P", "-m", "strandline_proof.sim.sweep.worker")


class NoWorker(Exception):
    """A worker cannot even start; the message has its output."""


class _Worker:
    def __init__(self, command: Sequence[str], run_s: float) -> None:
        self._run_s = run_s
        self.plan: Plan | None = None
        self._ready = False
        self._received = b""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        # In a session of its own: Ctrl-C goes to this process, and the worker's copies end with it.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
        )
        self._until = time.monotonic() + START_S

    def fileno(self) -> int:
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def give(self, plan: Plan) -> None:
        assert self._process.stdin is not None
        self.plan = plan
        if self._ready:
            self._until = time.monotonic() + self._run_s
        try:
            self._process.stdin.write(json.dumps(plan.document()).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return  # the next read shows what has become of it

    def take(self) -> RunSummary | None:
        """The worker's answer; None if it is not whole yet. Raises NoWorker."""
        data = os.read(self.fileno(), 1 << 20)
        if not data:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_S)  # it sends nothing more, and may still be about to exit
            return self._died(f"its process ended with status {self.end()}")
        self._received += data
        if not self._ready and self._received.startswith(READY):
            self._ready = True
            self._received = self._received.removeprefix(READY)
            self._until = time.monotonic() + self._run_s
        if not self._received.endswith(b"\n"):
            return None
        plan, self.plan = self.plan, None
        answer, self._received = self._received, b""
        assert plan is not None, answer
        return read_summary(plan, json.loads(answer))

    def overdue(self) -> RunSummary | None:
        """The failure of a run that does not end; the process is ended then."""
        if self.plan is None or time.monotonic() < self._until:
            return None
        self.end()
        if not self._ready:
            return self._died(f"its process was not ready within {START_S:.0f} s")
        return self._died(f"the run did not end within {self._run_s:.0f} s")

    def _died(self, why: str) -> RunSummary:
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - TAIL))
        said = self._errors.read().decode(errors="replace").strip()
        if not self._ready or self.plan is None:
            raise NoWorker(f"a worker of the sweep cannot start: {why}\n{said}")
        return RunSummary(self.plan, Broken("crash", why, said))

    @property
    def has_ended(self) -> bool:
        return self._process.returncode is not None

    def end(self) -> int:
        """Kills the worker and its copies if it still runs; returns its exit status."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        return self._process.wait()

    def close(self) -> None:
        self.end()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            assert stream is not None
            try:
                stream.close()
            except BrokenPipeError:
                continue  # the worker never read this plan


class Pool:
    """Runs plans on `jobs` processes and reports each result, in the order in which they end.

    `run_s` bounds a run, in real seconds.
    """

    def __init__(
        self, jobs: int, *, command: Sequence[str] = COMMAND, run_s: float = RUN_S
    ) -> None:
        self._jobs = jobs
        self._command = command
        self._run_s = run_s
        self._selector = selectors.DefaultSelector()
        self._workers: list[_Worker] = []

    def sweep(self, plans: Iterable[Plan], on_result: Callable[[RunSummary], None]) -> None:
        """Runs all plans. Raises NoWorker; no process is left however it ends."""
        coming = iter(plans)
        try:
            for plan in coming:
                self._start().give(plan)
                if len(self._workers) == self._jobs:
                    break
            while self._workers:
                for worker, result in self._results():
                    on_result(result)
                    self._go_on(worker, next(coming, None))
        finally:
            for worker in list(self._workers):
                self._drop(worker)
            self._selector.close()

    def _results(self) -> list[tuple[_Worker, RunSummary]]:
        found = []
        for key, _ in self._selector.select(LOOK_S):
            worker = key.fileobj
            assert isinstance(worker, _Worker)
            if (result := worker.take()) is not None:
                found.append((worker, result))
        done = {worker for worker, _ in found}
        for worker in self._workers:
            if worker not in done and (result := worker.overdue()) is not None:
                found.append((worker, result))
        return found

    def _go_on(self, worker: _Worker, plan: Plan | None) -> None:
        if plan is None or worker.has_ended:
            self._drop(worker)
            worker = self._start() if plan is not None else worker
        if plan is not None:
            worker.give(plan)

    def _start(self) -> _Worker:
        worker = _Worker(self._command, self._run_s)
        self._workers.append(worker)
        self._selector.register(worker, selectors.EVENT_READ)
        return worker

    def _drop(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        self._selector.unregister(worker)
        worker.close()
