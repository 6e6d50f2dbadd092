"""The windows that a commit computes again because late rows came for them.

With `late = "update"` the table is always the result of the statement over all windows that the
watermark has passed, with all rows that silver held at the newest commit. So it depends on that
commit alone, not on those before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_spark.gold.query import closed_windows, micros
from strandline_spark.gold.watermark import Window

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from pyspark.sql import DataFrame

    from strandline_spark.cluster.offsets import TopicPartition
    from strandline_spark.delta_log.file_index import SilverFile
    from strandline_spark.gold.framing import FixedWindows
    from strandline_spark.gold.silver import Silver
    from strandline_spark.gold.watermark import GoldCommit

_END: Final = "strandline_end_us"
_TOUCHED: Final = "strandline_touched"
_SPANS_MAX: Final = 1_000
"""Spans of time that are compared with the files; more become one."""


def windows_of(late: DataFrame, framing: FixedWindows, before: GoldCommit) -> frozenset[Window]:
    """Returns the windows of late rows that the commit `before` had closed."""
    from pyspark.sql import functions as F

    closed = closed_windows(late, framing.kind, None, before.watermark)
    found = closed.select(
        F.unix_micros("window_start").alias("start"), F.unix_micros("window_end").alias("end")
    )
    return frozenset(Window(row["start"], row["end"]) for row in found.distinct().collect())


def files_of_windows(
    silver: Silver,
    touched: Collection[Window],
    closing: tuple[int | None, int] | None,
    ends: Mapping[TopicPartition, int],
) -> list[SilverFile]:
    """Returns the files that may hold rows of these windows, or of those that close now."""
    spans = list(_joined(touched))
    if len(spans) > _SPANS_MAX:
        spans = [(spans[0][0], spans[-1][1])]
    found = {
        file.path: file
        for first, end in [*spans, *(() if closing is None else (closing,))]
        for file in silver.overlapping(first, end, ends)
    }
    return list(found.values())


def _joined(windows: Collection[Window]) -> Iterator[tuple[int | None, int]]:
    """Yields the spans of time of the windows, as few as there can be, by rising times."""
    start, end = None, 0
    for one in sorted(windows, key=lambda window: window.start):
        if start is not None and one.start > end:
            yield start, end
            start = None
        if start is None:
            start, end = one.start, one.end
        end = max(end, one.end)
    if start is not None:
        yield start, end


def closed_or_touched(
    rows: DataFrame, framing: FixedWindows, previous: int, watermark: int, touched: frozenset[int]
) -> DataFrame:
    """Returns the rows of the windows that close now, and of those with one of the ends `touched`,
    once for each window.
    """
    from pyspark.sql import functions as F

    if not touched:
        return closed_windows(rows, framing.kind, previous, watermark)
    closed = closed_windows(rows, framing.kind, None, watermark)
    known = rows.sparkSession.createDataFrame(
        [(end, True) for end in sorted(touched)], f"{_END} long, {_TOUCHED} boolean"
    )
    marked = closed.withColumn(_END, F.unix_micros("window_end")).join(
        F.broadcast(known), _END, "left"
    )
    wanted = marked.where((F.col(_END) > micros(previous)) | F.col(_TOUCHED))
    return wanted.drop(_END, _TOUCHED)
