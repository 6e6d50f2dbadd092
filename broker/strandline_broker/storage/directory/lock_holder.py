"""The holder of a data directory's lock: its process id, in the lock file, for people to read.

The lock itself belongs to the system and ends with its process. No decision uses the file's
content.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from strandline_broker.storage.directory.partition_dirs import LOCK_NAME
from strandline_broker.storage.files.file import read_whole

if TYPE_CHECKING:
    from strandline_runtime.runtime import FileSystem


class LockHeld(Exception):
    """Another process holds the lock; the message gives the remedy."""


def take_lock(fs: FileSystem, directory: str, pid: int | None) -> int:
    """Take the directory's lock; returns the descriptor that holds it.

    `pid` is written for processes that find the lock taken. Raises LockHeld, or OSError if locking
    is impossible.
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
    """The text ` (pid N)`, or an empty one if the holder is unknown."""
    try:
        text = read_whole(fs, f"{directory}/{LOCK_NAME}")[:20].strip()
    except OSError:
        return ""
    return f" (pid {int(text)})" if text.isdigit() else ""
