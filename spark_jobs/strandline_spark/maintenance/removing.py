"""The commit of a removal: an entry about the rows, and the new files without them. And the
deletion of older files that still have them.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from strandline_spark.bronze.fenced_table import committing
from strandline_spark.cluster.offsets import TopicPartition
from strandline_spark.maintenance import removals
from strandline_spark.stores import files

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from strandline_spark.bronze.compaction import Fence
    from strandline_spark.delta_log.commit import Change
    from strandline_spark.maintenance.removals import Interval, Removal
    from strandline_spark.maintenance.tables import AnyTable

_APPEND_ONLY: Final = "delta.appendOnly"
_NOT_ROWS: Final = ("_delta_log", "_ops")
"""Folders of a table without rows of topics."""


def commit_removal(table: AnyTable, fence: Fence, change: Change, removal: Removal) -> None:
    """Commits the change, with the entry about its rows. Raises TableError; then no row is gone.

    A table that only took rows until now says so no longer.
    """
    with committing(table.path):
        change.transactions = removals.write(table.state, removal)
    configuration = dict(table.state.configuration)
    if configuration.pop(_APPEND_ONLY, None) == "true":
        change.metadata = {
            **table.state.metadata,
            "configuration": {**configuration, _APPEND_ONLY: "false"},
        }
    fence.commit(change)


def delete_forgotten(table: AnyTable) -> None:
    """Deletes the files below the table's folder that are no part of this version and have, or may
    have, a forgotten record: files that a commit has replaced, and files of killed tasks.

    No job of the pipeline may run: a file that it is about to commit would go too.
    """
    gone = removals.removed(removals.read(table.state), removals.FORGET)
    if not gone:
        return
    kept = set(table.file_paths())
    for path in files.below(table.path):
        folders = path.split("/")
        if path in kept or folders[0] in _NOT_ROWS or not path.endswith(".parquet"):
            continue
        topic = next((one[6:] for one in folders if one.startswith("topic=")), None)
        full = table.full(path)
        if topic is None or _may_have(full, topic, gone):
            with contextlib.suppress(FileNotFoundError):
                files.remove(full)


def _may_have(path: str, topic: str, gone: Mapping[TopicPartition, list[Interval]]) -> bool:
    try:
        rows = files.parquet(path).read(columns=["partition", "offset"])
        partitions, offsets = (rows.column(name).to_numpy() for name in ("partition", "offset"))
    except (OSError, KeyError, pa.ArrowInvalid):  # a killed task has not finished it
        return True
    for partition in np.unique(partitions).tolist():
        own = intervals_of(offsets[partitions == partition])
        if removals.common(own, gone.get(TopicPartition(topic, int(partition)), [])):
            return True
    return False


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def offsets_of(
    table: AnyTable, adds: Iterable[Mapping[str, Any]]
) -> dict[TopicPartition, list[Interval]]:
    """Returns the offsets of all rows in these files."""
    out: dict[TopicPartition, list[Interval]] = {}
    for add in adds:
        with table.reading(add["path"]):
            rows = files.parquet(table.full(add["path"])).read(columns=["partition", "offset"])
        partitions, offsets = (rows.column(name).to_numpy() for name in ("partition", "offset"))
        for partition in np.unique(partitions).tolist():
            tp = TopicPartition(str(add["partition.topic"]), int(partition))
            out.setdefault(tp, []).extend(intervals_of(offsets[partitions == partition]))
    return {tp: removals.joined(intervals) for tp, intervals in out.items()}


def intervals_of(offsets: Any) -> list[Interval]:
    """Returns the intervals that the offsets cover."""
    known = np.unique(offsets)
    if len(known) == 0:
        return []
    cuts = np.flatnonzero(np.diff(known) != 1) + 1
    starts = known[np.concatenate(([0], cuts))]
    ends = known[np.concatenate((cuts - 1, [len(known) - 1]))] + 1
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


def timestamps_in(path: str) -> tuple[int, int] | None:
    """Returns the least and greatest timestamp of a file's rows, in microseconds; None if its
    footer does not say so.
    """
    footer = files.footer(path)
    columns = {footer.schema.column(n).path: n for n in range(footer.num_columns)}
    place = columns.get("timestamp")
    if place is None:
        return None
    found = [footer.row_group(n).column(place).statistics for n in range(footer.num_row_groups)]
    if not found or not all(one is not None and one.has_min_max for one in found):
        return None
    return min(one.min_raw for one in found), max(one.max_raw for one in found)
