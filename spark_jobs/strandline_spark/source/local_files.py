"""The check that delta-rs takes the path of a table as written."""

from __future__ import annotations

import os
import re
from typing import Final

from strandline_spark.errors import TableError
from strandline_spark.stores import options
from strandline_spark.stores.paths import is_remote

_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
"""Control characters, and bytes of a file's name that are no UTF-8."""
_NOT_AS_IT_STANDS: Final = re.compile(rf"%[0-9A-Fa-f]{{2}}|[\\#?]|{_UNPRINTABLE.pattern}")
"""Parts of a path that delta-rs does not take as written. It decodes the first kind, and reads
another folder for a backslash. It finds no history of a table below a folder with # or ?, and it
refuses unprintable characters.
"""


def not_of_a_path(path: str) -> str | None:
    """Returns the part of `path` that no path of a job may have; None if there is none."""
    found = _UNPRINTABLE.search(path)
    return None if found is None else found[0]


def not_of_a_table(path: str) -> str | None:
    """Returns the part of `path`, or of the folder that it links to, that no path of a table may
    have; None if there is none.
    """
    real = path if is_remote(path) else os.path.realpath(path)
    found = _NOT_AS_IT_STANDS.search(path) or _NOT_AS_IT_STANDS.search(real)
    return None if found is None else found[0]


def check_path(path: str) -> None:
    """Raises TableError for a path that delta-rs does not take as written. It would use the table
    of another folder, or miss the table's history.
    """
    if is_remote(path):
        options.check()
    if (found := not_of_a_table(path)) is not None:
        shown = path if path.isprintable() else repr(path)
        raise TableError(
            f"{shown} cannot be the path of a table: delta-rs does not read {found!r} in a path as"
            " it stands; give a path without it, or rename the folder that has it in its name"
        )
