"""The audit table `ops.ingest_audit`: an account of each range that a job took into a fenced table.

Each commit of the table carries its account, atomically with its files. Delta removes log entries
after a while, so the accounts are copied into a second table, which keeps them. The copy is
idempotent: it carries `txn(strandline-audit:<table>, <version>)`, the last copied version of the
table. Of two copies at once the later one is refused.

A job copies when it starts and ends. In between it copies before a commit, if there are enough
accounts or an old one. A commit may clean the log, but only of entries that are days old.

`verify` and a new checkpoint get a table's past from here: from the log, and from the audit for
commits that have left the log.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.dataset as ds  # type: ignore[import-untyped]
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction

from strandline_spark.bronze.commits import CommittedRange
from strandline_spark.errors import TableError, first_line
from strandline_spark.source.schema import TIMESTAMP_TYPE
from strandline_spark.stores import files
from strandline_spark.stores.durable import sync, sync_log

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from strandline_spark.bronze.commits import Commit
    from strandline_spark.bronze.fenced_table import FencedTable
    from strandline_spark.cluster.offsets import TopicPartition

AUDIT_PATH: Final = os.path.join("_ops", "ingest_audit")
"""The audit's folder under the table's. Names that begin with _ are no part of a Delta table."""
COMMITS_MAX: Final = 20
AGE_SECONDS_MAX: Final = 3600.0
"""Limits before a job copies ahead of its next commit: this many uncopied commits, or one of this
age.
"""
_ROWS_AT_ONCE: Final = 1 << 12
_COPIED: Final = "strandline-audit:{table}"
_CONFIGURATION: Final[dict[str, str | None]] = {
    "delta.appendOnly": "true",
    "delta.checkpointInterval": "20",
    "delta.logRetentionDuration": "interval 7 days",
}
AUDIT_SCHEMA: Final[Any] = pa.schema(
    [
        pa.field("job", pa.string()),
        pa.field("batch_id", pa.int64()),
        pa.field("topic", pa.string()),
        pa.field("topic_id", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("start_offset", pa.int64()),
        pa.field("end_offset", pa.int64()),
        pa.field("rows", pa.int64()),
        pa.field("skipped", pa.int64()),
        pa.field("lost", pa.int64()),
        pa.field("bytes", pa.int64()),
        pa.field("min_offset", pa.int64()),
        pa.field("max_offset", pa.int64()),
        pa.field("min_epoch", pa.int32()),
        pa.field("max_epoch", pa.int32()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("min_timestamp", TIMESTAMP_TYPE),
        pa.field("max_timestamp", TIMESTAMP_TYPE),
        pa.field("high_watermark", pa.int64()),
        pa.field("lag", pa.int64()),
        pa.field("table_version", pa.int64()),
        pa.field("committed_at", TIMESTAMP_TYPE),
    ]
)

_ACCOUNT: Final = (
    *("table_version", "topic", "topic_id", "partition", "start_offset", "end_offset"),
    *("rows", "skipped", "lost", "leader_epoch"),
)


FILE_COLUMN: Final = "__filename"
"""Arrow's name for the column of a row's file."""


def audit_path(table_path: str) -> str:
    return os.path.join(table_path, AUDIT_PATH)


def accounts(table: FencedTable, limit: int | None = None) -> Iterator[tuple[int, CommittedRange]]:
    """Yields the ranges that the table took in, newest first, each with its version.

    They come from the log's newest `limit` entries, and before those from the audit, which may lack
    some. Raises TableError.
    """
    before = table.version + 1
    for commit in table.commits(limit):
        before = commit.version
        for one in commit.ranges:
            yield commit.version, one
    yield from _audited(table, before)


def last_ranges(
    table: FencedTable, wanted: set[TopicPartition], limit: int | None = None
) -> dict[TopicPartition, CommittedRange]:
    """Returns the newest range of each wanted partition, if `accounts` knows one."""
    out: dict[TopicPartition, CommittedRange] = {}
    for _, one in accounts(table, limit):
        if one.tp in wanted:
            out.setdefault(one.tp, one)
        if len(out) == len(wanted):
            break
    return out


class AuditCopier:
    """Copies the accounts of one table's commits into its audit table."""

    def __init__(self, table_path: str) -> None:
        self._table_path = table_path
        self._copied = -1
        """A version up to which all is copied; another job may have copied more."""

    def copy_if_due(self, table: FencedTable) -> None:
        """Copies if the limits are reached, before a commit on this handle."""
        behind = table.version - self._copied
        if behind >= COMMITS_MAX or (behind > 0 and self._age(table) >= AGE_SECONDS_MAX):
            self.copy(table)

    def _age(self, table: FencedTable) -> float:
        """Returns the age of the first version that is not copied; the limit if the log has lost
        it.
        """
        try:
            made = files.modified_s(table.log_entry(self._copied + 1))
        except FileNotFoundError:
            return AGE_SECONDS_MAX
        return time.time() - made

    def copy(self, table: FencedTable, commits: list[Commit] | None = None) -> int:
        """Copies all accounts not copied yet: those of the log, or these `commits`, the newest
        first. Returns how many versions had left the log before they were copied. Raises
        TableError.
        """
        path = audit_path(self._table_path)
        try:
            audit = _open_or_create(path)
            name = _COPIED.format(table=table.id)
            found = audit.transaction_version(name)
            copied = -1 if found is None else found
            behind = table.version - copied
            if behind > 0:
                rows = _rows(table.commits(behind) if commits is None else commits)
                _append(audit, path, rows, Transaction(name, table.version))
        except CommitFailedError:
            # Another job copies the same accounts at this moment; the next copy takes what it has
            # not seen.
            return 0
        except (DeltaError, OSError, pa.ArrowInvalid) as why:
            raise TableError(
                f"the audit {path} cannot be written ({first_line(why)}): make room or restore"
                " it, or move it away, and it starts again with what the table's log still holds"
            ) from why
        self._copied = max(copied, table.version)
        return max(0, min(table.log_start(), table.version) - copied - 1)


def _open_or_create(path: str) -> DeltaTable:
    if not DeltaTable.is_deltatable(path):
        files.make_folder(path)
        DeltaTable.create(
            path,
            AUDIT_SCHEMA,
            mode="ignore",
            name="ingest_audit",
            description="What came of each range of offsets that was taken into the table",
            configuration=_CONFIGURATION,
        )
        sync_log(path, 0)
        for directory in (os.path.dirname(path), os.path.dirname(os.path.dirname(path))):
            sync(directory)
    return DeltaTable(path)


def _append(audit: DeltaTable, path: str, rows: list[dict[str, Any]], copied: Transaction) -> None:
    """Appends the rows and the copied version, in one commit that is synced on return."""
    before = audit.version()
    adds = []
    if rows:
        name = f"{copied.version:020d}-{os.urandom(8).hex()}.parquet"
        file = os.path.join(path, name)
        files.write_parquet(
            pa.Table.from_pylist(rows, schema=AUDIT_SCHEMA), file, compression="zstd"
        )
        sync(file)
        size, now_ms = files.size(file), time.time_ns() // 1_000_000
        adds.append(AddAction(name, size, {}, now_ms, True, f'{{"numRecords": {len(rows)}}}'))
    audit.create_write_transaction(
        list(adds),
        "append",
        audit.schema(),
        commit_properties=CommitProperties(app_transactions=[copied]),
    )
    sync_log(path, before + 1)


class Audit:
    """The audit of one table, to read."""

    def __init__(self, path: str, delta: DeltaTable) -> None:
        self.path = path
        self._delta = delta

    @classmethod
    def of(cls, table: FencedTable) -> Audit | None:
        """Opens the table's audit; None without one. An audit of another table counts as none."""
        path = audit_path(table.path)
        if not DeltaTable.is_deltatable(path):
            return None
        with _reading(path):
            audit = DeltaTable(path)
            is_own = audit.transaction_version(_COPIED.format(table=table.id)) is not None
        return cls(path, audit) if is_own else None

    def names(self) -> list[str]:
        """Returns the names of the audit's files."""
        with _reading(self.path):
            found: list[str] = pa.table(self._delta.get_add_actions()).column("path").to_pylist()
        return found

    def read(self, wanted: Any = None, only: Collection[str] | None = None) -> Any:
        """Returns the accounts that the condition is true for, or all, as a table with the name of
        each one's file. With `only`, other files are not read.
        """
        with _reading(self.path):
            dataset: Any = self._delta.to_pyarrow_dataset(filesystem=files.file_system(self.path))
            if only is not None:
                some = [one for one in dataset.get_fragments() if one.path in only]
                dataset = ds.FileSystemDataset(
                    some, dataset.schema, dataset.format, dataset.filesystem
                )
            return dataset.to_table(columns=[*_ACCOUNT, FILE_COLUMN], filter=wanted)


@contextlib.contextmanager
def _reading(path: str) -> Iterator[None]:
    try:
        yield
    except (DeltaError, OSError, pa.ArrowInvalid) as why:
        raise TableError(
            f"the audit {path} does not read ({first_line(why)}): put it back from a copy, or move"
            " it away, and the table's log alone says what was taken in"
        ) from why


def _audited(table: FencedTable, before: int) -> Iterator[tuple[int, CommittedRange]]:
    """Yields the ranges of versions below `before`, newest first."""
    audit = Audit.of(table)
    if audit is None:
        return
    found = audit.read(pc.field("table_version") < before)
    ordered = found.sort_by([("table_version", "descending")])
    for batch in ordered.to_batches(max_chunksize=_ROWS_AT_ONCE):
        for row in batch.to_pylist():
            yield row["table_version"], _range(row)


def _range(row: dict[str, Any]) -> CommittedRange:
    start, end, skipped = row["start_offset"], row["end_offset"], row["skipped"]
    known = row["rows"] + row["lost"]
    return CommittedRange(
        row["topic"],
        row["topic_id"],
        row["partition"],
        start,
        end,
        row["rows"],
        skipped,
        row["leader_epoch"],
        row["lost"],
        elsewhere=0 if skipped is None else end - start - known - skipped,
    )


def _rows(commits: list[Commit]) -> list[dict[str, Any]]:
    """Returns the rows of the commits, in the order of the commits."""
    return [_row(commit, one) for commit in reversed(commits) for one in commit.ranges]


def _row(commit: Commit, one: CommittedRange) -> dict[str, Any]:
    known = one.high_watermark
    return {
        "job": commit.job,
        "batch_id": commit.batch_id,
        "topic": one.topic,
        "topic_id": one.topic_id,
        "partition": one.partition,
        "start_offset": one.start,
        "end_offset": one.end,
        "rows": one.rows,
        "skipped": one.skipped,
        "lost": one.lost,
        "bytes": one.size,
        "min_offset": one.offset_min,
        "max_offset": one.offset_max,
        "min_epoch": one.leader_epoch_min,
        "max_epoch": one.leader_epoch_max,
        "leader_epoch": one.leader_epoch,
        "min_timestamp": _time(one.timestamp_min_ms),
        "max_timestamp": _time(one.timestamp_max_ms),
        "high_watermark": known,
        "lag": None if known is None else max(0, known - one.end),
        "table_version": commit.version,
        "committed_at": _time(commit.committed_at_ms),
    }


def _time(ms: int | None) -> Any:
    """Returns Arrow's own scalar: Python has no value for some timestamps of producers."""
    return None if ms is None else pa.scalar(ms * 1000, pa.int64()).cast(TIMESTAMP_TYPE)
