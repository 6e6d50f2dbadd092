"""The Parquet files of one task's range, written in row groups of bounded size, and synced before
the task reports them to the driver.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from strandline_spark.bronze.codecs import codec_of_each
from strandline_spark.stores import files
from strandline_spark.stores.durable import sync, sync_names

ROW_GROUP_BYTES: Final = 32 << 20
"""Arrow bytes gathered before a row group is written: the most that one writer holds in memory."""


@dataclass(slots=True)
class Bounds:
    """Bounds of the rows of a file; times are None if no row has one."""

    rows: int = 0
    offset_min: int = 0
    offset_max: int = 0
    leader_epoch_min: int = -1
    leader_epoch_max: int = -1
    timestamp_min_ms: int | None = None
    timestamp_max_ms: int | None = None
    event_time_min_us: int | None = None
    event_time_max_us: int | None = None

    def add(self, batch: Any) -> None:
        """Adds a batch of the file's columns, which has at least one row, in the order of the
        offsets.
        """
        offsets = batch.column("offset")
        if self.rows == 0:
            self.offset_min = offsets[0].as_py()
        # Offsets and epochs never decrease within a range, so the last row has the largest.
        self.offset_max = offsets[-1].as_py()
        if "leader_epoch" in batch.schema.names:
            epochs = batch.column("leader_epoch")
            self.leader_epoch_min = epochs[0].as_py() if self.rows == 0 else self.leader_epoch_min
            self.leader_epoch_max = epochs[-1].as_py()
        self.rows += batch.num_rows
        first, last = _extent(batch.column("timestamp"))
        if first is not None and last is not None:
            self.timestamp_min_ms = _least(self.timestamp_min_ms, first // 1000)
            self.timestamp_max_ms = _most(self.timestamp_max_ms, last // 1000)
        if "event_time" in batch.schema.names:
            first, last = _extent(batch.column("event_time"))
            if first is not None and last is not None:
                self.event_time_min_us = _least(self.event_time_min_us, first)
                self.event_time_max_us = _most(self.event_time_max_us, last)


class RangeFile:
    """A file that is created with its first record."""

    def __init__(self, root: str, path: str, schema: Any, options: dict[str, Any]) -> None:
        """Prepares the file. `path` is relative to the table's folder `root`; `options` are those
        of ParquetWriter, and name the codec for columns that compress.
        """
        self.path = path
        self.bounds = Bounds()
        self._root = root
        self._schema = schema
        self._options = options
        self._writer: Any = None
        self._pending: list[Any] = []
        self._pending_bytes = 0

    @property
    def _full_path(self) -> str:
        return os.path.join(self._root, self.path)

    def add(self, batch: Any) -> None:
        if batch.num_rows == 0:
            return
        self.bounds.add(batch)
        self._pending.append(batch)
        self._pending_bytes += batch.nbytes
        if self._pending_bytes >= ROW_GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if not self._pending:
            return
        table = pa.Table.from_batches(self._pending)
        if self._writer is None:
            files.make_folder(os.path.dirname(self._full_path))
            codecs = codec_of_each(table, self._options["compression"])
            options = self._options | {"compression": codecs}
            self._writer = files.parquet_writer(self._full_path, self._schema, **options)
        self._writer.write_table(table, row_group_size=max(1, table.num_rows))
        self._pending, self._pending_bytes = [], 0

    def close(self) -> int:
        """Closes and syncs the file and returns its size; 0 if there were no records, and so no
        file.
        """
        self._flush()
        if self._writer is None:
            return 0
        self._writer.close()
        # The file is synced before the driver commits it, so that it survives a loss of power.
        sync(self._full_path)
        sync_names(self._full_path, self._root)
        return files.size(self._full_path)

    def discard(self) -> None:
        """Removes the file, as far as possible: a file that stays is an orphan, not data."""
        if self._writer is not None:
            self._writer.close()
            files.remove(self._full_path)

    def description(self, size: int) -> dict[str, Any]:
        """Returns the file's description for a manifest."""
        return {"path": self.path if size > 0 else None, "size": size, **asdict(self.bounds)}


def _extent(times: Any) -> tuple[int | None, int | None]:
    """Returns the least and greatest time in microseconds."""
    found = pc.min_max(times.cast(pa.int64())).as_py()
    return found["min"], found["max"]


def _least(known: int | None, other: int) -> int:
    return other if known is None else min(known, other)


def _most(known: int | None, other: int) -> int:
    return other if known is None else max(known, other)
