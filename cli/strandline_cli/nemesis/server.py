"""`python -m strandline_cli.nemesis.server CLOCK ...`: a server whose wall clock can be moved.

CLOCK is a file of eight bytes, a double: the seconds that the server's wall clock is ahead. All of
the server's Python code reads the wall clock through `time.time` and `time.time_ns`. The monotonic
clock stays, as it does on a machine whose clock is set.
"""

import ctypes
import mmap
import os
import runpy
import signal
import struct
import sys
import time
from pathlib import Path
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_AHEAD: Final = struct.Struct("d")


def set_clock(file: Path, ahead_s: float) -> None:
    """Move the clock of the server that was started with this file, now and after a restart."""
    if not file.exists():
        file.write_bytes(_AHEAD.pack(ahead_s))
        return
    with file.open("r+b") as opened:  # the same bytes: the server has them mapped
        opened.write(_AHEAD.pack(ahead_s))


def follow_clock(file: Path) -> None:
    """Let this process's wall clock follow the file."""
    with file.open("rb") as opened:
        ahead = mmap.mmap(opened.fileno(), _AHEAD.size, access=mmap.ACCESS_READ)
    true_time, true_time_ns = time.time, time.time_ns

    def moved() -> float:
        return true_time() + float(_AHEAD.unpack_from(ahead)[0])

    def moved_ns() -> int:
        return true_time_ns() + int(_AHEAD.unpack_from(ahead)[0] * 1e9)

    time.time, time.time_ns = moved, moved_ns


def end_with_parent() -> None:
    """Let the kernel kill this process when the command that has started it dies, however."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before
        os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    if sys.platform == "linux":
        end_with_parent()
    follow_clock(Path(sys.argv[1]))
    sys.argv = ["strandline_broker", *sys.argv[2:]]
    runpy.run_module("strandline_broker", run_name="__main__")


if __name__ == "__main__":
    main()
