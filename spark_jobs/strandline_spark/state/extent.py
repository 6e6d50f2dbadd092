"""The ends of silver's partitions, and the part of silver that goes into the next commit, by the
statistics of its files alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from strandline_spark.cluster.offsets import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strandline_spark.gold.silver import Silver

_FENCE: Final = "strandline/{topic}/{partition}"
_STATISTICS: Final = {
    "partition.topic": "topic",
    "min.partition": "partition",
    "max.partition": "partition_max",
    "min.offset": "first",
    "max.offset": "last",
    "num_records": "rows",
}
_KEY: Final = ["topic", "partition"]


class Extent:
    """The extent of one version of silver."""

    def __init__(self, silver: Silver) -> None:
        files = _files(silver)
        self._files = _measured(silver) if files is None else files
        self.ends = self._fences(silver)

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
        known = pa.table(
            {
                "topic": pa.array([tp.topic for tp in self.ends], pa.string()),
                "partition": pa.array([tp.partition for tp in self.ends], pa.int64()),
                "start": pa.array([starts.get(tp, 0) for tp in self.ends], pa.int64()),
            }
        )
        new = self._files.join(known, _KEY, join_type="inner")
        new = new.filter(pc.greater_equal(new["last"], new["start"])).sort_by("first")
        out: dict[TopicPartition, list[tuple[int, int, int]]] = {}
        for one in new.to_pylist():
            tp = TopicPartition(one["topic"], one["partition"])
            out.setdefault(tp, []).append((one["first"], one["last"], one["rows"]))
        return out

    def _fences(self, silver: Silver) -> dict[TopicPartition, int]:
        held = self._files.group_by(_KEY).aggregate([]).to_pylist()
        partitions = sorted(TopicPartition(one["topic"], one["partition"]) for one in held)
        ends = {
            tp: silver.delta.transaction_version(
                _FENCE.format(topic=tp.topic, partition=tp.partition)
            )
            for tp in partitions
        }
        if None in ends.values():
            return silver.ends  # it names the table that has no fence
        return {tp: end for tp, end in ends.items() if end is not None}


def _files(silver: Silver) -> Any | None:
    """Returns topic, partition, first and last offset and rows of each file; None if the log does
    not say so of one.
    """
    actions: Any = pa.table(silver.delta.get_add_actions(flatten=True))
    if not set(_STATISTICS) <= set(actions.column_names):
        return None
    files = pa.table(
        {
            new: actions[old].cast(pa.string() if new == "topic" else pa.int64())
            for old, new in _STATISTICS.items()
        }
    )
    known = all(files[name].null_count == 0 for name in files.column_names)
    alike = pc.all(pc.equal(files["partition"], files["partition_max"])).as_py()
    return files if known and alike else None


def _measured(silver: Silver) -> Any:
    spans = [span for file in silver.files for span in file.spans]
    return pa.table(
        {
            "topic": pa.array([span.tp.topic for span in spans], pa.string()),
            "partition": pa.array([span.tp.partition for span in spans], pa.int64()),
            "first": pa.array([span.offset_min for span in spans], pa.int64()),
            "last": pa.array([span.offset_max for span in spans], pa.int64()),
            "rows": pa.array([span.offset_max - span.offset_min + 1 for span in spans], pa.int64()),
        }
    )
