"""The ends of silver's partitions, and the part of silver that goes into the next commit, by the
statistics of its files alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strandline_spark.cluster.offsets import TopicPartition
    from strandline_spark.gold.silver import Silver


class Extent:
    """The extent of one version of silver."""

    def __init__(self, silver: Silver) -> None:
        self._index = silver.index
        self.ends = silver.ends

    def unread(self, starts: Mapping[TopicPartition, int]) -> bool:
        """True if silver reaches beyond the starts. A partition without one begins at 0."""
        return any(end > starts.get(tp, 0) for tp, end in self.ends.items())

    def cut(self, starts: Mapping[TopicPartition, int], rows_max: int) -> dict[TopicPartition, int]:
        """Returns ends of which about `rows_max` rows are before, one partition after the other;
        silver's own where all rows are taken.
        """
        out: dict[TopicPartition, int] = {}
        new = self._new_files(starts)
        left = rows_max
        for tp, end in self.ends.items():
            out[tp] = end
            for first, last, rows in new.get(tp, ()):
                if rows > left:
                    # Most files have one row for each offset, or fewer.
                    out[tp] = min(max(starts.get(tp, 0), first) + left, last + 1)
                    return out
                left -= rows
        return out

    def _new_files(
        self, starts: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, list[tuple[int, int, int]]]:
        """Returns first offset, last offset and rows of each file with rows beyond the starts."""
        index = self._index
        out: dict[TopicPartition, list[tuple[int, int, int]]] = {}
        for file in index.files(index["offset_max"] >= index.ends_of(starts)):
            for span in file.spans:
                if span.offset_max >= starts.get(span.tp, 0):
                    one = (span.offset_min, span.offset_max, span.rows)
                    out.setdefault(span.tp, []).append(one)
        return {tp: sorted(found) for tp, found in out.items()}
