"""The contents of one table: its files, and an account of each range of offsets that it took in.

The accounts come from the audit table beside it, which keeps them, and from the commits in the log
that were not copied there yet.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from strandline_spark.bronze.audit import audit_path
from strandline_spark.bronze.commits import from_metadata
from strandline_spark.bronze.fenced_table import METADATA_KEY
from strandline_spark.errors import TableError, first_line
from strandline_spark.gold import account as gold
from strandline_spark.source.local_files import check_path
from strandline_spark.stores import files

if TYPE_CHECKING:
    from strandline_spark.bronze.commits import CommittedRange
    from strandline_spark.gold.account import GoldAccount

_RECORD: Final = {"topic", "partition", "offset", "batch_id", "ingest_date"}
_STATE: Final = "strandline.state"
"""Key in the configuration of a state table."""
_AUDIT_COLUMNS: Final = (
    *("table_version", "committed_at", "job", "batch_id", "topic", "partition"),
    *("start_offset", "end_offset", "rows", "skipped", "lost", "bytes", "lag", "max_timestamp"),
)


class Kind(StrEnum):
    BRONZE = "bronze"
    SILVER = "silver"
    QUARANTINE = "quarantine"
    GOLD = "gold"


@dataclass(frozen=True, slots=True)
class Range:
    """The range [start, end) of one partition that one commit took in. None marks what the commit
    does not say.
    """

    version: int
    committed_at_ms: int
    job: str
    batch_id: int
    topic: str
    partition: int
    start: int
    end: int
    rows: int
    skipped: int | None
    lost: int
    size: int | None
    lag: int | None
    timestamp_max_ms: int | None


@dataclass(frozen=True, slots=True)
class File:
    size: int
    rows: int
    day: str


@dataclass(frozen=True, slots=True)
class TableAccount:
    """A table at one version, with its commits."""

    path: str
    kind: Kind
    version: int
    files: list[File]
    ranges: list[Range]
    """The ranges in the order of their commits."""
    closed: list[GoldAccount]
    """The commits of a gold table that the log still has, oldest first."""
    handle: DeltaTable = field(compare=False)

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self.files)

    @property
    def size(self) -> int:
        return sum(one.size for one in self.files)

    @property
    def is_empty(self) -> bool:
        return not self.files and not self.ranges


def is_table(path: str) -> bool:
    return bool(DeltaTable.is_deltatable(path))


def read_table(path: str) -> TableAccount:
    """Reads a table. Raises TableError if it does not exist, is none of ours, or is unreadable."""
    check_path(path)
    try:
        handle = DeltaTable(path)
        kind = _kind(handle, path)
        return TableAccount(
            path=path,
            kind=kind,
            version=handle.version(),
            files=_files(handle),
            ranges=[] if kind is Kind.GOLD else _ranges(handle, path),
            closed=_closed(handle, path) if kind is Kind.GOLD else [],
            handle=handle,
        )
    except TableNotFoundError as why:
        raise TableError(
            f"{path} is no Delta table: name the folder of a table that a job has made"
        ) from why
    except (DeltaError, OSError, pa.ArrowInvalid) as why:
        raise TableError(f"{path} does not read ({first_line(why)}): restore it first") from why


def _kind(handle: DeltaTable, path: str) -> Kind:
    columns = {one.name for one in handle.schema().fields}
    if _STATE in handle.metadata().configuration:
        raise TableError(
            f"{path} is a state table, which has no ranges to show: `strandline-spark verify` with"
            " the pipeline's file shows it; name a bronze, silver, quarantine or gold table"
        )
    if columns >= _RECORD and "reason" in columns and "detail" in columns:
        return Kind.QUARANTINE
    if columns >= _RECORD and "tombstone" in columns:
        return Kind.SILVER
    if columns >= _RECORD and "leader_epoch" in columns:
        return Kind.BRONZE
    if {"window_start", "window_end"} <= columns:
        return Kind.GOLD
    raise TableError(
        f"{path} is no table of a Strandline job: it has the columns {sorted(columns)}; name a"
        " bronze, silver, quarantine or gold table"
    )


def _files(handle: DeltaTable) -> list[File]:
    actions = pa.table(handle.get_add_actions(flatten=True)).to_pylist()
    return [
        File(
            size=one["size_bytes"],
            rows=one.get("num_records") or 0,
            day=str(one.get("partition.ingest_date") or ""),
        )
        for one in actions
    ]


def _closed(handle: DeltaTable, path: str) -> list[GoldAccount]:
    return [
        gold.from_metadata(entry[gold.METADATA_KEY], _entry(path, entry), entry["version"])
        for entry in reversed(handle.history())
        if entry.get(gold.METADATA_KEY) is not None
    ]


def _entry(path: str, entry: dict[str, Any]) -> str:
    return os.path.join(path, "_delta_log", f"{entry['version']:020}.json")


def _ranges(handle: DeltaTable, path: str) -> list[Range]:
    ranges = _audited(path)
    copied = max((one.version for one in ranges), default=-1)
    behind = handle.version() - copied
    for entry in reversed(handle.history(behind) if behind > 0 else []):
        if entry.get(METADATA_KEY) is not None:
            commit = from_metadata(
                entry[METADATA_KEY], _entry(path, entry), entry["version"], entry["timestamp"]
            )
            for one in commit.ranges:
                ranges.append(_range(commit.version, commit.committed_at_ms, commit, one))
    return ranges


def _range(version: int, committed_at_ms: int, commit: Any, one: CommittedRange) -> Range:
    known = one.high_watermark
    return Range(
        version=version,
        committed_at_ms=committed_at_ms,
        job=commit.job,
        batch_id=commit.batch_id,
        topic=one.topic,
        partition=one.partition,
        start=one.start,
        end=one.end,
        rows=one.rows,
        skipped=one.skipped,
        lost=one.lost,
        size=one.size,
        lag=None if known is None else max(0, known - one.end),
        timestamp_max_ms=one.timestamp_max_ms,
    )


def _audited(path: str) -> list[Range]:
    audit = audit_path(path)
    if not is_table(audit):
        return []
    table = DeltaTable(audit).to_pyarrow_table(
        columns=list(_AUDIT_COLUMNS), filesystem=files.file_system(audit)
    )
    for name in ("committed_at", "max_timestamp"):
        at = table.column_names.index(name)
        # Times stay numbers: Python has no value for some timestamps of producers.
        ms = pc.divide(table[name].cast(pa.timestamp("us", "UTC")).cast(pa.int64()), 1000)
        table = table.set_column(at, name, ms)
    ordered = table.sort_by([("table_version", "ascending"), ("partition", "ascending")])
    return [
        Range(
            version=row["table_version"],
            committed_at_ms=row["committed_at"],
            job=row["job"],
            batch_id=row["batch_id"],
            topic=row["topic"],
            partition=row["partition"],
            start=row["start_offset"],
            end=row["end_offset"],
            rows=row["rows"],
            skipped=row["skipped"],
            lost=row["lost"],
            size=row["bytes"],
            lag=row["lag"],
            timestamp_max_ms=row["max_timestamp"],
        )
        for row in ordered.to_pylist()
    ]
