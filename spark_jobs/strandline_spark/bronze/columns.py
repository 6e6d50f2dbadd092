"""The bronze table: raw records as they are, with their offsets and epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]

from strandline_spark.bronze.fenced_table import FencedTable
from strandline_spark.source.schema import HEADER_TYPE, TIMESTAMP_TYPE

if TYPE_CHECKING:
    from strandline_spark.bronze.fenced_table import DataFile

FILE_SCHEMA: Final[Any] = pa.schema(
    [
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", TIMESTAMP_TYPE),
        pa.field("timestamp_type", pa.int32()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.list_(pa.field("element", HEADER_TYPE))),
        pa.field("leader_epoch", pa.int32()),
        pa.field("batch_id", pa.int64()),
    ]
)
"""The columns in a file; `topic` and `ingest_date` are in its path."""
# Offsets rise by one and keys and values rarely repeat, so a dictionary of them wastes work.
WRITER_OPTIONS: Final[dict[str, Any]] = {
    "compression": "snappy",
    "use_dictionary": ["partition", "timestamp_type", "leader_epoch", "batch_id"],
    "column_encoding": {"offset": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED"},
    "write_statistics": ["partition", "offset", "timestamp", "leader_epoch"],
}
COMPACTED_OPTIONS: Final[dict[str, Any]] = WRITER_OPTIONS | {
    "compression": "zstd",
    "compression_level": 1,
}
"""Codecs: a job's file is written fast, because a reader waits for it; a lasting file is small."""
TABLE_SCHEMA: Final[Any] = pa.schema(
    [pa.field("topic", pa.string()), *FILE_SCHEMA, pa.field("ingest_date", pa.date32())]
)


class BronzeTable(FencedTable):
    KIND = "bronze"
    MADE_BY = "strandline-spark ingest bronze"
    COLUMNS = frozenset(TABLE_SCHEMA.names)

    @classmethod
    def open_or_create(cls, path: str, owner: str | None = None) -> BronzeTable:
        return cls._open_or_create(
            path,
            TABLE_SCHEMA,
            name="records",
            description="Records of Strandline topics, each offset once",
            owner=owner,
        )

    def statistics(self, file: DataFile) -> tuple[dict[str, Any], dict[str, Any], dict[str, int]]:
        least, most, nulls = super().statistics(file)
        least["leader_epoch"], most["leader_epoch"] = file.leader_epoch_min, file.leader_epoch_max
        return least, most, nulls | {"leader_epoch": 0}
