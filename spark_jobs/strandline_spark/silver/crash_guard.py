"""The search for records that end the process that parses them, or that parse without end. Each is
found and named, or by a setting sent to quarantine.

A task's first attempt parses directly, with a deadline after which its process ends itself. So a
worker that dies costs the task one attempt. Each later attempt lets a child process parse a batch
first. If the child dies, halves of the batch are tried until the record is found alone. A batch of
n records takes about log2(n) children for one such record. Then the worker itself parses the parts
that the child survived.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import pickle
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from strandline_spark.errors import EnvironmentProblem, TableError
from strandline_spark.parsing.faults import Reason, fault
from strandline_spark.parsing.inference import merge_fields
from strandline_spark.parsing.parser import make_parser
from strandline_spark.parsing.settings import Parsed, ParseSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_spark.parsing.parser import Parser

START_SECONDS: Final = 120.0
"""How long a child may take to start: its libraries are large, and machines are busy."""
SHARE_MIN: Final = 8
"""Least part of the deadline for a part of a batch, whose share follows its size."""
FOUND_MAX: Final = 20
"""Limit of such records in one batch; more of them mean that something else is wrong."""
_CHILD: Final = "strandline_spark.silver.crash_child"
_STDERR: Final = 2
_BATCH: Final = "batch.arrow"
_SETTINGS: Final = "settings"


def parser_for(settings: ParseSettings, topic: str) -> Parser | Watched | Guarded:
    """Returns the parser for this process: a task's first attempt, a later one, or no task."""
    from pyspark import TaskContext

    parser = make_parser(settings)
    context = TaskContext.get()
    if context is None:
        return Guarded(settings, parser, topic) if settings.on_crash == "quarantine" else parser
    if context.attemptNumber() == 0:
        return Watched(settings, parser)
    return Guarded(settings, parser, topic)


class Watched:
    """A parser whose process ends if a batch takes longer than the deadline."""

    def __init__(self, settings: ParseSettings, parser: Parser) -> None:
        self._seconds = settings.deadline_seconds
        self._parser = parser

    def parse(self, batch: Any) -> Parsed:
        # A thread of C waits, so it also ends a call that never releases the interpreter.
        faulthandler.dump_traceback_later(self._seconds, exit=True, file=_STDERR)
        try:
            return self._parser.parse(batch)
        finally:
            faulthandler.cancel_dump_traceback_later()


class Guarded:
    """A parser that first lets a child process parse each batch."""

    def __init__(self, settings: ParseSettings, parser: Parser, topic: str) -> None:
        self._settings = settings
        self._parser = Watched(settings, parser)
        self._topic = topic
        self._folder = tempfile.mkdtemp(prefix="strandline-parse-")
        self._child: Child | None = None
        self.children = 0
        self._end = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        with open(os.path.join(self._folder, _SETTINGS), "wb") as file:
            pickle.dump(settings, file)

    def parse(self, batch: Any) -> Parsed:
        """Parses a batch. Raises TableError, with the record's place, unless such records go to
        quarantine.
        """
        path = os.path.join(self._folder, _BATCH)
        with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
            writer.write_batch(batch)
        found: list[tuple[int, Parsed]] = []
        crashes: list[tuple[int, str]] = []
        for start, stop, why in self._parts(batch.num_rows):
            if why is None:
                part = batch if stop - start == batch.num_rows else part_of(batch, start, stop)
                found.append((start, self._parser.parse(part)))
                continue
            crashes.append((start, why))
            if self._settings.on_crash != "quarantine" or len(crashes) > FOUND_MAX:
                raise self._refusal(batch, crashes)
        if not crashes and len(found) == 1:
            return found[0][1]
        return _merged(found or [(0, self._parser.parse(part_of(batch, 0, 0)))], crashes)

    def _parts(self, rows: int) -> Iterator[tuple[int, int, str | None]]:
        """Yields parts of the batch in order. A part that a child survived has None; a single
        record that no child survived has the way in which the child ended.
        """
        left = [(0, rows)]
        while left:
            start, stop = left.pop()
            share = max((stop - start) / max(rows, 1), 1 / SHARE_MIN)
            why = self._tried(start, stop, self._settings.deadline_seconds * share)
            if why is None or stop - start == 1:
                yield start, stop, why
            else:
                middle = (start + stop) // 2
                left += [(middle, stop), (start, middle)]

    def _tried(self, start: int, stop: int, seconds: float) -> str | None:
        """Lets a child parse the part, and returns how the child ended; None if it lives."""
        if self._child is None:
            self._child = Child(self._folder)
            self.children += 1
        child = self._child
        why = child.parse(start, stop, seconds)
        if child.has_ended:
            self._child = None
        return why

    def _refusal(self, batch: Any, crashes: list[tuple[int, str]]) -> TableError:
        row, why = crashes[0]
        partition, offset = (batch.column(name)[row].as_py() for name in ("partition", "offset"))
        place = f"{self._topic}:{partition} offset {offset}"
        if len(crashes) > FOUND_MAX:
            return TableError(
                f"more than {FOUND_MAX} records of one batch end the process that parses them, the"
                f" first at {place} ({why}): see whether the workers have enough memory, and"
                " correct [silver] of the pipeline's file"
            )
        return TableError(
            f"the record at {place} ends the process that parses it ({why}): say on_crash ="
            ' "quarantine" in [silver] of the pipeline\'s file, and it goes to quarantine, or'
            " correct how it is parsed there"
        )


class Child:
    """One child process, which parses parts of the batch in the folder."""

    def __init__(self, folder: str) -> None:
        """Starts the process. Raises EnvironmentProblem if it does not start."""
        command = [sys.executable, "-m", _CHILD, folder]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env=environment
        )
        self._end = weakref.finalize(self, _end_process, self._process)
        if self._answer(START_SECONDS) != "ready":
            raise EnvironmentProblem(
                f"a process that parses records apart does not start ({self._how_it_ended()}): see"
                " whether the machine has memory for it; the job may be started again then"
            )

    @property
    def has_ended(self) -> bool:
        return not self._end.alive

    def parse(self, start: int, stop: int, seconds: float) -> str | None:
        """Returns how the process ended, or the parser's error; None if it has parsed the part."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{start} {stop} {seconds:.3f}\n".encode())
        answer = self._answer(seconds)
        if answer is not None:
            return answer or None
        return self._how_it_ended()

    def _answer(self, seconds: float) -> str | None:
        """Returns the next line; None if there is none within the time."""
        assert self._process.stdout is not None
        deadline, line = time.monotonic() + seconds, b""
        while not line.endswith(b"\n"):
            left = deadline - time.monotonic()
            ready = select.select([self._process.stdout], [], [], max(0.0, left))[0]
            more = os.read(self._process.stdout.fileno(), 4096) if ready else b""
            if not more:
                return None
            line += more
        return line.decode("utf-8", "replace").rstrip("\n")

    def _how_it_ended(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            # The process closes its output a moment before it ends.
            self._process.wait(1.0)
        status = self._process.poll()
        self._end()
        if status is None:
            return "no end in time"
        return signal.Signals(-status).name if status < 0 else f"exit status {status}"


def _end_process(process: subprocess.Popen[bytes]) -> None:
    with process:
        process.kill()


def part_of(batch: Any, start: int, stop: int) -> Any:
    """Returns a copy of some rows, whose buffers begin with them."""
    return batch.take(pa.array(range(start, stop), pa.int64()))


def read_batch(folder: str) -> Any:
    """Returns the batch that the worker has written; for the child."""
    with pa.OSFile(os.path.join(folder, _BATCH), "rb") as file:
        return pa.ipc.open_file(file).get_batch(0)


def read_settings(folder: str) -> ParseSettings:
    """Returns the worker's settings; for the child."""
    with open(os.path.join(folder, _SETTINGS), "rb") as file:
        found: ParseSettings = pickle.load(file)
        return found


def _merged(parts: list[tuple[int, Parsed]], crashes: list[tuple[int, str]]) -> Parsed:
    """Merges the results of the parts, each of which begins at a row of the batch."""
    bad: list[tuple[int, str, str]] = []
    for row, why in crashes:
        reason, detail = fault(Reason.CRASH, why)
        bad.append((row, reason, detail))
    fields: dict[str, str] = {}
    for start, one in parts:
        rows = (start + row for row in one.bad_rows.to_pylist())
        bad += zip(rows, one.reasons, one.details, strict=True)
        merge_fields(fields, one.new_fields)
    bad.sort(key=lambda each: each[0])
    return Parsed(
        good=_joined([one.good for _, one in parts]),
        good_rows=_shifted([(start, one.good_rows) for start, one in parts]),
        bad_rows=pa.array([row for row, _, _ in bad], pa.int64()),
        reasons=[reason for _, reason, _ in bad],
        details=[detail for _, _, detail in bad],
        tombstone_rows=_shifted([(start, one.tombstone_rows) for start, one in parts]),
        tombstones=_joined([one.tombstones for _, one in parts]),
        seen=frozenset().union(*(one.seen for _, one in parts)),
        new_fields=fields,
    )


def _joined(batches: list[Any]) -> Any:
    schema = batches[0].schema
    columns = [pa.concat_arrays([one.column(n) for one in batches]) for n in range(len(schema))]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _shifted(parts: list[tuple[int, Any]]) -> Any:
    return pa.concat_arrays([pc.add(rows.cast(pa.int64()), start) for start, rows in parts])
