"""Checkpoints of a table's log: the state at one version in a file, from which readers begin.

A checkpoint has all files of the table. So the larger it gets, the fewer are written: a commit's
share of the cost stays about the same. Of the older checkpoints one for each day stays, for readers
of earlier versions; without that they would soon be larger than the table.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from typing import Final

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from strandline_spark.delta_log.entries import LOG, checkpoint_path
from strandline_spark.stores import files
from strandline_spark.stores.durable import sync

INTERVAL_MIN: Final = 20
INTERVAL_MAX: Final = 2_000
"""Least and greatest number of commits between two checkpoints."""
_ACTIONS_FOR_ONE: Final = 500
"""Actions of the last checkpoint for each commit until the next."""
_LAST: Final = "_last_checkpoint"
_NAME: Final = re.compile(r"(\d{20})\.checkpoint\.parquet")
_DAY: Final = 86_400


def write_if_due(table: str, version: int) -> bool:
    """Writes a checkpoint of the present version if enough commits came since the last one. True if
    it did. A failure leaves the log as it is: its entries say the same.
    """
    if version % INTERVAL_MIN != 0:
        return False
    last, actions = _last(table)
    if version - last < interval(actions):
        return False
    with contextlib.suppress(DeltaError, OSError):
        write(table)
        return True
    return False


def interval(actions: int) -> int:
    """Returns the number of commits until the next checkpoint, after one of so many actions."""
    return min(INTERVAL_MAX, max(INTERVAL_MIN, actions // _ACTIONS_FOR_ONE))


def size_of_last(table: str) -> int:
    """Returns the number of actions in the last checkpoint."""
    return _last(table)[1]


def write(table: str) -> None:
    """Writes a checkpoint of the present version, syncs it, and removes what it replaces. Raises
    DeltaError and OSError.
    """
    handle = DeltaTable(table)
    handle.create_checkpoint()
    sync(checkpoint_path(table, handle.version()))
    sync(os.path.join(table, LOG, _LAST))
    sync(os.path.join(table, LOG))
    handle.cleanup_metadata()
    thin(table, handle.version())


def thin(table: str, newest: int) -> None:
    """Removes the checkpoints before `newest`, except for the last of each day and the very last,
    which a reader may have begun to read.
    """
    log = os.path.join(table, LOG)
    kept: set[int] = set()
    names = (found for name in files.names(log) if (found := _NAME.fullmatch(name)) is not None)
    older = sorted((one for one in names if int(one[1]) < newest), key=lambda one: one[1])
    for found in reversed(older):
        file = os.path.join(log, found[0])
        with contextlib.suppress(FileNotFoundError):
            day = int(files.modified_s(file)) // _DAY
            if day in kept:
                files.remove(file)
            kept.add(day)


def _last(table: str) -> tuple[int, int]:
    """Returns version and number of actions of the last checkpoint; (-1, 0) without one."""
    try:
        found = json.loads(files.read_text(os.path.join(table, LOG, _LAST)))
        return int(found["version"]), int(found["size"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return -1, 0
