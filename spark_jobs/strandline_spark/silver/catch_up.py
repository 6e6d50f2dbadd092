"""The catch-up of silver and quarantine with bronze: after a repaired failure, after a crash
between the commits, for new tables, and for a rebuild.

Each table's fences give its end, and bronze's accounts give the ranges beyond it. Spark's tasks
parse a chunk of these ranges. The driver judges it batch by batch, in the batches of bronze, and
commits it to the tables that lack it. Wherever this breaks off, the fences show what is left.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from strandline_spark.bronze.columns import BronzeTable
from strandline_spark.delta_log.held_files import HeldFiles
from strandline_spark.errors import StrandlineSparkError, TableError, first_line, remedy_line
from strandline_spark.maintenance import removals
from strandline_spark.silver.duplicates import REASON, files_before
from strandline_spark.silver.from_bronze import (
    Missing,
    RangeTask,
    counted,
    missing_ranges,
    parse_range,
    partitions_of,
)
from strandline_spark.silver.judge import (
    Judge,
    ParsedRange,
    columns_noted,
    discard,
    reasons_of,
    taken,
)
from strandline_spark.silver.range_output import SilverManifest, SilverPlan
from strandline_spark.silver.tables import QuarantineTable, SilverTable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from strandline_spark.bronze.commits import CommittedRange
    from strandline_spark.bronze.fenced_table import FencedTable
    from strandline_spark.cluster.offsets import TopicPartition
    from strandline_spark.delta_log.held_files import HeldFile
    from strandline_spark.parsing.settings import ParseSettings
    from strandline_spark.pipeline.config import Pipeline

Numbered = tuple[int, RangeTask]
CHUNK_ROWS: Final = 500_000
CHUNK_RANGES: Final = 256
"""Limits of one step: at least one whole batch of bronze, and no batch beyond them."""
JOB: Final = "strandline-catch-up:{pipeline}"


@dataclass(frozen=True, slots=True)
class Step:
    """The rows that one step has brought into silver and quarantine."""

    rows: int
    quarantined: int
    left: int
    """Number of ranges that are still missing."""
    reasons: dict[str, int] = field(default_factory=dict)
    """Number of quarantined rows for each reason."""

    @property
    def duplicates(self) -> int:
        """Number of the quarantined rows that are duplicates."""
        return self.reasons.get(REASON, 0)


class CatchUp:
    """The catch-up of one pipeline, on one session. No other process commits to its silver
    meanwhile.
    """

    def __init__(
        self,
        spark: SparkSession,
        pipeline: Pipeline,
        settings: Callable[[SilverTable], ParseSettings],
        note: Callable[[str], None],
        *,
        kept: str | None = None,
        all_partitions: bool = False,
    ) -> None:
        """Prepares the catch-up.

        `settings` returns how values are parsed into the present table. `kept` is the folder of an
        earlier silver table whose rows are taken unchanged. `all_partitions` also finds partitions
        without a row, further back than the newest commits.
        """
        self._kept = kept
        self._all_partitions = all_partitions
        self._spark = spark
        self._pipeline = pipeline
        self._settings = settings
        self._note = note
        self._judge = Judge(pipeline)
        self._left: list[Missing] = []
        self._files = {kind: HeldFiles() for kind in ("bronze", "silver", "quarantine")}
        self._new: dict[str, str] = {}

    def is_behind(self) -> bool:
        """True if bronze holds ranges that silver or quarantine lacks. Raises TableError if one of
        the two holds ranges that bronze does not.
        """
        bronze, silver, quarantine = self._open()
        behind = False
        for tp in self._partitions(bronze):
            for table in (silver, quarantine):
                behind |= _end(table, tp) < _end(bronze, tp)
                if _end(table, tp) > _end(bronze, tp):
                    raise TableError(
                        f"{table.path} holds {tp} up to offset {table.end(tp)}, and {bronze.path}"
                        f" {_up_to(bronze.end(tp))}: they are tables of different runs. Put the"
                        " right bronze table back, or make silver what this one gives with"
                        f" `strandline-spark rebuild silver {self._pipeline.file}`"
                    )
        return behind

    def step(self) -> Step:
        """Takes one chunk. Raises StrandlineSparkError; earlier commits stay."""
        bronze, silver, quarantine = self._open()
        if not self._left:
            self._left = self._missing(bronze, silver, quarantine)
        chunk = _chunk(self._left)
        if not chunk:
            return Step(0, 0, 0)
        settings = self._settings(silver)
        parsed = self._parse(chunk, settings, bronze, silver, quarantine)
        while added := self._added(parsed, settings):
            self._note(columns_noted(added))
            discard(self._pipeline, parsed)
            self._new |= added
            bronze, silver, quarantine = self._open()
            settings = self._settings(silver)
            parsed = self._parse(chunk, settings, bronze, silver, quarantine)
        done, refused = self._judged(chunk, parsed, settings)
        try:
            self._commit(chunk[: len(done)], done, (silver, quarantine))
        except BaseException:
            self._left = []
            raise
        self._left = self._left[len(done) :]
        if refused is not None:
            discard(self._pipeline, parsed[len(done) :])
            raise refused
        return Step(
            sum(one.account.rows for one in done),
            sum(one.manifest.quarantine["rows"] for one in done),
            len(self._left),
            reasons_of(done),
        )

    def take_added(self) -> dict[str, str]:
        """Returns the columns that silver got for new fields since the last call."""
        added, self._new = self._new, {}
        return added

    def _open(self) -> tuple[BronzeTable, SilverTable, QuarantineTable]:
        pipeline = self._pipeline
        return (
            BronzeTable.open(pipeline.bronze),
            SilverTable.open(pipeline.silver),
            QuarantineTable.open(pipeline.quarantine),
        )

    def _partitions(self, bronze: BronzeTable) -> set[TopicPartition]:
        """Returns the partitions that bronze took from, of this silver table's topics."""
        files = self._files["bronze"].up_to(bronze)
        found = partitions_of(bronze, files, all_of_them=self._all_partitions)
        return {tp for tp in found if self._pipeline.takes(tp.topic)}

    def _missing(self, bronze: BronzeTable, *tables: FencedTable) -> list[Missing]:
        ends: dict[Any, int | None] = {}
        for tp in self._partitions(bronze):
            found = [table.end(tp) for table in tables]
            known = [end for end in found if end is not None]
            ends[tp] = min(known) if len(known) == len(found) else None
        return missing_ranges(bronze, ends)

    def _parse(
        self,
        chunk: Sequence[Missing],
        settings: ParseSettings,
        bronze: BronzeTable,
        silver: SilverTable,
        quarantine: QuarantineTable,
    ) -> list[ParsedRange]:
        plan = SilverPlan(silver.path, quarantine.path, settings).to_json()
        raw = self._files["bronze"].up_to(bronze)
        own, bad = (self._files[table.KIND].up_to(table) for table in (silver, quarantine))
        held = ((silver, own), (quarantine, bad))
        old = None if self._kept is None else HeldFiles().up_to(SilverTable.open(self._kept))
        begun: set[TopicPartition] = set()
        tasks = []
        for one in (each.account for each in chunk):
            files = _overlapping(raw, one)
            beside = [
                tuple(file.path for file in _overlapping(files_held, one))
                if _end(table, one.tp) >= one.end
                else None
                for table, files_held in held
            ]
            paths = tuple(file.path for file in files)
            date = files[0].ingest_date if files else "1970-01-01"
            tasks.append(
                RangeTask(
                    topic=one.topic,
                    partition=one.partition,
                    start=one.start,
                    end=one.end,
                    bronze=paths,
                    ingest_date=date,
                    silver_held=beside[0],
                    quarantine_held=beside[1],
                    kept=None if old is None else tuple(f.path for f in _overlapping(old, one)),
                    silver_id=_rows_of(silver),
                    before=None
                    if one.tp in begun
                    else files_before(own.near(one.tp), one.start, settings.dedupe_within),
                )
            )
            begun.add(one.tp)
        out = []
        gone = removals.removed(removals.read(bronze.state))
        groups = _groups(tasks, in_order=bool(settings.dedupe_key))
        for each, task, (rows, text) in zip(chunk, tasks, self._run(plan, groups), strict=True):
            one = each.account
            removed = removals.held_in(gone.get(one.tp, []), one.start, one.end)
            account = _with_mark(counted(each, rows, removed), bronze)
            manifest = SilverManifest.from_json(text)
            out.append(ParsedRange(account, task.ingest_date, "", manifest))
        return out

    def _run(self, plan: str, groups: Sequence[Sequence[Numbered]]) -> list[tuple[int, str]]:
        """Returns the results of the tasks in their order. Those of a group run one after the
        other, in one process.
        """
        context = self._spark.sparkContext
        try:
            found = (
                context.parallelize(groups, len(groups))
                .flatMap(lambda own: [(n, parse_range(plan, task)) for n, task in own])
                .collect()
            )
            return [result for _, result in sorted(found, key=lambda one: one[0])]
        except StrandlineSparkError:
            raise
        except Exception as why:
            from strandline_spark.spark.session import jvm_has_ended

            if jvm_has_ended(why):
                raise
            said = remedy_line(str(why)) or first_line(why)
            first = groups[0][0][1]
            raise TableError(
                f"bronze cannot be parsed from {first.topic}:{first.partition} offset"
                f" {first.start} on: {said}"
            ) from why

    def _added(self, parsed: Sequence[ParsedRange], settings: ParseSettings) -> dict[str, str]:
        """Returns columns for new fields, of the type that fits all values of the chunk."""
        if not self._pipeline.adds_columns:
            return {}
        try:
            return self._judge.new_columns(parsed, settings.columns)
        except TableError:
            # The batches are judged later, which finds the one at fault.
            return {}

    def _judged(
        self, chunk: Sequence[Missing], parsed: Sequence[ParsedRange], settings: ParseSettings
    ) -> tuple[list[ParsedRange], StrandlineSparkError | None]:
        """Returns the ranges up to the first batch that silver cannot take, and the reason."""
        done: list[ParsedRange] = []
        pairs = zip(chunk, parsed, strict=True)
        for _, group in itertools.groupby(pairs, key=lambda pair: pair[0].version):
            batch = [one for _, one in group]
            try:
                if self._judge.new_columns(batch, settings.columns):
                    # The fields of this batch fit alone, but not with those of the whole chunk.
                    return done, None
                self._judge.check_limit(batch)
            except StrandlineSparkError as why:
                return done, why
            done += batch
            for said in self._judge.notes(batch):
                self._note(said)
        return done, None

    def _commit(
        self,
        chunk: Sequence[Missing],
        parsed: Sequence[ParsedRange],
        tables: Sequence[FencedTable],
    ) -> None:
        if not parsed:
            return
        for table in tables:
            lacks = [one for one in parsed if _end(table, one.account.tp) < one.account.end]
            if not lacks:
                continue
            for _, own in itertools.groupby(
                sorted(lacks, key=lambda one: one.account.tp), key=lambda one: one.account.tp
            ):
                first = min(own, key=lambda one: one.account.start)
                table.check_fence(first.account.tp, first.account.start)
            part = taken(lacks, table.KIND)
            job = JOB.format(pipeline=self._pipeline.name)
            table.commit(job, max(0, chunk[-1].version), part.accounts, part.files)


def _chunk(left: Sequence[Missing]) -> list[Missing]:
    """Returns whole batches of bronze, from the first on."""
    out: list[Missing] = []
    rows = 0
    for _, group in itertools.groupby(left, key=lambda one: one.version):
        batch = list(group)
        rows += sum(one.account.rows for one in batch)
        if out and (rows > CHUNK_ROWS or len(out) + len(batch) > CHUNK_RANGES):
            break
        out += batch
    return out


def _groups(tasks: Sequence[RangeTask], *, in_order: bool) -> list[list[Numbered]]:
    """Returns the tasks with their places: each alone, or `in_order` with those of its partition
    before it.
    """
    if not in_order:
        return [[one] for one in enumerate(tasks)]
    groups: dict[tuple[str, int], list[Numbered]] = {}
    for number, task in enumerate(tasks):
        groups.setdefault((task.topic, task.partition), []).append((number, task))
    return list(groups.values())


def _overlapping(files: HeldFiles, one: CommittedRange) -> list[HeldFile]:
    found = [file for file in files.near(one.tp) if file.may_hold(one)]
    return sorted(found, key=lambda file: file.offset_min or 0)


def _with_mark(account: CommittedRange, bronze: BronzeTable) -> CommittedRange:
    """Returns the account with a high watermark at the end of bronze. Rows that silver has yet to
    take are a backlog, for which gold waits.
    """
    reached = max(account.high_watermark or 0, _end(bronze, account.tp))
    return replace(account, high_watermark=reached)


def _end(table: FencedTable, tp: Any) -> int:
    """Returns the end of the table; -1 if it never took from the partition."""
    end = table.end(tp)
    return -1 if end is None else end


def _rows_of(silver: SilverTable) -> str:
    """Returns a name of the table's rows: a removal takes some that duplicates were found by."""
    return f"{silver.id}/{silver.state.transactions.get(removals.NUMBER, 0)}"


def _up_to(end: int | None) -> str:
    return "has nothing of it" if end is None else f"up to offset {end}"
