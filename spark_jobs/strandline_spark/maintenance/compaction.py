"""`compact` of silver, quarantine and gold, beside a running job: small files become large ones.

As in bronze only files change, each row stays once, and an earlier file stays on disk until
`vacuum`. A new file of silver has the rows of one partition and of one day of event time, by rising
offsets. So a reader with a condition on `event_time` opens the files of its days alone. Rows whose
record is an array stay together, in one file for all days.

A gold table has one small file for each commit. Its new files are ordered by `window_end`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from strandline_spark.bronze.audit import AuditCopier
from strandline_spark.bronze.compaction import Compacted, Fence, unwritable
from strandline_spark.bronze.compaction import compact as compact_bronze
from strandline_spark.bronze.fenced_table import POSITION_KEY
from strandline_spark.delta_log.commit import Change
from strandline_spark.errors import TableError
from strandline_spark.maintenance.tables import AnyTable, Kind
from strandline_spark.maintenance.written import NewFile
from strandline_spark.stores import files

if TYPE_CHECKING:
    from collections.abc import Iterator

_DAY_US: Final = 86_400_000_000
_DAYS_MAX: Final = 16
"""Days of event time that get files of their own in one merge; rows of others share one."""
_REST: Final = -1 << 40


@dataclass(frozen=True, slots=True)
class Small:
    """A file of the table, as its log describes it."""

    path: str
    size: int
    rows: int
    values: tuple[tuple[str, str | None], ...]
    """The partition values."""
    partition: int | None
    order: Any
    """The first offset, or the first window's end."""


def compact(path: str, target_bytes: int) -> Compacted:
    """Compacts a table of any kind. Raises TableError; earlier commits stay."""
    table = AnyTable.of(path)
    if table.kind is Kind.BRONZE:
        return compact_bronze(path, target_bytes)
    if table.kind is Kind.STATE:
        raise TableError(
            f"{path} is a state table: its own commits keep its files few and remove old ones;"
            " name a bronze, silver, quarantine or gold table"
        )
    if table.kind is not Kind.GOLD:
        AuditCopier(path).copy(table)
    fence = Fence(table)
    table.check_files()
    done = Compacted()
    groups = _groups(_files(table), target_bytes)
    for _, bundles in groupby(groups, key=lambda group: group[0].values):
        _replace(table, fence, list(bundles), done)
    done.version = table.version
    return done


def _files(table: AnyTable) -> list[Small]:
    """Returns the files that can be merged; those that other tools wrote are left unchanged."""
    place = "min.window_end" if table.kind is Kind.GOLD else "min.offset"
    out = []
    for one in table.adds():
        first, last = one.get("min.partition"), one.get("max.partition")
        known = one.get(place) is not None and one.get("num_records") is not None
        if known and (table.kind is Kind.GOLD or (first is not None and first == last)):
            values = tuple(table.values_of(one).items())
            rows, size = one["num_records"], one["size_bytes"]
            out.append(Small(one["path"], size, rows, values, first, one[place]))
    return out


def _groups(files: list[Small], target_bytes: int) -> list[list[Small]]:
    """Returns groups of neighbouring files, two or more, that are merged."""

    def place(file: Small) -> Any:
        return [str(value) for _, value in file.values], file.partition or 0

    groups: list[list[Small]] = []
    for _, own in groupby(sorted(files, key=lambda f: (place(f), f.order)), key=place):
        group: list[Small] = []
        for file in own:
            if file.size >= target_bytes or sum(f.size for f in group) >= target_bytes:
                groups.append(group)
                group = []
            if file.size < target_bytes:
                group.append(file)
        groups.append(group)
    return [group for group in groups if len(group) > 1 and not _is_done(group)]


def _is_done(group: list[Small]) -> bool:
    """True if the group has nothing but files of an earlier merge: one for each day."""
    return all(os.path.basename(file.path).startswith("compact-") for file in group)


def _replace(table: AnyTable, fence: Fence, bundles: list[list[Small]], done: Compacted) -> None:
    """Makes one commit: new files for each bundle in place of its files."""
    made: list[NewFile] = []
    change = Change("OPTIMIZE")
    try:
        for group in bundles:
            values = dict(group[0].values)
            before = len(made)
            _merge(table, group, made)
            for file in group:
                change.remove(file.path, file.size, values, data_change=False)
            for new in made[before:]:
                new.close()
                done.size_after += new.add_to(change, values, data_change=False)
            _check_rows(table, group, made[before:])
            done.files_before += len(group)
            done.files_after += len(made) - before
            done.rows += sum(file.rows for file in group)
            done.size_before += sum(file.size for file in group)
        fence.commit(change)
    except BaseException as why:
        discard(table.path, made)
        if isinstance(why, OSError):
            raise unwritable(table, why) from why
        raise


def discard(root: str, made: list[NewFile]) -> None:
    """Removes files that did not become part of the table."""
    kept = set(AnyTable.of(root).file_paths())
    for new in made:
        new.abandon()
        path = os.path.join(root, new.path)
        if new.path not in kept and files.is_file(path):
            files.remove(path)


def _check_rows(table: AnyTable, group: list[Small], made: list[NewFile]) -> None:
    rows, wanted = (sum(one.rows for one in files) for files in (made, group))
    if rows != wanted:
        raise TableError(
            f"{len(group)} files from {group[0].path} on hold {rows} rows, not the {wanted} that"
            f" the log of {table.path} says; `strandline-spark verify` tells more"
        )


def _merge(table: AnyTable, group: list[Small], made: list[NewFile]) -> None:
    """Writes the rows of the files, in their order, to new files that are added to `made`."""
    folder = os.path.dirname(group[0].path)
    schema = _schema(table, group)
    by_day = table.kind is Kind.SILVER and table.setting(POSITION_KEY) is None
    files: dict[int, NewFile] = {}
    for rows in _row_groups(table, group, schema):
        for day, part in _days(rows) if by_day else [(_REST, rows)]:
            at = day if day in files or len(files) < _DAYS_MAX else _REST
            if at not in files:
                files[at] = NewFile(table.path, folder, schema)
                made.append(files[at])
            files[at].add(part)


def _days(rows: Any) -> Iterator[tuple[int, Any]]:
    """Yields each day of event time with its rows. A tombstone's day is that of its timestamp."""
    times = [rows.column(name).cast(pa.int64()) for name in ("event_time", "timestamp")]
    micros = pa.compute.fill_null(pa.compute.coalesce(*times), 0)
    days = np.asarray(micros) // _DAY_US
    for day in np.unique(days).tolist():
        yield day, rows.filter(pa.array(days == day))


def _schema(table: AnyTable, group: list[Small]) -> Any:
    """Returns the columns of all files; one that a file lacks is null in its rows."""
    schemas = []
    for file in group:
        with table.reading(file.path):
            schemas.append(files.parquet(table.full(file.path)).schema_arrow.remove_metadata())
    try:
        return pa.unify_schemas(schemas)
    except pa.ArrowInvalid as why:
        raise TableError(
            f"files of {table.path} from {group[0].path} on have a column of two types ({why}):"
            " `strandline-spark rebuild silver` with the pipeline's file makes the table again"
        ) from why


def _row_groups(table: AnyTable, group: list[Small], schema: Any) -> Iterator[Any]:
    for file in group:
        with table.reading(file.path):
            source = files.parquet(table.full(file.path))
        with source:
            for number in range(source.num_row_groups):
                with table.reading(file.path):
                    rows = source.read_row_group(number)
                yield as_schema(rows, schema)


def as_schema(rows: Any, schema: Any) -> Any:
    """Returns the rows with these columns; one that they lack is null."""
    columns = [
        rows.column(one.name).cast(one.type)
        if one.name in rows.column_names
        else pa.nulls(rows.num_rows, one.type)
        for one in schema
    ]
    return pa.table(columns, schema=schema)
