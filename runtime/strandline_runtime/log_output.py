"""The output of a server's log lines: a bounded queue, and a thread that writes them.

The program that logs must not depend on the output's reader. A full disk, a pipe without a reader
and a closed pipe raise nothing here and block no caller. Lines that do not fit are dropped and
counted, and the log shows the count where they are missing.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import select
import stat
import sys
import threading
from collections import deque
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

STDERR: Final = 2
QUEUE_BYTES: Final = 1 << 20
RETRY_S: Final = 1.0
"""Time between retries after an error: a disk that is full now may have room later."""
FLUSH_S: Final = 2.0
"""Limit on the wait of an ending process for its last lines."""


def plain_notice(dropped: int) -> str:
    return f"strandline: {dropped} log lines were dropped, their output took no more\n"


class LogOutput:
    """The lines for one descriptor. `put` never waits for the descriptor and never raises."""

    def __init__(self, descriptor: int = STDERR, *, queue_bytes: int = QUEUE_BYTES) -> None:
        self.notice: Callable[[int], str] = plain_notice
        """Function that makes the line with the number of missing lines."""
        self.dropped = 0
        """Number of lines that were never written, since the start."""
        self._descriptor = descriptor
        self._room = queue_bytes
        self._queue: deque[bytes | int] = deque()
        """Lines, or the number of dropped lines, in the order of their events."""
        # Reentrant: a finalizer that runs within `put` may log too.
        self._changed = threading.Condition(threading.RLock())
        self._cut_short = False
        self._flushes = 0
        self._failed = 0
        """Number of the last flush after which the output has failed."""
        threading.Thread(target=self._run, name="log-output", daemon=True).start()

    def put(self, text: str) -> None:
        """Add one or more whole lines, which are written or dropped together."""
        line = text.encode(errors="backslashreplace")
        with self._changed:
            if len(line) <= self._room:
                self._room -= len(line)
                self._queue.append(line)
            else:
                self._drop(line.count(b"\n"))
            self._changed.notify_all()

    def _drop(self, lines: int) -> None:
        self.dropped += lines
        before = self._queue.pop() if self._queue and isinstance(self._queue[-1], int) else 0
        assert isinstance(before, int)
        self._queue.append(before + lines)

    def flush(self, within_s: float = FLUSH_S) -> bool:
        """Wait until all lines are written; False at the time limit. An error ends the wait at
        once.
        """
        with self._changed:
            self._flushes += 1
            asked = self._flushes
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._queue or self._failed >= asked, within_s)
            return not self._queue

    # The thread

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue)
                first, flushes = self._queue[0], self._flushes
            written = self._write(first)
            with self._changed:
                if written:
                    self._done(first)
                else:
                    self._failed = flushes
                self._changed.notify_all()
                if not written:
                    self._changed.wait_for(lambda: self._flushes > self._failed, RETRY_S)

    def _done(self, written: bytes | int) -> None:
        first = self._queue.popleft()
        if isinstance(written, bytes):
            self._room += len(written)
        elif isinstance(first, int) and first > written:  # more lines were dropped meanwhile
            self._queue.appendleft(first - written)

    def _write(self, first: bytes | int) -> bool:
        """Write a line or a notice; False if it is incomplete and will be retried. Waits while a
        pipe is full.
        """
        data = self.notice(first).encode() if isinstance(first, int) else first
        # Half a line may have been written, if there was no room for more.
        rest = memoryview(b"\n" + data if self._cut_short else data)
        try:
            while rest:
                try:
                    rest = rest[os.write(self._descriptor, rest) :]
                    self._cut_short = True
                except BlockingIOError:
                    self._until_writable()
        except OSError:
            return False
        self._cut_short = False
        return True

    def _until_writable(self) -> None:
        waiting = select.poll()
        waiting.register(self._descriptor, select.POLLOUT)
        waiting.poll()


class LogStream(io.TextIOBase):
    """The `sys.stderr` of a server. Everything written to it uses the queue, including tracebacks,
    warnings and messages of other libraries.
    """

    encoding = "utf-8"

    def __init__(self, output: LogOutput) -> None:
        self.output = output
        self._unfinished = ""

    def write(self, text: str, /) -> int:
        whole, newline, rest = (self._unfinished + text).rpartition("\n")
        self._unfinished = rest
        if newline:
            self.output.put(whole + newline)
        return len(text)

    def flush(self) -> None:
        """Complete an unfinished line; lines are sent automatically."""
        rest, self._unfinished = self._unfinished, ""
        if rest:
            self.output.put(rest + "\n")

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return STDERR


def take_over_stderr() -> None:
    """Redirect this process's standard error to a `LogOutput`. A program calls it first.

    A descriptor that the shell has closed becomes /dev/null. Otherwise the next opened file would
    get its number, and the messages.
    """
    for descriptor in range(STDERR + 1):
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            assert opened == descriptor, (opened, descriptor)
    _stop_blocking(STDERR)
    output = LogOutput()
    sys.stderr = LogStream(output)
    atexit.register(output.flush)  # for an end by an exception


def output_of_stderr() -> LogOutput | None:
    """The output for standard error, if it was taken over."""
    return sys.stderr.output if isinstance(sys.stderr, LogStream) else None


def _stop_blocking(descriptor: int) -> None:
    """Make writes to a full pipe or terminal fail instead of waiting.

    gRPC's C code writes its messages there as well, from the thread that serves the sockets. The
    pipe is opened a second time, as other processes share the mode of the first. A descriptor that
    cannot be opened so, such as a socket, is left alone: a thread writes our own lines anyway.
    """
    with contextlib.suppress(OSError):
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode) or os.isatty(descriptor):
            flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            opened = os.open(f"/proc/self/fd/{descriptor}", flags)
            os.dup2(opened, descriptor)
            os.close(opened)


def flush_stderr() -> None:
    """Write the pending output of standard error, within a time limit."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            sys.stderr.flush()
    output = output_of_stderr()
    if output is not None:
        output.flush()


def end_process(status: int) -> NoReturn:
    """End the process. The last lines are written, within a time limit; no thread is awaited,
    because one may wait for a pipe or a disk for ever.
    """
    flush_stderr()
    if sys.stdout is not None:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
    os._exit(status)
