"""The note of a verification: the runs of offsets in each data file that it has read, and a hash
over the accounts of the commits.

Data files never change. So the next verification takes the runs of a noted file from here, and
reads only the others. A file whose size or rows have changed since is a finding. So is an account
of a noted commit that has changed. The note carries a hash over all that it says; a damaged note
counts as none.

A table may have a million files, so a note is kept and compared in columns.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from strandline_spark.stores import files
from strandline_spark.stores.durable import sync

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from strandline_spark.verification.accounts import Accounts

FOLDER: Final = os.path.join("_ops", "verified")
"""The folder of the notes under the table's. Names that begin with _ are no part of the table."""
_FORMAT: Final = "1"
_SCHEMA: Final[Any] = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("mtime_ns", pa.int64()),
        pa.field("partition", pa.int32()),
        pa.field("start", pa.int64()),
        pa.field("end", pa.int64()),
        pa.field("epoch_first", pa.int32()),
        pa.field("epoch_last", pa.int32()),
    ]
)
RUN: Final = ("partition", "start", "end", "epoch_first", "epoch_last")
_NO_RUN: Final = (None,) * len(RUN)
Row = tuple[int, int, int, int, int]
"""Partition, start, end and the leader epochs of a run's ends."""


@dataclass(frozen=True, slots=True, eq=False)
class FileRuns:
    """The runs of files in columns. The rows of one file are side by side; a file without a run has
    one row, of nulls.
    """

    rows: Any
    _firsts: Any
    """Place of the first row of each file, and the number of rows at the end."""

    @classmethod
    def of(cls, rows: Any) -> FileRuns:
        paths = rows.column("path").combine_chunks()
        is_first = np.ones(len(paths), bool)
        if len(paths) > 1:
            is_first[1:] = np.asarray(pc.not_equal(paths[1:], paths[:-1]))
        return cls(rows, np.append(np.flatnonzero(is_first), len(paths)))

    @classmethod
    def read(cls, found: Iterable[tuple[str, int, int, Sequence[Row]]]) -> FileRuns:
        """Returns the runs of files that were read: path, size, time of change, and runs."""
        columns: Sequence[list[Any]] = [[] for _ in _SCHEMA.names]
        for path, size, mtime_ns, own in found:
            runs: Sequence[tuple[int | None, ...]] = own or [_NO_RUN]
            for run in runs:
                for column, value in zip(columns, (path, size, mtime_ns, *run), strict=True):
                    column.append(value)
        arrays = [pa.array(c, one.type) for c, one in zip(columns, _SCHEMA, strict=True)]
        return cls.of(pa.Table.from_arrays(arrays, schema=_SCHEMA))

    def __len__(self) -> int:
        """Returns the number of files."""
        return len(self._firsts) - 1

    def places(self, paths: Any) -> Any:
        """Returns the number of each path's file here; -1 for one that is not here."""
        own = self.rows.column("path").take(pa.array(self._firsts[:-1]))
        found = pc.index_in(paths, value_set=own.combine_chunks())
        return np.asarray(pc.fill_null(found, -1)).astype(np.int64)

    def marks(self) -> tuple[Any, Any]:
        """Returns size and time of change of each file."""
        size, mtime_ns = (
            np.asarray(self.rows.column(name))[self._firsts[:-1]] for name in ("size", "mtime_ns")
        )
        return size, mtime_ns

    def runs_of(self, place: int) -> list[Row]:
        """Returns the runs of one file, in order."""
        first, end = self._firsts[place : place + 2].tolist()
        columns = [self.rows.column(name).slice(first, end - first).to_pylist() for name in RUN]
        return sorted(run for run in zip(*columns, strict=True) if run[0] is not None)

    def only(self, places: Any) -> FileRuns:
        """Returns the runs of the files at these places."""
        is_kept = np.zeros(len(self), bool)
        is_kept[places] = True
        kept = np.repeat(is_kept, np.diff(self._firsts))
        return FileRuns.of(self.rows.filter(pa.array(kept)))

    def and_of(self, other: FileRuns) -> FileRuns:
        """Returns the runs of both, which have no file in common."""
        return FileRuns.of(pa.concat_tables([self.rows, other.rows]))

    def columns(self) -> dict[str, Any]:
        """Returns the columns of all runs by name."""
        is_run = pc.is_valid(self.rows.column("partition"))
        runs = self.rows.select(RUN).filter(is_run)
        return {name: np.asarray(runs.column(name)) for name in RUN}


NOTHING: Final = FileRuns.of(_SCHEMA.empty_table())


@dataclass(frozen=True, slots=True, eq=False)
class Note:
    """The files and accounts of one topic in a table that a verification has read."""

    version: int = -1
    """Version of the table; -1 if there is no note."""
    accounts: str = ""
    """Hash over the accounts up to this version."""
    files: FileRuns = NOTHING


def read(table: str, id_: str, topic: str) -> Note:
    """Returns the note; an empty one if there is none, if it is of another table, or damaged."""
    try:
        with files.parquet(_path(table, topic)) as source:
            rows, said = source.read(), source.schema_arrow.metadata or {}
        version = int(said[b"version"])
        accounts = said[b"accounts"].decode()
        if said[b"seal"].decode() != _seal(rows, id_, version, accounts):
            return Note()
        plain = rows.replace_schema_metadata(None).cast(_SCHEMA)
        return Note(version, accounts, FileRuns.of(plain))
    except (OSError, KeyError, ValueError, pa.ArrowInvalid):
        return Note()


def write(table: str, id_: str, topic: str, note: Note) -> None:
    """Writes the note durably in place of the last one. A folder that cannot be written is left as
    it is: then the next verification reads more.
    """
    rows = note.files.rows
    said = {
        "version": str(note.version),
        "accounts": note.accounts,
        "seal": _seal(rows, id_, note.version, note.accounts),
    }
    with contextlib.suppress(OSError):
        path = _path(table, topic)
        files.replace_parquet(rows.replace_schema_metadata(said), path, compression="zstd")
        sync(os.path.dirname(path))


def accounts_hash(accounts: Accounts, version: int) -> str:
    """Returns a hash over the accounts of commits up to the version, in any order of commits."""
    rows = accounts.rows.filter(pc.less_equal(accounts.rows.column("version"), version))
    order = np.argsort(np.asarray(rows.column("version")), kind="stable")
    ids = rows.column("topic_id").take(pa.array(order)).combine_chunks().dictionary_encode()
    names = ("version", "partition", "start", "end", "rows", "lost")
    numbers = [np.asarray(rows.column(name))[order] for name in names]
    columns = np.column_stack([*numbers, np.asarray(ids.indices)]).astype(np.int64)
    ordered = columns[np.lexsort(columns.T[3::-1])]
    digest = hashlib.sha256(repr(ids.dictionary.to_pylist()).encode())
    digest.update(np.ascontiguousarray(ordered).tobytes())
    return digest.hexdigest()


def _path(table: str, topic: str) -> str:
    return os.path.join(table, FOLDER, f"{quote(topic, safe='')}.parquet")


def _seal(rows: Any, id_: str, version: int, accounts: str) -> str:
    digest = hashlib.sha256(repr((_FORMAT, id_, version, accounts, rows.num_rows)).encode())
    digest.update("\n".join(rows.column("path").to_pylist()).encode())
    for name in _SCHEMA.names[1:]:
        numbers = pc.fill_null(rows.column(name).cast(pa.int64()), -1)
        digest.update(np.asarray(numbers).tobytes())
    return digest.hexdigest()
