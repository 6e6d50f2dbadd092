"""Syncs that let files, and their names in directories, survive a loss of power.

Spark's commit log advances once a micro-batch is done, and the batch never runs again. So its data
files, the entry of the table's log and the directories that name them are synced before that.
Neither Arrow nor delta-rs does this.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from typing import TYPE_CHECKING, Final

from strandline_spark.stores import objects
from strandline_spark.stores.paths import is_remote

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOG: Final = "_delta_log"
_LAST_CHECKPOINT: Final = "_last_checkpoint"


def sync(path: str) -> None:
    """Syncs the content of a file, or the names in a directory. An object is durable already."""
    if is_remote(path):
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_names(path: str, root: str) -> None:
    """Syncs the names on the path from `root` down to the file `path`, which may all be new."""
    if is_remote(root):
        return
    root = os.path.abspath(root)
    directory = os.path.dirname(os.path.abspath(path))
    while True:
        sync(directory)
        if directory == root or os.path.dirname(directory) == directory:
            return
        directory = os.path.dirname(directory)


def sync_log(table: str, first: int) -> None:
    """Syncs the entries of a Delta table's log from version `first` on, checkpoints of the log, and
    their names.
    """
    if is_remote(table):
        return
    log = os.path.join(table, _LOG)
    for name in _of_all(log) if first == 0 else _from(log, first):
        with contextlib.suppress(FileNotFoundError):
            # A clean-up of the log, also of another writer, may have removed it already.
            sync(os.path.join(log, name))
    sync(log)
    sync(table)


def _of_all(log: str) -> Iterator[str]:
    return (name for name in os.listdir(log) if name == _LAST_CHECKPOINT or name[:20].isdigit())


def _from(log: str, first: int) -> Iterator[str]:
    """Yields the names from a version on. It does not list the log, which may be long."""
    for version in itertools.count(first):
        entry = f"{version:020}.json"
        if not os.path.exists(os.path.join(log, entry)):
            break
        yield entry
        yield f"{version:020}.checkpoint.parquet"
    yield _LAST_CHECKPOINT


def write_new(path: str, text: str) -> None:
    """Writes a new file with this content and syncs it, but not its name, or leaves none. Raises
    FileExistsError if the file exists.
    """
    if is_remote(path):
        objects.write_new(path, text.encode("utf-8"))
        return
    draft = f"{path}.{os.urandom(8).hex()}.tmp"
    try:
        with open(draft, "x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)


def check_writes(path: str) -> None:
    """Raises EnvironmentProblem if two writers could both make one file of the store."""
    if is_remote(path):
        objects.check_conditional(path)
