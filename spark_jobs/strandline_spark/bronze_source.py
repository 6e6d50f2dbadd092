"""Direct mode's source: each task writes its range to a Parquet file and yields one manifest row.

Records never enter the JVM: nine tenths of the work of a bronze table would be the JVM's otherwise
(Arrow to row, Parquet encoding). What Spark sees, retries and checkpoints is the manifest. A file
whose task was retried or whose batch was not committed is not in the table's log, hence not in the
table; `vacuum(full=True)` of delta-rs removes such files.

The class is registered by the job and is not found by name: its option `tablePath` and its rows
are between the two of them.
"""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from strandline_proto.ids import topic_id_text
from strandline_spark.durable import sync, sync_names
from strandline_spark.errors import EnvironmentProblem, OptionError
from strandline_spark.garbage import spare_libraries
from strandline_spark.options import SourceOptions, check_for_stream, parse_options
from strandline_spark.schema import HEADERS, PLAIN
from strandline_spark.source import RangePartition, StrandlineStreamReader
from strandline_spark.table import FILE_SCHEMA, ROW_GROUP_BYTES, WRITER_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.types import StructType

    from strandline_spark.splitting import PlannedRange

TABLE_PATH: Final = "tablePath"
_READ: Final = tuple(name for name in PLAIN if name != "topic") + HEADERS
"""What a file is made of; the topic stands in its path."""
BATCH_ID_PROPERTY: Final = "streaming.sql.batchId"
"""The local property under which Spark tells its tasks the micro-batch."""

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
        self.parsed = parse_options(given)

    @classmethod
    def name(cls) -> str:
        return "strandline_bronze"

    def schema(self) -> str:
        return ", ".join(f"{name} {kind}" for name, kind, _ in _MANIFEST)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        check_for_stream(self.parsed)
        return BronzeStreamReader(self.parsed, self.table_path)


class BronzeStreamReader(StrandlineStreamReader):
    """Offsets and limits are the plain source's; only what a task yields differs."""

    def __init__(self, options: SourceOptions, table_path: str) -> None:
        super().__init__(options)
        self.table_path = table_path

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"table_path": self.table_path}

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
        manifest = write_range(self.options, partition.planned, self.table_path, int(batch_id))
        spare_libraries()
        return iter([pa.RecordBatch.from_pylist([manifest], schema=_MANIFEST_SCHEMA)])


def write_range(
    options: SourceOptions, planned: PlannedRange, table_path: str, batch_id: int
) -> dict[str, Any]:
    """Reads the range into one Parquet file (none, if it holds no record); its manifest."""
    from strandline_spark.ranges import RangeReader

    reader = RangeReader(
        planned,
        options.bootstrap,
        columns=_READ,
        on_loss=options.on_loss,
        max_decompressed_bytes=options.max_decompressed_bytes,
        stall_seconds=options.poll_timeout_seconds,
    )
    date = datetime.now(UTC).date().isoformat()
    directory = f"topic={planned.tp.topic}/ingest_date={date}"
    # Every attempt of a task writes a file of its own name.
    unique = os.urandom(8).hex()
    name = f"{planned.tp.partition:05d}-{planned.start:020d}-{planned.stop:020d}-{unique}.parquet"
    path = os.path.join(table_path, directory, name)
    file = _RangeFile(path, batch_id)
    try:
        for batch in reader.batches():
            file.add(batch)
        size = file.close()
        if size > 0:
            # Before the driver hears of it: what it commits must be there after a loss of power.
            sync(path)
            sync_names(path, table_path)
    except BaseException:
        file.discard()
        raise
    return {
        "topic": planned.tp.topic,
        "topic_id": topic_id_text(planned.topic_id),
        "partition": planned.tp.partition,
        "start": planned.start,
        "stop": planned.stop,
        "leader_epoch": planned.leader_epoch,
        "rows": reader.decoder.rows,
        "skipped": reader.decoder.skipped,
        "lost": reader.decoder.lost,
        "path": f"{directory}/{name}" if size > 0 else None,
        "ingest_date": date,
        "size": size,
        "high_watermark": planned.high_watermark if planned.high_watermark >= 0 else None,
        "host": platform.node(),
        **file.bounds(),
    }


class _RangeFile:
    """A Parquet file that comes to be with its first record; row groups of bounded size."""

    def __init__(self, path: str, batch_id: int) -> None:
        self._path = path
        self._batch_id = batch_id
        self._writer: Any = None
        self._pending: list[Any] = []
        self._pending_bytes = 0
        self._offsets = (0, 0)
        self._epochs = (0, 0)
        self._times_us: list[int] = []

    def add(self, batch: Any) -> None:
        rows = batch.num_rows
        columns = {
            "partition": batch.column("partition"),
            "offset": batch.column("offset"),
            "timestamp": batch.column("timestamp"),
            "timestamp_type": batch.column("timestampType"),
            "key": batch.column("key"),
            "value": batch.column("value"),
            "headers": batch.column("headers"),
            "leader_epoch": batch.column("leaderEpoch"),
            "batch_id": pa.repeat(pa.scalar(self._batch_id, pa.int64()), rows),
        }
        offsets, epochs = columns["offset"], columns["leader_epoch"]
        if self._writer is None and not self._pending:
            self._offsets = (offsets[0].as_py(), 0)
            self._epochs = (epochs[0].as_py(), 0)
        # Offsets and epochs never fall within a range, so the last row has the largest.
        self._offsets = (self._offsets[0], offsets[rows - 1].as_py())
        self._epochs = (self._epochs[0], epochs[rows - 1].as_py())
        times = pc.min_max(columns["timestamp"].cast(pa.int64())).as_py()
        known = [*self._times_us, times["min"], times["max"]]
        self._times_us = [min(known), max(known)]
        arrays = list(columns.values())
        self._pending.append(pa.RecordBatch.from_arrays(arrays, schema=FILE_SCHEMA))
        self._pending_bytes += batch.nbytes
        if self._pending_bytes >= ROW_GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if not self._pending:
            return
        if self._writer is None:
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            self._writer = pq.ParquetWriter(self._path, FILE_SCHEMA, **WRITER_OPTIONS)
        table = pa.Table.from_batches(self._pending)
        self._writer.write_table(table, row_group_size=max(1, table.num_rows))
        self._pending, self._pending_bytes = [], 0

    def close(self) -> int:
        """The file's size; 0 if there were no records and so there is no file."""
        self._flush()
        if self._writer is None:
            return 0
        self._writer.close()
        return os.path.getsize(self._path)

    def discard(self) -> None:
        """Removes what was written, as far as it can: a file that stays is an orphan, not data."""
        if self._writer is not None:
            self._writer.close()
            os.unlink(self._path)

    def bounds(self) -> dict[str, int | None]:
        first, last = (us // 1000 for us in self._times_us) if self._times_us else (None, None)
        return {
            "timestamp_min_ms": first,
            "timestamp_max_ms": last,
            "offset_min": self._offsets[0],
            "offset_max": self._offsets[1],
            "leader_epoch_min": self._epochs[0],
            "leader_epoch_max": self._epochs[1],
        }
