"""The source of direct mode: each task writes its range to a Parquet file and yields one manifest
row.

Records never enter the JVM. Otherwise the JVM would do nine tenths of the work for a bronze table
(Arrow to row, Parquet encoding). Spark sees, retries and checkpoints the manifest. A file whose
task was retried or whose batch was not committed is not in the table's log, hence not in the table.
`vacuum(full=True)` of delta-rs removes such files.

The job registers the class, which is not found by name. Its option `tablePath` and its rows are
private to the job and the class.
"""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from strandline_proto.ids import topic_id_text
from strandline_spark.data_source import RangePartition, StrandlineStreamReader
from strandline_spark.errors import EnvironmentProblem, OptionError, TableError, first_line
from strandline_spark.source.gc_freeze import spare_libraries
from strandline_spark.source.options import SourceOptions, check_for_stream, parse_options
from strandline_spark.source.schema import HEADERS, PLAIN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.types import StructType

    from strandline_spark.silver.range_output import GuardedOutput
    from strandline_spark.source.splitting import PlannedRange

TABLE_PATH: Final = "tablePath"
SILVER: Final = "silver"
"""Option: the `SilverPlans` of a pipeline; without them only raw records are kept."""
_READ: Final = tuple(name for name in PLAIN if name != "topic") + HEADERS
"""Columns that a file is made from; the topic is in its path."""
MESSAGE_BYTES: Final = 4 << 20
"""The best measured size of one message for a range that goes into a file and not to the JVM."""
BATCH_ID_PROPERTY: Final = "streaming.sql.batchId"
"""The local property by which Spark tells its tasks the micro-batch."""

_MANIFEST: Final = (
    ("topic", "STRING", pa.string()),
    ("topic_id", "STRING", pa.string()),
    ("partition", "INT", pa.int32()),
    ("start", "BIGINT", pa.int64()),
    ("stop", "BIGINT", pa.int64()),
    ("leader_epoch", "INT", pa.int32()),
    ("rows", "BIGINT", pa.int64()),
    ("skipped", "BIGINT", pa.int64()),
    ("lost", "BIGINT", pa.int64()),
    ("path", "STRING", pa.string()),
    ("ingest_date", "STRING", pa.string()),
    ("size", "BIGINT", pa.int64()),
    ("offset_min", "BIGINT", pa.int64()),
    ("offset_max", "BIGINT", pa.int64()),
    ("leader_epoch_min", "INT", pa.int32()),
    ("leader_epoch_max", "INT", pa.int32()),
    ("timestamp_min_ms", "BIGINT", pa.int64()),
    ("timestamp_max_ms", "BIGINT", pa.int64()),
    ("high_watermark", "BIGINT", pa.int64()),
    ("host", "STRING", pa.string()),
    ("silver", "STRING", pa.string()),
)
_MANIFEST_SCHEMA: Final[Any] = pa.schema([(name, kind) for name, _, kind in _MANIFEST])


class BronzeSource(DataSource):
    """The `strandline` source with files as its output; streams only."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        given = {name.lower(): value for name, value in dict(options).items()}
        table_path = given.pop(TABLE_PATH.lower(), None)
        if table_path is None:
            raise OptionError(f"{TABLE_PATH} is required: the table whose files the tasks write")
        self.table_path = table_path
        self.silver = given.pop(SILVER, None)
        self.parsed = parse_options(given)

    @classmethod
    def name(cls) -> str:
        return "strandline_bronze"

    def schema(self) -> str:
        return ", ".join(f"{name} {kind}" for name, kind, _ in _MANIFEST)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        check_for_stream(self.parsed)
        return BronzeStreamReader(self.parsed, self.table_path, self.silver)


class BronzeStreamReader(StrandlineStreamReader):
    """A stream reader with the plain source's offsets and limits, whose tasks yield manifests."""

    def __init__(self, options: SourceOptions, table_path: str, silver: str | None) -> None:
        super().__init__(options)
        self.table_path = table_path
        self.silver = silver

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"table_path": self.table_path, "silver": self.silver}

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, RangePartition):
            return iter(())
        context = TaskContext.get()
        batch_id = context.getLocalProperty(BATCH_ID_PROPERTY) if context is not None else None
        if batch_id is None:
            raise EnvironmentProblem(
                f"Spark set no {BATCH_ID_PROPERTY}: this source is for the micro-batches of"
                " `strandline-spark ingest bronze` alone"
            )
        planned = partition.planned
        try:
            manifest = write_range(
                self.options, planned, self.table_path, int(batch_id), self.silver
            )
        except OSError as why:
            raise TableError(
                f"the task on {platform.node()} that reads {planned.tp} for {self.table_path}"
                f" cannot write its files ({first_line(why)}): make room there, or see to it that"
                " it may write; nothing was committed, start the job again then"
            ) from why
        spare_libraries()
        return iter([pa.RecordBatch.from_pylist([manifest], schema=_MANIFEST_SCHEMA)])


def write_range(
    options: SourceOptions,
    planned: PlannedRange,
    table_path: str,
    batch_id: int,
    silver: str | None = None,
) -> dict[str, Any]:
    """Reads the range into one Parquet file for each table (none without a record), and returns its
    manifest.
    """
    # The process that plans a query loads this module too. It starts with each query, so it loads
    # nothing of files and tables.
    from strandline_spark.bronze.columns import FILE_SCHEMA, WRITER_OPTIONS
    from strandline_spark.bronze.range_file import RangeFile
    from strandline_spark.source.ranges import RangeReader

    reader = RangeReader(
        planned,
        options.bootstrap,
        columns=_READ,
        on_loss=options.on_loss,
        max_decompressed_bytes=options.max_decompressed_bytes,
        stall_seconds=options.poll_timeout_seconds,
        read_committed=options.read_committed,
        message_bytes=MESSAGE_BYTES,
    )
    date = datetime.now(UTC).date().isoformat()
    # Every attempt of a task writes files with names of its own.
    unique = os.urandom(8).hex()
    name = f"{planned.tp.partition:05d}-{planned.start:020d}-{planned.stop:020d}-{unique}.parquet"
    path = f"topic={planned.tp.topic}/ingest_date={date}/{name}"
    file = RangeFile(table_path, path, FILE_SCHEMA, WRITER_OPTIONS)
    parsed = None if silver is None else _silver_output(silver, planned.tp.topic, path, batch_id)
    try:
        for batch in reader.batches():
            file.add(_bronze_rows(batch, batch_id, FILE_SCHEMA))
            if parsed is not None:
                parsed.add(batch)
        size = file.close()
        more = None if parsed is None else parsed.close().to_json()
    except BaseException:
        file.discard()
        if parsed is not None:
            parsed.discard()
        raise
    described = file.description(size)
    return {
        "topic": planned.tp.topic,
        "topic_id": topic_id_text(planned.topic_id),
        "partition": planned.tp.partition,
        "start": planned.start,
        "stop": planned.stop,
        "leader_epoch": planned.leader_epoch,
        "skipped": reader.decoder.skipped,
        "lost": reader.decoder.lost,
        "ingest_date": date,
        "high_watermark": planned.high_watermark if planned.high_watermark >= 0 else None,
        "host": platform.node(),
        "silver": more,
        **{key: value for key, value in described.items() if key in _MANIFEST_SCHEMA.names},
        "rows": reader.decoder.rows,
    }


def _silver_output(plans: str, topic: str, path: str, batch_id: int) -> GuardedOutput | None:
    # Each worker process loads only what a job of raw records needs.
    from strandline_spark.silver.range_output import GuardedOutput, SilverPlans

    plan = SilverPlans.from_json(plans).of(topic)
    return None if plan is None else GuardedOutput(plan, path, batch_id)


def _bronze_rows(batch: Any, batch_id: int, schema: Any) -> Any:
    """Returns the source's records with a file's columns."""
    arrays = [
        batch.column("partition"),
        batch.column("offset"),
        batch.column("timestamp"),
        batch.column("timestampType"),
        batch.column("key"),
        batch.column("value"),
        batch.column("headers"),
        batch.column("leaderEpoch"),
        pa.repeat(pa.scalar(batch_id, pa.int64()), batch.num_rows),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
