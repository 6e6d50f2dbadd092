"""What the footer of a bronze Parquet file says of its rows, without reading one of them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Final

import pyarrow.parquet as pq  # type: ignore[import-untyped]

_COLUMNS: Final = ("partition", "offset", "leader_epoch", "timestamp")


@dataclass(frozen=True, slots=True)
class Footer:
    """Rows and size of a file, and the smallest and largest value of its columns."""

    size: int
    rows: int
    partition: tuple[int, int]
    offset: tuple[int, int]
    leader_epoch: tuple[int, int]
    timestamp_ms: tuple[int, int] | None
    """None where the writer kept no statistics of it."""


def read_footer(path: str) -> Footer:
    """Raises ValueError if it has no rows, or does not say what offsets they have; OSError and
    Arrow's errors if it does not read.
    """
    footer = pq.read_metadata(path)
    columns = {footer.schema.column(i).path: i for i in range(footer.num_columns)}
    bounds: dict[str, tuple[int, int] | None] = {}
    for name in _COLUMNS:
        groups = (footer.row_group(n) for n in range(footer.num_row_groups))
        bounds[name] = _bounds([group.column(columns[name]).statistics for group in groups])
    partition, offset, epoch, times = (bounds[name] for name in _COLUMNS)
    if partition is None or offset is None or epoch is None:
        raise ValueError(f"{path} has no statistics of its offsets")
    times_ms = None if times is None else (times[0] // 1000, times[1] // 1000)
    size = os.path.getsize(path)
    return Footer(size, footer.num_rows, partition, offset, epoch, times_ms)


def _bounds(found: list[Any]) -> tuple[int, int] | None:
    """Of the values as they are stored: a timestamp may lie where Python's have no name."""
    known = [one for one in found if one is not None and one.has_min_max]
    if not known or len(known) < len(found):
        return None
    return min(one.min_raw for one in known), max(one.max_raw for one in known)
