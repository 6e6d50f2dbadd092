"""What a verification says of columns is what loops over single offsets say."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline_proto.ids import topic_id_text
from strandline_spark.bronze.commits import Commit, CommittedRange
from strandline_spark.bronze.verify import PartitionFindings, check_partition
from strandline_spark.cluster.offsets import TopicPartition
from strandline_spark.pipeline.verify import ParsedFindings, check_parsed
from strandline_spark.verification.accounts import Accounts, Ranges
from strandline_spark.verification.intervals import Intervals
from strandline_spark.verification.runs import Run, Runs
from support.examples import examples

TP = TopicPartition("t", 0)
ID = topic_id_text(bytes(16))
SMALL = st.integers(0, 3)
PAIRS = st.lists(
    st.tuples(st.integers(0, 20), st.integers(1, 5)).map(lambda p: (p[0], sum(p))), max_size=5
)


class Taken(NamedTuple):
    """A range of a commit."""

    version: int
    start: int
    end: int
    rows: int
    skipped: int
    lost: int
    elsewhere: int


RUNS = st.lists(
    st.builds(
        lambda start, width, first, last: Run(start, start + width, first, last),
        *(st.integers(0, 20), st.integers(1, 5), SMALL, SMALL),
    ),
    max_size=4,
)


@st.composite
def ranges(draw: st.DrawFn) -> list[Taken]:
    """Ranges that mostly join and mostly have the rows that they say."""
    out, at = [], draw(SMALL)
    for version in range(1, draw(st.integers(0, 6)) + 1):
        start = at + draw(st.sampled_from([0, 0, 0, 0, 1, -1]))
        start = max(0, start)
        end = start + draw(st.integers(0, 5))
        lost, elsewhere = draw(st.sampled_from([0, 0, 1])), draw(st.sampled_from([0, 0, 2]))
        skipped = draw(st.sampled_from([0, 0, 1]))
        rows = max(0, end - start - lost - elsewhere - skipped)
        out.append(Taken(version, start, end, rows, skipped, lost, elsewhere))
        at = end
    return out


def offsets(pairs: Any) -> set[int]:
    return {offset for start, end in pairs for offset in range(start, end)}


def columns(taken: list[Taken], log_start: int = 0) -> Ranges:
    commits = [
        Commit(
            *(one.version, 0, "j", 0),
            [
                CommittedRange(
                    *("t", ID, 0, one.start, one.end, one.rows, one.skipped, 0, one.lost),
                    elsewhere=one.elsewhere,
                )
            ],
        )
        for one in taken
    ]
    return Accounts.of_commits(commits).of_partition(0, log_start)


@given(PAIRS, PAIRS, PAIRS)
def test_intervals_are_sets_of_offsets(
    some: list[tuple[int, int]], others: list[tuple[int, int]], asked: list[tuple[int, int]]
) -> None:
    one, other = Intervals.of_pairs(some), Intervals.of_pairs(others)
    held, wanted = offsets(some), offsets(others)
    assert offsets(one.pairs()) == held
    assert all(a[1] < b[0] for a, b in pairwise(one.pairs()))
    assert one.length == len(held)
    assert offsets((one | other).pairs()) == held | wanted
    assert one.common(other) == len(held & wanted)
    assert one.first_beyond(other) == min(held - wanted, default=None)
    starts, ends = np.array(asked, np.int64).reshape(-1, 2).T
    assert one.held_in(starts, ends).tolist() == [
        len(held & set(range(start, end))) for start, end in asked
    ]


def judged(
    runs: list[Run], taken: list[Taken], fence: int | None, log_start: int, removed: Any
) -> PartitionFindings:
    """`check_partition` by loops."""
    found, say = PartitionFindings("t", 0), []
    rows = Counter(offset for run in runs for offset in range(run.start, run.end))
    gone = offsets(removed)
    found.rows, found.doubles = rows.total(), rows.total() - len(rows)
    found.first_offset = min(rows, default=-1)
    last = max(rows, default=-1) + 1
    found.end_offset = last if fence is None else fence
    again = len(gone & set(rows))
    found.removed = len(gone) - again
    falls = any(b.epoch_first < a.epoch_last for a, b in pairwise(sorted(runs)))
    for is_wrong, what in (
        (found.doubles, f"{found.doubles} rows repeat an offset"),
        (falls, "leader epochs go back as offsets rise"),
        (
            last > found.end_offset,
            f"rows go up to {last}, past the table's end {found.end_offset}",
        ),
        (again, f"{again} rows are there that were removed from the table"),
    ):
        say += [what] if is_wrong else []
    say += _of_ranges(found, taken, gone | set(rows), log_start)
    say += [f"{found.gaps} offsets have no row"] if found.gaps else []
    found.problems = say
    return found


def _of_ranges(
    found: PartitionFindings, taken: list[Taken], known: set[int], log_start: int
) -> list[str]:
    say = []
    for a, b in pairwise(taken):
        if a.version < log_start and a.end < b.start:
            found.gaps += len(set(range(a.end, b.start)) - known)
        elif a.end != b.start:
            say.append(f"commits took in up to {a.end}, then from {b.start}")
    for one in taken:
        held = len(known & set(range(one.start, one.end)))
        found.skipped += one.skipped
        found.lost += one.lost
        missing = one.end - one.start - held - one.skipped - one.lost
        found.gaps += max(0, missing)
        place = f"[{one.start}, {one.end})"
        if missing < 0:
            say.append(f"{place} holds {held} rows, {one.rows} counted")
        elif held != one.rows:
            say.append(f"{place} was committed with {one.rows} rows, {held} are there")
    known_from = taken[0].start if taken else found.end_offset
    # Offsets are counted from the first one that is there or was removed.
    if known and min(known) < known_from:
        found.gaps += len(set(range(min(known), known_from)) - known)
    return say


@settings(max_examples=examples(200))
@given(
    RUNS,
    ranges(),
    st.one_of(st.none(), st.integers(0, 30)),
    st.integers(0, 8),
    st.one_of(st.just([]), PAIRS),
    st.booleans(),
)
def test_a_partition_of_bronze_is_judged_as_by_loops(
    runs: list[Run],
    taken: list[Taken],
    fence: int | None,
    log_start: int,
    removed: list[tuple[int, int]],
    is_whole: bool,
) -> None:
    if is_whole:  # all that was committed is there, and little else is wrong
        runs = [Run(one.start, one.start + one.rows, 0, 0) for one in taken if one.rows] + runs[:1]
    gone = Intervals.of_pairs(removed).pairs()
    found = check_partition(TP, Runs.of(runs), columns(taken, log_start), fence, gone)
    assert asdict(found) == asdict(judged(runs, taken, fence, log_start, gone))


def parsed(
    held: list[list[Run]], taken: list[list[Taken]], gone: list[Any], forgotten: Any
) -> ParsedFindings:
    """`check_parsed` by loops."""
    found = ParsedFindings("t", 0)
    rows = [Counter(o for run in runs for o in range(run.start, run.end)) for runs in held]
    found.bronze, found.silver, found.quarantine = (one.total() for one in rows)
    raw, both = set(rows[0]), set(rows[1]) | set(rows[2])
    out = [offsets(one) for one in gone]
    doubled = found.silver + found.quarantine - len(both)
    say = [f"{doubled} rows of silver and quarantine repeat an offset"] if doubled else []
    for beyond, name in (
        (both - raw - out[0], "bronze holds no such row, silver or quarantine does"),
        (raw - both - out[1] - out[2], "bronze holds the row, neither silver nor quarantine does"),
    ):
        if beyond:
            say.append(f"{len(beyond)} offsets from {min(beyond)} on: {name}")
    for name, own, removed in zip(("silver", "quarantine"), rows[1:], out[1:], strict=True):
        again = len(set(own) & removed) + len(set(own) & offsets(forgotten))
        if again:
            say.append(f"{again} rows are in {name} that were removed or forgotten")
    known = [set(own) | removed for own, removed in zip(rows, out, strict=True)]
    said = [{(one.start, one.end): one for one in reversed(own)} for own in taken[1:]]
    for one in taken[0]:
        span = set(range(one.start, one.end))
        there, lost = [len(each & span) for each in known], len(out[0] & span)
        place = f"[{one.start}, {one.end})"
        if not lost and there[0] != there[1] + there[2]:
            say.append(
                f"{place}: {there[0]} rows in bronze, {there[1]} in silver and {there[2]} in"
                " quarantine"
            )
        for name, own_said, count in zip(("silver", "quarantine"), said, there[1:], strict=True):
            other = own_said.get((one.start, one.end))
            if other is None:
                continue
            if other.rows != count or not 0 <= one.rows - other.rows - other.elsewhere <= lost:
                say.append(
                    f"{place} was committed with {other.rows} rows to {name}, {count} are there"
                )
    found.problems = say
    return found


@settings(max_examples=examples(200))
@given(
    st.lists(RUNS, min_size=3, max_size=3),
    ranges(),
    st.lists(ranges(), min_size=2, max_size=2),
    st.lists(st.one_of(st.just([]), PAIRS), min_size=4, max_size=4),
    st.booleans(),
)
def test_a_partition_of_silver_and_quarantine_is_judged_as_by_loops(
    held: list[list[Run]],
    raw: list[Taken],
    others: list[list[Taken]],
    removed: list[list[tuple[int, int]]],
    is_whole: bool,
) -> None:
    *gone, forgotten = (Intervals.of_pairs(one).pairs() for one in removed)
    if is_whole:
        # Each range went to silver but for its last record, what was removed is not there, and
        # little else is wrong.
        raw = [one for one in raw if one.end > one.start]
        went = [
            offsets((one.start, one.end) for one in raw),
            offsets((one.start, one.end - 1) for one in raw),
            offsets((one.end - 1, one.end) for one in raw),
        ]
        held = [
            [Run(at, at + 1, 0, 0) for at in sorted(own - offsets(out))]
            for own, out in zip(went, gone, strict=True)
        ]
        raw = [one._replace(rows=one.end - one.start) for one in raw]
        others = [
            [one._replace(rows=one.rows - 1, elsewhere=1) for one in raw if one.rows],
            [one._replace(rows=1, elsewhere=one.rows - 1) for one in raw if one.rows]
            + [one._replace(version=one.version + 100) for one in others[0][:1]],
        ]
    found = check_parsed(
        TP,
        *map(Runs.of, held),
        accounts=[columns(one) for one in (raw, *others)],
        removed=gone,
        forgotten=forgotten,
    )
    taken = [sorted(one, key=lambda range_: range_.version) for one in (raw, *others)]
    assert asdict(found) == asdict(parsed(held, taken, gone, forgotten))
