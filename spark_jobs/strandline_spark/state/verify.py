"""The check that a state table holds what silver gives: the rows of silver up to the fences of the
newest commit, taken again one after the other by a plain loop.

The loop shares no code with the step. Only the condition `delete_when` is given to the same SQL
engine. A sound check notes where it has come to (`noted_keys.py`), and the next one goes on from
there. If the table does not fit the note, all of silver is taken again.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa  # type: ignore[import-untyped]
from deltalake import QueryBuilder

from strandline_spark.cluster.offsets import TopicPartition
from strandline_spark.errors import TableError, first_line
from strandline_spark.gold.silver import Silver
from strandline_spark.maintenance import removals
from strandline_spark.state import noted_keys
from strandline_spark.state.definition import check_step, identity_of
from strandline_spark.state.noted_keys import Id, Latest, Note, row_hash
from strandline_spark.state.table import StateTable
from strandline_spark.stores import files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from deltalake import DeltaTable

    from strandline_spark.pipeline.steps import StateStep
    from strandline_spark.state.account import StateAccount

_SHOWN_MAX: Final = 3
_RECORD: Final = ("topic", "partition", "offset")


@dataclass(slots=True)
class StateFindings:
    """The findings about one state table."""

    step: str
    keys: int = 0
    """Number of the table's rows."""
    silver: int = 0
    """Number of silver's rows up to the fences."""
    noted: int = 0
    """Number of these that an earlier verification has taken."""
    left_out: int = 0
    """Number of these whose key, or order, is null."""
    behind: int = 0
    """Number of offsets of silver that the table does not hold yet."""
    problems: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        return not self.problems


def verify_step(
    step: StateStep, silver_path: str, *, pipeline: str, full: bool = True
) -> StateFindings:
    """Checks the table. Unless `full`, rows of silver that an earlier verification has taken are
    not read again. Raises TableError if a table is unreadable or is not the step's.
    """
    table = StateTable.open(step, pipeline)
    silver = Silver.open(silver_path)
    check_step(step, silver)
    last = table.last()
    if last is None:
        found = StateFindings(step.name, keys=table.count())
        if found.keys:
            found.problems.append(f"{found.keys} rows are there, and no commit of the step")
        return found
    if last.definition != identity_of(step):
        raise TableError(
            f"the step {step.name} has changed (key, order or delete_when) since {table.path} was"
            f" last written; {table.again}"
        )
    check = _Check(step, table, silver, last)
    note = None if full else check.note()
    if note is not None:
        found = check.findings(note)
        if found.sound:
            return found
    return check.findings(None)


class _Check:
    """The check of one version of the table."""

    def __init__(
        self, step: StateStep, table: StateTable, silver: Silver, last: StateAccount
    ) -> None:
        self._step = step
        self._table = table
        self._silver = silver
        self._last = last
        self._own = _own_columns(silver)
        self._table_id = str(table.delta.metadata().id)

    def note(self) -> Note | None:
        """Returns the note of an earlier check, if this table goes on from there."""
        columns = (self._step.key, self._step.order, self._own)
        note = noted_keys.read(self._table.path, self._table_id, columns)
        return note if note is not None and note.fits(self._last) else None

    def findings(self, note: Note | None) -> StateFindings:
        found = StateFindings(self._step.name, keys=self._table.count())
        last, silver = self._last, self._silver
        if last.silver_id != silver.id:
            found.problems.append(
                "it was computed from another silver table; the next run begins it again, or says"
                " how"
            )
            return found
        ends = silver.ends
        found.behind = sum(max(0, end - last.ends.get(tp, 0)) for tp, end in ends.items())
        for tp, end in last.ends.items():
            if ends.get(tp, 0) < end:
                found.problems.append(
                    f"it holds {tp} up to offset {end}, and silver ends at {ends.get(tp, 0)}"
                )
        held = self._held
        with _recomputed(self._step, silver, found, last.ends, note) as recomputed:
            expected = recomputed.rows(held)
        if len(held) != found.keys:
            found.problems.append(f"{found.keys - len(held)} rows repeat a record of silver")
        held = dict(held)
        _excuse(held, expected, self._step, silver)
        _compare(held, expected, self._step, found)
        if found.sound:
            self._write(recomputed.newest.values(), found)
        return found

    @cached_property
    def _held(self) -> dict[Id, dict[str, Any]]:
        return {_id(row, self._own): row for row in _plain(self._table.rows())}

    def _write(self, newest: Iterable[Latest], found: StateFindings) -> None:
        step, last = self._step, self._last
        # A deleted key without an order comes back by a later offset alone.
        kept = [
            one._replace(row=None if one.is_deletion else row_hash(self._held[one.place]))
            for one in newest
            if one.place in self._held or (one.is_deletion and step.order)
        ]
        note = Note(last.silver_id, last.definition, last.ends, found.silver, found.left_out, kept)
        schema: Any = pa.schema(self._silver.state.schema)
        columns = (*step.key, *step.order, *self._own)
        kinds = [_plain_kind(schema.field(name).type) for name in columns]
        noted_keys.write(self._table.path, self._table_id, note, kinds)


def _excuse(
    held: dict[Id, dict[str, Any]],
    expected: dict[Id, dict[str, Any]],
    step: StateStep,
    silver: Silver,
) -> None:
    """Leaves out the keys whose latest row a retention has removed from silver: they cannot be
    computed again.
    """
    gone = removals.removed(removals.read(silver.state), removals.RETENTION)
    excused = {
        place
        for place in held.keys() - expected.keys()
        if removals.held_in(
            gone.get(TopicPartition(place[0], place[1]), []), place[2], place[2] + 1
        )
    }
    keys = {tuple(held.pop(place)[name] for name in step.key) for place in excused}
    for place, row in list(expected.items()):
        if tuple(row[name] for name in step.key) in keys:
            del expected[place]


@contextlib.contextmanager
def _recomputed(
    step: StateStep,
    silver: Silver,
    found: StateFindings,
    ends: Mapping[TopicPartition, int],
    note: Note | None,
) -> Iterator[_Recomputed]:
    """Gives the rows that a table of the step should have up to the fences `ends`."""
    if note is None:
        yield _Recomputed(step, silver, silver.delta, found, ends, None)
        return
    index = silver.index
    later = (index["offset_max"] >= index.ends_of(note.ends)) & (
        index["offset_min"] < index.ends_of(ends)
    )
    with silver.excerpt(index.files(later)) as table:
        yield _Recomputed(step, silver, table, found, ends, note)


class _Recomputed:
    """The rows that a table of the step should have, from all of silver or from a note on."""

    def __init__(
        self,
        step: StateStep,
        silver: Silver,
        table: DeltaTable,
        found: StateFindings,
        ends: Mapping[TopicPartition, int],
        note: Note | None,
    ) -> None:
        self._step = step
        self._silver = silver
        self._table = table
        self._is_whole = note is None
        self._found = found
        self._own = _own_columns(silver)
        self._ends = {(tp.topic, tp.partition): end for tp, end in ends.items()}
        self._starts: dict[tuple[str, int], int] = {}
        self.newest: dict[Any, Latest] = {}
        """By key; without an order each partition has a latest row of its own."""
        if note is not None:
            found.silver = found.noted = note.silver
            found.left_out = note.left_out
            self._starts = {(tp.topic, tp.partition): end for tp, end in note.ends.items()}
            self.newest = {self._group(one.key, one.place): one for one in note.latest}
        self._take()

    def rows(self, held: Mapping[Id, dict[str, Any]]) -> dict[Id, dict[str, Any]]:
        """Returns the rows by their records. A row that was noted is taken from `held`, if it is
        the same there.
        """
        live = {one.place: one for one in self.newest.values() if not one.is_deletion}
        self._refuse_two(live)
        out: dict[Id, dict[str, Any]] = {}
        for place, one in live.items():
            if one.row is None:
                continue
            if place not in held or row_hash(held[place]) != one.row:
                self._found.problems.append(f"the row of {place} is not the one that was verified")
            else:
                out[place] = held[place]
        for row in self._rows([one.name for one in self._silver.state.schema.fields]):
            place = _id(row, self._own)
            if place in live and place not in out:
                out[place] = row
        return out

    def _take(self) -> None:
        step, found = self._step, self._found
        deletes = self._deleting()
        columns = list(
            dict.fromkeys((*self._own, "timestamp", "tombstone", *step.key, *step.order))
        )
        for row in self._rows(columns):
            place = _id(row, self._own)
            if not self._starts.get(place[:2], 0) <= place[2] < self._ends.get(place[:2], 0):
                continue
            found.silver += 1
            key = tuple(row[name] for name in step.key)
            order = tuple(
                row["timestamp"] if name == "event_time" and row[name] is None else row[name]
                for name in step.order
            )
            if None in key or None in order:
                found.left_out += 1
                continue
            one = Latest(key, order, place, bool(row["tombstone"]) or place in deletes)
            group = self._group(key, place)
            if group not in self.newest or _rank_of(self.newest[group]) < _rank_of(one):
                self.newest[group] = one

    def _group(self, key: tuple[Any, ...], place: Id) -> Any:
        return key if self._step.order else (key, place[:2])

    def _refuse_two(self, live: Mapping[Id, Latest]) -> None:
        if self._step.order:
            return
        seen: dict[Any, Id] = {}
        for place, one in live.items():
            if one.key in seen:
                self._found.problems.append(
                    f"silver has the key {one.key} in two partitions ({seen[one.key]} and"
                    f" {place}): give the step an order"
                )
                return
            seen[one.key] = place

    def _rows(self, columns: list[str]) -> Iterator[dict[str, Any]]:
        path = self._silver.path
        root = path if self._is_whole else unquote(urlsplit(self._table.table_uri).path)
        try:
            dataset: Any = self._table.to_pyarrow_dataset(filesystem=files.file_system(root))
            for batch in dataset.to_batches(columns=columns):
                yield from _plain(pa.table(batch))
        except (OSError, pa.ArrowInvalid) as why:
            raise TableError(
                f"a file of {path} does not read ({first_line(why)}): put it back from a copy, or"
                " make silver again with `strandline-spark rebuild silver` and the pipeline's file"
            ) from why

    def _deleting(self) -> set[Id]:
        """Returns the records that `delete_when` is true for."""
        if self._step.delete_when is None:
            return set()
        settings = {
            "datafusion.sql_parser.enable_ident_normalization": "false",
            "datafusion.sql_parser.dialect": "databricks",
        }
        own = ", ".join(f"`{name}`" for name in self._own)
        select = f"SELECT {own} FROM silver WHERE (\n{self._step.delete_when}\n)"
        reader = QueryBuilder(settings).register("silver", self._table).execute(select)
        return {
            _id(row, self._own) for batch in reader for row in pa.record_batch(batch).to_pylist()
        }


def _own_columns(silver: Silver) -> tuple[str, ...]:
    position = silver.state.configuration.get("strandline.position")
    return _RECORD if position is None else (*_RECORD, position)


def _id(row: dict[str, Any], own: tuple[str, ...]) -> Id:
    return tuple(row[name] for name in own)


def _rank_of(one: Latest) -> tuple[Any, ...]:
    return tuple(_ordered(value) for value in one.order), _rank(one.place)


def _rank(place: Id) -> tuple[Any, ...]:
    """Returns the place for comparisons: a row without a position is before those with one."""
    return (*place[:3], *((one is not None, one or 0) for one in place[3:]))


def _plain(rows: Any) -> list[dict[str, Any]]:
    """Returns the rows with times in microseconds: Python has none beyond the year 9999."""
    for n, column in enumerate(rows.schema):
        if pa.types.is_timestamp(column.type):
            rows = rows.set_column(n, column.name, rows.column(n).cast(pa.int64()))
    out: list[dict[str, Any]] = rows.to_pylist()
    return out


def _plain_kind(kind: Any) -> Any:
    """Returns the type of a column as `_plain` has it."""
    if pa.types.is_timestamp(kind):
        return pa.int64()
    views = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    return views.get(kind, kind)


def _ordered(value: Any) -> Any:
    """Returns a value for comparisons: NaN is above all other numbers."""
    return (True, 0.0) if value != value else (False, value)


def _compare(
    held: dict[Any, dict[str, Any]],
    expected: dict[Id, dict[str, Any]],
    step: StateStep,
    found: StateFindings,
) -> None:
    missing = sorted(expected.keys() - held.keys(), key=_rank)
    extra = sorted(held.keys() - expected.keys(), key=_rank)
    for ids, rows, what in (
        (missing, expected, "of silver are the latest of their key, and are not there"),
        (extra, held, "are there that are not the latest of their key, or are deleted"),
    ):
        if ids:
            shown = "; ".join(_shown(rows[one], step) for one in ids[:_SHOWN_MAX])
            found.problems.append(f"{len(ids)} rows {what}: {shown}")
    differing = [
        (one, name)
        for one in sorted(held.keys() & expected.keys(), key=_rank)
        for name, value in expected[one].items()
        if not _equal(held[one].get(name), value)
    ]
    if differing:
        one, name = differing[0]
        found.problems.append(
            f"{len({at for at, _ in differing})} rows differ from silver's:"
            f" {_shown(held[one], step)}, column {name} is {held[one].get(name)!r}, in silver"
            f" {expected[one][name]!r}"
        )


def _shown(row: dict[str, Any], step: StateStep) -> str:
    key = ", ".join(f"{name} = {row[name]!r}" for name in step.key)
    return f"{key} (record {row['topic']}:{row['partition']} offset {row['offset']})"


def _equal(one: Any, other: Any) -> bool:
    return bool(one == other) or (one != one and other != other)
