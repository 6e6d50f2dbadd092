"""The run of a state step: the rows that silver got since the last commit become changes of keys,
and one commit merges them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from deltalake import DeltaTable

from strandline_spark.bronze.fenced_table import committing
from strandline_spark.delta_log.aside import end_removal
from strandline_spark.errors import TableError
from strandline_spark.gold.silver import Silver
from strandline_spark.state import graves
from strandline_spark.state.account import StateAccount
from strandline_spark.state.definition import check_step, identity_of
from strandline_spark.state.extent import Extent
from strandline_spark.state.places import (
    DELETED,
    RECORD,
    groups_of_several,
    latest,
    order_column,
    row_id,
    with_keys_of,
)
from strandline_spark.state.reader import new_rows, order_of
from strandline_spark.state.table import StateTable
from strandline_spark.stores.durable import sync_log

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from strandline_spark.cluster.offsets import TopicPartition
    from strandline_spark.pipeline.steps import StateStep

ROWS_MAX: Final = 1_000_000
"""Limit of silver's rows for one commit, so that the changes of a long backlog fit into memory."""


@dataclass(slots=True)
class StateReport:
    """The result of a step's run."""

    step: str
    version: int | None = None
    """Version of the table after the newest commit of the run; None without one."""
    rows: int = 0
    """Number of silver's rows that were taken."""
    upserted: int = 0
    deleted: int = 0
    keys: int = 0
    """Number of the table's rows."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Number of rows without a place, by the first key or order column that is null in them."""


def run_step(
    step: StateStep,
    silver_path: str,
    *,
    pipeline: str,
    note: Callable[[str], None] = lambda line: None,
    rows_max: int = ROWS_MAX,
) -> StateReport:
    """Merges what silver got since the last commit, at most `rows_max` of its rows in one commit.
    Raises OptionError and TableError; earlier commits stay.
    """
    silver = Silver.open(silver_path)
    check_step(step, silver)
    begin_again(step, silver, pipeline, note)
    report = StateReport(step.name)
    extent = Extent(silver)
    synced = False
    before: Mapping[TopicPartition, int] | None = None
    while True:
        # The table is opened first: any later commit to it makes this commit a conflict.
        table = StateTable.open_or_create(step, pipeline, pa.schema(silver.state.schema))
        last = table.last()
        if last is not None:
            _check(step, table, silver, extent.ends, last)
        starts = {} if last is None else last.ends
        if not extent.unread(starts):
            report.keys = table.count()
            return report
        if starts == before:
            raise TableError(
                f"a commit to {table.path} has not moved the fences of step {step.name}: its log is"
                f" damaged; {table.again}"
            )
        before = starts
        if not synced:
            # A commit on silver's rows must not survive silver's own.
            with committing(silver.path):
                sync_log(silver.path, silver.version)
            synced = True
        _commit(step, table, silver, last, extent.cut(starts, rows_max), report)


def begin_again(
    step: StateStep, silver: Silver, pipeline: str, note: Callable[[str], None]
) -> None:
    """Moves the step's table aside if silver was rebuilt since, or has a column of another type:
    its rows are others now.
    """
    end_removal(step.table)
    if not DeltaTable.is_deltatable(step.table):
        return
    table = StateTable.open(step, pipeline)
    last = table.last()
    if last is None:
        return
    schema = pa.schema(silver.state.schema)
    wider = [
        one.name
        for one in table.schema
        if one.name in schema.names and schema.field(one.name).type != one.type
    ]
    why = f"column {wider[0]} of silver has another type" if wider else "silver was rebuilt"
    if wider or (silver.is_rebuilt and last.silver_id != silver.id):
        aside = table.set_aside()
        note(
            f"state {step.name}: {why}, so it begins again over all of silver; the table as it"
            f" was: {aside}"
        )


def _check(
    step: StateStep,
    table: StateTable,
    silver: Silver,
    ends: Mapping[TopicPartition, int],
    last: StateAccount,
) -> None:
    """Raises TableError unless the table was made by this definition, from this silver table and no
    later version of it.
    """
    if last.definition != identity_of(step):
        raise TableError(
            f"the step {step.name} has changed (key, order or delete_when) since {table.path} was"
            f" last written: its rows would be of two kinds; {table.again}, or give the step"
            " another name"
        )
    back = [tp for tp, end in last.ends.items() if ends.get(tp, 0) < end]
    if last.silver_id != silver.id or back:
        raise TableError(
            f"{table.path} was computed from another silver table than {silver.path}, or from a"
            f" later version of it ({last.silver_version}, this is {silver.version}): put silver"
            f" back, or {table.again}"
        )


def _commit(
    step: StateStep,
    table: StateTable,
    silver: Silver,
    last: StateAccount | None,
    ends: Mapping[TopicPartition, int],
    report: StateReport,
) -> None:
    starts = {} if last is None else last.ends
    new = new_rows(step, silver, starts, ends)
    dead = graves.read(table.path, None if last is None else last.graves, table.again)
    changes, dead = _changes(step, table, silver, new.rows, dead)
    deleted = int(np.count_nonzero(changes.column(DELETED)))
    with committing(table.path):
        file = None if dead is None else graves.write(table.path, dead)
    account = StateAccount(
        number=1 if last is None else last.number + 1,
        ends={**starts, **ends},
        silver_id=silver.id,
        silver_version=silver.version,
        rows=new.taken,
        upserted=changes.num_rows - deleted,
        deleted=deleted,
        left_out=new.left_out,
        definition=identity_of(step),
        graves=file,
    )
    report.version = table.commit(changes, account)
    table.clean()
    with committing(table.path):
        graves.clean(table.path, (file, None if last is None else last.graves))
    report.rows += account.rows
    report.upserted += account.upserted
    report.deleted += account.deleted
    for name, number in account.left_out.items():
        report.left_out[name] = report.left_out.get(name, 0) + number


def _changes(
    step: StateStep, table: StateTable, silver: Silver, new: Any, dead: Any | None
) -> tuple[Any, Any | None]:
    """Returns the rows to merge, with DELETED, and the deleted keys from now on; None without
    order columns.
    """
    keys = [_key_column(n) for n in range(len(step.key))]
    own = row_id(silver.state)
    columns = list(dict.fromkeys((*step.key, *step.order, *own)))
    held = table.matching(step.key, columns, new)
    parts = [_compared(step, new, own), _compared(step, held, own)]
    if dead is not None:
        again = with_keys_of(dead, parts[0], keys)
        parts.append(_with(dead.filter(pa.array(again)), deleted=True))
        dead = dead.filter(pa.array(~again))
    rows = pa.concat_tables([part.select(parts[0].column_names) for part in parts])
    if not step.order:
        _refuse_two_partitions(step, rows, keys)
    mask = latest(rows, keys, order_of(step, silver))
    changes = new.filter(pa.array(mask[: new.num_rows]))
    # A key that is not held needs no deletion.
    needed = ~_flags(changes) | with_keys_of(changes, held, step.key)
    names = [name for name in table.schema.names if name in changes.column_names]
    merged = changes.filter(pa.array(needed)).select([*names, DELETED])
    if not step.order:
        return merged, None
    buried = rows.filter(pa.array(mask & _flags(rows))).drop_columns([DELETED])
    return merged, buried if dead is None else pa.concat_tables([dead, buried])


def _key_column(number: int) -> str:
    return f"key {number}"


def _compared(step: StateStep, rows: Any, own: Sequence[str]) -> Any:
    """Returns keys and places of the rows, which the columns `own` name."""
    columns = {_key_column(n): rows.column(name) for n, name in enumerate(step.key)}
    for number, name in enumerate(step.order):
        computed = order_column(number)
        columns[computed] = rows.column(computed if computed in rows.column_names else name)
    columns |= {name: rows.column(name) for name in own}
    if DELETED in rows.column_names:
        return pa.table(columns).append_column(DELETED, rows.column(DELETED))
    return _with(pa.table(columns), deleted=False)


def _with(rows: Any, *, deleted: bool) -> Any:
    return rows.append_column(DELETED, pa.repeat(pa.scalar(deleted), rows.num_rows))


def _flags(rows: Any) -> Any:
    return np.asarray(rows.column(DELETED)).astype(bool)


def _refuse_two_partitions(step: StateStep, rows: Any, keys: list[str]) -> None:
    """Raises TableError for a key with rows of two partitions: their offsets have no order."""
    parts = [rows.column(name) for name in RECORD[:2]]
    several = groups_of_several([rows.column(name) for name in keys], parts)
    if not several.any():
        return
    some = rows.filter(pa.array(several))
    first = some.slice(0, 1)
    same = some.filter(pa.array(with_keys_of(some, first, keys))).to_pylist()
    places = sorted({(one["topic"], one["partition"], one["offset"]) for one in same})
    key = ", ".join(
        f"{name} = {first.column(column)[0].as_py()!r}"
        for name, column in zip(step.key, keys, strict=True)
    )
    shown = [f"{topic}:{partition} at offset {offset}" for topic, partition, offset in places]
    raise TableError(
        f"the key {key} of step {step.name} has rows in two partitions ({shown[0]} and"
        f" {shown[-1]}), and offsets of two partitions have no order: give the step an order, as"
        ' order = ["event_time"], or have the producer send each key to one partition'
    )
