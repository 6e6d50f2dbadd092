"""Small files that are replaced whole: after a crash the file has either the old content or the new
(I-8).

A replacement writes a temporary file, syncs it, renames it over the old one, and syncs the
directory. The temporary's name is never used twice in one process, so two writers cannot mix their
bytes. If a step fails, the temporary is closed before it is removed: an open file keeps its room on
the disk.
"""

from __future__ import annotations

import contextlib
import itertools
import os.path
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Final

from strandline_broker.storage.files.file import CREATE_EMPTY, File

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from strandline_broker.storage.files.steps import Steps
    from strandline_runtime.runtime import FileSystem

TEMPORARY: Final = ".tmp"
_numbers: Final = itertools.count()


def replace_file(fs: FileSystem, path: str, data: bytes) -> None:
    replace_file_with(fs, path, (data,))


def replace_file_with(fs: FileSystem, path: str, parts: Iterable[bytes]) -> int:
    """Replace a file like `replace_file`, written part by part; returns the size of the whole."""
    temporary = _temporary(path)
    try:
        with closing(File(fs, temporary, CREATE_EMPTY)) as file:
            size = _write(file, parts)
            file.sync()
        fs.replace(temporary, path)
    except OSError:
        _give_up(fs, temporary)
        raise
    fs.fsync_dir(os.path.dirname(path))
    return size


def replacing_files(fs: FileSystem, contents: Sequence[tuple[str, bytes]]) -> Steps[None]:
    """Replace files of one directory, one after the other; after a crash the first ones are new,
    the others old.

    A step ends when all files are written, when all are durable, and when all are in place.
    """
    waiting = [(_temporary(path), path) for path, _ in contents]
    try:
        with ExitStack() as opened:
            files = []
            for (temporary, _), (_, data) in zip(waiting, contents, strict=True):
                files.append(opened.enter_context(closing(File(fs, temporary, CREATE_EMPTY))))
                _write(files[-1], (data,))
            yield
            for file in files:
                file.sync()
        yield
        for temporary, path in waiting:
            fs.replace(temporary, path)
    except OSError:
        for temporary, _ in waiting:
            _give_up(fs, temporary)
        raise
    yield
    fs.fsync_dir(os.path.dirname(contents[0][0]))


def _temporary(path: str) -> str:
    return f"{path}.{next(_numbers)}{TEMPORARY}"


def _write(file: File, parts: Iterable[bytes]) -> int:
    """Write the content of a new file, without a sync; returns its size."""
    size = 0
    for part in parts:
        file.write((part,), len(part), size)
        size += len(part)
    return size


def _give_up(fs: FileSystem, temporary: str) -> None:
    with contextlib.suppress(OSError):
        fs.unlink(temporary)


def remove_file(fs: FileSystem, path: str) -> None:
    """Remove a file, durably; a missing file is fine."""
    with contextlib.suppress(FileNotFoundError):
        fs.unlink(path)
    fs.fsync_dir(os.path.dirname(path))
