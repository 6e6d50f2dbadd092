"""`compact`: merges the small files of a bronze table, one for each partition and micro-batch, into
few large ones, while a job writes and others read.

Only files change. Rows, fences and accounts stay, and readers of an earlier version find its files
until `vacuum` removes them. New files are synced before the commit that replaces the old ones by
them. A job's commits and a compaction do not refuse each other.

That commit carries `txn(strandline/maintenance, <number>)`. So the later one of two compactions at
once is refused: together they would duplicate rows. A compaction that a vacuum has overtaken is
refused too. (delta-rs's own compaction carries no transaction.)

A new file holds rows of one partition in the order of their offsets. Only row groups of bounded
size are in memory.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]

from strandline_spark.bronze.audit import AuditCopier
from strandline_spark.bronze.columns import COMPACTED_OPTIONS, FILE_SCHEMA, BronzeTable
from strandline_spark.bronze.fenced_table import committing
from strandline_spark.bronze.range_file import ROW_GROUP_BYTES
from strandline_spark.delta_log.checkpoints import write_if_due
from strandline_spark.delta_log.commit import Change, ConflictError, UnsyncedError, commit
from strandline_spark.errors import TableError, first_line
from strandline_spark.stores import files
from strandline_spark.stores.durable import sync, sync_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_spark.bronze.fenced_table import FencedTable

TARGET_BYTES: Final = 128 << 20
"""A file of this size or more is left unchanged."""
MAINTENANCE: Final = "strandline/maintenance"
_AGAIN: Final = "this commit changed nothing, run the command again"


@dataclass(frozen=True, slots=True)
class _Small:
    """A file of the table, as its log describes it."""

    path: str
    size: int
    rows: int
    topic: str
    ingest_date: str
    partition: int
    offset_min: int
    offset_max: int
    leader_epoch_min: int
    leader_epoch_max: int


@dataclass(slots=True)
class Compacted:
    """The result of a compaction."""

    files_before: int = 0
    files_after: int = 0
    rows: int = 0
    size_before: int = 0
    size_after: int = 0
    version: int = -1


def compact(table_path: str, target_bytes: int = TARGET_BYTES) -> Compacted:
    """Compacts in one commit for each topic and day. Raises TableError; earlier commits stay."""
    table = BronzeTable.open(table_path)
    # Any commit may clean the log of entries that are days old.
    AuditCopier(table_path).copy(table)
    fence = Fence(table)
    table.check_files()
    done = Compacted()
    groups = _groups(_files(table), target_bytes)
    for _, bundles in groupby(groups, key=lambda group: (group[0].topic, group[0].ingest_date)):
        _replace(table, fence, list(bundles), done)
    done.version = table.version
    return done


class Fence:
    """The number of the last maintenance of a table.

    Take it on a handle before you look at the table's files. Then any later maintenance of another
    process makes your commit a conflict.
    """

    def __init__(self, table: FencedTable) -> None:
        self._table = table
        self._number = table.committed_batch(MAINTENANCE) or 0

    def commit(self, change: Change) -> None:
        """Replaces files by others, and returns when the commit is synced. Raises TableError if
        another maintenance was committed since.
        """
        table = self._table
        if (table.committed_batch(MAINTENANCE) or 0) != self._number:
            # It was committed between our own commit and the reading of the table's new version.
            raise _overtaken(table, None)
        change.transactions = {**change.transactions, MAINTENANCE: self._number + 1}
        with committing(table.path):
            try:
                version = commit(table.state, change)
            except ConflictError as why:
                raise _overtaken(table, why) from why
            except UnsyncedError:
                raise
            except OSError as why:
                raise unwritable(table, why) from why
            self._number += 1
            table.refresh()
            write_if_due(table.path, version)


def _overtaken(table: FencedTable, why: ConflictError | None) -> TableError:
    if why is not None and MAINTENANCE not in str(why):
        return TableError(f"{table.path} was changed meanwhile ({why}): {_AGAIN}")
    return TableError(
        f"another compact or vacuum of {table.path} was committed meanwhile; run one at a time:"
        f" {_AGAIN}"
    )


def unwritable(table: FencedTable, why: OSError) -> TableError:
    return TableError(
        f"{table.path} cannot be written ({first_line(why)}): make room there, or see to it that"
        f" you may write; {_AGAIN}"
    )


def _files(table: BronzeTable) -> list[_Small]:
    """Returns the files of one partition each; files that another tool wrote are left unchanged."""
    found = pa.table(table.delta.get_add_actions(flatten=True)).to_pylist()
    known = (
        "min.partition",
        "max.partition",
        "min.offset",
        "max.offset",
        "min.leader_epoch",
        "max.leader_epoch",
        "num_records",
    )
    return [
        _Small(
            path=one["path"],
            size=one["size_bytes"],
            rows=one["num_records"],
            topic=one["partition.topic"],
            ingest_date=str(one["partition.ingest_date"]),
            partition=one["min.partition"],
            offset_min=one["min.offset"],
            offset_max=one["max.offset"],
            leader_epoch_min=one["min.leader_epoch"],
            leader_epoch_max=one["max.leader_epoch"],
        )
        for one in found
        if all(one.get(name) is not None for name in known)
        and one["min.partition"] == one["max.partition"]
    ]


def _groups(files: list[_Small], target_bytes: int) -> list[list[_Small]]:
    """Returns groups of neighbouring files of one partition, two or more, that become one file."""
    groups: list[list[_Small]] = []
    files = sorted(files, key=lambda f: (f.topic, f.ingest_date, f.partition, f.offset_min))
    for _, own in groupby(files, key=lambda f: (f.topic, f.ingest_date, f.partition)):
        group: list[_Small] = []
        for file in own:
            if file.size >= target_bytes or sum(f.size for f in group) >= target_bytes:
                groups.append(group)
                group = []
            if file.size < target_bytes:
                group.append(file)
        groups.append(group)
    return [group for group in groups if len(group) > 1]


def _replace(
    table: BronzeTable, fence: Fence, bundles: list[list[_Small]], done: Compacted
) -> None:
    """Makes one commit: a new file for each bundle in place of its files."""
    made: list[str] = []
    change = Change("OPTIMIZE")
    try:
        for group in bundles:
            path = f"{os.path.dirname(group[0].path)}/compact-{os.urandom(8).hex()}.parquet"
            made.append(os.path.join(table.path, path))
            _merge(table, group, made[-1])
            size = files.size(made[-1])
            values: dict[str, str | None] = {
                "topic": group[0].topic,
                "ingest_date": group[0].ingest_date,
            }
            change.add(path, size, values, _stats(group), data_change=False)
            for file in group:
                change.remove(file.path, file.size, values, data_change=False)
            done.files_before += len(group)
            done.files_after += 1
            done.rows += sum(file.rows for file in group)
            done.size_before += sum(file.size for file in group)
            done.size_after += size
        fence.commit(change)
    except BaseException as why:
        _discard(table.path, made)
        if isinstance(why, OSError):
            raise unwritable(table, why) from why
        raise


def _discard(root: str, made: list[str]) -> None:
    """Removes files that did not become part of the table."""
    kept = {os.path.join(root, path) for path in BronzeTable.open(root).file_paths()}
    for path in made:
        if path not in kept and files.is_file(path):
            files.remove(path)


def _stats(group: list[_Small]) -> str:
    one = group[0]
    low = {
        "partition": one.partition,
        "offset": min(file.offset_min for file in group),
        "leader_epoch": min(file.leader_epoch_min for file in group),
    }
    high = {
        "partition": one.partition,
        "offset": max(file.offset_max for file in group),
        "leader_epoch": max(file.leader_epoch_max for file in group),
    }
    rows = sum(file.rows for file in group)
    nulls = dict.fromkeys(low, 0)
    return json.dumps({"numRecords": rows, "minValues": low, "maxValues": high, "nullCount": nulls})


def _merge(table: BronzeTable, group: list[_Small], path: str) -> None:
    """Writes the rows of the files, in their order, to `path`, and syncs it. Raises TableError for
    an unreadable file, OSError if `path` cannot be written.
    """
    rows = 0
    with files.parquet_writer(path, FILE_SCHEMA, **COMPACTED_OPTIONS) as writer:
        pending: list[Any] = []
        for chunk in _row_groups(table, group):
            rows += chunk.num_rows
            pending.append(chunk)
            if sum(one.nbytes for one in pending) >= ROW_GROUP_BYTES:
                _write(writer, pending)
                pending = []
        _write(writer, pending)
    if rows != sum(file.rows for file in group):
        raise TableError(
            f"{len(group)} files from {group[0].path} on hold {rows} rows, not the"
            f" {sum(file.rows for file in group)} that the log says; `strandline-spark verify`"
            " tells more"
        )
    sync(path)
    sync_names(path, table.path)


def _row_groups(table: BronzeTable, group: list[_Small]) -> Iterator[Any]:
    for file in group:
        path = os.path.join(table.path, file.path)
        with table.reading(file.path):
            # Spark's files of earlier versions hold timestamps of another type.
            source = files.parquet(path, coerce_int96_timestamp_unit="us")
        with source:
            for number in range(source.num_row_groups):
                with table.reading(file.path):
                    rows = source.read_row_group(number).select(FILE_SCHEMA.names).cast(FILE_SCHEMA)
                yield rows


def _write(writer: Any, pending: list[Any]) -> None:
    if pending:
        table = pa.concat_tables(pending)
        writer.write_table(table, row_group_size=max(1, table.num_rows))
