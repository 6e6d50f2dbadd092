"""Bronze tables of topic t, partition 0, made without Spark: files, what a commit says, commits."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from deltalake import DeltaTable

from strandline_proto.ids import topic_id_text
from strandline_spark.bronze.columns import FILE_SCHEMA, BronzeTable
from strandline_spark.bronze.commits import CommittedRange
from strandline_spark.bronze.fenced_table import DataFile

ID: Final = topic_id_text(bytes(16))
DAY: Final = "topic=t/ingest_date=2026-01-01"


def write_file(root: str, offsets: list[int], *, epochs: list[int] | None = None) -> DataFile:
    """A file with these offsets, not committed. The value of a record is its offset."""
    BronzeTable.open_or_create(root)
    epochs = [0] * len(offsets) if epochs is None else epochs
    path = f"{DAY}/{os.urandom(4).hex()}.parquet"
    full = os.path.join(root, path)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    rows = [
        {
            "partition": 0,
            "offset": o,
            "leader_epoch": e,
            "batch_id": 0,
            "timestamp_type": 0,
            "value": b"%d" % o,
        }
        for o, e in zip(offsets, epochs, strict=True)
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=FILE_SCHEMA), full)
    return DataFile(
        path=path,
        size=os.path.getsize(full),
        topic="t",
        ingest_date="2026-01-01",
        partition=0,
        rows=len(offsets),
        offset_min=min(offsets),
        offset_max=max(offsets),
        leader_epoch_min=min(epochs),
        leader_epoch_max=max(epochs),
    )


def taken(start: int, end: int, *, rows: int | None = None, skipped: int | None = 0) -> Any:
    count = end - start if rows is None else rows
    return CommittedRange("t", ID, 0, start, end, rows=count, skipped=skipped, leader_epoch=0)


def commit(root: str, batch_id: int, one: CommittedRange, *files: DataFile, job: str = "j") -> None:
    BronzeTable.open_or_create(root).commit(job, batch_id, [one], list(files))


def take(root: str, start: int, end: int) -> None:
    """A commit of these offsets and their file, as the next batch of job j."""
    last = BronzeTable.open_or_create(root).committed_batch("j")
    batch_id = 0 if last is None else last + 1
    commit(root, batch_id, taken(start, end), write_file(root, list(range(start, end))))


def clean_log(root: str, before: int) -> None:
    """Removes the log's entries of versions below `before`, as delta-rs does after a week."""
    DeltaTable(root).create_checkpoint()
    for version in range(before):
        Path(root, "_delta_log", f"{version:020}.json").unlink(missing_ok=True)


def values_in(root: str) -> list[tuple[int, bytes]]:
    """(offset, value) of each row, in order."""
    table = BronzeTable.open(root).delta.to_pyarrow_table().select(["offset", "value"])
    return sorted((row["offset"], row["value"]) for row in table.to_pylist())


def written(start: int, end: int) -> list[tuple[int, bytes]]:
    return [(n, b"%d" % n) for n in range(start, end)]
