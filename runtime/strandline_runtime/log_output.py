"""A server's log lines on their way out: a bounded queue, and a thread that writes them.

The program that logs must not depend on what takes the lines. A full disk, a pipe without a reader
and a closed pipe raise nothing here and hold up no caller: lines that do not fit are dropped and
counted, and the count stands in the log where they are missing.
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
"""After an error: a disk that is full now may have room later."""
FLUSH_S: Final = 2.0
"""The end of a process waits no longer than this for its last lines."""


def plain_notice(dropped: int) -> str:
    return f"strandline: {dropped} log lines were dropped, their output took no more\n"


class LogOutput:
    """Lines for one descriptor. `put` never waits for the descriptor and never raises."""

    def __init__(self, descriptor: int = STDERR, *, queue_bytes: int = QUEUE_BYTES) -> None:
        self.notice: Callable[[int], str] = plain_notice
        """Makes the line that says how many are missing."""
        self.dropped = 0
        """Lines that were never written, since the start."""
        self._descriptor = descriptor
        self._room = queue_bytes
        self._queue: deque[bytes | int] = deque()
        """Lines, and for lines that were dropped their number, in the order of their events."""
        # Reentrant: a finalizer that runs inside of `put` may log too.
        self._changed = threading.Condition(threading.RLock())
        self._cut_short = False
        self._flushes = 0
        self._failed = 0
        """The number of the last flush after which the output has failed."""
        threading.Thread(target=self._run, name="log-output", daemon=True).start()

    def put(self, text: str) -> None:
        """Take one or more whole lines, which are written or dropped together."""
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
        """Whether all lines are written, within the limit; an error ends the wait at once."""
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
        elif isinstance(first, int) and first > written:  # more were dropped meanwhile
            self._queue.appendleft(first - written)

    def _write(self, first: bytes | int) -> bool:
        """Whether all of it is written; if not, it is tried again. Waits while a pipe is full."""
        data = self.notice(first).encode() if isinstance(first, int) else first
        # Half a line may stand there, if there was room for no more.
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
    """`sys.stderr` of a server: whatever writes to it goes through the queue, traceback, warnings
    and other libraries' complaints included.
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
        """Lines go out by themselves; what is no line yet becomes one."""
        rest, self._unfinished = self._unfinished, ""
        if rest:
            self.output.put(rest + "\n")

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return STDERR


def take_over_stderr() -> None:
    """Let everything that this process says on standard error go through a `LogOutput`. First thing
    in a program: what the shell has closed becomes /dev/null, as the next file to be opened would
    take its number, and get what is said.
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
    """Where standard error goes, if it has been taken over."""
    return sys.stderr.output if isinstance(sys.stderr, LogStream) else None


def _stop_blocking(descriptor: int) -> None:
    """Let writes to a pipe or terminal that takes no more fail instead of waiting.

    gRPC's C code writes its complaints there as well, from the thread that serves the sockets. The
    pipe is opened once more, as the mode of the first opening is shared with other processes. What
    cannot be opened so, as a socket, is left alone: our own lines are written by a thread anyway.
    """
    with contextlib.suppress(OSError):
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode) or os.isatty(descriptor):
            flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            opened = os.open(f"/proc/self/fd/{descriptor}", flags)
            os.dup2(opened, descriptor)
            os.close(opened)


def flush_stderr() -> None:
    """Write out what was said on standard error, within a bound."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            sys.stderr.flush()
    output = output_of_stderr()
    if output is not None:
        output.flush()


def end_process(status: int) -> NoReturn:
    """End with the last lines written, within a bound, and without waiting for any thread: one may
    wait for a pipe or a disk for ever.
    """
    flush_stderr()
    if sys.stdout is not None:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
    os._exit(status)
