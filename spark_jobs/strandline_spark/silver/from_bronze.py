"""Ranges of bronze, parsed for silver and quarantine without the topic: the search for the ranges
that the two tables lack, and a task's work on one.

A range is parsed whole. If one of the two tables holds it already, the other takes exactly the
records that the first does not hold. So each record is in exactly one of them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from strandline_proto.ids import topic_id_text
from strandline_spark.bronze.audit import accounts
from strandline_spark.bronze.columns import FILE_SCHEMA
from strandline_spark.bronze.commits import CommittedRange
from strandline_spark.errors import TableError, first_line
from strandline_spark.parsing.settings import reads_headers
from strandline_spark.silver.duplicates import keep, seen_before
from strandline_spark.stores.files import parquet

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from strandline_spark.bronze.columns import BronzeTable
    from strandline_spark.cluster.offsets import TopicPartition
    from strandline_spark.delta_log.held_files import HeldFiles
    from strandline_spark.silver.duplicates import Seen
    from strandline_spark.silver.range_output import SilverManifest

_COMMITS_LOOKED_AT: Final = 50
_COLUMNS: Final = ("partition", "offset", "timestamp", "key", "value", "batch_id")


@dataclass(frozen=True, slots=True)
class Missing:
    """A range that bronze holds and silver or quarantine lacks."""

    version: int
    """Version of bronze that took it in; -1 if neither log nor audit has it."""
    account: CommittedRange
    """The account in bronze."""
    is_counted: bool = True
    """True if the account knows how many rows there are."""


@dataclass(frozen=True, slots=True)
class RangeTask:
    """A task's description of one range."""

    topic: str
    partition: int
    start: int
    end: int
    bronze: tuple[str, ...]
    """Paths of the bronze files that may hold its rows."""
    ingest_date: str
    silver_held: tuple[str, ...] | None = None
    """The files of silver that may hold its rows, if silver holds the range already."""
    quarantine_held: tuple[str, ...] | None = None
    kept: tuple[str, ...] | None = None
    """The files of an earlier silver table whose rows are taken unchanged; None parses all."""
    silver_id: str = ""
    """Id of the silver table."""
    before: tuple[str, ...] | None = None
    """The files of silver with rows that the range may repeat; None if the task before, of the same
    partition, ran in this process.
    """


def partitions_of(
    bronze: BronzeTable, files: HeldFiles, *, all_of_them: bool = False
) -> set[TopicPartition]:
    """Returns the partitions that bronze took from, by its files and its newest commits, or by all
    commits that it knows.
    """
    found = files.partitions()
    if all_of_them:
        return found | {one.tp for _, one in accounts(bronze)}
    for commit in bronze.commits(_COMMITS_LOOKED_AT):
        found.update(one.tp for one in commit.ranges)
    return found


def missing_ranges(bronze: BronzeTable, ends: Mapping[TopicPartition, int | None]) -> list[Missing]:
    """Returns the ranges of bronze beyond `ends`, in the order in which bronze took them in.

    The ranges join: a gap in log and audit becomes a range of its own.
    """
    known: dict[TopicPartition, list[Missing]] = {tp: [] for tp in ends}
    open_ = {tp for tp, end in ends.items() if bronze.end(tp) != end}
    for version, one in accounts(bronze):
        end = ends.get(one.tp)
        if one.tp not in open_:
            continue
        if end is None or one.end > end:
            known[one.tp].append(Missing(version, one))
        if end is not None and one.start <= end:
            open_.remove(one.tp)
            if not open_:
                break
    out: list[Missing] = []
    for tp, end in ends.items():
        last = bronze.end(tp)
        if last is not None:
            out += _joined(tp, end, last, sorted(known[tp], key=lambda m: m.account.start))
    return sorted(out, key=lambda m: (m.version, m.account.tp, m.account.start))


def _joined(
    tp: TopicPartition, end: int | None, last: int, known: Sequence[Missing]
) -> Iterator[Missing]:
    at = end if end is not None else known[0].account.start if known else 0
    template = known[0].account if known else _unknown(tp)
    version = -1
    for one in known:
        account = one.account
        if account.start > at:
            yield _gap(version, template, at, account.start)
        if account.start < at:
            yield _gap(one.version, account, at, account.end)
        else:
            yield one
        version, at = one.version, account.end
    if at < last:
        yield _gap(version, template, at, last)


def _gap(version: int, like: CommittedRange, start: int, end: int) -> Missing:
    account = CommittedRange(
        like.topic, like.topic_id, like.partition, start, end, 0, None, like.leader_epoch
    )
    return Missing(version, account, is_counted=False)


def _unknown(tp: TopicPartition) -> CommittedRange:
    return CommittedRange(tp.topic, topic_id_text(bytes(16)), tp.partition, 0, 0, 0, None, -1)


def parse_range(plan: str, task: RangeTask) -> tuple[int, str]:
    """Parses a range's rows in bronze, in a worker. Returns their number, and the `SilverManifest`
    of the files.
    """
    from strandline_spark.silver.range_output import SilverOutput, SilverPlan, without

    unique = os.urandom(8).hex()
    name = f"{task.partition:05d}-{task.start:020d}-{task.end:020d}-{unique}.parquet"
    path = f"topic={task.topic}/ingest_date={task.ingest_date}/{name}"
    held = task.silver_held if task.quarantine_held is None else task.quarantine_held
    elsewhere = None if held is None else _offsets(held, task)
    output: SilverOutput | None = None
    rows = 0
    settings = SilverPlan.from_json(plan)
    of = (task.silver_id, task.topic, task.partition)
    seen: Seen | None = None
    if settings.parse.dedupe_key:
        seen = seen_before(settings.parse, plan, of, task.start, task.before)
    columns = (*_COLUMNS, *(["headers"] if reads_headers(settings.parse.columns) else []))
    try:
        for batch in _rows(task.bronze, task, columns):
            rows += batch.num_rows
            if output is None:
                batch_id = batch.column("batch_id")[0].as_py() or 0
                output = SilverOutput(settings, path, batch_id, seen)
            if task.kept is not None and elsewhere is None:
                kept = _kept(task, batch)
                output.add(without(batch, kept.column("offset").to_numpy()), kept)
            elif seen is not None:
                output.add(batch, elsewhere=elsewhere)
            else:
                output.add(batch if elsewhere is None else without(batch, elsewhere))
        output = output or SilverOutput(settings, path, 0)
        manifest = output.close()
        _check_complement(task, manifest, 0 if elsewhere is None else len(elsewhere), rows)
    except BaseException:
        if output is not None:
            output.discard()
        raise
    if seen is not None:
        keep(seen, plan, of, task.end)
    return rows, manifest.to_json()


def _check_complement(task: RangeTask, found: SilverManifest, held: int, rows: int) -> None:
    """Raises TableError if a row belongs to the table that holds the range already."""
    what, other = (
        ("silver", "quarantine") if task.silver_held is not None else ("quarantine", "silver")
    )
    if task.silver_held is None and task.quarantine_held is None:
        return
    rows_of = {"silver": found.records, "quarantine": found.quarantine["rows"]}
    wrong, taken = rows_of[what], rows_of[other]
    if wrong or held + taken != rows:
        raise TableError(
            f"{task.topic}:{task.partition}: {what} holds the offsets [{task.start}, {task.end})"
            f" by other rules than those of today: {held:,} rows, and {wrong:,} more belong to it"
            " now; `strandline-spark rebuild silver` with the pipeline's file makes both tables"
            " from bronze"
        )


def _kept(task: RangeTask, batch: Any) -> Any:
    """Returns the earlier table's rows of these records."""
    offsets = batch.column("offset")
    within = replace(task, start=offsets[0].as_py(), end=offsets[-1].as_py() + 1)
    found = [pa.Table.from_batches([one]) for one in _rows(task.kept or (), within, None)]
    if not found:
        return pa.table({"offset": pa.array([], pa.int64())})
    return pa.concat_tables(found, promote_options="permissive")


def _offsets(files: Sequence[str], task: RangeTask) -> Any:
    found = [batch.column("offset").to_numpy() for batch in _rows(files, task, ("offset",))]
    return np.unique(np.concatenate(found)) if found else np.array([], dtype=np.int64)


def _rows(files: Sequence[str], task: RangeTask, columns: Sequence[str] | None) -> Iterator[Any]:
    """Yields batches of the range's rows, by rising offsets in each file. Without `columns` they
    have all columns. Raises TableError for an unreadable file.
    """
    wanted_columns = None if columns is None else ["partition", *_but(columns)]
    for path in files:
        try:
            # Spark's files of earlier versions hold timestamps of another type.
            with parquet(path, coerce_int96_timestamp_unit="us") as source:
                for number in _groups_of(source, task):
                    group = source.read_row_group(number, columns=wanted_columns)
                    offsets = group.column("offset")
                    wanted = pc.and_(
                        pc.equal(group.column("partition"), task.partition),
                        pc.and_(pc.greater_equal(offsets, task.start), pc.less(offsets, task.end)),
                    )
                    rows = group.filter(wanted)
                    for batch in (rows if columns is None else _cast(rows)).to_batches():
                        if batch.num_rows:
                            yield batch
        except (OSError, pa.ArrowInvalid) as why:
            raise TableError(
                f"the file {path} does not read ({first_line(why)}): put it back from a copy"
            ) from why


def _groups_of(source: Any, task: RangeTask) -> Iterator[int]:
    """Yields the row groups that may hold the range's rows: a compacted file has those of many
    ranges.
    """
    names = source.schema_arrow.names
    place = names.index("offset")
    for number in range(source.num_row_groups):
        found = source.metadata.row_group(number).column(place).statistics
        known = found is not None and found.has_min_max
        if not known or (found.min < task.end and found.max >= task.start):
            yield number


def _but(columns: Sequence[str]) -> list[str]:
    return [name for name in columns if name != "partition"]


def _cast(rows: Any) -> Any:
    """Casts the rows to the types of records that are read from a topic."""
    fields = [FILE_SCHEMA.field(name) for name in rows.schema.names]
    return rows.cast(pa.schema(fields))


def counted(one: Missing, rows: int, removed: int = 0) -> CommittedRange:
    """Returns the range's account, with the number of rows found. Raises TableError if bronze
    counted another number, and `removed` does not make it up: the rows that are gone on purpose.
    """
    if not one.is_counted:
        return replace(one.account, rows=rows)
    if removed and rows + removed == one.account.rows:
        skipped = one.account.skipped
        return replace(
            one.account, rows=rows, skipped=None if skipped is None else skipped + removed
        )
    if rows != one.account.rows:
        raise TableError(
            f"bronze holds {rows:,} rows of {one.account.tp} in [{one.account.start},"
            f" {one.account.end}), and took {one.account.rows:,} in: `strandline-spark verify` with"
            " the pipeline's file says what is missing"
        )
    return one.account
