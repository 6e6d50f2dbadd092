"""`verify` of a pipeline: bronze holds each offset once, silver and quarantine together hold what
bronze holds, and gold is the result of its statements over silver.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from strandline_spark.bronze import removals
from strandline_spark.bronze.audit import accounts
from strandline_spark.bronze.columns import BronzeTable
from strandline_spark.bronze.removals import common, joined
from strandline_spark.bronze.runs import TopicRuns
from strandline_spark.bronze.verify import PartitionFindings, held_in, union, verify
from strandline_spark.cluster.offsets import TopicPartition
from strandline_spark.pipeline.columns import beside_columns
from strandline_spark.pipeline.moved_topics import moved_topics
from strandline_spark.pipeline.parsed_values import ParsedValues, duplicates_in
from strandline_spark.silver.tables import QuarantineTable, SilverTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from strandline_spark.bronze.commits import CommittedRange
    from strandline_spark.bronze.fenced_table import FencedTable
    from strandline_spark.bronze.runs import Run
    from strandline_spark.pipeline.config import Pipeline


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


def verify_raw(pipeline: Pipeline, bootstrap: str | None, **asked: Any) -> list[PartitionFindings]:
    """Checks bronze with all topics, of which some may have been empty; `asked` are flags of
    `verify`.
    """
    return [
        found
        for topic in pipeline.topics
        for found in verify(pipeline.bronze, topic, bootstrap, may_lack=True, **asked)
    ]


def verify_parsed(
    pipeline: Pipeline, *, values: bool = False, full: bool = True
) -> list[ParsedFindings]:
    """Checks each silver table and its quarantine against bronze, each partition. With `values` it
    parses bronze again and compares each row. Unless `full`, only files that no earlier
    verification has noted are read.
    """
    return [
        found
        for part in pipeline.parts
        for found in _verify_part(part, pipeline, values=values, full=full)
    ]


def _verify_part(
    part: Pipeline, whole: Pipeline, *, values: bool, full: bool
) -> list[ParsedFindings]:
    bronze = BronzeTable.open(part.bronze)
    silver = SilverTable.open(part.silver)
    quarantine = QuarantineTable.open(part.quarantine)
    silver.check_kind(part.parse, part.file)
    tables = (bronze, silver, quarantine)
    known = [list(accounts(table)) for table in tables]
    ranges = [_ranges(one) for one in known]
    entries = [removals.read(table.state) for table in tables]
    gone = [removals.removed(one) for one in entries]
    forgotten = removals.removed(entries[0], removals.FORGET)
    compared = None
    if values:
        beside = beside_columns(part, silver.columns_beside(part.parse.columns))
        compared = ParsedValues(bronze, silver, quarantine, beside.parse)
    out: list[ParsedFindings] = []
    for topic in part.silver_topics:
        held = [TopicRuns(table, topic, full=full) for table in tables]
        own = [[pair for pair in every if pair[1].topic == topic] for every in known]
        runs = [one.of for one in held]
        begun = len(out)
        for partition in sorted({p for one in runs for p in one}):
            tp = TopicPartition(topic, partition)
            found = check_parsed(
                tp,
                *(one.get(partition, []) for one in runs),
                accounts=[one.get(tp, {}) for one in ranges],
                removed=[one.get(tp, ()) for one in gone],
                forgotten=forgotten.get(tp, ()),
            )
            found.removed = _length(common(gone[0].get(tp, []), gone[1].get(tp, [])))
            _check_ends(found, bronze, (silver, quarantine))
            if part.parse.dedupe_key:
                found.duplicates = duplicates_in(quarantine, tp)
            if compared is not None:
                skipped = joined(pair for one in gone for pair in one.get(tp, ()))
                compared.compare(found, [one.get(partition, []) for one in runs], skipped)
            out.append(found)
        _settle(held[1:], own[1:], out[begun:])
    for table in (silver, quarantine):
        for topic, other in moved_topics(part, whole, table):
            found = ParsedFindings(topic, -1)
            found.problems.append(f"{table.path} has its records, and [[silver]] {other} takes it")
            out.append(found)
    return out


def _settle(
    held: Sequence[TopicRuns],
    known: Sequence[Sequence[tuple[int, CommittedRange]]],
    found: Sequence[ParsedFindings],
) -> None:
    """Adds the faults in what was verified before to the findings about a topic, or notes what was
    verified now.
    """
    for runs, ranges in zip(held, known, strict=True):
        runs.check_accounts(ranges)
        if found:
            found[0].problems += runs.problems
    if all(one.sound for one in found):
        for runs, ranges in zip(held, known, strict=True):
            runs.note(ranges)


def check_parsed(
    tp: TopicPartition,
    bronze: list[Run],
    silver: list[Run],
    quarantine: list[Run],
    *,
    accounts: Sequence[Mapping[tuple[int, int], CommittedRange]],
    removed: Sequence[Sequence[tuple[int, int]]] = ((), (), ()),
    forgotten: Sequence[tuple[int, int]] = (),
) -> ParsedFindings:
    """Judges one partition; `accounts` has the accounts of each range [start, end) in the three
    tables' commits, `removed` the offsets whose rows are gone from them on purpose, and `forgotten`
    those that no table may have.
    """
    found = ParsedFindings(tp.topic, tp.partition)
    found.bronze, found.silver, found.quarantine = (
        sum(run.end - run.start for run in runs) for runs in (bronze, silver, quarantine)
    )
    raw, parsed = union(sorted(bronze)), union(sorted(silver + quarantine))
    doubled = found.silver + found.quarantine - sum(end - start for start, end in parsed)
    if doubled > 0:
        found.problems.append(f"{doubled} rows of silver and quarantine repeat an offset")
    for name, (have, want) in {
        "bronze holds no such row, silver or quarantine does": (
            parsed,
            joined([*raw, *removed[0]]),
        ),
        "bronze holds the row, neither silver nor quarantine does": (
            raw,
            joined([*parsed, *removed[1], *removed[2]]),
        ),
    }.items():
        beyond = _beyond(have, want)
        if beyond:
            count = sum(end - start for start, end in beyond)
            found.problems.append(f"{count} offsets from {beyond[0][0]} on: {name}")
    covered = [union(sorted(runs)) for runs in (bronze, silver, quarantine)]
    for name, held, out in zip(("silver", "quarantine"), covered[1:], removed[1:], strict=True):
        again = _length(common(held, out)) + _length(common(held, forgotten))
        if again:
            found.problems.append(f"{again} rows are in {name} that were removed or forgotten")
    whole = [joined([*held, *out]) for held, out in zip(covered, removed, strict=True)]
    for (start, end), one in accounts[0].items():
        rows = [held_in(held, start, end) for held in whole]
        lost = held_in(list(removed[0]), start, end)
        if not lost and rows[0] != rows[1] + rows[2]:
            found.problems.append(
                f"[{start}, {end}): {rows[0]} rows in bronze, {rows[1]} in silver and {rows[2]} in"
                " quarantine"
            )
        for name, said, there in zip(("silver", "quarantine"), accounts[1:], rows[1:], strict=True):
            own = said.get((start, end))
            if own is not None and (
                own.rows != there or not 0 <= one.rows - own.rows - own.elsewhere <= lost
            ):
                found.problems.append(
                    f"[{start}, {end}) was committed with {own.rows} rows to {name}, {there} are"
                    " there"
                )
    return found


def _length(intervals: Sequence[tuple[int, int]]) -> int:
    return sum(end - start for start, end in intervals)


def _beyond(have: list[tuple[int, int]], want: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns what `have` covers and `want` does not; both are disjoint, rising intervals."""
    out = []
    gaps = [(a[1], b[0]) for a, b in pairwise([(0, 0), *want, (1 << 63, 1 << 63)])]
    at = 0
    for start, end in have:
        while at < len(gaps) and gaps[at][1] <= start:
            at += 1
        i = at
        while i < len(gaps) and gaps[i][0] < end:
            part = max(start, gaps[i][0]), min(end, gaps[i][1])
            if part[0] < part[1]:
                out.append(part)
            i += 1
    return out


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


def _ranges(
    known: Sequence[tuple[int, CommittedRange]],
) -> dict[TopicPartition, dict[tuple[int, int], CommittedRange]]:
    out: dict[TopicPartition, dict[tuple[int, int], CommittedRange]] = {}
    for _, one in known:
        out.setdefault(one.tp, {})[one.start, one.end] = one
    return out
