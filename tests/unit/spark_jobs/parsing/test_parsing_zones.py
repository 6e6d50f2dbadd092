"""Times without a zone, in the zone of their column."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline_spark.errors import OptionError
from strandline_spark.parsing import column_type
from support.examples import examples
from support.parsing import one_by_one, outcomes, parser_of

if TYPE_CHECKING:
    from strandline_spark.parsing.settings import ColumnType

ZONES = ("Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kolkata")
FORM = "%d.%m.%Y %H:%M:%S.%f"


def zoned(zone: str, form: str | None = None) -> ColumnType:
    return replace(column_type("timestamp", form), zone=zone)


def read(kind: ColumnType, *texts: str) -> list[datetime | str]:
    parser = parser_of("json", ts=kind)
    values = [json.dumps({"ts": text}) for text in texts]
    found = outcomes(parser, values)
    assert found == one_by_one(parser, values)
    return [each[1]["ts"] if each[0] == "good" else each[1] for each in found]


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_a_time_that_occurs_twice_is_the_first() -> None:
    found = read(zoned("Europe/Berlin"), "2026-10-25 02:30:00", "2026-10-25 03:00:00")
    assert found == [utc("2026-10-25 00:30"), utc("2026-10-25 02:00")]


def test_a_time_that_does_not_occur_counts_from_before_the_gap() -> None:
    found = read(zoned("Europe/Berlin"), "2026-03-29 02:30:00", "2026-03-29 03:30:00")
    assert found == [utc("2026-03-29 01:30")] * 2
    assert read(zoned("Pacific/Apia"), "2011-12-30 12:00:00") == [utc("2011-12-30 22:00")]


def test_a_text_with_a_zone_keeps_its_own() -> None:
    texts = ["2026-07-01T12:00:00Z", "2026-07-01 12:00:00+09:00", "2026-07-01 12:00:00"]
    assert [each.hour for each in read(zoned("Europe/Berlin"), *texts)] == [12, 3, 10]  # type: ignore[union-attr]


@pytest.mark.parametrize("form", [None, FORM])
@settings(max_examples=examples(60))
@given(
    zone=st.sampled_from(ZONES),
    times=st.lists(st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29)), min_size=1, max_size=8),  # noqa: DTZ001
    hours=st.integers(0, 48),
)
def test_times_mean_what_python_says(
    form: str | None, zone: str, times: list[datetime], hours: int
) -> None:
    times = [*times, datetime(2026, 3, 28) + timedelta(hours=hours)]  # noqa: DTZ001
    texts = [
        t.isoformat(" ") if form is None else f"{t:%d.%m.}{t.year:04}{t: %H:%M:%S.%f}"
        for t in times
    ]
    assert read(zoned(zone, form), *texts) == [
        t.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC) for t in times
    ]


def test_times_that_leave_the_years_are_out_of_range() -> None:
    assert read(zoned("Europe/Berlin"), "0001-01-01 00:00:00") == ["out of range"]
    assert read(zoned("America/New_York"), "9999-12-31 23:59:59") == ["out of range"]


@pytest.mark.parametrize("zone", ["Europe/Berln", "", "/etc/passwd", "../zone", "Europe"])
def test_a_zone_that_does_not_exist_is_refused(zone: str) -> None:
    said = rf"\[silver.columns\] ts: zone '{zone}' is not in the time zone database"
    with pytest.raises(OptionError, match=said):
        parser_of("json", ts=zoned(zone))


@pytest.mark.parametrize(
    ("kind", "form", "said"),
    [
        ("date", None, "is for a timestamp, and the column is a date"),
        ("timestamp", "epoch_s", "epoch_s counts from 1970 in UTC"),
        ("timestamp", "%Y-%m-%d %H:%M %z", "gives a zone, and zone = 'UTC' is for texts without"),
    ],
)
def test_a_zone_beside_another_is_refused(kind: str, form: str | None, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        parser_of("json", ts=replace(column_type(kind, form), zone="UTC"))
