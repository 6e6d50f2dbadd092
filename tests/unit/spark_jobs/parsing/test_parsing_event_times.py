"""Event times are bounded by their records' own timestamps."""

from __future__ import annotations

from typing import Any

import pytest

from support.parsing import batch_of, outcomes_of, parser_of

HOUR = 3600 * 10**6
NOW = 1_700_000_000_000_000
PLACED = {"max_ahead": HOUR}


def outcome(event: int | None, stamp: int | None, options: dict[str, Any] | None = None) -> Any:
    parser = parser_of("avro", "at", (options or PLACED) | {"avro_schema": SCHEMA}, at="timestamp")
    value = b"\0" if event is None else b"\2" + zigzag(event)
    batch = batch_of([value], timestamps=[stamp])
    return outcomes_of(parser.parse(batch), 1)[0]


SCHEMA = """{"type": "record", "name": "r", "fields": [{"name": "at", "type":
["null", {"type": "long", "logicalType": "timestamp-micros"}]}]}"""


def zigzag(value: int) -> bytes:
    left, out = (value << 1) ^ (value >> 63), bytearray()
    left &= (1 << 64) - 1
    while left > 127:
        out.append(left & 127 | 128)
        left >>= 7
    return bytes([*out, left])


@pytest.mark.parametrize(
    "event", [NOW, NOW + HOUR, NOW - 10**15, 0, -1, -(10**16), -62_135_596_800_000_000]
)
def test_times_up_to_the_bound_and_all_of_the_past_are_good(event: int) -> None:
    assert outcome(event, NOW)[0] == "good"


@pytest.mark.parametrize("event", [NOW + HOUR + 1, NOW + 10 * 365 * 24 * HOUR, 10**17])
def test_a_time_beyond_the_bound_is_quarantined_with_both_times(event: int) -> None:
    kind, reason, detail = outcome(event, NOW)
    assert (kind, reason) == ("bad", "event time ahead")
    assert detail.endswith("Z, more than max_ahead after its record's 2023-11-14T22:13:20.000000Z")


@pytest.mark.parametrize("stamp", [2**62 + 1, 2**63 - 1, -(2**62) - 1, -(2**63)])
def test_a_records_own_time_that_no_window_can_hold_is_quarantined(stamp: int) -> None:
    parser = parser_of("json", n="int")
    batch = batch_of(['{"n": 1}', '{"n": 1}'], timestamps=[stamp, 2**62])
    parsed = parser.parse(batch)
    assert (parsed.reasons, parsed.bad_rows.to_pylist()) == (["out of range"], [0])
    assert parsed.good_rows.to_pylist() == [1]


@pytest.mark.parametrize("stamp", [None, -1, -1000])
def test_a_record_without_a_timestamp_bounds_nothing(stamp: int | None) -> None:
    kind, reason, detail = outcome(NOW, stamp)
    assert (kind, reason) == ("bad", "event time ahead")
    assert detail == (
        "at is 2023-11-14T22:13:20.000000Z, and its record has no timestamp to compare it with"
    )
    assert outcome(NOW, stamp, {"max_ahead": None})[0] == "good"


def test_without_a_bound_a_plan_may_lie_years_ahead() -> None:
    assert outcome(NOW + 10**16, NOW, {"max_ahead": None})[0] == "good"
    assert outcome(NOW + 10**15, NOW, {"max_ahead": 10**15})[0] == "good"


def test_a_bound_says_nothing_of_dates_that_began_and_of_nulls() -> None:
    assert outcome(None, NOW)[1] == "no event time"
    dates = parser_of("json", "day", {"max_ahead": 0}, day="date")
    values = ['{"day": "2023-11-14"}', '{"day": "2023-11-15"}']
    found = outcomes_of(dates.parse(batch_of(values, timestamps=[NOW, NOW])), 2)
    assert [one[0] for one in found] == ["good", "bad"]


def test_a_records_own_time_is_never_ahead_of_itself() -> None:
    parser = parser_of("json", options={"max_ahead": 0}, n="int")
    found = outcomes_of(parser.parse(batch_of(['{"n": 1}'], timestamps=[NOW])), 1)
    assert found[0][0] == "good"
