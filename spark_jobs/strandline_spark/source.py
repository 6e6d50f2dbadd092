"""The `strandline` data source for Spark: Kafka's columns and options, no JVM jar.

Spark makes these objects in several processes and pickles them, so they hold options and nothing
that is open. What each process does, and why the readers are shaped so:

    driver, at load()      StrandlineDataSource: options and schema
    driver, for the query  one stream reader: offsets, limits, partitions (its memory lasts as long
    as the query)
    driver, once           another stream reader, of which only `read` is pickled
    executor, each task    `read` of one input partition
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from strandline_spark.offsets import from_json, to_json
from strandline_spark.options import SourceOptions, check_for_batch, check_for_stream, parse_options
from strandline_spark.schema import spark_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.types import StructType

    from strandline_spark.planner import PlannedRange, Planner


class RangePartition(InputPartition):
    """One range of one partition: all that a task needs to know."""

    def __init__(self, planned: PlannedRange) -> None:
        super().__init__(planned)
        self.planned = planned


class StrandlineDataSource(DataSource):
    """`spark.read.format("strandline")` and `spark.readStream.format("strandline")`."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self.parsed = parse_options(dict(options))

    @classmethod
    def name(cls) -> str:
        return "strandline"

    def schema(self) -> str:
        return spark_schema(include_headers=self.parsed.include_headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        check_for_batch(self.parsed)
        return StrandlineReader(self.parsed)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        check_for_stream(self.parsed)
        return StrandlineStreamReader(self.parsed)


def read_records(options: SourceOptions, partition: InputPartition) -> Iterator[Any]:
    """The Arrow batches of a task. Spark asks for a partition of None where there is nothing to
    read.
    """
    if not isinstance(partition, RangePartition):
        return iter(())
    from strandline_spark.ranges import RangeReader

    reader = RangeReader(
        partition.planned,
        options.bootstrap,
        include_headers=options.include_headers,
        fail_on_data_loss=options.fail_on_data_loss,
        max_decompressed_bytes=options.max_decompressed_bytes,
    )
    return reader.batches()


class StrandlineReader(DataSourceReader):
    """A batch query: the range is decided once, when Spark plans it."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options

    def partitions(self) -> Sequence[InputPartition]:
        from strandline_spark.planner import Planner

        planner = Planner(self.options)
        start, end = planner.batch_bounds()
        return [RangePartition(planned) for planned in planner.ranges(start, end)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_records(self.options, partition)


class StrandlineStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming query. Offsets are `{"topic": {"0": 23}}`, end-exclusive, as in Spark's Kafka
    source.
    """

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self._planner: Planner | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Executors need the options alone.
        return {"options": self.options, "_planner": None}

    @property
    def planner(self) -> Planner:
        if self._planner is None:
            from strandline_spark.planner import Planner

            self._planner = Planner(self.options)
        return self._planner

    def initialOffset(self) -> dict[str, Any]:
        return dict(to_json(self.planner.initial()))

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self.options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return dict(to_json(self.planner.latest(from_json(start), most)))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        marks = self.planner.high_watermarks
        return None if marks is None else dict(to_json(marks))

    def prepareForTriggerAvailableNow(self) -> None:
        self.planner.take_target()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        planned = self.planner.ranges(from_json(start), from_json(end))
        return [RangePartition(one) for one in planned]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_records(self.options, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: progress lives in Spark's checkpoint, and the last batch is never passed
        here.
        """
