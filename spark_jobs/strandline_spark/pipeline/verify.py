"""`verify` of a pipeline: bronze holds each offset once, silver and quarantine together hold what
bronze holds, and gold is the result of its statements over silver.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from strandline_spark.bronze.columns import BronzeTable
from strandline_spark.bronze.verify import PartitionFindings, verify
from strandline_spark.cluster.offsets import TopicPartition
from strandline_spark.maintenance import removals
from strandline_spark.maintenance.removals import common, joined
from strandline_spark.pipeline.columns import beside_columns
from strandline_spark.pipeline.moved_topics import moved_topics
from strandline_spark.pipeline.parsed_values import ParsedValues, duplicates_in
from strandline_spark.silver.tables import QuarantineTable, SilverTable
from strandline_spark.verification.intervals import Intervals
from strandline_spark.verification.readings import Readings
from strandline_spark.verification.runs import NO_RUNS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_spark.bronze.fenced_table import FencedTable
    from strandline_spark.pipeline.config import Pipeline
    from strandline_spark.verification.accounts import Accounts, Ranges
    from strandline_spark.verification.runs import Runs, TopicRuns


@dataclass(slots=True)
class ParsedFindings:
    """The findings about one partition in silver and quarantine."""

    topic: str
    partition: int
    bronze: int = 0
    """Number of records, as are the next two: in silver each exploded element is a row."""
    silver: int = 0
    quarantine: int = 0
    duplicates: int = 0
    """Number of the quarantined records that repeat a row of silver."""
    removed: int = 0
    """Number of the records that `retention` or `forget` has removed from bronze and silver."""
    differing: int = -1
    """Rows of the two that differ from bronze's parsed records, are missing or are extra; -1 if
    values were not compared.
    """
    problems: list[str] = field(default_factory=list)

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def sound(self) -> bool:
        return not self.problems


def verify_raw(
    pipeline: Pipeline,
    bootstrap: str | None,
    *,
    full: bool = True,
    readings: Readings | None = None,
    **asked: Any,
) -> list[PartitionFindings]:
    """Checks bronze with all topics, of which some may have been empty; `asked` are flags of
    `verify`, and `readings` is what another part of this verification has read.
    """
    seen = readings or Readings(full=full)
    return [
        found
        for topic in pipeline.topics
        for found in verify(
            pipeline.bronze, topic, bootstrap, may_lack=True, full=full, readings=seen, **asked
        )
    ]


def verify_parsed(
    pipeline: Pipeline,
    *,
    values: bool = False,
    full: bool = True,
    readings: Readings | None = None,
) -> list[ParsedFindings]:
    """Checks each silver table and its quarantine against bronze, each partition. With `values` it
    parses bronze again and compares each row. Unless `full`, only files that no earlier
    verification has noted are read. `readings` is what another part of this one has read.
    """
    seen = readings or Readings(full=full)
    return [
        found
        for part in pipeline.parts
        for found in _verify_part(part, pipeline, seen, values=values)
    ]


def _verify_part(
    part: Pipeline, whole: Pipeline, readings: Readings, *, values: bool
) -> list[ParsedFindings]:
    bronze = BronzeTable.open(part.bronze)
    silver = SilverTable.open(part.silver)
    quarantine = QuarantineTable.open(part.quarantine)
    silver.check_kind(part.parse, part.file)
    tables = (bronze, silver, quarantine)
    seen = [readings.of(table) for table in tables]
    entries = [removals.read(table.state) for table in tables]
    gone = [removals.removed(one) for one in entries]
    forgotten = removals.removed(entries[0], removals.FORGET)
    compared = None
    if values:
        beside = beside_columns(part, silver.columns_beside(part.parse.columns))
        compared = ParsedValues(bronze, silver, quarantine, beside.parse)
    out: list[ParsedFindings] = []
    for topic in part.silver_topics:
        held = [one.runs(topic) for one in seen]
        taken = [one.accounts.of_topic(topic) for one in seen]
        runs = [one.of for one in held]
        begun = len(out)
        for partition in sorted({p for one in runs for p in one}):
            tp = TopicPartition(topic, partition)
            found = check_parsed(
                tp,
                *(one.get(partition, NO_RUNS) for one in runs),
                accounts=[one.of_partition(partition) for one in taken],
                removed=[one.get(tp, ()) for one in gone],
                forgotten=forgotten.get(tp, ()),
            )
            found.removed = _length(common(gone[0].get(tp, []), gone[1].get(tp, [])))
            _check_ends(found, bronze, (silver, quarantine))
            if part.parse.dedupe_key:
                found.duplicates = duplicates_in(quarantine, tp)
            if compared is not None:
                skipped = joined(pair for one in gone for pair in one.get(tp, ()))
                covered = [one.get(partition, NO_RUNS).covered() for one in runs]
                compared.compare(found, covered, skipped)
            out.append(found)
        _settle(held[1:], taken[1:], out[begun:])
    for table in (silver, quarantine):
        for topic, other in moved_topics(part, whole, table):
            found = ParsedFindings(topic, -1)
            found.problems.append(f"{table.path} has its records, and [[silver]] {other} takes it")
            out.append(found)
    return out


def _settle(
    held: Sequence[TopicRuns],
    taken: Sequence[Accounts],
    found: Sequence[ParsedFindings],
) -> None:
    """Adds the faults in what was verified before to the findings about a topic, or notes what was
    verified now.
    """
    for runs, accounts in zip(held, taken, strict=True):
        runs.check_accounts(accounts)
        if found:
            found[0].problems += runs.problems
    if all(one.sound for one in found):
        for runs, accounts in zip(held, taken, strict=True):
            runs.note(accounts)


def check_parsed(
    tp: TopicPartition,
    bronze: Runs,
    silver: Runs,
    quarantine: Runs,
    *,
    accounts: Sequence[Ranges],
    removed: Sequence[Sequence[tuple[int, int]]] = ((), (), ()),
    forgotten: Sequence[tuple[int, int]] = (),
) -> ParsedFindings:
    """Judges one partition; `accounts` has the ranges of the three tables' commits, `removed` the
    offsets whose rows are gone from them on purpose, and `forgotten` those that no table may have.
    """
    found = ParsedFindings(tp.topic, tp.partition)
    tables = (bronze, silver, quarantine)
    found.bronze, found.silver, found.quarantine = (one.rows for one in tables)
    covered = [one.covered() for one in tables]
    gone = [Intervals.of_pairs(one) for one in removed]
    raw, parsed = covered[0], covered[1] | covered[2]
    doubled = found.silver + found.quarantine - parsed.length
    if doubled > 0:
        found.problems.append(f"{doubled} rows of silver and quarantine repeat an offset")
    for name, have, want in (
        ("bronze holds no such row, silver or quarantine does", parsed, raw | gone[0]),
        (
            "bronze holds the row, neither silver nor quarantine does",
            raw,
            parsed | gone[1] | gone[2],
        ),
    ):
        first = have.first_beyond(want)
        if first is not None:
            count = have.length - have.common(want)
            found.problems.append(f"{count} offsets from {first} on: {name}")
    never = Intervals.of_pairs(forgotten)
    for name, held, out in zip(("silver", "quarantine"), covered[1:], gone[1:], strict=True):
        again = held.common(out) + held.common(never)
        if again:
            found.problems.append(f"{again} rows are in {name} that were removed or forgotten")
    _check_accounts(found, covered, gone, accounts)
    return found


def _check_accounts(
    found: ParsedFindings,
    covered: Sequence[Intervals],
    gone: Sequence[Intervals],
    accounts: Sequence[Ranges],
) -> None:
    """Checks that the tables hold as many rows of each range of bronze as their commits say."""
    taken = accounts[0]
    starts, ends = taken.starts, taken.ends
    rows = [(held | out).held_in(starts, ends) for held, out in zip(covered, gone, strict=True)]
    lost = gone[0].held_in(starts, ends)
    wrong = {
        n: [f": {rows[0][n]} rows in bronze, {rows[1][n]} in silver and {rows[2][n]} in quarantine"]
        for n in np.flatnonzero((lost == 0) & (rows[0] != rows[1] + rows[2])).tolist()
    }
    for name, said, there in zip(("silver", "quarantine"), accounts[1:], rows[1:], strict=True):
        place = said.places_of(taken)
        own, elsewhere = (np.append(one, 0)[place] for one in (said.rows, said.elsewhere))
        rest = taken.rows - own - elsewhere
        is_wrong = (place >= 0) & ((own != there) | (rest < 0) | (rest > lost))
        for n in np.flatnonzero(is_wrong).tolist():
            what = f" was committed with {own[n]} rows to {name}, {there[n]} are there"
            wrong.setdefault(n, []).append(what)
    found.problems += [
        f"[{starts[n]}, {ends[n]}){what}" for n, every in sorted(wrong.items()) for what in every
    ]


def _length(intervals: Sequence[tuple[int, int]]) -> int:
    return sum(end - start for start, end in intervals)


def _check_ends(
    found: ParsedFindings, bronze: FencedTable, others: tuple[FencedTable, ...]
) -> None:
    tp = TopicPartition(found.topic, found.partition)
    for other in others:
        if other.end(tp) != bronze.end(tp):
            found.problems.append(
                f"bronze ends at {bronze.end(tp)} and {other.KIND} at {other.end(tp)}: start the"
                " pipeline once more, it brings them level"
            )
