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
    from collections.abc import Iterable

    from strandline_runtime.runtime import FileSystem

TEMPORARY: Final = ".tmp"
_numbers: Final = itertools.count()


def replace_file(fs: FileSystem, path: str, data: bytes) -> None:
    replace_file_with(fs, path, (data,))


def replace_file_with(fs: FileSystem, path: str, parts: Iterable[bytes]) -> int:
    """As `replace_file`, written part by part; the size of the whole."""
    temporary = f"{path}.{next(_numbers)}{TEMPORARY}"
    size = 0
    try:
        file = File(fs, temporary, CREATE_EMPTY)
        for part in parts:
            file.write((part,), len(part), size)
            size += len(part)
        file.sync()
        fs.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            fs.unlink(temporary)
        raise
    fs.fsync_dir(os.path.dirname(path))
    return size


def remove_file(fs: FileSystem, path: str) -> None:
    """Remove a file, durably; one that is not there is fine."""
    with contextlib.suppress(FileNotFoundError):
        fs.unlink(path)
    fs.fsync_dir(os.path.dirname(path))
