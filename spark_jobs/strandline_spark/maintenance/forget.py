"""`forget`: deletes the records for which a condition about silver's columns is true, from all
tables of a pipeline that stands still.

The records are found in silver, and in quarantine: the duplicates of such a record, and records for
which the condition is true by the columns that quarantine has. Then they go from bronze, from
quarantine and from silver, in this order. Silver is last, so a run that breaks off finds the same
records again. Gold and state are removed before it, and the next run computes them from the rows
that are left. No earlier version of a table keeps the records: files that this or an earlier commit
has replaced are deleted if they have one. So is what a rebuild has made that broke off.

Each table gets an entry with the offsets (`removals.py`). So `verify` knows that they are
gone, a rebuild does not miss them in bronze, and finds them nowhere.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from strandline_spark.bronze.audit import AuditCopier
from strandline_spark.bronze.compaction import Fence, unwritable
from strandline_spark.cluster.offsets import TopicPartition
from strandline_spark.delta_log.aside import places_aside
from strandline_spark.delta_log.commit import Change
from strandline_spark.errors import OptionError, TableError, first_line
from strandline_spark.maintenance import removals
from strandline_spark.maintenance.compaction import discard
from strandline_spark.maintenance.removals import Removal
from strandline_spark.maintenance.removing import (
    commit_removal,
    delete_forgotten,
    intervals_of,
    now_ms,
)
from strandline_spark.maintenance.tables import AnyTable
from strandline_spark.maintenance.written import NewFile
from strandline_spark.silver.duplicates import REASON
from strandline_spark.silver.rebuild import BESIDE
from strandline_spark.state.definition import as_value, query
from strandline_spark.stores import files

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from strandline_spark.pipeline.config import Pipeline
    from strandline_spark.pipeline.steps import GoldStep, StateStep

_FENCE: Final = re.compile(r"strandline/(.+)/(\d+)")
_REPEATS: Final = re.compile(r"it repeats the row at offset (\d+)")
Offsets = dict[TopicPartition, Any]
"""Sorted numpy arrays."""


@dataclass(slots=True)
class Forgotten:
    """The result of `forget`."""

    records: int = 0
    """Number of records that match."""
    rows: dict[str, int] = field(default_factory=dict)
    """Number of removed rows by table."""
    begun_again: list[str] = field(default_factory=list)
    """Names of the gold and state steps whose tables were removed."""
    aside: list[str] = field(default_factory=list)
    """Folders that an earlier rebuild or reset moved aside, which may have the records."""


def forget(
    pipeline: Pipeline, where: str, *, dry_run: bool = False, drop_older: bool = False
) -> Forgotten:
    """Deletes the records of one silver table's pipeline part. Raises OptionError if no row matches
    or the condition does not compile, and TableError. Run it again if it breaks off.

    Without `drop_older` it refuses a silver table from which `retention` has removed rows, if gold
    or state would have to be computed without these.
    """
    bronze, silver, quarantine = (
        AnyTable.of(path) for path in (pipeline.bronze, pipeline.silver, pipeline.quarantine)
    )
    for table in (bronze, silver, quarantine):
        table.check_owner(pipeline.name)
        _check_level(pipeline, bronze, table)
    if not dry_run:
        _end_earlier(pipeline, (bronze, silver, quarantine))
    wanted = _matching(silver, quarantine, where)
    done = Forgotten(sum(len(one) for one in wanted.values()))
    if done.records == 0:
        raise OptionError(
            f"--where {where!r}: no row of {silver.path} and no record in {quarantine.path} is so;"
            " nothing was changed"
        )
    steps: list[GoldStep | StateStep] = [*pipeline.gold, *pipeline.state]
    made = [step for step in steps if files.is_folder(step.table)]
    if made and not drop_older and removals.retained_from(silver.state) is not None:
        raise TableError(
            f"retention has removed older rows of {silver.path}, so {made[0].name} can be computed"
            " again only from the rows that are left: add --drop-older if its older results may go;"
            " nothing was changed"
        )
    condition = hashlib.sha256(where.encode()).hexdigest()
    for table in (bronze, quarantine):
        done.rows[str(table.kind)] = _remove(table, wanted, condition, dry_run=dry_run)
    for step in made:
        if not dry_run:
            _delete_folder(step.table)
        done.begun_again.append(step.name)
    done.rows[str(silver.kind)] = _remove(silver, wanted, condition, dry_run=dry_run)
    paths = [one.path for one in (bronze, silver, quarantine)] + [step.table for step in steps]
    done.aside = [place for path in paths for place in places_aside(path)]
    return done


def _check_level(pipeline: Pipeline, bronze: AnyTable, table: AnyTable) -> None:
    """Raises TableError if the table lacks records of bronze: no one knows what they hold."""
    for name, end in bronze.state.transactions.items():
        found = _FENCE.fullmatch(name)
        if found is None or not found[2].isdigit() or not pipeline.takes(found[1]):
            continue
        if table.state.transactions.get(name, -1) != end:
            raise TableError(
                f"{table.path} does not hold all records of {found[1]}:{found[2]} that bronze"
                " holds: run the pipeline once, then this again; nothing was changed"
            )


def _end_earlier(pipeline: Pipeline, tables: Iterable[AnyTable]) -> None:
    """Deletes what an earlier run has left that broke off between its commit and the deletion, and
    the tables of a rebuild that broke off: it begins again without the records.
    """
    for table in tables:
        delete_forgotten(table)
    for path in (pipeline.silver, pipeline.quarantine):
        if files.is_folder(path + BESIDE):
            _delete_folder(path + BESIDE)


def _matching(silver: AnyTable, quarantine: AnyTable, where: str) -> Offsets:
    """Returns the offsets of the records."""
    found = _selected(silver, where)
    with contextlib.suppress(OptionError):  # it names a column that quarantine does not have
        found = _joined(found, _selected(quarantine, where))
    known = {tp: set(own.tolist()) for tp, own in found.items()}
    repeated: dict[TopicPartition, list[int]] = {}
    # The log has no bounds of reasons, and a filter of delta-rs' dataset would leave out all files.
    system = files.file_system(quarantine.path)
    dataset: Any = quarantine.delta.to_pyarrow_dataset(filesystem=system)
    columns = ["topic", "partition", "offset", "reason", "detail"]
    for batch in dataset.to_batches(columns=columns):
        for row in batch.filter(pc.equal(batch.column("reason"), REASON)).to_pylist():
            said = _REPEATS.fullmatch(row["detail"] or "")
            tp = TopicPartition(row["topic"], row["partition"])
            if said is not None and int(said[1]) in known.get(tp, ()):
                repeated.setdefault(tp, []).append(row["offset"])
    return _joined(found, {tp: np.array(own, np.int64) for tp, own in repeated.items()})


def _joined(some: Offsets, others: Offsets) -> Offsets:
    out = dict(some)
    for tp, own in others.items():
        out[tp] = np.unique(np.concatenate([out.get(tp, np.empty(0, np.int64)), own]))
    return out


def _selected(table: AnyTable, where: str) -> Offsets:
    select = f"SELECT topic, `partition`, `offset` FROM silver WHERE {as_value(where)} IS TRUE"
    try:
        rows: Any = pa.table(query(table.delta).execute(select))
    except Exception as why:  # delta-rs raises errors other than DeltaError
        raise OptionError(
            f"--where {where!r}: {first_line(why)}; {table.kind} has"
            f" {', '.join(table.state.columns)}"
        ) from why
    out: dict[TopicPartition, list[int]] = {}
    for row in rows.to_pylist():
        out.setdefault(TopicPartition(row["topic"], row["partition"]), []).append(row["offset"])
    return {tp: np.unique(np.array(own, np.int64)) for tp, own in out.items()}


def _remove(table: AnyTable, wanted: Offsets, condition: str, *, dry_run: bool) -> int:
    """Removes the records from one table, in one commit, and deletes the files that had them.
    Returns the number of rows.
    """
    if not dry_run:
        AuditCopier(table.path).copy(table)
    fence = Fence(table)
    change = Change("DELETE")
    made: list[NewFile] = []
    gone: dict[TopicPartition, list[Any]] = {}
    rows = 0
    try:
        for add in table.adds():
            left, taken = _without(table, add, wanted)
            if not taken:
                continue
            rows += sum(len(offsets) for offsets in taken.values())
            for tp, offsets in taken.items():
                gone.setdefault(tp, []).append(offsets)
            if not dry_run:
                _replace(table, add, left, change, made)
        if rows and not dry_run:
            ranges = {tp: intervals_of(np.concatenate(own)) for tp, own in gone.items()}
            removal = Removal(removals.FORGET, now_ms(), rows, None, condition, ranges)
            commit_removal(table, fence, change, removal)
    except BaseException as why:
        discard(table.path, made)
        if isinstance(why, OSError):
            raise unwritable(table, why) from why
        raise
    if not dry_run:
        delete_forgotten(AnyTable.of(table.path))
    return rows


def _without(
    table: AnyTable, add: Mapping[str, Any], wanted: Offsets
) -> tuple[Any, dict[TopicPartition, Any]]:
    """Returns the file's other rows, and the offsets of the wanted ones."""
    own = {tp: offsets for tp, offsets in wanted.items() if tp.topic == add["partition.topic"]}
    first, last = add.get("min.offset"), add.get("max.offset")
    if first is not None and last is not None:
        own = {tp: o for tp, o in own.items() if ((o >= first) & (o <= last)).any()}
    if not own:
        return None, {}
    with table.reading(add["path"]):
        rows = files.parquet(table.full(add["path"])).read()
    partitions, offsets = (rows.column(name).to_numpy() for name in ("partition", "offset"))
    is_wanted = np.zeros(rows.num_rows, bool)
    taken = {}
    for tp, known in own.items():
        mask = (partitions == tp.partition) & np.isin(offsets, known)
        if mask.any():
            taken[tp] = offsets[mask]
            is_wanted |= mask
    return rows.filter(pa.array(~is_wanted)), taken


def _replace(
    table: AnyTable, add: Mapping[str, Any], left: Any, change: Change, made: list[NewFile]
) -> None:
    values = table.values_of(add)
    change.remove(add["path"], add["size_bytes"], values, data_change=True)
    if left.num_rows == 0:
        return
    new = NewFile(table.path, os.path.dirname(add["path"]), left.schema.remove_metadata())
    made.append(new)
    new.add(left.replace_schema_metadata())
    new.close()
    new.add_to(change, values, data_change=True)


def _delete_folder(path: str) -> None:
    """Removes a table that the next run computes again."""
    try:
        files.remove_tree(path)
    except OSError as why:
        raise TableError(
            f"{path} cannot be removed ({first_line(why)}): see to it that you may write there, and"
            " run this again"
        ) from why
