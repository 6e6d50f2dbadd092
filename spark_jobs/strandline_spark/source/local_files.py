"""Paths of tables: the check that delta-rs takes a path as written, and the files of a table read
by Arrow itself.

The file system that delta-rs gives to pyarrow consists of Python objects. After a scan failed at a
damaged file, Arrow's threads still hold them. A process that ends at that moment dies by a signal
or hangs.
"""

from __future__ import annotations

import os
import re
from typing import Any, Final

from strandline_spark.errors import TableError

_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
"""Control characters, and bytes of a file's name that are no UTF-8."""
_NOT_AS_IT_STANDS: Final = re.compile(rf"%[0-9A-Fa-f]{{2}}|[\\#?]|{_UNPRINTABLE.pattern}")
"""Parts of a path that delta-rs does not take as written. It decodes the first kind, and reads
another folder for a backslash. It finds no history of a table below a folder with # or ?, and it
refuses unprintable characters.
"""

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def not_of_a_path(path: str) -> str | None:
    """Returns the part of `path` that no path of a job may have; None if there is none."""
    found = _UNPRINTABLE.search(path)
    return None if found is None else found[0]


def not_of_a_table(path: str) -> str | None:
    """Returns the part of `path`, or of the folder that it links to, that no path of a table may
    have; None if there is none.
    """
    found = _NOT_AS_IT_STANDS.search(path) or _NOT_AS_IT_STANDS.search(os.path.realpath(path))
    return None if found is None else found[0]


def has_scheme(path: str) -> bool:
    """True if `path` is of another file system than this machine's, like s3://… and dbfs:/…"""
    return _SCHEME.match(path) is not None


def check_path(path: str) -> None:
    """Raises TableError for a path that delta-rs does not take as written. It would use the table
    of another folder, or miss the table's history.
    """
    if (found := not_of_a_table(path)) is not None:
        shown = path if path.isprintable() else repr(path)
        raise TableError(
            f"{shown} cannot be the path of a table: delta-rs does not read {found!r} in a path as"
            " it stands; give a path without it, or rename the folder that has it in its name"
        )


def files_under(path: str) -> Any:
    """Returns the file system in which paths begin at the folder `path`."""
    # Its libraries take their time to load, and a process that plans a query reads no table.
    from pyarrow import fs  # type: ignore[import-untyped]

    return fs.SubTreeFileSystem(os.path.abspath(path), fs.LocalFileSystem())
