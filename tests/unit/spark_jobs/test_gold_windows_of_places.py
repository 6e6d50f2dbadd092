"""Gold's windows of whole days and weeks of a place, and windows that begin later than usual."""

from __future__ import annotations

from bisect import bisect_right
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from strandline_spark.gold.batch import framing_of
from strandline_spark.gold.framing import FixedWindows
from strandline_spark.gold.watermark import Window, WindowKind, event_times_to_read
from strandline_spark.parsing.zones import Zone
from strandline_spark.pipeline.steps import GoldStep

HOUR, DAY = 3600 * 10**6, 86_400 * 10**6
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CHANGES = [
    ("Europe/Berlin", date(2026, 3, 29)),
    ("Europe/Berlin", date(2026, 10, 25)),
    ("America/Sao_Paulo", date(2018, 11, 4)),  # midnight is left out
    ("America/Sao_Paulo", date(2018, 2, 18)),  # back from midnight to 23:00
    ("America/Havana", date(2026, 11, 1)),  # back from 01:00 to midnight
    ("America/St_Johns", date(2010, 11, 7)),  # back from 00:01 to 23:01
    ("Australia/Lord_Howe", date(2026, 4, 5)),  # half an hour
    ("Pacific/Apia", date(2011, 12, 30)),  # a day is left out
]
"""A day on which the clocks of each place are changed."""


def us(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def midnight(zone: str, day: date) -> int:
    """When the clocks of the place show the first midnight of the day."""
    return us(datetime.combine(day, time(), ZoneInfo(zone)).astimezone(UTC))


@pytest.mark.parametrize(("zone", "day"), CHANGES)
def test_a_day_lasts_from_midnight_to_midnight_of_its_place(zone: str, day: date) -> None:
    kind = WindowKind(DAY, DAY, zone=Zone(zone))
    starts = [midnight(zone, day + timedelta(days=n)) for n in range(-4, 5)]
    for at_us in range(starts[1], starts[-2], HOUR // 4):
        at = bisect_right(starts, at_us) - 1
        window = Window(starts[at], starts[at + 1])
        assert kind.windows_of(at_us) == [window]
        assert kind.first_start(at_us) == window.start
        assert kind.first_end(at_us) == kind.final_end(at_us) == window.end
        assert kind.last_end(at_us) == window.start


@pytest.mark.parametrize(("zone", "day"), CHANGES)
def test_days_that_overlap_are_those_of_the_place_too(zone: str, day: date) -> None:
    kind = WindowKind(3 * DAY, DAY, zone=Zone(zone))
    starts = [midnight(zone, day + timedelta(days=n)) for n in range(-6, 8)]
    windows = [Window(start, starts[n + 3]) for n, start in enumerate(starts[:-3])]
    for at_us in range(starts[3], starts[-4], HOUR // 2):
        assert kind.windows_of(at_us) == [one for one in windows if one.start <= at_us < one.end]


def test_a_day_may_have_25_hours_and_its_files_are_read_whole() -> None:
    kind = WindowKind(DAY, DAY, zone=Zone("Europe/Berlin"))
    start = midnight("Europe/Berlin", date(2026, 10, 25))
    assert kind.windows_of(start) == [Window(start, start + 25 * HOUR)]
    assert event_times_to_read(kind, start, start + 25 * HOUR - 1) is None
    assert event_times_to_read(kind, start, start + 25 * HOUR) == (start, start + 25 * HOUR)


def step(window: int, *, zone: str | None = None, offset: int = 0) -> FixedWindows:
    made = GoldStep("s", "t", "SELECT 1", 1, 0, window=window, zone=zone, offset=offset)
    framing = framing_of(made)
    assert isinstance(framing, FixedWindows)
    return framing


def test_weeks_of_a_place_begin_on_monday_and_by_an_offset_on_another_day() -> None:
    at_us = us(datetime(2026, 7, 1, 12, tzinfo=UTC))
    monday = midnight("Europe/Berlin", date(2026, 6, 29))
    sunday = midnight("Europe/Berlin", date(2026, 6, 28))
    week = step(7 * DAY, zone="Europe/Berlin")
    assert week.kind.windows_of(at_us) == [Window(monday, monday + 7 * DAY)]
    week = step(7 * DAY, zone="Europe/Berlin", offset=6 * DAY)
    assert week.kind.windows_of(at_us) == [Window(sunday, sunday + 7 * DAY)]


def test_a_day_of_a_place_may_begin_at_another_hour_of_its_clocks() -> None:
    summer = us(datetime(2026, 7, 1, 12, tzinfo=UTC))
    winter = us(datetime(2026, 12, 1, 12, tzinfo=UTC))
    kind = step(DAY, zone="Europe/Berlin", offset=6 * HOUR).kind
    assert kind.first_start(summer) == us(datetime(2026, 7, 1, 4, tzinfo=UTC))
    assert kind.first_start(winter) == us(datetime(2026, 12, 1, 5, tzinfo=UTC))


def test_without_a_zone_an_offset_moves_the_windows_in_utc() -> None:
    at_us = us(datetime(2026, 7, 1, 12, 50, tzinfo=UTC))
    kind = step(HOUR, offset=HOUR // 2).kind
    assert kind.first_start(at_us) == us(datetime(2026, 7, 1, 12, 30, tzinfo=UTC))
    thursday = us(datetime(2026, 6, 25, tzinfo=UTC))
    assert step(7 * DAY).kind.first_start(at_us) == thursday
    assert step(7 * DAY, offset=4 * DAY).kind.first_start(at_us) == thursday + 4 * DAY


@pytest.mark.parametrize("at_us", [-(1 << 62), 0, 1 << 62])
def test_a_time_far_from_any_calendar_has_a_window_too(at_us: int) -> None:
    kind = WindowKind(DAY, DAY, zone=Zone("Europe/Berlin"))
    window = kind.windows_of(at_us)[0]
    assert window.start <= at_us < window.end
