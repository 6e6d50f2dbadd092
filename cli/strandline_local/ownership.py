"""The tie between a cluster's processes and the program that owns them.

The owner holds the writing end of a pipe, and each server inherits the reading end. The kernel
closes the writing end when the owner ends, by SIGKILL too. Each server then reads the end of the
pipe and ends itself, so no process is killed by a pid that may belong to another by now.

A server that is stopped by SIGSTOP cannot read. A guard with a pipe of its own runs beside it, and
continues it when the owner ends. A guard also takes back rules of the network.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from strandline_local.errors import ClusterError

_GUARD: Final = """
import os, signal, subprocess, sys
for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
if os.read(int(sys.argv[1]), 1) == b"":
    subprocess.run(sys.argv[2:], check=False)
"""
_DISMISSED: Final = b"."


class _OwnEnd:
    """The writing end of a pipe, which a forked child of the program does not keep open."""

    def __init__(self) -> None:
        try:
            self.descriptor, self._own_end = os.pipe()
        except OSError as why:
            raise ClusterError(
                f"no pipe to the servers: {why.strerror}: raise the limit on open files (ulimit -n)"
            ) from why
        os.register_at_fork(after_in_child=self.close)

    def say(self, word: bytes) -> None:
        """Write to a reader that may have ended."""
        if self._own_end >= 0:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._own_end, word)

    def close(self) -> None:
        """Close the writing end; the reader reads the end of the pipe."""
        if self._own_end >= 0:
            own_end, self._own_end = self._own_end, -1
            os.close(own_end)


class Owner(_OwnEnd):
    """The owner's end of the pipe. The servers inherit `descriptor`.

    They end with `close`, or with the program.
    """

    def close(self) -> None:
        if self._own_end >= 0:
            os.close(self.descriptor)
        super().close()


class Guard:
    """A process that runs `undo` if the program ends before `dismiss`."""

    def __init__(self, undo: Sequence[str]) -> None:
        self._end = _OwnEnd()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _GUARD, str(self._end.descriptor), *undo],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(self._end.descriptor,),
                start_new_session=True,
            )
        except OSError as why:
            self._end.close()
            raise ClusterError(f"no guard for a fault can be started: {why.strerror}") from why
        finally:
            os.close(self._end.descriptor)

    def dismiss(self) -> None:
        """End the guard without its work, after the fault was undone."""
        self._end.say(_DISMISSED)
        self._end.close()
        self._process.wait()


def continued(pid: int) -> list[str]:
    """The command that undoes SIGSTOP. It does nothing to a process that is not stopped."""
    program = f"import os; os.kill({pid}, {int(signal.SIGCONT)})"
    return [sys.executable, "-I", "-S", "-c", program]
