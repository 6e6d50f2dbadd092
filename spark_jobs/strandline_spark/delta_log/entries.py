"""The entries of a Delta table's log: a JSON file for each version, with an action on each line."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final

from strandline_spark.errors import TableError, first_line
from strandline_spark.stores import files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LOG: Final = "_delta_log"
Action = dict[str, Any]


class LogError(TableError):
    """The log of a table does not read, or has lost an entry."""


class NoLogError(LogError):
    """The folder holds no Delta table."""


def entry_path(table: str, version: int) -> str:
    """Returns the path of a version's entry, which may have left the log."""
    return os.path.join(table, LOG, f"{version:020}.json")


def checkpoint_path(table: str, version: int) -> str:
    return os.path.join(table, LOG, f"{version:020}.checkpoint.parquet")


def read_entry(table: str, version: int) -> list[Action] | None:
    """Returns the actions of a version; None if the log does not have its entry. Raises LogError if
    it does not read.
    """
    path = entry_path(table, version)
    try:
        actions = [json.loads(line) for line in files.lines(path) if line.strip()]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as why:
        raise _damaged(path, first_line(why)) from why
    if not all(isinstance(one, dict) for one in actions):
        raise _damaged(path, "an action is no object")
    return actions


def infos_from(table: str, newest: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields each version from `newest` down to the first that the log has, with its commitInfo.
    Raises LogError for an entry that does not read.
    """
    version = newest
    while version >= 0 and (found := _info(table, version)) is not None:
        yield version, found
        version -= 1


def infos_of(table: str, versions: Iterable[int]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields each of these versions that the log has, with its commitInfo. Raises LogError for an
    entry that does not read.
    """
    for version in versions:
        if (found := _info(table, version)) is not None:
            yield version, found


def _info(table: str, version: int) -> dict[str, Any] | None:
    """Returns the commitInfo of a version, which most writers put first."""
    path = entry_path(table, version)
    try:
        for line in files.lines(path):
            if '"commitInfo"' not in line:
                continue
            action = json.loads(line)
            if isinstance(action, dict) and isinstance(action.get("commitInfo"), dict):
                info: dict[str, Any] = action["commitInfo"]
                return info
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as why:
        raise _damaged(path, first_line(why)) from why
    read_entry(table, version)
    return {}


def _damaged(path: str, why: str) -> LogError:
    return LogError(f"the entry {path} of the table's log does not read ({why})")
