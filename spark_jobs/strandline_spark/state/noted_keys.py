"""The note of a state step's verification: the latest row of each key up to fences, with a hash of
each row that the table holds.

The next verification begins with it and reads only rows of silver beyond the fences. The note
carries a hash over all that it says; a damaged note counts as none. It is of one state table, which
a step that begins again has no longer.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]

from strandline_spark.cluster.offsets import from_json, to_json
from strandline_spark.stores import files
from strandline_spark.stores.durable import sync

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from strandline_spark.cluster.offsets import TopicPartition
    from strandline_spark.state.account import StateAccount

FILE: Final = os.path.join("_ops", "verified", "keys.parquet")
_FORMAT: Final = 1
_ERRORS: Final = (OSError, KeyError, ValueError, TypeError, RecursionError, pa.ArrowInvalid)
Id = tuple[Any, ...]
"""Topic, partition and offset, and of a record with several rows the position."""


class Latest(NamedTuple):
    """The latest row of a key."""

    key: tuple[Any, ...]
    order: tuple[Any, ...]
    place: Id
    is_deletion: bool
    row: str | None = None
    """Hash of the row; None for a deletion."""


@dataclass(slots=True)
class Note:
    """The keys and fences of a table that a verification has found sound."""

    silver_id: str
    definition: str
    ends: Mapping[TopicPartition, int]
    silver: int
    """Number of silver's rows up to these fences."""
    left_out: int
    latest: list[Latest] = field(default_factory=list)

    def fits(self, account: StateAccount) -> bool:
        """True if the account is of the same step and silver table, and has come as far."""
        return (
            self.silver_id == account.silver_id
            and self.definition == account.definition
            and all(account.ends.get(tp, 0) >= end for tp, end in self.ends.items())
        )


def read(table: str, id_: str, columns: Sequence[Sequence[str]]) -> Note | None:
    """Returns the note; None if there is none, or if it is of another table or damaged. `columns`
    are those of key, order and place.
    """
    try:
        with files.parquet(os.path.join(table, FILE)) as source:
            rows, said = source.read(), source.schema_arrow.metadata or {}
        facts, seal = said[b"facts"].decode(), said[b"seal"].decode()
        taken = [tuple(row) for row in zip(*(c.to_pylist() for c in rows.columns), strict=True)]
        if seal != _seal(id_, facts, taken):
            return None
        known = json.loads(facts)
        ends = from_json(known["ends"], least=0)
        note = Note(
            known["silver_id"], known["definition"], ends, known["silver"], known["left_out"]
        )
    except _ERRORS:
        return None
    cuts = [0]
    for some in columns:
        cuts.append(cuts[-1] + len(some))
    if known["format"] != _FORMAT or rows.num_columns != cuts[-1] + 2:
        return None
    for row in taken:
        key, order, place = (row[cuts[n] : cuts[n + 1]] for n in range(3))
        note.latest.append(Latest(key, order, place, row[-2], row[-1]))
    return note


def write(table: str, id_: str, note: Note, kinds: Sequence[Any]) -> None:
    """Writes the note durably in place of the last one. `kinds` are the Arrow types of the columns
    of key, order and place. A folder that cannot be written is left as it is.
    """
    with contextlib.suppress(OSError):
        _write(os.path.join(table, FILE), id_, note, kinds)


def row_hash(row: Mapping[str, Any]) -> str:
    """Returns a hash over a row, in which a column that is null counts as one that is not there."""
    known = sorted((name, value) for name, value in row.items() if value is not None)
    return hashlib.sha256(repr(known).encode()).hexdigest()


def _write(path: str, id_: str, note: Note, kinds: Sequence[Any]) -> None:
    taken = [
        (*one.key, *one.order, *one.place, one.is_deletion, one.row)
        for one in sorted(note.latest, key=lambda one: one.place[:3])
    ]
    types = [*kinds, pa.bool_(), pa.string()]
    columns = zip(*taken, strict=True) if taken else [()] * len(types)
    arrays = [pa.array(c, kind) for c, kind in zip(columns, types, strict=True)]
    rows = pa.Table.from_arrays(arrays, names=[str(n) for n in range(len(arrays))])
    facts = json.dumps(
        {
            "format": _FORMAT,
            "silver_id": note.silver_id,
            "definition": note.definition,
            "ends": to_json(note.ends),
            "silver": note.silver,
            "left_out": note.left_out,
        }
    )
    said = {"facts": facts, "seal": _seal(id_, facts, taken)}
    files.replace_parquet(rows.replace_schema_metadata(said), path, compression="zstd")
    sync(os.path.dirname(path))


def _seal(id_: str, facts: str, rows: Iterable[Id]) -> str:
    digest = hashlib.sha256(repr((id_, facts)).encode())
    for row in rows:
        digest.update(repr(row).encode())
    return digest.hexdigest()
