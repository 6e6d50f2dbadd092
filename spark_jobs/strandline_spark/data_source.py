"""The `strandline` data source for Spark: Kafka's columns and options, no JVM jar.

Spark makes these objects in several processes and pickles them, so they hold options and no open
resource. The work of each process shapes the readers:

    driver, at load()      StrandlineDataSource: options and schema
    driver, for the query  one stream reader: offsets, limits, partitions (its memory lasts as long
    as the query)
    driver, once           another stream reader, of which only `read` is pickled
    executor, each task    `read` of one input partition
    driver, each write     another data source: options and columns are checked, the writer pickled
    executor, each task    `write` of the writer, see sink.py
    driver, at the end     `commit` of the writer, for a stream of a data source that was pickled
"""

from __future__ import annotations

from collections import deque
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)

from strandline_spark.cluster.offsets import stream_from_json, stream_to_json, to_json
from strandline_spark.errors import OptionError
from strandline_spark.source.gc_freeze import spare_libraries
from strandline_spark.source.later_names import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from strandline_spark.source.options import (
    SourceOptions,
    check_for_batch,
    check_for_stream,
    parse_options,
)
from strandline_spark.source.schema import spark_schema
from strandline_spark.source.table_options import is_of_table, merged, users_options, with_options
from strandline_spark.spark_versions import (
    check_stream_reads,
    check_stream_writes,
    check_supported,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.types import StructType

    from strandline_spark.cluster.offsets import StreamOffset
    from strandline_spark.sink.options import SinkOptions
    from strandline_spark.source.planner import Planner
    from strandline_spark.source.splitting import PlannedRange


SEEN: Final = 2
"""Number of offsets that a stream's reader remembers: the start and the end of a micro-batch."""


class RangePartition(InputPartition):
    """One range of one partition, with all that a task needs."""

    def __init__(self, planned: PlannedRange) -> None:
        super().__init__(planned)
        self.planned = planned


class StrandlineDataSource(DataSource):
    """`spark.read.format("strandline")` and `spark.readStream.format("strandline")`."""

    _is_checked = False

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        check_supported()

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A pickled writer was checked before: it has written already.
        self.__dict__.update(state, _is_checked=True)

    @classmethod
    def name(cls) -> str:
        return "strandline"

    @cached_property
    def parsed(self) -> SourceOptions:
        return parse_options(users_options(self.options))

    def schema(self) -> StructType:
        columns = spark_schema(self.parsed.columns)
        if is_of_table(self.options):
            return with_options(columns, users_options(self.options))
        return columns

    def reader(self, schema: StructType) -> DataSourceReader:
        options = self._read_options(schema)
        check_for_batch(options)
        return StrandlineReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        check_stream_reads("readStream")
        options = self._read_options(schema)
        check_for_stream(options)
        return StrandlineStreamReader(options)

    def _read_options(self, schema: StructType) -> SourceOptions:
        options = parse_options(merged(schema, self.options))
        check_schema(schema, spark_schema(options.columns))
        return options

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from strandline_spark.sink.options import check_append, check_for_batch_write
        from strandline_spark.sink.sink import StrandlineWriter

        options = self._sink_options(schema)
        check_append(overwrite=overwrite)
        check_for_batch_write(options)
        check_topic(options)
        return StrandlineWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from strandline_spark.sink.options import check_for_stream_write, check_output_mode
        from strandline_spark.sink.sink import StrandlineStreamWriter

        check_stream_writes()
        options = self._sink_options(schema)
        check_output_mode(options, complete=overwrite)
        check_for_stream_write(options)
        if not self._is_checked:
            check_topic(options)
        return StrandlineStreamWriter(options)

    def _sink_options(self, schema: StructType) -> SinkOptions:
        from strandline_spark.sink.options import parse_sink_options
        from strandline_spark.sink.schema import check_columns

        if not self.options:
            raise OptionError(
                "bootstrap.servers is required: host:port of one or more brokers. Spark hands no"
                " OPTIONS of a table to a sink, so INSERT INTO and CREATE TABLE … AS do not work:"
                ' write with .write.format("strandline").option(…)'
            )
        options = parse_sink_options(users_options(self.options))
        check_columns(schema, options.topic)
        return options


def check_topic(options: SinkOptions) -> None:
    """Raises UnknownTopic or ClusterUnreachable if the option's topic does not exist."""
    if options.topic is not None:
        from strandline_spark.cluster.cluster import Cluster

        Cluster(options.bootstrap).leaders([options.topic])


def check_schema(given: StructType, own: StructType) -> None:
    """Raises OptionError for `.schema(…)` of another shape. Spark would detect it only in the
    tasks.
    """
    # The metadata holds a table's options.
    shapes = [[(f.name, f.dataType, f.nullable) for f in one.fields] for one in (given, own)]
    if shapes[0] != shapes[1]:
        raise OptionError(
            f".schema(…) asks for {given.simpleString()}, but the source yields"
            f" {own.simpleString()}: leave .schema out, and select or cast columns after load()"
        )


def read_records(options: SourceOptions, partition: InputPartition) -> Iterator[Any]:
    """Yields the Arrow batches of a task. Spark passes None as the partition if there is nothing to
    read.
    """
    if not isinstance(partition, RangePartition):
        return iter(())
    return _read_planned(options, partition.planned)


def _read_planned(options: SourceOptions, planned: PlannedRange) -> Iterator[Any]:
    from strandline_spark.source.ranges import RangeReader

    reader = RangeReader(
        planned,
        options.bootstrap,
        columns=options.columns,
        on_loss=options.on_loss,
        max_decompressed_bytes=options.max_decompressed_bytes,
        stall_seconds=options.poll_timeout_seconds,
        read_committed=options.read_committed,
    )
    yield from reader.batches()
    spare_libraries()


class StrandlineReader(DataSourceReader):
    """A batch query. Its range is fixed once, when Spark plans it."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options

    def partitions(self) -> Sequence[InputPartition]:
        from strandline_spark.source.planner import Planner

        partitions = [RangePartition(planned) for planned in Planner(self.options).batch_ranges()]
        spare_libraries()
        return partitions

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_records(self.options, partition)


class StrandlineStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming query. Its offsets are `{"topic": {"0": 23}}`, end-exclusive, as in Spark's Kafka
    source, with their lineage.
    """

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self._planner: Planner | None = None
        self.seen: deque[tuple[dict[str, Any], StreamOffset]] = deque(maxlen=SEEN)

    def __getstate__(self) -> dict[str, Any]:
        # Executors need only the options.
        return {"options": self.options, "_planner": None, "seen": deque()}

    @property
    def planner(self) -> Planner:
        if self._planner is None:
            from strandline_spark.source.planner import Planner

            self._planner = Planner(self.options)
        return self._planner

    def initialOffset(self) -> dict[str, Any]:
        return stream_to_json(self.planner.initial())

    def getDefaultReadLimit(self) -> ReadLimit:
        most, least = self.options.max_offsets_per_trigger, self.options.min_offsets_per_trigger
        if most is not None:
            return ReadMaxRows(most)
        return ReadAllAvailable() if least is None else ReadMinRows(least)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        begin = self._parsed(start)
        # Spark asks for everything only for a trigger that fires once, where limits do not count.
        end = self.planner.latest(begin, most, waits=not isinstance(limit, ReadAllAvailable))
        if end is begin:
            # Spark compares texts. If nothing advanced, the answer is the same object that Spark
            # passed.
            return start
        told = stream_to_json(end)
        self.seen.append((told, end))
        return told

    def reportLatestOffset(self) -> dict[str, Any] | None:
        from strandline_spark.source.lag import offsets_behind, with_behind

        marks = self.planner.high_watermarks
        if marks is None:
            return None
        return with_behind(dict(to_json(marks)), offsets_behind(self.planner.ends, marks))

    def prepareForTriggerAvailableNow(self) -> None:
        self.planner.take_target()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        planned = self.planner.ranges(self._parsed(start), self._parsed(end))
        return [RangePartition(one) for one in planned]

    def _parsed(self, data: dict[str, Any]) -> StreamOffset:
        """Parses an offset once. Spark passes each offset several times, and parsing thousands of
        partitions would dominate planning.
        """
        for known, offset in self.seen:
            if known == data:
                return offset
        try:
            offset = stream_from_json(data, least=0)
        except ValueError as why:
            raise OptionError(
                "the newest file in the folder offsets of the query's checkpoint does not hold what"
                f" this source wrote: {why}; restore it, or start a new checkpoint"
            ) from why
        self.seen.append((data, offset))
        return offset

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_records(self.options, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Does nothing: progress is in Spark's checkpoint, and Spark never passes the last batch
        here.
        """
