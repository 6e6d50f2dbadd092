"""`flush-failed`: in this data directory a flush has failed, so the page cache may hold pages that
look clean although the disk never got them (P-24).

The next process writes again what its recovery reads (see `recovery_rewrite`), whatever the flush
policy: otherwise it would call durable what the next loss of power takes, and then take that for
damage. The file is not flushed itself: with the page cache, of which it speaks, it may go too. It
stays until a shutdown that has flushed all, which one with a log that did not open has not.
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
    """A disk that does not even take this has no pages to give back to the next process either."""
    with contextlib.suppress(OSError):
        fs.close(fs.open(f"{directory}/{FILE_NAME}", os.O_WRONLY | os.O_CREAT))


@contextlib.contextmanager
def noting_failure(fs: FileSystem, log: str) -> Iterator[None]:
    """Around what syncs batches of the log in the directory `log`: noted at once, whoever hears of
    the error.
    """
    try:
        yield
    except OSError:
        note_failed_flush(fs, os.path.dirname(log))
        raise


def has_failed_flush(fs: FileSystem, directory: str) -> bool:
    return fs.exists(f"{directory}/{FILE_NAME}")


def forget_failed_flush(fs: FileSystem, directory: str) -> None:
    """All is durable now."""
    with contextlib.suppress(FileNotFoundError):
        fs.unlink(f"{directory}/{FILE_NAME}")
