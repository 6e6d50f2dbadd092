"""The check that a state table holds what silver gives: the rows of silver up to the fences of the
newest commit, taken again one after the other by a plain loop.

The loop shares no code with the step. Only the condition `delete_when` is given to the same SQL
engine, over all of silver.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from deltalake import QueryBuilder

from strandline_spark.bronze.verify import held_in
from strandline_spark.cluster.offsets import TopicPartition
from strandline_spark.errors import TableError, first_line
from strandline_spark.gold.silver import Silver
from strandline_spark.maintenance import removals
from strandline_spark.state.definition import check_step, identity_of
from strandline_spark.state.table import StateTable
from strandline_spark.stores import files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_spark.pipeline.steps import StateStep

_SHOWN_MAX: Final = 3
_RECORD: Final = ("topic", "partition", "offset")
Id = tuple[Any, ...]
"""Topic, partition and offset, and of a record with several rows the position."""


@dataclass(slots=True)
class StateFindings:
    """The findings about one state table."""

    step: str
    keys: int = 0
    """Number of the table's rows."""
    silver: int = 0
    """Number of silver's rows up to the fences."""
    left_out: int = 0
    """Number of these whose key, or order, is null."""
    behind: int = 0
    """Number of offsets of silver that the table does not hold yet."""
    problems: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        return not self.problems


def verify_step(step: StateStep, silver_path: str, *, pipeline: str) -> StateFindings:
    """Checks the table. Raises TableError if a table is unreadable or is not the step's."""
    found = StateFindings(step.name)
    table = StateTable.open(step, pipeline)
    silver = Silver.open(silver_path)
    check_step(step, silver)
    last = table.last()
    own = _own_columns(silver)
    held = {_id(row, own): row for row in _plain(table.rows())}
    found.keys = table.count()
    if last is None:
        if held:
            found.problems.append(f"{len(held)} rows are there, and no commit of the step")
        return found
    if last.definition != identity_of(step):
        raise TableError(
            f"the step {step.name} has changed (key, order or delete_when) since {table.path} was"
            f" last written; {table.again}"
        )
    if last.silver_id != silver.id:
        found.problems.append(
            "it was computed from another silver table; the next run begins it again, or says how"
        )
        return found
    ends = silver.ends
    found.behind = sum(max(0, end - last.ends.get(tp, 0)) for tp, end in ends.items())
    for tp, end in last.ends.items():
        if ends.get(tp, 0) < end:
            found.problems.append(
                f"it holds {tp} up to offset {end}, and silver ends at {ends.get(tp, 0)}"
            )
    expected = _Recomputed(step, silver, found).rows_up_to(last.ends)
    if len(held) != found.keys:
        found.problems.append(f"{found.keys - len(held)} rows repeat a record of silver")
    _excuse(held, expected, step, silver)
    _compare(held, expected, step, found)
    return found


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
        if held_in(gone.get(TopicPartition(place[0], place[1]), []), place[2], place[2] + 1)
    }
    keys = {tuple(held.pop(place)[name] for name in step.key) for place in excused}
    for place, row in list(expected.items()):
        if tuple(row[name] for name in step.key) in keys:
            del expected[place]


class _Recomputed:
    """The rows that a table of the step should have."""

    def __init__(self, step: StateStep, silver: Silver, found: StateFindings) -> None:
        self._step = step
        self._silver = silver
        self._found = found
        self._own = _own_columns(silver)

    def rows_up_to(self, ends: dict[TopicPartition, int] | Any) -> dict[Id, dict[str, Any]]:
        """Returns silver's rows, by their records."""
        step, found = self._step, self._found
        fences = {(tp.topic, tp.partition): end for tp, end in ends.items()}
        deletes = self._deleting()
        newest: dict[Any, tuple[Any, Id, bool]] = {}
        columns = list(
            dict.fromkeys((*self._own, "timestamp", "tombstone", *step.key, *step.order))
        )
        for row in self._rows(columns):
            place = _id(row, self._own)
            if place[2] >= fences.get(place[:2], 0):
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
            dead = bool(row["tombstone"]) or place in deletes
            # Without an order each partition has a latest row of its own.
            group = key if step.order else (key, place[:2])
            rank = (tuple(_ordered(one) for one in order), _rank(place))
            if group not in newest or newest[group][0] < rank:
                newest[group] = (rank, place, dead)
        live = {place: key for key, (_, place, dead) in newest.items() if not dead}
        self._refuse_two(live)
        rows = self._rows([one.name for one in self._silver.state.schema.fields])
        return {_id(row, self._own): row for row in rows if _id(row, self._own) in live}

    def _refuse_two(self, live: dict[Id, Any]) -> None:
        if self._step.order:
            return
        seen: dict[Any, Id] = {}
        for place, (key, _) in live.items():
            if key in seen:
                self._found.problems.append(
                    f"silver has the key {key} in two partitions ({seen[key]} and {place}): give"
                    " the step an order"
                )
                return
            seen[key] = place

    def _rows(self, columns: list[str]) -> Iterator[dict[str, Any]]:
        path = self._silver.path
        try:
            dataset: Any = self._silver.delta.to_pyarrow_dataset(filesystem=files.file_system(path))
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
        reader = QueryBuilder(settings).register("silver", self._silver.delta).execute(select)
        return {
            _id(row, self._own) for batch in reader for row in pa.record_batch(batch).to_pylist()
        }


def _own_columns(silver: Silver) -> tuple[str, ...]:
    position = silver.state.configuration.get("strandline.position")
    return _RECORD if position is None else (*_RECORD, position)


def _id(row: dict[str, Any], own: tuple[str, ...]) -> Id:
    return tuple(row[name] for name in own)


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
