"""Who holds a data directory's lock: its process id, in the lock file, for people to read.

The lock itself is the system's and ends with its process; what the file says decides nothing.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from strandline_broker.storage.directory.partition_dirs import LOCK_NAME
from strandline_broker.storage.files.file import read_whole

if TYPE_CHECKING:
    from strandline_runtime.runtime import FileSystem


class LockHeld(Exception):
    """Another process has it; the message says what to do."""


def take_lock(fs: FileSystem, directory: str, pid: int | None) -> int:
    """The descriptor that holds the directory's lock; LockHeld, or OSError where there can be none.
    `pid` is left for whom it keeps out.
    """
    try:
        lock = fs.lock(f"{directory}/{LOCK_NAME}")
    except BlockingIOError as error:
        raise LockHeld(
            f"{directory} is locked by another running process{_holder(fs, directory)}; stop that "
            f"one, or give this one its own log.dirs"
        ) from error
    if pid is not None:
        with contextlib.suppress(OSError):
            fs.ftruncate(lock, 0)
            fs.pwrite(lock, b"%d\n" % pid, 0)
    return lock


def _holder(fs: FileSystem, directory: str) -> str:
    """` (pid N)`, or nothing where it is not known."""
    try:
        text = read_whole(fs, f"{directory}/{LOCK_NAME}")[:20].strip()
    except OSError:
        return ""
    return f" (pid {int(text)})" if text.isdigit() else ""
