"""A silver table at one version, as gold reads it: event times and offsets of each file, the end of
each partition, and the rows in Spark.

Delta keeps the times in a file's statistics as milliseconds or microseconds. So a bound that is a
whole millisecond may stand for any microsecond of it.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from strandline_spark.bronze.commits import from_metadata
from strandline_spark.bronze.fenced_table import POSITION_KEY
from strandline_spark.cluster.offsets import TopicPartition
from strandline_spark.errors import TableError, first_line
from strandline_spark.gold.query import held_rows
from strandline_spark.gold.watermark import PartitionProgress
from strandline_spark.source.local_files import check_path
from strandline_spark.source.schema import TIMESTAMP_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from strandline_spark.gold.watermark import GoldCommit

_COLUMNS: Final = frozenset(
    ("topic", "partition", "offset", "event_time", "tombstone", "ingest_date")
)
_FENCE: Final = "strandline/{topic}/{partition}"
_METADATA_KEY: Final = "strandline"
REBUILT: Final = "strandline.rebuild"
"""Key in the configuration of a table that a rebuild made: the rebuild's number."""
_NEWEST: Final = 50
_MILLISECOND: Final = 1000


@dataclass(frozen=True, slots=True)
class Span:
    """The rows of one partition in a file. Bounds are inclusive."""

    tp: TopicPartition
    offset_min: int
    offset_max: int
    time_min: int | None
    """Earliest event time, in microseconds; None, like the next, if all are null."""
    time_max: int | None
    time_seen: int | None
    """At least one row is this late; less than a millisecond before `time_max`."""


@dataclass(frozen=True, slots=True)
class SilverFile:
    """One file, under the table's folder."""

    path: str
    spans: tuple[Span, ...]


class Silver:
    """One version of the table."""

    def __init__(self, handle: DeltaTable, path: str) -> None:
        self.delta = handle
        self.path = path
        self.version: int = handle.version()
        self.id = str(handle.metadata().id)
        configuration = handle.metadata().configuration
        self.is_rebuilt = REBUILT in configuration
        self.is_exploded = POSITION_KEY in configuration
        """True if a record may have several rows."""

    @classmethod
    def open(cls, path: str) -> Silver:
        """Opens the table. Raises TableError if it does not exist, or is not a silver table."""
        check_path(path)
        try:
            handle = DeltaTable(path)
        except TableNotFoundError as why:
            raise TableError(
                f"{path} is no Delta table; `strandline-spark ingest silver` makes one"
            ) from why
        except DeltaError as why:
            raise TableError(f"{path} cannot be opened: {first_line(why)}") from why
        missing = sorted(_COLUMNS - {field.name for field in handle.schema().fields})
        if missing:
            raise TableError(
                f"{path} is not a silver table: it has no column {missing[0]}; give another path"
            )
        return cls(handle, path)

    def schema(self) -> StructType:
        """The schema in Spark's form."""
        from pyspark.sql.types import StructType

        return StructType.fromJson(json.loads(self.delta.schema().to_json()))

    @cached_property
    def files(self) -> list[SilverFile]:
        """Returns the files by the log alone, except for a file whose statistics are incomplete."""
        actions: Any = pa.table(self.delta.get_add_actions(flatten=True))
        columns = {name: actions.column(name) for name in actions.column_names}
        for name in ("min.event_time", "max.event_time"):
            if name in columns:
                columns[name] = columns[name].cast(TIMESTAMP_TYPE).cast(pa.int64())
        lists = {name: column.to_pylist() for name, column in columns.items()}
        rows = ({name: values[n] for name, values in lists.items()} for n in range(len(actions)))
        return [self._file(row) for row in rows]

    def _file(self, row: dict[str, Any]) -> SilverFile:
        path, topic = row["path"], row["partition.topic"]
        partition, last = row.get("min.partition"), row.get("max.partition")
        offset_min, offset_max = row.get("min.offset"), row.get("max.offset")
        least, most = row.get("min.event_time"), row.get("max.event_time")
        all_null = row.get("null_count.event_time") == row.get("num_records") is not None
        timed = least is not None and most is not None
        known = partition is not None and partition == last and (timed or all_null)
        if not known or partition is None or offset_min is None or offset_max is None:
            return SilverFile(path, tuple(self._measured(path, topic)))
        seen = most if timed else None
        if least is not None and least % _MILLISECOND == 0:
            # A writer that cuts off digits moves times before 1970 up.
            least -= _MILLISECOND - 1
        if most is not None and most % _MILLISECOND == 0:
            most += _MILLISECOND - 1
        times = (least, most, seen) if timed else (None, None, None)
        tp = TopicPartition(topic, partition)
        return SilverFile(path, (Span(tp, offset_min, offset_max, *times),))

    def _measured(self, path: str, topic: str) -> Iterable[Span]:
        rows = self._read(path, ["partition", "offset", "event_time"])
        rows = rows.set_column(2, "event_time", rows.column("event_time").cast(pa.int64()))
        wanted = [
            ("offset", "min"),
            ("offset", "max"),
            ("event_time", "min"),
            ("event_time", "max"),
        ]
        for one in rows.group_by("partition").aggregate(wanted).to_pylist():
            yield Span(
                TopicPartition(topic, one["partition"]),
                one["offset_min"],
                one["offset_max"],
                one["event_time_min"],
                one["event_time_max"],
                one["event_time_max"],
            )

    def _read(self, path: str, columns: list[str]) -> Any:
        full = os.path.join(self.path, path)
        try:
            return pq.ParquetFile(full).read(columns=columns)
        except (OSError, pa.ArrowInvalid) as why:
            raise TableError(
                f"the file {full} of silver does not read ({why}): put it back from a copy, or"
                " ingest into a new table"
            ) from why

    @cached_property
    def ends(self) -> dict[TopicPartition, int]:
        """Returns the table's end in each partition that it has rows of."""
        out: dict[TopicPartition, int] = {}
        for tp in sorted({span.tp for file in self.files for span in file.spans}):
            end = self.delta.transaction_version(
                _FENCE.format(topic=tp.topic, partition=tp.partition)
            )
            if end is None:
                raise TableError(
                    f"{self.path} has rows of {tp} and does not say up to which offset: it was not"
                    " written by `strandline-spark`; ingest into a new table"
                )
            out[tp] = end
        return out

    def progress(
        self, backlog: Mapping[TopicPartition, bool], idle_since: int | None = None
    ) -> list[PartitionProgress]:
        """Returns the progress of each partition that has rows or a backlog. One that got no rows
        since the time `idle_since`, in microseconds, is idle; none is without that time.
        """
        came = None if idle_since is None else self._came_since(idle_since)
        latest: dict[TopicPartition, int | None] = dict.fromkeys(backlog)
        for file in self.files:
            for span in file.spans:
                before = latest.get(span.tp)
                times = [time for time in (before, span.time_seen) if time is not None]
                latest[span.tp] = max(times, default=None)
        return [
            PartitionProgress(
                latest[tp], backlog.get(tp, False), tp.topic, came is not None and tp not in came
            )
            for tp in sorted(latest)
        ]

    def is_older_than(self, time: int) -> bool:
        """True if the log has an entry of before that time, in microseconds."""
        return self._came_since(time) is not None

    def _came_since(self, time: int) -> set[TopicPartition] | None:
        """Returns the partitions of which a commit since that time brought rows; None if the log
        begins later. It reads no more of the log than that time needs.
        """
        came: set[TopicPartition] = set()
        for limit in (_NEWEST, 20 * _NEWEST, None):
            for entry in self.delta.history(limit):
                if int(entry["timestamp"]) * _MILLISECOND < time:
                    return came
                if entry.get(_METADATA_KEY) is None:
                    continue
                file = f"{self.path}/_delta_log/{entry['version']:020}.json"
                ranges = from_metadata(entry[_METADATA_KEY], file).ranges
                came.update(one.tp for one in ranges if one.rows > 0)
        return None

    def latest_event_time(self) -> int | None:
        """Returns the latest event time to the microsecond; None without a row that has one."""
        spans = [(file, span) for file in self.files for span in file.spans]
        times = [span.time_max for _, span in spans if span.time_max is not None]
        if not times:
            return None
        near = max(times) - _MILLISECOND
        files = {
            file.path for file, span in spans if span.time_max is not None and span.time_max > near
        }
        latest: list[int | None] = [
            pc.max(self._read(path, ["event_time"]).column(0).cast(pa.int64())).as_py()
            for path in sorted(files)
        ]
        return max(time for time in latest if time is not None)

    def backlog(self) -> dict[TopicPartition, bool]:
        """Returns, for each partition, True if its newest range in the log ended before its high
        watermark then.
        """
        out: dict[TopicPartition, bool] = {}
        for limit in (_NEWEST, None):
            for entry in self.delta.history(limit):
                if entry.get(_METADATA_KEY) is None:
                    continue
                file = f"{self.path}/_delta_log/{entry['version']:020}.json"
                for one in from_metadata(entry[_METADATA_KEY], file).ranges:
                    known = one.high_watermark
                    out.setdefault(one.tp, known is not None and one.end < known)
            if out.keys() >= self.ends.keys():
                break
        return out

    def overlapping(
        self, first: int | None, end: int, ends: Mapping[TopicPartition, int]
    ) -> list[SilverFile]:
        """Returns files that may hold a row below `ends` whose event time is in [first, end)."""

        def may(span: Span) -> bool:
            return (
                span.time_min is not None
                and span.time_max is not None
                and span.time_min < end
                and (first is None or span.time_max >= first)
                and span.offset_min < ends.get(span.tp, 0)
            )

        return [file for file in self.files if any(may(span) for span in file.spans)]

    def held_rows(
        self,
        spark: SparkSession,
        files: Sequence[SilverFile],
        ends: Mapping[TopicPartition, int],
        missed: Sequence[GoldCommit],
    ) -> DataFrame:
        """Returns `query.held_rows` of the files. It checks no single row if the files show that
        none is left out.
        """
        spans = [span for file in files for span in file.spans if span.time_min is not None]
        some = [
            one
            for one in missed
            if any(
                span.offset_max >= one.ends.get(span.tp, 0) and span.time_min < one.watermark
                for span in spans
                if span.time_min is not None
            )
        ]
        rows = self.rows(spark, files)
        if not some and all(span.offset_max < ends.get(span.tp, 0) for span in spans):
            return rows
        return held_rows(rows, ends, some)

    def rows(self, spark: SparkSession, files: Sequence[SilverFile]) -> DataFrame:
        """Returns the rows with an event time in these files. Raises TableError if a file is
        missing.
        """
        frame = self.all_rows(spark, files)
        return frame.where("event_time IS NOT NULL AND NOT coalesce(tombstone, false)")

    def all_rows(self, spark: SparkSession, files: Sequence[SilverFile]) -> DataFrame:
        """Returns all rows, tombstones too. Raises TableError if a file is missing."""
        if not files:
            return spark.createDataFrame([], self.schema())
        paths = [os.path.join(os.path.abspath(self.path), file.path) for file in files]
        gone = [path for path in paths if not os.path.isfile(path)]
        if gone:
            raise TableError(
                f"{len(gone)} files of silver that gold needs are not there: {gone[0]}; put them"
                " back from a copy, or ingest into a new table"
            )
        # The schema is given, so a column that a file lacks is null, and a topic named 7 is text. A
        # folder's name may have characters that are wildcards in a pattern.
        reader = spark.read.schema(self.schema()).option("basePath", os.path.abspath(self.path))
        # Spark puts the columns of the paths last.
        return (
            reader.option("__globPaths__", "false").parquet(*paths).select(*_names(self.schema()))
        )


def _names(schema: StructType) -> list[str]:
    """Returns the quoted names: a dot in a name is no path into it."""
    return [f"`{name.replace('`', '``')}`" for name in schema.names]
