"""Tables of a pipeline for the report, made without Spark; their audits tell of chosen times."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from deltalake import DeltaTable, Transaction, write_deltalake

from strandline_spark.bronze import audit as audit_module
from strandline_spark.bronze.audit import AUDIT_SCHEMA, audit_path
from support.spark_tables import ID

if TYPE_CHECKING:
    from collections.abc import Sequence

NOON: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
_QUARANTINE: Final[Any] = pa.schema(
    [
        *(pa.field("topic", pa.string()), pa.field("partition", pa.int32())),
        *(pa.field("offset", pa.int64()), pa.field("key", pa.binary())),
        *(pa.field("value", pa.binary()), pa.field("reason", pa.string())),
        *(pa.field("detail", pa.string()), pa.field("batch_id", pa.int64())),
        pa.field("ingest_date", pa.date32()),
    ]
)


def account(version: int, second: float, start: int, end: int, **other: Any) -> dict[str, Any]:
    """A row of an audit: one range of t:0, committed so many seconds after NOON."""
    at = NOON + timedelta(seconds=second)
    row: dict[str, Any] = dict.fromkeys(AUDIT_SCHEMA.names)
    row |= {"job": "j", "batch_id": version - 1, "topic": "t", "topic_id": ID, "partition": 0}
    row |= {"start_offset": start, "end_offset": end, "rows": end - start, "skipped": 0, "lost": 0}
    row |= {"bytes": 30 * (end - start), "table_version": version, "committed_at": at, "lag": 0}
    return row | other


def write_audit(root: str, rows: list[dict[str, Any]]) -> None:
    """The table's audit, as if it had been copied up to the last of these versions."""
    path = audit_path(root)
    copied = Transaction("test", max(row["table_version"] for row in rows))
    audit_module._append(audit_module._open_or_create(path), path, rows, copied)


def write_quarantine(root: str, rows: Sequence[tuple[str, str, str, bytes | None]]) -> None:
    """Appends rows of (topic, reason, detail, value); without any it makes an empty table."""
    if not rows:
        os.makedirs(root, exist_ok=True)
        DeltaTable.create(root, _QUARANTINE)
        return
    table = pa.Table.from_pylist(
        [
            {
                "topic": topic,
                "partition": 0,
                "offset": offset,
                "value": value,
                "reason": reason,
                "detail": detail,
                "batch_id": 0,
                "ingest_date": NOON.date(),
            }
            for offset, (topic, reason, detail, value) in enumerate(rows)
        ],
        schema=_QUARANTINE,
    )
    write_deltalake(root, table, mode="append")


def write_silver(root: str, rows: int) -> None:
    """A silver table of a topic with one parsed column, by delta-rs."""
    table = pa.table(
        {
            "topic": pa.array(["t"] * rows, pa.string()),
            "partition": pa.array([0] * rows, pa.int32()),
            "offset": pa.array(range(rows), pa.int64()),
            "event_time": pa.array([NOON] * rows, pa.timestamp("us", "UTC")),
            "tombstone": pa.array([False] * rows, pa.bool_()),
            "carrier": pa.array(["UA"] * rows, pa.string()),
            "batch_id": pa.array([0] * rows, pa.int64()),
            "ingest_date": pa.array([NOON.date()] * rows, pa.date32()),
        }
    )
    write_deltalake(root, table)
