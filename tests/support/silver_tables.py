"""Silver tables of topic t made without Spark: rows, files with statistics, commits with fences."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.transaction import AddAction, RemoveAction

from strandline_proto.ids import topic_id_text
from strandline_spark.bronze.commits import CommittedRange, to_metadata
from strandline_spark.cluster.offsets import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIME: Final[Any] = pa.timestamp("us", tz="UTC")
_FILE: Final[Any] = pa.schema(
    [
        *(pa.field("partition", pa.int32()), pa.field("offset", pa.int64())),
        *(pa.field("timestamp", _TIME), pa.field("event_time", _TIME)),
        *(pa.field("key", pa.binary()), pa.field("tombstone", pa.bool_())),
        *(pa.field("carrier", pa.string()), pa.field("delay", pa.float64())),
        pa.field("batch_id", pa.int64()),
    ]
)
_PARTITIONS: Final = ["topic", "ingest_date"]


class SilverRow(NamedTuple):
    """`time` is the event time in microseconds; None makes a tombstone."""

    partition: int
    offset: int
    time: int | None
    carrier: str | None = "UA"
    delay: float = 1.0
    topic: str = "t"
    key: bytes | None = None
    at: int | None = None
    """The record's timestamp in microseconds; None for the event time, of a tombstone for 0."""

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


def create(root: str) -> DeltaTable:
    schema = pa.schema(
        [pa.field("topic", pa.string()), *_FILE, pa.field("ingest_date", pa.date32())]
    )
    os.makedirs(root, exist_ok=True)
    return DeltaTable.create(root, schema, mode="ignore", partition_by=_PARTITIONS)


def take(
    root: str,
    rows: Iterable[SilverRow],
    *,
    high_watermarks: Mapping[int, int] | None = None,
    digits: int = 6,
    without: tuple[str, ...] = (),
) -> None:
    """One commit: a file for each partition's rows, its range up to the last of them. Statistics
    hold so many digits of a second's fraction; files lack the columns `without`.
    """
    handle = create(root)
    batch_id = handle.version()
    adds: list[AddAction | RemoveAction] = []
    fences, ranges = [], []
    for tp, group in groupby(sorted(rows), key=lambda row: row.tp):
        held = list(group)
        adds.append(_write(root, tp, held, batch_id, digits, without))
        fence = f"strandline/{tp.topic}/{tp.partition}"
        start, end = handle.transaction_version(fence) or 0, held[-1].offset + 1
        high = (high_watermarks or {}).get(tp.partition, end)
        fences.append(Transaction(fence, end))
        ranges.append(
            CommittedRange(
                *(tp.topic, topic_id_text(bytes(16)), tp.partition, start, end, len(held)),
                skipped=end - start - len(held),
                leader_epoch=0,
                high_watermark=high,
            )
        )
    handle.create_write_transaction(
        adds,
        "append",
        handle.schema(),
        partition_by=_PARTITIONS,
        commit_properties=CommitProperties(
            custom_metadata={"strandline": to_metadata("j", batch_id, ranges)},
            app_transactions=[Transaction("j", batch_id), *fences],
        ),
    )


def _write(
    root: str,
    tp: TopicPartition,
    rows: list[SilverRow],
    batch_id: int,
    digits: int,
    without: tuple[str, ...],
) -> AddAction:
    path = f"topic={tp.topic}/ingest_date=2026-01-01/{os.urandom(6).hex()}.parquet"
    file = os.path.join(root, path)
    os.makedirs(os.path.dirname(file), exist_ok=True)
    table = pa.Table.from_pylist(
        [
            {
                "partition": row.partition,
                "offset": row.offset,
                "timestamp": (row.time or 0) if row.at is None else row.at,
                "event_time": row.time,
                "key": row.key,
                "tombstone": row.time is None,
                "carrier": row.carrier,
                "delay": row.delay,
                "batch_id": batch_id,
            }
            for row in rows
        ],
        schema=_FILE,
    ).drop_columns(list(without))
    pq.write_table(table, file)
    times = [row.time for row in rows if row.time is not None]
    bounds = {"partition": (tp.partition,) * 2, "offset": (rows[0].offset, rows[-1].offset)}
    stats: dict[str, Any] = {
        "numRecords": len(rows),
        "minValues": {name: least for name, (least, _) in bounds.items()},
        "maxValues": {name: most for name, (_, most) in bounds.items()},
        "nullCount": {"event_time": len(rows) - len(times)},
    }
    if times:
        stats["minValues"]["event_time"] = _text(min(times), digits)
        stats["maxValues"]["event_time"] = _text(max(times), digits)
    values = {"topic": tp.topic, "ingest_date": "2026-01-01"}
    return AddAction(path, os.path.getsize(file), values, 1, True, json.dumps(stats))


def _text(micros: int, digits: int) -> str:
    """Further digits are cut off, as Delta does."""
    text = (EPOCH + timedelta(microseconds=micros)).isoformat(timespec="microseconds")
    return text.removesuffix("+00:00")[: digits - 6 or None] + "Z"
