"""The rows of silver that a state step takes next.

Delta's statistics have the offsets of each file, so only files with such rows are read. Of each key
only the latest row is kept while reading.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]

from strandline_spark.errors import OptionError, TableError, first_line
from strandline_spark.state.definition import as_value, named, query
from strandline_spark.state.places import (
    DELETED,
    RECORD,
    latest,
    order_column,
    row_id,
    without_place,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from deltalake import DeltaTable

    from strandline_spark.cluster.offsets import TopicPartition
    from strandline_spark.gold.silver import Silver
    from strandline_spark.pipeline.steps import StateStep

_PARTITIONS_MAX: Final = 50
"""Partitions in one query; the planner's time grows with the square of their number."""
_ROWS_HELD: Final = 250_000
_BYTES_HELD: Final = 256 << 20
"""Rows, and bytes, that are read before only the latest of each key are kept."""


@dataclass(slots=True)
class NewRows:
    """The latest new row of each key; without an order, of each key in each partition."""

    rows: Any
    """An Arrow table of silver's columns, the values of the order columns, and DELETED."""
    taken: int = 0
    """Number of rows that were read."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Number of rows without a place, by the first key or order column that is null."""


def new_rows(
    step: StateStep,
    silver: Silver,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> NewRows:
    """Returns the rows of silver in [start, end) of each partition; a partition without a start
    begins at 0.

    Raises OptionError if `delete_when` fails at a row, and TableError if a file does not read.
    """
    schema = _schema(step, silver)
    found = NewRows(schema.empty_table())
    order = order_of(step, silver)
    groups = [*step.key, *(() if step.order else RECORD[:2])]
    needed = [(name, name) for name in step.key]
    needed += [(order_column(n), name) for n, name in enumerate(step.order)]
    held: list[Any] = []

    def keep() -> None:
        rows = pa.concat_tables([found.rows, *held])
        found.rows = rows.filter(pa.array(latest(rows, groups, order)))
        held.clear()

    for batch in _batches(step, silver, starts, ends):
        rows = pa.table(batch).cast(schema)
        found.taken += rows.num_rows
        rows, left_out = without_place(rows, needed)
        for name, number in left_out.items():
            found.left_out[name] = found.left_out.get(name, 0) + number
        held.append(rows)
        if (
            sum(one.num_rows for one in held) >= _ROWS_HELD
            or sum(one.nbytes for one in held) >= _BYTES_HELD
        ):
            keep()
    keep()
    return found


def order_of(step: StateStep, silver: Silver) -> list[str]:
    """Returns the columns of a row's place."""
    return [*(order_column(n) for n in range(len(step.order))), *row_id(silver.state)]


def _schema(step: StateStep, silver: Silver) -> Any:
    own: Any = pa.schema(silver.state.schema)
    order = [pa.field(order_column(n), own.field(c).type) for n, c in enumerate(step.order)]
    return pa.schema([*own, *order, pa.field(DELETED, pa.bool_())])


def _batches(
    step: StateStep,
    silver: Silver,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> Iterator[Any]:
    with silver.excerpt(silver.index.files(_beyond(silver, starts, ends))) as table:
        yield from _batches_of(table, step, silver, starts, ends)


def _beyond(
    silver: Silver, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> Any:
    """Returns a mask of the index: files that may have a row in [start, end)."""
    index = silver.index
    return (index["offset_max"] >= index.ends_of(starts)) & (
        index["offset_min"] < index.ends_of(ends)
    )


def _batches_of(
    table: DeltaTable,
    step: StateStep,
    silver: Silver,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> Iterator[Any]:
    wanted = [
        f"(topic = '{tp.topic}' AND `partition` = {tp.partition}"
        f" AND `offset` >= {starts.get(tp, 0)} AND `offset` < {end})"
        for tp, end in ends.items()
        if end > starts.get(tp, 0)
    ]
    for first in range(0, len(wanted), _PARTITIONS_MAX):
        condition = " OR ".join(wanted[first : first + _PARTITIONS_MAX])
        try:
            yield from query(table).execute(_select(step, silver, condition))
        except Exception as why:  # delta-rs raises errors other than DeltaError
            raise _failed(table, step, silver, condition, why) from why


def _select(step: StateStep, silver: Silver, condition: str) -> str:
    deleted = "tombstone IS TRUE"
    if step.delete_when is not None:
        deleted += f" OR {as_value(step.delete_when)} IS TRUE"
    parts = [named(silver.state.columns)]
    for number, name in enumerate(step.order):
        # A tombstone has no event time of its own.
        value = "coalesce(event_time, `timestamp`)" if name == "event_time" else named([name])
        parts.append(f"{value} AS {named([order_column(number)])}")
    parts.append(f"({deleted}) AS {named([DELETED])}")
    return f"SELECT {', '.join(parts)} FROM silver WHERE {condition}"


def _failed(
    table: DeltaTable, step: StateStep, silver: Silver, condition: str, why: Exception
) -> Exception:
    """Returns the error of the expression, if the rows themselves can be read."""
    columns = silver.state.columns
    if step.delete_when is not None:
        try:
            plain = f"SELECT {named(columns)} FROM silver WHERE {condition}"
            for _ in query(table).execute(plain):
                pass
        except Exception as other:  # noqa: BLE001 - delta-rs raises errors other than DeltaError
            why = other
        else:
            return OptionError(
                f"[[state]] {step.name}, delete_when: the expression failed on the rows of silver:"
                f" {first_line(why)}"
            )
    return TableError(
        f"the new rows of {silver.path} do not read ({first_line(why)}): put its files back from a"
        " copy, or make silver again with `strandline-spark rebuild silver` and the pipeline's file"
    )
