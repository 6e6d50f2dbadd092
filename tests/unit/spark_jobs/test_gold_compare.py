"""Multisets of rows compared, and what a gold commit says of itself, read back."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from strandline_spark.cluster.offsets import TopicPartition
from strandline_spark.errors import TableError
from strandline_spark.gold.account import Closed, GoldAccount, from_metadata, to_metadata
from strandline_spark.gold.compare import difference, margins_of
from strandline_spark.gold.watermark import GoldCommit

TP = TopicPartition("t", 3)
ACCOUNT = GoldAccount(
    number=4,
    closed=Closed(GoldCommit(-7, {TP: 9}), -20, (GoldCommit(-15, {TP: 5}),)),
    previous=-12,
    silver_id="s",
    silver_version=8,
    rows=2,
    late=1,
    definition="d",
    version=5,
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1.0, 1.0 + 1e-12),
        (math.nan, math.nan),
        (math.inf, math.inf),
        ([1.0, "a"], [1.0 - 1e-12, "a"]),
        ({"a": [2.0]}, {"a": [2.0 + 1e-12]}),
        (None, None),
        ([("a", 1.0), ("b", 2)], [("b", 2), ("a", 1.0 + 1e-12)]),
        ({"a": 1.0, "b": 2}, {"b": 2, "a": 1.0}),
    ],
)
def test_rows_are_equal_up_to_the_rounding_of_floats(one: Any, other: Any) -> None:
    assert difference([{"n": 1, "x": one}], [{"n": 1, "x": other}]) == ([], [])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1.0, 1.0 + 1e-6),
        (1.0, None),
        (1, True),
        (1, 1.0),
        ("a", b"a"),
        (math.nan, 1.0),
        ([1.0], [1.0, 1.0]),
        ({"a": 1}, {"b": 1}),
        ({"a": 1.0, "b": 2.0}, {"a": 2.0, "b": 1.0}),
        ([("a", 1.0), ("b", 2.0)], [("a", 2.0), ("b", 1.0)]),
        ([{"a": 1}, {"a": 2}], [{"a": 2}, {"a": 1}]),
    ],
)
def test_rows_that_differ_are_told_on_both_sides(one: Any, other: Any) -> None:
    ours, theirs = [{"x": one}], [{"x": other}]
    assert difference(ours, theirs) == (ours, theirs)


def test_a_row_counts_as_often_as_it_is_there() -> None:
    a, b = {"x": 1.0}, {"x": 2.0}
    assert difference([a, b, a], [a, a, b]) == ([], [])
    assert difference([a, b], [b, a, a]) == ([], [a])
    assert difference([a, b, b], [b, a]) == ([b], [])


def test_columns_have_names_and_no_order() -> None:
    a, b = {"x": 1.0, "y": 2.0, "k": "a"}, {"k": "a", "y": 2.0, "x": 1.0}
    assert difference([a], [b]) == ([], [])
    assert difference([a], [b | {"x": 2.0, "y": 1.0}]) == ([a], [{"k": "a", "y": 1.0, "x": 2.0}])


def test_a_float_may_be_off_by_what_other_terms_do_to_it() -> None:
    rows = [{"k": "a", "x": 0.0, "y": 3.0}, {"k": "b", "x": 1.0, "y": 3.0}]
    changed = [
        [{"k": "a", "x": 100.0, "y": 3.0}, {"k": "b", "x": 1.0, "y": 3.0}],
        [{"y": 3.0, "x": -200.0, "k": "a"}, {"k": "b", "x": math.nan, "y": 3.0}],
    ]
    margins = margins_of(rows, changed)
    for off, is_equal in ((800.0, True), (801.0, False)):
        held = [{"k": "a", "x": off, "y": 3.0}, rows[1]]
        assert (difference(rows, held, margins) == ([], [])) == is_equal
    for n, row in enumerate(rows):
        for name in ("y",) if n == 0 else ("x", "y"):
            assert difference([row], [row | {name: 4.0}], margins)[0] == [row]


def test_rows_that_only_floats_tell_apart_have_no_margin() -> None:
    rows = [{"k": "a", "x": 1.0}, {"k": "a", "x": 2.0}]
    assert margins_of(rows, [[{"k": "a", "x": 9.0}]]) == {}
    assert margins_of([rows[0]], [rows]) == margins_of([rows[0]], [])


def test_an_account_reads_back_as_it_was_written() -> None:
    written = json.dumps(to_metadata(ACCOUNT))
    assert from_metadata(written, "file", 5) == ACCOUNT


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("format", 2),
        ("number", 0),
        ("watermark", None),
        ("ends", {"t": {"x": 1}}),
        ("open_from", "3"),
        ("late_after", [{}]),
        ("definition", None),
        ("rows", True),
    ],
)
def test_an_account_that_no_step_wrote_is_refused_with_its_file(field: str, value: object) -> None:
    with pytest.raises(TableError, match=r"^7\.json is no commit of a gold step .*put the file"):
        from_metadata(to_metadata(ACCOUNT) | {field: value}, "7.json", 5)
