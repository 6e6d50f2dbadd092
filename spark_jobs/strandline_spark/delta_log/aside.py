"""Tables that are moved aside, so that a step or a rebuild begins again and nothing is lost.

In a folder that is one rename. An object store has none: the objects are copied, and then removed,
the newest entries of the log first. So what is there at any moment is the table, an earlier version
of it, or no table. A mark beside it says that the copy is whole, and by it a removal that broke off
is brought to its end.
"""

from __future__ import annotations

import itertools
import os
import re
from datetime import UTC, datetime
from typing import Final

from strandline_spark.delta_log.entries import LOG
from strandline_spark.errors import TableError, first_line
from strandline_spark.stores import files, objects
from strandline_spark.stores.durable import sync
from strandline_spark.stores.paths import is_remote

_MARK: Final = ".aside"
_VERSION: Final = re.compile(r"(\d{20})\.(json|checkpoint\.parquet)")


def set_aside(path: str) -> str:
    """Moves a table's folder durably to a free name beside it, and returns that name. Raises
    TableError. No job may write to a table in an object store meanwhile.
    """
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    names = itertools.chain(
        (f"{path}.{stamp}",), (f"{path}.{stamp}-{n}" for n in itertools.count(2))
    )
    aside = next(name for name in names if not files.exists(name))
    try:
        if is_remote(path):
            objects.copy_tree(path, aside)
            files.write_over(path + _MARK, aside)
            _remove(path)
        else:
            os.rename(path, aside)
            sync(os.path.dirname(os.path.abspath(path)))
    except OSError as why:
        raise TableError(
            f"{path} cannot be moved to {aside} ({first_line(why)}): see to it that you may write"
            " there, and run this again"
        ) from why
    return aside


def places_aside(path: str) -> list[str]:
    """Returns the places to which the table at this path was moved."""
    parent, name = os.path.split(path)
    aside = re.compile(re.escape(name) + r"\.2.*T.*")
    try:
        return sorted(
            os.path.join(parent, one) for one in files.names(parent) if aside.fullmatch(one)
        )
    except FileNotFoundError:
        return []


def end_removal(path: str) -> str | None:
    """Ends the removal of a table that was copied aside, if one broke off and no version of the
    table is left, and returns the place of the copy. Raises TableError.
    """
    if not is_remote(path) or not files.is_file(path + _MARK):
        return None
    try:
        aside = files.read_text(path + _MARK)
        if _is_table(path):
            # An earlier version was left, or the step has made a new table.
            files.remove(path + _MARK)
            return None
        _remove(path)
    except OSError as why:
        raise TableError(
            f"what is left of {path} cannot be removed ({first_line(why)}): see to it that you may"
            " write there, and run this again"
        ) from why
    return aside


def _remove(path: str) -> None:
    objects.remove_newest_first(path, LOG)
    files.remove(path + _MARK)


def _is_table(path: str) -> bool:
    """True if the log has a checkpoint or its first entry, and all entries behind."""
    try:
        names = files.names(os.path.join(path, LOG))
    except FileNotFoundError:
        return False
    found = [one for name in names if (one := _VERSION.fullmatch(name)) is not None]
    checkpoint = max((int(one[1]) for one in found if one[2] != "json"), default=-1)
    behind = sorted(int(one[1]) for one in found if one[2] == "json" and int(one[1]) > checkpoint)
    is_begun = checkpoint >= 0 or bool(behind)
    return is_begun and behind == list(range(checkpoint + 1, checkpoint + 1 + len(behind)))
