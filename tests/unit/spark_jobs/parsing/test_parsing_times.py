"""What a time means follows from its text and its format alone: not from the zone of the machine,
nor from its locale.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from strandline_spark.errors import OptionError
from strandline_spark.parsing import column_type
from strandline_spark.parsing.strptime import check_format
from support.examples import examples
from support.parsing import outcomes, parser_of

if TYPE_CHECKING:
    from collections.abc import Iterator

LOCALES = Path("/usr/share/i18n/locales")
HERE = Path(__file__).resolve().parents[3]


def read(form: str, *texts: str, kind: str = "timestamp") -> list[Any]:
    parser = parser_of("json", ts=column_type(kind, form))
    found = outcomes(parser, [json.dumps({"ts": text}) for text in texts])
    return [each[1]["ts"] if each[0] == "good" else each[1] for each in found]


@pytest.fixture(params=["Europe/Berlin", "America/St_Johns", "UTC"])
def _zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


TEN = datetime(2024, 1, 15, 10, tzinfo=UTC)


@pytest.mark.usefixtures("_zone")
def test_a_zone_has_no_name_but_utc_and_gmt_on_any_machine() -> None:
    names = ["UTC", "GMT", "utc", "CET", "CEST", "NST", "NDT", "EST", "Europe/Berlin", "Z", ""]
    found = read("%Y-%m-%d %H:%M:%S %Z", *(f"2024-01-15 10:00:00 {name}" for name in names))
    assert found == [TEN] * 3 + ["wrong type"] * 8
    assert read("%d %b %Y %Z", "15 Jan 2024 CET", kind="date") == ["wrong type"]


@pytest.mark.usefixtures("_zone")
def test_a_time_without_a_zone_is_in_utc_on_any_machine() -> None:
    assert read("%Y-%m-%d %H:%M", "2024-01-15 10:00", "2024-1-15 10:0") == [TEN, TEN]
    assert read("%Y-%m-%d %H:%M%z", "2024-01-15 13:30+0330", "2024-01-15 10:00Z") == [TEN, TEN]
    parser = parser_of("json", ts="timestamp")
    texts = ["2024-01-15T10:00:00", "2024-01-15 10:00:00", "2024-01-15T10:00Z"]
    found = outcomes(parser, [json.dumps({"ts": text}) for text in texts])
    assert [each[1]["ts"] for each in found] == [TEN] * 3


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ("%c", "%c differs with the machine's locale; .*'%a %b %d %H:%M:%S %Y'"),
        ("%x", "%x differs with the machine's locale; .*'%m/%d/%y'"),
        ("%x %X", "%x differs"),
        ("%Y-%m-%d %X", "%X differs with the machine's locale; .*'%H:%M:%S'"),
        ("%s", "%s is none of %Y, %y"),
        ("%Y-%m-%d %s", "%s is none of"),
        ("%Ex", "%E is none of"),
        ("%D", "%D is none of"),
        ("%Y-%m-%d %", "% is none of"),
        ("%Y-%-m-%d", "%- is none of"),
        ("%Y-%m-%d %d", "%d is there twice"),
        ("%Y %U", "does not give year, month and day"),
        ("%G %V", "does not give year, month and day"),
        ("%Y %G %V %u", "does not give year, month and day"),
        ("%y %G %V %a", "does not give year, month and day"),
        ("%d %B", "does not give year, month and day"),
    ],
)
def test_a_format_that_only_a_machine_could_read_is_refused(form: str, said: str) -> None:
    with pytest.raises(OptionError, match=rf"\[silver.columns\] at: format .*{said}"):
        check_format("at", "timestamp", form)


FORMS = [
    "%A, %d %B %Y %H:%M:%S",
    "%a %b %d %H:%M:%S %Y",
    "%I:%M:%S.%f %p on %d/%m/%y",
    "%Y/%j %H%M",
    "%Y week %U day %w",
    "%Y week %W day %a",
    "%G-W%V-%u",
    "%Y-%m-%dT%H:%M:%S.%f%z",
    "%H:%M:%S  %d. %m. %Y %Z",
    "(%Y) [%m] {%d} $%H^ %%",
    "%d%b%Y:%H:%M:%S",
]
EDITS = st.sampled_from(
    ["", "0", "9", "60", " ", "  ", "PM", "am", "DEC", "sunday", "Z", "-24:00", "\u017f"]
)
MOMENTS = st.datetimes(datetime(1969, 1, 1), datetime(2068, 12, 31))  # noqa: DTZ001 (as written)


@given(st.sampled_from(FORMS), MOMENTS, st.integers(0, 30), st.integers(0, 4), EDITS)
@example("%Y week %U day %w", datetime(2062, 7, 23), 9, 2, " ")  # noqa: DTZ001 (as written)
@settings(max_examples=examples(210))
def test_directives_mean_what_python_says_in_the_c_locale(
    form: str, moment: datetime, at: int, cut: int, edit: str
) -> None:
    text = moment.replace(tzinfo=UTC).strftime(form)
    for each in (text, text[:at] + edit + text[at + cut :]):
        try:
            expected = datetime.strptime(each, form)  # noqa: DTZ007 (without is UTC)
            if expected.tzinfo is None:
                expected = expected.replace(tzinfo=UTC)
            _check_day(expected, form, each)
        except ValueError:
            assert read(form, each) == ["wrong type"], each
        else:
            assert read(form, each) == [expected], each


def _check_day(found: datetime, form: str, text: str) -> None:
    """A day or week that its year does not have is another year's to Python, and none here."""
    year, week = found.year, 0
    if "%G" in form:
        year, week, _ = found.isocalendar()
        if int(re.split("-W?", text)[1]) != week:
            raise ValueError(f"{text} is in week {week}")
    if ("%j" in form or "week" in form or week) and int(re.split("[-/ ]", text)[0]) != year:
        raise ValueError(f"{text} is in the year {year}")
    if " week " in form:
        # Python takes week 0 of a year that begins with week 1 for days of that week.
        week = int(found.strftime("%U" if "%U" in form else "%W"))
        if int(re.findall("[0-9]+", text)[1]) != week:
            raise ValueError(f"{text} is in week {week}")


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("%Y %j", "2023 366"),
        ("%Y %j", "9999 366"),
        ("%Y %U %w", "2024 53 6"),
        ("%Y %U %w", "2024 00 0"),
        ("%G %V %u", "2023 53 1"),
        ("%H:%M %p %d.%m.%Y", "05:30 PM 01.01.2024"),
        ("%H:%M %p %d.%m.%Y", "17:30 am 01.01.2024"),
        ("%I:%M %p %d.%m.%Y", "13:30 PM 01.01.2024"),
        ("%d %b %Y", "1 Mai 2024"),
        ("%d %B %Y", "1 Mar 2024"),
        ("%a %d %m %Y", "Di 02 01 2024"),
        ("%Y-%m-%d %z", "2024-01-01 +24:00"),
        ("%Y-%m-%d %z", "2024-01-01 +02:3015"),
        ("%Y-%m-%d %z", "2024-01-01 CET"),
        ("%Y-%m-%d", "0000-01-01"),
        ("%Y-%m-%d", "\u0662024-01-01"),
    ],
)
def test_a_text_that_names_no_moment_is_quarantined(form: str, text: str) -> None:
    assert read(form, text) == ["wrong type"]


ISO = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999))  # noqa: DTZ001
OFFSETS = st.one_of(st.none(), st.just("Z"), st.integers(-1439, 1439))


def offset_of(minutes: str | int | None) -> str:
    if isinstance(minutes, int):
        return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
    return minutes or ""


@given(
    st.sampled_from(["json", "csv", "regex"]),
    st.lists(st.tuples(ISO, OFFSETS, st.sampled_from("T ")), min_size=1, max_size=5),
)
@settings(max_examples=examples(100))
def test_iso_times_are_those_of_python_or_in_no_year_that_there_is(
    form: Any, drawn: list[tuple[datetime, str | int | None, str]]
) -> None:
    options = {"pattern": "(?P<ts>.*)"} if form == "regex" else None
    texts = [at.isoformat(blank) + offset_of(zone) for at, zone, blank in drawn]
    parser = parser_of(form, options=options, ts="timestamp")
    values = [json.dumps({"ts": text}) if form == "json" else text for text in texts]
    for text, outcome in zip(texts, outcomes(parser, values), strict=True):
        expected = datetime.fromisoformat(text)
        if expected.tzinfo is None:
            expected = expected.replace(tzinfo=UTC)
        try:
            expected = expected.astimezone(UTC)
        except OverflowError:
            assert outcome[:2] == ("bad", "out of range")
        else:
            assert outcome[1]["ts"] == expected, text


@given(
    st.sampled_from(
        [("timestamp-millis", 1000), ("timestamp-micros", 1), ("date", 86_400 * 10**6)]
    ),
    st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1)),
)
@settings(max_examples=examples(100))
def test_times_of_avro_never_wrap(kind: tuple[str, int], number: int) -> None:
    logical, unit = kind
    number = max(min(number, 2**31 - 1), -(2**31)) if logical == "date" else number
    plain = "int" if logical == "date" else "long"
    schemas = [
        {"type": "record", "name": "R", "fields": [{"name": "ts", "type": each}]}
        for each in ({"type": plain, "logicalType": logical}, plain)
    ]
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schemas[1]), {"ts": number})
    column = "date" if logical == "date" else "timestamp"
    options = {"avro_schema": json.dumps(schemas[0])}
    ((state, *rest),) = outcomes(parser_of("avro", options=options, ts=column), [out.getvalue()])
    try:
        expected = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=number * unit)
    except OverflowError:
        assert (state, rest[0]) == ("bad", "out of range")
    else:
        found = rest[0]["ts"]
        assert state == "good"
        assert found == (expected.date() if logical == "date" else expected)


def test_a_half_of_the_day_may_stand_beside_an_hour_of_24() -> None:
    found = read("%H:%M %p %d.%m.%Y", "17:30 PM 01.01.2024", "00:30 AM 01.01.2024")
    assert [each.hour for each in found] == [17, 0]


SCRIPT = """
import json, locale, sys
if sys.argv[1]:
    assert locale.setlocale(locale.LC_ALL, sys.argv[1])
from strandline_spark.parsing import column_type
from support.parsing import outcomes, parser_of
for form, texts in json.loads(sys.argv[2]).items():
    found = outcomes(parser_of("csv", ts=column_type("timestamp", form or None)), texts)
    print(json.dumps([str(one[1].get("ts")) if one[0] == "good" else one[1] for one in found]))
parser = parser_of("csv", d="double", m="decimal(9,2)")
((_, row),) = outcomes(parser, ["1.5,2.25"])
print(json.dumps([row["d"], str(row["m"])]))
"""
TEXTS = {
    "": ["2024-01-15T10:00:00", "2024-01-15T10:00:00+01:00"],
    "%d/%b/%Y:%H:%M:%S %z": ["15/Mar/2024:10:00:00 +0000", "15/M\u00e4r/2024:10:00:00 +0000"],
    "%A %d %B %Y %I:%M %p": ["Monday 15 January 2024 10:00 pm", "Montag 15 Januar 2024 10:00 pm"],
    "%a %d %m %Y %Z": ["Mon 15 01 2024 UTC", "Mo 15 01 2024 UTC", "Mon 15 01 2024 CET"],
}
EXPECTED = [
    ["2024-01-15 10:00:00+00:00", "2024-01-15 09:00:00+00:00"],
    ["2024-03-15 10:00:00+00:00", "wrong type"],
    ["2024-01-15 22:00:00+00:00", "wrong type"],
    ["2024-01-15 00:00:00+00:00", "wrong type", "wrong type"],
]


@pytest.mark.parametrize(
    ("zone", "place"), [("Europe/Berlin", "de_DE"), ("Asia/Kathmandu", ""), ("UTC", "tr_TR")]
)
def test_a_machine_elsewhere_reads_the_same(tmp_path: Path, zone: str, place: str) -> None:
    environment = os.environ | {"TZ": zone, "PYTHONPATH": str(HERE)}
    if place:
        if shutil.which("localedef") is None or not (LOCALES / place).is_file():
            pytest.skip("no locales to compile: install the package locales")
        made = tmp_path / f"{place}.UTF-8"
        command = ["localedef", "-i", place, "-f", "UTF-8", str(made)]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
        environment |= {"LOCPATH": str(tmp_path), "LC_ALL": made.name}
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT, f"{place}.UTF-8" if place else "", json.dumps(TEXTS)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    *rows, numbers = map(json.loads, found.stdout.splitlines())
    assert rows == EXPECTED
    assert numbers == [1.5, "2.25"]
