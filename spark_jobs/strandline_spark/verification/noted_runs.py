"""The note of a verification: the runs of offsets in each data file that it has read, and a hash
over the accounts of the commits.

Data files never change. So the next verification takes the runs of a noted file from here, and
reads only the others. A file whose size or rows have changed since is a finding. So is an account
of a noted commit that has changed. The note carries a hash over all that it says; a damaged note
counts as none.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from strandline_spark.stores import files
from strandline_spark.stores.durable import sync

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from strandline_spark.bronze.commits import CommittedRange

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
_NO_RUN: Final = (None,) * 5
Row = tuple[int, int, int, int, int]
"""Partition, start, end and the leader epochs of a run's ends."""


@dataclass(slots=True)
class NotedFile:
    size: int
    mtime_ns: int
    runs: list[Row]


@dataclass(slots=True)
class Note:
    """The files and accounts of one topic in a table that a verification has read."""

    version: int = -1
    """Version of the table; -1 if there is no note."""
    accounts: str = ""
    """Hash over the accounts up to this version."""
    files: dict[str, NotedFile] = field(default_factory=dict)


def read(table: str, id_: str, topic: str) -> Note:
    """Returns the note; an empty one if there is none, if it is of another table, or damaged."""
    try:
        with files.parquet(_path(table, topic)) as source:
            rows, said = source.read(), source.schema_arrow.metadata or {}
        version = int(said[b"version"])
        accounts = said[b"accounts"].decode()
        if said[b"seal"].decode() != _seal(rows, id_, version, accounts):
            return Note()
        columns = [rows.column(name).to_pylist() for name in _SCHEMA.names]
    except (OSError, KeyError, ValueError, pa.ArrowInvalid):
        return Note()
    note = Note(version, accounts)
    for path, size, mtime_ns, *run in zip(*columns, strict=True):
        known = note.files.get(path)
        if known is None:
            known = note.files[path] = NotedFile(size, mtime_ns, [])
        if run[0] is not None:
            known.runs.append((run[0], run[1], run[2], run[3], run[4]))
    return note


def write(table: str, id_: str, topic: str, note: Note) -> None:
    """Writes the note durably in place of the last one. A folder that cannot be written is left as
    it is: then the next verification reads more.
    """
    with contextlib.suppress(OSError):
        _write(_path(table, topic), id_, note)


def accounts_hash(ranges: Iterable[tuple[int, CommittedRange]], version: int) -> str:
    """Returns a hash over the accounts of commits up to the version, in any order of commits."""
    ids: dict[str, int] = {}
    numbers = [
        (
            *(at, one.partition, one.start, one.end, one.rows, one.lost),
            ids.setdefault(one.topic_id, len(ids)),
        )
        for at, one in sorted(ranges, key=lambda pair: pair[0])
        if at <= version
    ]
    columns = np.array(numbers, np.int64).reshape(-1, 7)
    ordered = columns[np.lexsort(columns.T[3::-1])]
    digest = hashlib.sha256(repr(list(ids)).encode())
    digest.update(np.ascontiguousarray(ordered).tobytes())
    return digest.hexdigest()


def _write(path: str, id_: str, note: Note) -> None:
    columns: Sequence[list[Any]] = [[] for _ in _SCHEMA.names]
    for name, file in sorted(note.files.items()):
        runs: Sequence[tuple[int | None, ...]] = file.runs or [_NO_RUN]
        for run in runs:
            for column, value in zip(columns, (name, file.size, file.mtime_ns, *run), strict=True):
                column.append(value)
    arrays = [pa.array(c, one.type) for c, one in zip(columns, _SCHEMA, strict=True)]
    rows = pa.Table.from_arrays(arrays, schema=_SCHEMA)
    said = {
        "version": str(note.version),
        "accounts": note.accounts,
        "seal": _seal(rows, id_, note.version, note.accounts),
    }
    files.replace_parquet(rows.replace_schema_metadata(said), path, compression="zstd")
    sync(os.path.dirname(path))


def _path(table: str, topic: str) -> str:
    return os.path.join(table, FOLDER, f"{quote(topic, safe='')}.parquet")


def _seal(rows: Any, id_: str, version: int, accounts: str) -> str:
    digest = hashlib.sha256(repr((_FORMAT, id_, version, accounts, rows.num_rows)).encode())
    digest.update("\n".join(rows.column("path").to_pylist()).encode())
    for name in _SCHEMA.names[1:]:
        numbers = pc.fill_null(rows.column(name).cast(pa.int64()), -1)
        digest.update(np.asarray(numbers).tobytes())
    return digest.hexdigest()
