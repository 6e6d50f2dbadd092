"""The accounts of a table's commits in columns: each range that the table took in.

They come from the log's entries, and from the audit for commits that have left the log. After a
month these are ten thousands of small files, of which nearly all are known from an earlier
verification. A note has their accounts, with a hash over the content of each. So a known file is
read as bytes and compared, and only a new or changed one is parsed.

The note decides nothing: what is compared with the rows is always the accounts of the files that
are there now. It carries a hash over all that it says; a damaged note counts as none.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from strandline_spark.bronze.audit import FILE_COLUMN, Audit
from strandline_spark.delta_log.entries import LOG
from strandline_spark.stores import files
from strandline_spark.stores.durable import sync

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from strandline_spark.bronze.commits import Commit
    from strandline_spark.bronze.fenced_table import FencedTable

NOTE: Final = os.path.join("_ops", "verified_accounts.parquet")
_FORMAT: Final = "1"
_NEW_MIN: Final = 500
"""Number of unknown files from which the note is written again; fewer are parsed each time."""
_UNREADABLE: Final = ""
_NUMBERS: Final = ("version", "partition", "start", "end", "rows", "skipped", "lost", "elsewhere")
_SCHEMA: Final[Any] = pa.schema(
    [
        pa.field("source", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("topic_id", pa.string()),
        *(pa.field(name, pa.int64()) for name in _NUMBERS),
    ]
)
_NOTED: Final[Any] = _SCHEMA.append(pa.field("content", pa.string()))


@dataclass(frozen=True, slots=True, eq=False)
class Ranges:
    """The ranges of one partition in the order of their commits."""

    starts: Any
    ends: Any
    rows: Any
    skipped: Any
    """0 for a range whose job did not see its empty offsets."""
    lost: Any
    elsewhere: Any
    topic_ids: Any
    audited: int = 0
    """Number of the first ranges that are known from the audit alone."""

    def __len__(self) -> int:
        return len(self.starts)

    def places_of(self, others: Ranges) -> Any:
        """Returns for each of the other ranges the number of the equal one here; -1 without one. Of
        equal ranges here the first one counts.
        """
        pairs = [np.concatenate((getattr(self, n), getattr(others, n))) for n in ("starts", "ends")]
        ranks = [np.unique(one, return_inverse=True)[1] for one in pairs]
        numbers = ranks[0] * (len(pairs[1]) + 1) + ranks[1]
        own, firsts = np.unique(numbers[: len(self)], return_index=True)
        wanted = numbers[len(self) :]
        place = np.searchsorted(own, wanted)
        is_there = np.append(own, -1)[place] == wanted
        return np.where(is_there, np.append(firsts, -1)[place], -1)

    @property
    def topic_id(self) -> str | None:
        """The topic's id in the newest commit."""
        return str(self.topic_ids[-1].as_py()) if len(self) else None


@dataclass(frozen=True, slots=True, eq=False)
class Accounts:
    """The accounts of commits, the newest first."""

    rows: Any
    """Table of the schema above."""

    @classmethod
    def of_commits(cls, commits: Iterable[Commit]) -> Accounts:
        """Returns the accounts of commits, which are in any order."""
        return cls(_newest_first(_of_commits(commits)))

    def of_topic(self, topic: str) -> Accounts:
        return Accounts(self.rows.filter(pc.equal(self.rows.column("topic"), topic)))

    def partitions(self) -> list[int]:
        found: list[int] = pc.unique(self.rows.column("partition")).to_pylist()
        return sorted(found)

    def of_partition(self, partition: int, log_start: int = 0) -> Ranges:
        """Returns the ranges of a partition of the one topic; those of versions before `log_start`
        are audited.
        """
        own = self.rows.filter(pc.equal(self.rows.column("partition"), partition))
        column = {
            name: np.asarray(pc.fill_null(own.column(name), 0))[::-1].copy() for name in _NUMBERS
        }
        return Ranges(
            column["start"],
            column["end"],
            column["rows"],
            column["skipped"],
            column["lost"],
            column["elsewhere"],
            own.column("topic_id").combine_chunks()[::-1],
            int((column["version"] < log_start).sum()),
        )


NO_RANGES: Final = Accounts(_SCHEMA.empty_table()).of_partition(0)


def read(table: FencedTable, *, full: bool = True) -> Accounts:
    """Returns all accounts that the log or the audit has. Unless `full`, files whose content is
    noted are not parsed again. Raises TableError.
    """
    noted = _nothing() if full else _noted(table)
    versions = {f"{one:020}.json": one for one in table.logged_versions()}
    entries = _Sources(noted, os.path.join(table.path, LOG), versions)
    entries.parse(lambda new: _of_commits(table.commits_of(versions[one] for one in new)))
    logged = entries.accounts()
    first = pc.min(logged.column("version")).as_py()
    parts, sources = [logged], [entries]
    audit = Audit.of(table)
    if audit is not None:
        copies = _Sources(noted, audit.path, audit.names(), may_lack=False)
        copies.parse(lambda new: _of_audit(audit.read(only=set(new))))
        older = copies.accounts()
        before = table.version + 1 if first is None else first
        parts.append(older.filter(pc.less(older.column("version"), before)))
        sources.append(copies)
    if sum(one.parsed for one in sources) >= _NEW_MIN:
        _note(table, pa.concat_tables([one.noted for one in sources]))
    return Accounts(_newest_first(pa.concat_tables(parts)))


class _Sources:
    """Files with accounts, of which some are noted."""

    def __init__(
        self, noted: Any, folder: str, names: Collection[str], *, may_lack: bool = True
    ) -> None:
        """Compares the files with the note. For one that is lacking `parse` fails, unless it
        `may_lack`.
        """
        there = files.fingerprints(folder, names)
        if not may_lack:
            there = dict.fromkeys(names, _UNREADABLE) | there
        self._contents = pa.array(there.values(), pa.string())
        self._names = pa.array(there, pa.string())
        place = pc.index_in(noted.column("source"), value_set=self._names).combine_chunks()
        content = noted.column("content")
        is_same = pc.and_(
            pc.equal(content, self._contents.take(place)), pc.not_equal(content, _UNREADABLE)
        )
        self.noted: Any = noted.filter(pc.fill_null(is_same, False))
        """What a note has of the files."""
        self.parsed = 0
        """Number of files that were not noted."""

    def parse(self, parse: Callable[[list[str]], Any]) -> None:
        """Takes the accounts of files that are not noted."""
        known = pc.unique(self.noted.column("source"))
        new = self._names.filter(pc.invert(pc.is_in(self._names, value_set=known)))
        self.parsed = len(new)
        if not self.parsed:
            return
        found = parse(new.to_pylist())
        # A file without accounts is noted by a row of nulls.
        empty = new.filter(pc.invert(pc.is_in(new, value_set=pc.unique(found.column("source")))))
        nulls = [pa.nulls(len(empty), one.type) for one in _SCHEMA][1:]
        found = pa.concat_tables([found, pa.Table.from_arrays([empty, *nulls], schema=_SCHEMA)])
        place = pc.index_in(found.column("source"), value_set=self._names).combine_chunks()
        found = found.append_column(_NOTED.field("content"), self._contents.take(place))
        self.noted = pa.concat_tables([self.noted, found])

    def accounts(self) -> Any:
        """Returns the accounts of all the files."""
        return self.noted.filter(pc.is_valid(self.noted.column("version"))).select(_SCHEMA.names)


def _of_commits(commits: Iterable[Commit]) -> Any:
    columns: dict[str, list[Any]] = {name: [] for name in _SCHEMA.names}
    for commit in commits:
        for one in commit.ranges:
            columns["source"].append(f"{commit.version:020}.json")
            columns["version"].append(commit.version)
            for name in _SCHEMA.names:
                if name not in ("source", "version"):
                    columns[name].append(getattr(one, name))
    return pa.table(columns, schema=_SCHEMA)


def _of_audit(found: Any) -> Any:
    """Returns accounts of the audit, which has the number `elsewhere` by the others."""
    column = {name: found.column(name) for name in found.column_names}
    start, end, skipped = (column[name] for name in ("start_offset", "end_offset", "skipped"))
    known = pc.add(pc.add(column["rows"], column["lost"]), skipped)
    elsewhere = pc.fill_null(pc.subtract(pc.subtract(end, start), known), 0)
    given = {
        "source": column[FILE_COLUMN],
        "topic": column["topic"],
        "topic_id": column["topic_id"],
        "version": column["table_version"],
        "partition": column["partition"],
        "start": start,
        "end": end,
        "rows": column["rows"],
        "skipped": skipped,
        "lost": column["lost"],
        "elsewhere": elsewhere,
    }
    return pa.table(given).cast(_SCHEMA)


def _newest_first(rows: Any) -> Any:
    order = np.argsort(-np.asarray(rows.column("version")), kind="stable")
    return rows.take(pa.array(order))


def _nothing() -> Any:
    return _NOTED.empty_table()


def _noted(table: FencedTable) -> Any:
    """Returns the rows of the note; none if there is no note, or a damaged one."""
    try:
        with files.parquet(os.path.join(table.path, NOTE)) as source:
            rows, said = source.read(), source.schema_arrow.metadata or {}
        rows = rows.replace_schema_metadata(None).cast(_NOTED)
        if said[b"seal"].decode() == _seal(rows):
            return rows
    except (OSError, KeyError, ValueError, pa.ArrowInvalid):
        pass
    return _nothing()


def _note(table: FencedTable, rows: Any) -> None:
    path = os.path.join(table.path, NOTE)
    sealed = rows.replace_schema_metadata({"seal": _seal(rows)})
    with contextlib.suppress(OSError):
        files.replace_parquet(sealed, path, compression="zstd")
        sync(os.path.dirname(path))


def _seal(rows: Any) -> str:
    digest = hashlib.sha256(repr((_FORMAT, rows.num_rows)).encode())
    for one in _NOTED:
        column = rows.column(one.name).combine_chunks()
        if pa.types.is_string(one.type):
            # Each value once, and a number for each row.
            encoded = column.dictionary_encode()
            digest.update(repr(encoded.dictionary.to_pylist()).encode())
            column = encoded.indices
        digest.update(np.asarray(pc.fill_null(column.cast(pa.int64()), -1)).tobytes())
    return digest.hexdigest()
