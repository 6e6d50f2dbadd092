"""Series over time, the words for figures, and the tree that becomes HTML."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline_spark.report import words
from strandline_spark.report.accounts import Range
from strandline_spark.report.markup import tag, to_html
from strandline_spark.report.series import (
    BINS_MAX,
    BINS_MIN,
    batches,
    lag_over_time,
    pace,
    partitions,
    quantile,
    rows_over_time,
)


def one(version: int, at_ms: int, start: int, end: int, **other: Any) -> Range:
    values: dict[str, Any] = {
        "version": version,
        "committed_at_ms": at_ms,
        "job": "j",
        "batch_id": version,
        "topic": "t",
        "partition": 0,
        "start": start,
        "end": end,
        "rows": end - start,
        "skipped": 0,
        "lost": 0,
        "size": 10,
        "lag": 0,
        "timestamp_max_ms": None,
    }
    return Range(**(values | other))


def test_a_batch_is_all_ranges_of_one_commit() -> None:
    made = batches(
        [
            one(1, 10_000, 0, 5, timestamp_max_ms=9_000),
            one(1, 10_000, 0, 7, partition=1, timestamp_max_ms=9_500, lost=2),
            one(2, 13_000, 5, 6),
            one(3, 14_000, 0, 1, job="other"),
            one(4, 18_000, 6, 9),
        ]
    )
    assert [(b.rows, b.size, b.lost) for b in made[:2]] == [(12, 20, 2), (1, 10, 0)]
    assert [b.since_s for b in made] == [None, 3.0, None, 5.0]
    assert [b.age_s for b in made] == [0.5, None, None, None]


def test_a_partition_counts_where_ranges_do_not_join() -> None:
    ranges = [one(1, 0, 3, 5), one(2, 1, 5, 9, lost=1), one(3, 2, 8, 12, skipped=None, lag=4)]
    (found,) = partitions(ranges)
    assert (found.start, found.end, found.ranges, found.rows) == (3, 12, 3, 10)
    assert (found.lost, found.breaks, found.skipped, found.lag) == (1, 1, 0, 4)


def test_lag_is_the_sum_of_partitions_and_stays_until_the_next_commit() -> None:
    ranges = [
        one(1, 0, 0, 1, lag=5),
        one(1, 0, 0, 1, lag=3, partition=1),
        one(2, 1_000, 1, 2, lag=1),
        one(3, 4_000, 2, 3, lag=0),
    ]
    bins = lag_over_time(ranges)
    assert bins is not None
    # In a step with a commit the value before it counts too: the lag was as high at its beginning.
    assert (bins.step_ms, bins.values) == (1_000, [8, 8, 4, 4, 4])
    assert lag_over_time([one(1, 0, 0, 1, lag=None)]) is None


@given(st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 1000)), min_size=1, max_size=80))
def test_every_row_is_in_one_of_few_steps(commits: list[tuple[int, int]]) -> None:
    made = batches([one(n, at, 0, rows) for n, (at, rows) in enumerate(sorted(commits))])
    bins = rows_over_time(made)
    assert BINS_MIN <= len(bins.values) <= BINS_MAX
    assert sum(bins.values) == sum(rows for _, rows in commits)
    assert bins.first_ms <= made[0].committed_at_ms
    assert made[-1].committed_at_ms < bins.end_ms
    groups = pace(made)
    assert len(groups) <= BINS_MAX
    longest = max((b.since_s for b in made if b.since_s is not None), default=None)
    assert max((seconds for _, seconds in groups), default=None) == longest


def test_a_quantile_is_a_value_that_was_there() -> None:
    assert quantile([], 0.5) is None
    assert [quantile([4.0, 1.0, 3.0, 2.0], share) for share in (0.0, 0.5, 0.51, 1.0)] == [
        1,
        2,
        3,
        4,
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),  # noqa: RUF001 - an en dash
        (0.85, "850 ms"),
        (30, "30 s"),
        (12.34, "12.3 s"),
        (60, "1 min"),
        (250, "4 min 10 s"),
        (11_100, "3 h 5 min"),
        (90_000, "1 d 1 h"),
        (86_400 * 400, "400 d"),
    ],
)
def test_durations_read_as_people_say_them(seconds: float | None, text: str) -> None:
    assert words.duration(seconds) == text


def test_numbers_sizes_and_times() -> None:
    assert [words.number(v) for v in (None, 0, 12345, 1.25)] == ["–", "0", "12,345", "1.2"]  # noqa: RUF001
    assert [words.size(v) for v in (999, 1500, 2e6, 3e9)] == ["999 B", "1.5 kB", "2.0 MB", "3.0 GB"]
    assert [words.short(v) for v in (0, 56_300, 1.5e6)] == ["0", "56.3 k", "1.5 M"]
    assert words.moment(1_767_268_860_000) == "2026-01-01 12:01:00"
    assert words.moment(10**18) == "1000000000000000000 ms"


def test_text_and_attributes_are_escaped_and_kept_printable() -> None:
    html = to_html(tag("p", "a<b", tag("i", "&"), "c\x00\ud800", title='"<', aria_x=None))
    assert html.endswith('<p title="&quot;<">a&lt;b<i>&amp;</i>c\ufffd\ufffd</p>\n')
