"""Small files that are replaced whole: after a crash either the old content or the new is there
(I-8).

Write a temporary file, fsync it, rename it over the old one, fsync the directory. The temporary's
name is never used twice in one process, so two writers cannot mix their bytes.
"""

from __future__ import annotations

import contextlib
import itertools
import os.path
from typing import TYPE_CHECKING, Final

from strandline_broker.storage.file import CREATE_EMPTY, File

if TYPE_CHECKING:
    from strandline_runtime.runtime import FileSystem

TEMPORARY: Final = ".tmp"
_numbers: Final = itertools.count()


def replace_file(fs: FileSystem, path: str, data: bytes) -> None:
    temporary = f"{path}.{next(_numbers)}{TEMPORARY}"
    try:
        file = File(fs, temporary, CREATE_EMPTY)
        file.write((data,), len(data), 0)
        file.sync()
        fs.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            fs.unlink(temporary)
        raise
    fs.fsync_dir(os.path.dirname(path))


def remove_file(fs: FileSystem, path: str) -> None:
    """Remove a file, durably; one that is not there is fine."""
    with contextlib.suppress(FileNotFoundError):
        fs.unlink(path)
    fs.fsync_dir(os.path.dirname(path))
