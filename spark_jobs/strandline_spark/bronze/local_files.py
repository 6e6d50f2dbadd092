"""Paths of tables: which ones delta-rs takes as they stand, and the files of a table as Arrow reads
them by itself.

The file system that delta-rs gives to pyarrow is made of Python objects. Arrow's threads still hold
them when a scan has failed at a damaged file, and a process that ends meanwhile dies by a signal or
hangs.
"""

from __future__ import annotations

import os
import re
from typing import Any, Final

from pyarrow import fs  # type: ignore[import-untyped]

from strandline_spark.errors import TableError

_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
"""Control characters, and bytes of a file's name that are no UTF-8."""
_NOT_AS_IT_STANDS: Final = re.compile(rf"%[0-9A-Fa-f]{{2}}|[\\#?]|{_UNPRINTABLE.pattern}")
"""delta-rs decodes the first, reads the folder of another character for a backslash, and finds no
history of a table below a folder with # or ?. What is unprintable it refuses.
"""

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def not_of_a_path(path: str) -> str | None:
    """The part of `path` that no path may have that the jobs are given; None if there is none."""
    found = _UNPRINTABLE.search(path)
    return None if found is None else found[0]


def not_of_a_table(path: str) -> str | None:
    """The part of `path`, or of the folder that it is a link to, that no path of a table may have;
    None if there is none.
    """
    found = _NOT_AS_IT_STANDS.search(path) or _NOT_AS_IT_STANDS.search(os.path.realpath(path))
    return None if found is None else found[0]


def has_scheme(path: str) -> bool:
    """Whether `path` is one of another file system than this machine's, as s3://… and dbfs:/…"""
    return _SCHEME.match(path) is not None


def check_path(path: str) -> None:
    """Raises TableError for a path that delta-rs does not take as it stands: it would use the table
    of another folder, or miss the table's history.
    """
    if (found := not_of_a_table(path)) is not None:
        shown = path if path.isprintable() else repr(path)
        raise TableError(
            f"{shown} cannot be the path of a table: delta-rs does not read {found!r} in a path as"
            " it stands; give a path without it, or rename the folder that has it in its name"
        )


def files_under(path: str) -> Any:
    """The file system in which paths begin at the folder `path`."""
    return fs.SubTreeFileSystem(os.path.abspath(path), fs.LocalFileSystem())
