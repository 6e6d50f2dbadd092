"""The facts in the footer of a bronze Parquet file about its rows; no row is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from strandline_spark.stores import files

_COLUMNS: Final = ("partition", "offset", "leader_epoch", "timestamp")


@dataclass(frozen=True, slots=True)
class Footer:
    """Number of rows and size of a file, and the smallest and largest value of its columns."""

    size: int
    rows: int
    partition: tuple[int, int]
    offset: tuple[int, int]
    leader_epoch: tuple[int, int]
    timestamp_ms: tuple[int, int] | None
    """Smallest and largest timestamp; None if the writer kept no statistics of it."""


def read_footer(path: str) -> Footer:
    """Reads a footer.

    Raises ValueError if the file has no rows, or lacks the statistics of its offsets. Raises
    OSError and Arrow's errors if it is unreadable.
    """
    footer = files.footer(path)
    columns = {footer.schema.column(i).path: i for i in range(footer.num_columns)}
    bounds: dict[str, tuple[int, int] | None] = {}
    for name in _COLUMNS:
        groups = (footer.row_group(n) for n in range(footer.num_row_groups))
        bounds[name] = _bounds([group.column(columns[name]).statistics for group in groups])
    partition, offset, epoch, times = (bounds[name] for name in _COLUMNS)
    if partition is None or offset is None or epoch is None:
        raise ValueError(f"{path} has no statistics of its offsets")
    times_ms = None if times is None else (times[0] // 1000, times[1] // 1000)
    size = files.size(path)
    return Footer(size, footer.num_rows, partition, offset, epoch, times_ms)


def last_offset(path: str) -> tuple[int, int]:
    """Returns the partition of a file and its last offset. Raises as `read_footer`."""
    footer = files.footer(path)
    columns = {footer.schema.column(i).path: i for i in range(footer.num_columns)}
    groups = [footer.row_group(n) for n in range(footer.num_row_groups)]
    partition, offset = (
        _bounds([group.column(columns[name]).statistics for group in groups])
        for name in ("partition", "offset")
    )
    if partition is None or offset is None:
        raise ValueError(f"{path} has no statistics of its offsets")
    return partition[0], offset[1]


def _bounds(found: list[Any]) -> tuple[int, int] | None:
    """Returns the bounds of the stored values: Python has no value for some timestamps."""
    known = [one for one in found if one is not None and one.has_min_max]
    if not known or len(known) < len(found):
        return None
    return min(one.min_raw for one in known), max(one.max_raw for one in known)
