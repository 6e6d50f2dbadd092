"""The marker `flush-failed`: a flush has failed in this data directory. The page cache may hold
pages that look clean although the disk never got them (P-24).

The next process rewrites the data that its recovery reads (see `recovery_rewrite`), under any flush
policy. Otherwise it would treat data as durable that the next loss of power removes, and then
report damage. The marker itself is not synced: it may be lost together with the page cache that it
describes. It stays until a shutdown has flushed everything. A shutdown with a log that did not open
has not.
"""

from __future__ import annotations

import contextlib
import os.path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_runtime.runtime import FileSystem

FILE_NAME: Final = "flush-failed"


def note_failed_flush(fs: FileSystem, directory: str) -> None:
    """Write the marker. A disk that refuses even this write has no pages to return to the next
    process.
    """
    with contextlib.suppress(OSError):
        fs.close(fs.open(f"{directory}/{FILE_NAME}", os.O_WRONLY | os.O_CREAT))


@contextlib.contextmanager
def noting_failure(fs: FileSystem, log: str) -> Iterator[None]:
    """A context around the syncs of batches of the log in directory `log`; a failure is recorded at
    once, wherever the error is handled.
    """
    try:
        yield
    except OSError:
        note_failed_flush(fs, os.path.dirname(log))
        raise


def has_failed_flush(fs: FileSystem, directory: str) -> bool:
    return fs.exists(f"{directory}/{FILE_NAME}")


def forget_failed_flush(fs: FileSystem, directory: str) -> None:
    """Remove the marker: everything is durable now."""
    with contextlib.suppress(FileNotFoundError):
        fs.unlink(f"{directory}/{FILE_NAME}")
