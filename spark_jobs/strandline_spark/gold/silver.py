"""A silver table at one version, as gold reads it: event times and offsets of each file, the end of
each partition, and the rows in Spark.
"""

from __future__ import annotations

import json
import os
import threading
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from strandline_spark.bronze.fenced_table import POSITION_KEY
from strandline_spark.cluster.offsets import TopicPartition
from strandline_spark.delta_log.entries import LogError, NoLogError
from strandline_spark.delta_log.excerpt import excerpt
from strandline_spark.delta_log.file_index import FileIndex, SilverFile, Span
from strandline_spark.delta_log.table_log import Snapshot, snapshot
from strandline_spark.errors import TableError, first_line
from strandline_spark.gold.arrivals import Arrivals
from strandline_spark.gold.query import held_rows
from strandline_spark.gold.watermark import PartitionProgress
from strandline_spark.silver.object_rows import objects_as_rows
from strandline_spark.source.local_files import check_path
from strandline_spark.stores import files
from strandline_spark.stores.paths import absolute, is_remote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from strandline_spark.gold.watermark import GoldCommit

_COLUMNS: Final = frozenset(
    ("topic", "partition", "offset", "event_time", "tombstone", "ingest_date")
)
_FENCE: Final = "strandline/{topic}/{partition}"
REBUILT: Final = "strandline.rebuild"
"""Key in the configuration of a table that a rebuild made: the rebuild's number."""
_MILLISECOND: Final = 1000
_TABLES_MAX: Final = 32
_INDEXES: Final[dict[str, FileIndex]] = {}
_ARRIVALS: Final[dict[str, Arrivals]] = {}
"""What this process has read of tables already."""
_LOCK: Final = threading.Lock()


class Silver:
    """One version of the table."""

    def __init__(self, state: Snapshot, path: str) -> None:
        self.state = state
        self.path = path
        self.version = state.version
        self.id = state.id
        self.is_rebuilt = REBUILT in state.configuration
        self.is_exploded = POSITION_KEY in state.configuration
        """True if a record may have several rows."""

    @classmethod
    def open(cls, path: str) -> Silver:
        """Opens the table. Raises TableError if it does not exist, or is not a silver table."""
        check_path(path)
        try:
            state = snapshot(path)
        except NoLogError as why:
            raise TableError(
                f"{path} is no Delta table; `strandline-spark ingest silver` makes one"
            ) from why
        except LogError as why:
            raise TableError(f"{path} cannot be opened: {first_line(why)}") from why
        missing = sorted(_COLUMNS - set(state.columns))
        if missing:
            raise TableError(
                f"{path} is not a silver table: it has no column {missing[0]}; give another path"
            )
        return cls(state, path)

    @cached_property
    def delta(self) -> DeltaTable:
        """The handle of delta-rs on this version. The first use reads the list of all files."""
        return self.state.handle()

    def schema(self) -> StructType:
        """The schema in Spark's form."""
        from pyspark.sql.types import StructType

        return StructType.fromJson(json.loads(self.state.metadata["schemaString"]))

    @cached_property
    def index(self) -> FileIndex:
        """The files by the log alone, except for a file whose statistics are incomplete."""
        with _LOCK:
            found = _INDEXES.pop(self.state.path, None)
            if found is None or not found.follow(self.state):
                found = FileIndex(self.state, self._measured)
            _keep(_INDEXES, self.state.path, found)
            return found

    @cached_property
    def _arrivals(self) -> Arrivals:
        with _LOCK:
            found = _ARRIVALS.pop(self.state.path, None)
            if found is None or not found.follow(self.state):
                found = Arrivals(self.state)
            _keep(_ARRIVALS, self.state.path, found)
            return found

    @property
    def files(self) -> list[SilverFile]:
        return self.index.all_files()

    def excerpt(self, files: Iterable[SilverFile]) -> AbstractContextManager[DeltaTable]:
        """Gives a Delta table of these files alone."""
        return excerpt(self.state, {file.path: file.values for file in files})

    def _measured(self, path: str, topic: str) -> Iterable[Span]:
        rows = self._read(path, ["partition", "offset", "event_time"])
        rows = rows.set_column(2, "event_time", rows.column("event_time").cast(pa.int64()))
        wanted = [
            ("offset", "min"),
            ("offset", "max"),
            ("event_time", "min"),
            ("event_time", "max"),
            ("offset", "count"),
        ]
        for one in rows.group_by("partition").aggregate(wanted).to_pylist():
            yield Span(
                TopicPartition(topic, one["partition"]),
                one["offset_min"],
                one["offset_max"],
                one["event_time_min"],
                one["event_time_max"],
                one["event_time_max"],
                one["offset_count"],
            )

    def _read(self, path: str, columns: list[str]) -> Any:
        full = os.path.join(self.path, path)
        try:
            return files.parquet(full).read(columns=columns)
        except (OSError, pa.ArrowInvalid) as why:
            raise TableError(
                f"the file {full} of silver does not read ({why}): put it back from a copy, or"
                " ingest into a new table"
            ) from why

    @cached_property
    def ends(self) -> dict[TopicPartition, int]:
        """Returns the table's end in each partition that it has rows of."""
        out: dict[TopicPartition, int] = {}
        for tp in self.index.partitions():
            name = _FENCE.format(topic=tp.topic, partition=tp.partition)
            end = self.state.transactions.get(name)
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
        came = None if idle_since is None else self._arrivals.since(idle_since)
        latest: dict[TopicPartition, int | None] = dict.fromkeys(backlog)
        latest |= self.index.latest()
        return [
            PartitionProgress(
                latest[tp], backlog.get(tp, False), tp.topic, came is not None and tp not in came
            )
            for tp in sorted(latest)
        ]

    def is_older_than(self, time: int) -> bool:
        """True if the log has an entry of before that time, in microseconds."""
        return self._arrivals.since(time) is not None

    def latest_event_time(self) -> int | None:
        """Returns the latest event time to the microsecond; None without a row that has one."""
        index = self.index
        timed = index.is_there & (index["is_timed"] == 1)
        if not timed.any():
            return None
        near = index["time_max"][timed].max() - _MILLISECOND
        latest: list[int | None] = [
            pc.max(self._read(file.path, ["event_time"]).column(0).cast(pa.int64())).as_py()
            for file in index.files(timed & (index["time_max"] > near))
        ]
        return max(time for time in latest if time is not None)

    def backlog(self) -> dict[TopicPartition, bool]:
        """Returns, for each partition, True if its newest range in the log ended before its high
        watermark then.
        """
        return self._arrivals.backlog(self.ends.keys())

    def overlapping(
        self, first: int | None, end: int, ends: Mapping[TopicPartition, int]
    ) -> list[SilverFile]:
        """Returns files that may hold a row below `ends` whose event time is in [first, end)."""

        index = self.index
        may = (index["is_timed"] == 1) & (index["time_min"] < end)
        may &= index["offset_min"] < index.ends_of(ends)
        if first is not None:
            may &= index["time_max"] >= first
        return index.files(may)

    def late(
        self,
        before: GoldCommit,
        ends: Mapping[TopicPartition, int],
        is_late: Callable[[int], bool],
    ) -> list[SilverFile]:
        """Returns files that may hold a row that came between the two, of which `is_late` is true
        for its event time.
        """
        index = self.index
        came = (index["is_timed"] == 1) & (index["offset_max"] >= index.ends_of(before.ends))
        came &= index["offset_min"] < index.ends_of(ends)
        places = np.flatnonzero(came)
        late = [is_late(time) for time in index["time_min"][places].tolist()]
        wanted = np.zeros(len(came), bool)
        wanted[places[np.array(late, bool)]] = True
        return index.files(wanted)

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

    def all_rows(self, spark: SparkSession, wanted: Sequence[SilverFile]) -> DataFrame:
        """Returns all rows, tombstones too. Raises TableError if a file is missing."""
        if not wanted:
            return spark.createDataFrame([], self.schema())
        root = absolute(self.path)
        paths = [os.path.join(root, file.path) for file in wanted]
        gone = [path for path in paths if not files.is_file(path)]
        if gone:
            raise TableError(
                f"{len(gone)} files of silver that gold needs are not there: {gone[0]}; put them"
                " back from a copy, or ingest into a new table"
            )
        if is_remote(root):
            return objects_as_rows(spark, root, [file.path for file in wanted], self.schema())
        # The schema is given, so a column that a file lacks is null, and a topic named 7 is text. A
        # folder's name may have characters that are wildcards in a pattern.
        reader = spark.read.schema(self.schema()).option("basePath", root)
        # Spark puts the columns of the paths last.
        return (
            reader.option("__globPaths__", "false").parquet(*paths).select(*_names(self.schema()))
        )


def _keep(known: dict[str, Any], path: str, found: Any) -> None:
    known[path] = found
    while len(known) > _TABLES_MAX:
        del known[next(iter(known))]


def _names(schema: StructType) -> list[str]:
    """Returns the quoted names: a dot in a name is no path into it."""
    return [f"`{name.replace('`', '``')}`" for name in schema.names]
