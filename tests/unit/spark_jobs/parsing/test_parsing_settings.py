"""Settings that make no sense are refused, with key, value and remedy."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline_spark.errors import OptionError
from strandline_spark.parsing import column_type, make_parser
from strandline_spark.parsing.settings import ColumnType, ParseSettings
from strandline_spark.parsing.strptime import check_format
from support.examples import examples
from support.parsing import columns_of, outcomes, parser_of


def test_types_are_found_by_their_names() -> None:
    assert column_type(" BigInt ").arrow == pa.int64()
    found = column_type("decimal(10, 2)")
    assert (found.name, found.arrow) == ("decimal(10,2)", pa.decimal128(10, 2))
    assert column_type("timestamp", "%Y%m%d").format == "%Y%m%d"


@pytest.mark.parametrize("text", ["integer", "", "decimal", "decimal(10)"])
def test_an_unknown_type_is_refused_with_those_there_are(text: str) -> None:
    with pytest.raises(
        OptionError, match=r"is none of string, binary, int, bigint.* decimal\(p,s\)"
    ):
        column_type(text)


@pytest.mark.parametrize("text", ["decimal(39,2)", "decimal(0,0)", "decimal(5,6)"])
def test_a_decimal_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="1 <= p <= 38"):
        column_type(text)


def schema(**fields: Any) -> str:
    found = [{"name": name, "type": kind} for name, kind in fields.items()]
    return json.dumps({"type": "record", "name": "R", "fields": found})


def read_from(field: str) -> ColumnType:
    return replace(column_type("int"), field=field)


MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
REFUSED: list[tuple[str, str, dict[str, Any], dict[str, Any], str]] = [
    ("xml", "ts", {}, {"ts": "timestamp"}, r"\[silver\] format: 'xml' is none of json, csv"),
    ("json", "timestamp", {}, {}, r"\[silver.columns\] names no column"),
    ("json", "timestamp", {}, {"a\x01": "int"}, r"\[silver.columns\] 'a\\x01' is no name"),
    ("json", "when", {}, {"ts": "date"}, r"event_time: 'when' is no column: give ts, timestamp"),
    ("json", "n", {}, {"n": "bigint"}, r"event_time: 'n' is a bigint, neither .* give timestamp"),
    ("json", "timestamp", {}, {"event_time": "timestamp"}, r"columns\] event_time: silver has"),
    ("json", "event_time", {}, {"event_time": "date"}, r"columns\] event_time: silver has"),
    ("regex", "timestamp", {}, {"a": "int"}, r"\[silver\] pattern: format 'regex' needs one"),
    (
        "regex",
        "timestamp",
        {"pattern": "(?P<a>"},
        {"a": "int"},
        r"pattern: .* not a pattern of RE2",
    ),
    ("regex", "timestamp", {"pattern": "x)|(?P<a>x"}, {"a": "int"}, r"not a pattern of RE2"),
    ("regex", "timestamp", {"pattern": "(?P<a>x)(y)"}, {"a": "int"}, r"unnamed groups.*\(\?:…\)"),
    ("regex", "timestamp", {"pattern": "(?P<a>x)"}, {"b": "int"}, r"no group for the column b"),
    ("regex", "timestamp", {"pattern": "(?P<a>x)(?P<a>y)"}, {"a": "int"}, r"group a twice"),
    ("csv", "timestamp", {"delimiter": "::"}, {"a": "int"}, r"\[silver\] delimiter: '::' is not"),
    ("csv", "timestamp", {"delimiter": "0"}, {"a": "int"}, r"\[silver\] delimiter: '0' is not"),
    ("csv", "timestamp", {"quote": "\n"}, {"a": "int"}, r"\[silver\] quote: '\\n' is not"),
    ("csv", "timestamp", {"quote": ","}, {"a": "int"}, r"quote: ',' is the delimiter too"),
    ("avro", "timestamp", {}, {"a": "int"}, r"\[silver\] avro_schema: format 'avro' needs"),
    ("avro", "timestamp", {"avro_schema": "{"}, {"a": "int"}, r"avro_schema: .* does not parse"),
    ("avro", "timestamp", {"avro_schema": schema(a="x")}, {"a": "int"}, r"does not parse .*x"),
    ("avro", "timestamp", {"avro_schema": '"int"'}, {"a": "int"}, r"avro_schema: .* is no record"),
    ("avro", "timestamp", {"avro_schema": schema(a="int")}, {"b": "int"}, r"columns\] b: .*has a"),
    (
        "avro",
        "timestamp",
        {"avro_schema": schema(a=["null", "string"])},
        {"a": "int"},
        r"\[silver.columns\] a: int does not fit the Avro field of type string: it takes int, long",
    ),
    ("avro", "timestamp", {"avro_schema": schema(a="long")}, {"a": "timestamp"}, "of type long"),
    ("avro", "timestamp", {"avro_schema": schema(a=MILLIS)}, {"a": "bigint"}, "timestamp-millis"),
    (
        "json",
        "timestamp",
        {},
        {"n": column_type("int", "%Y")},
        r"\[silver.columns\] n: a int has no format, and '%Y' is given",
    ),
    (
        "csv",
        "timestamp",
        {},
        {"n": read_from("a")},
        r"columns\] n: field is for .* json, avro, protobuf",
    ),
    (
        "json",
        "timestamp",
        {},
        {"a": "int", "n": read_from("a")},
        r"\[silver.columns\] n: the field 'a' is read into a already",
    ),
]


@pytest.mark.parametrize(("form", "event_time", "options", "columns", "said"), REFUSED)
def test_settings_that_make_no_sense_are_refused(
    form: Any, event_time: str, options: Any, columns: Any, said: str
) -> None:
    with pytest.raises(OptionError, match=said):
        make_parser(ParseSettings(form, columns_of(**columns), event_time, **options))


@pytest.mark.parametrize(
    ("kind", "form", "said"),
    [
        ("timestamp", "%Q", "is none that strptime reads"),
        ("timestamp", "%Y-%m-%d %Y", "is none that strptime reads"),
        ("timestamp", "%H:%M", "does not give year, month and day"),
        ("timestamp", "%Y-%m", "does not give year, month and day"),
        ("timestamp", "", "does not give year, month and day"),
        ("timestamp", "%Y-%m-%d %I:%M", "has %I without %p"),
        ("date", "%Y-%m-%d %z", "has a time zone"),
    ],
)
def test_a_format_that_gives_no_time_is_refused(kind: str, form: str, said: str) -> None:
    with pytest.raises(OptionError, match=rf"\[silver.columns\] at: format .*{said}"):
        check_format("at", kind, form)


FORMATS = [
    "%d/%b/%Y:%H:%M:%S %z",
    "%Y-%m-%d %H:%M:%S.%f",
    "%Y%m%d%H%M%S%%",
    "%d.%m.%y %I:%M %p",
    "%Y-%m-%dT%H:%M:%S%z",
    "le %d é %m %Y",
]
ZONES = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
MOMENTS = st.datetimes(timezones=ZONES)
EDITS = st.sampled_from(
    ["", "31/Feb", "60", "99", "2023-02-29", "00", " ", "Z", "+24:00", "é", "/feb/", "+02:30"]
)


@given(
    st.sampled_from(FORMATS), st.lists(st.tuples(MOMENTS, st.integers(0, 30), EDITS), max_size=5)
)
@settings(max_examples=examples(200))
def test_formats_mean_what_pythons_strptime_says(
    form: str, drawn: list[tuple[datetime, int, str]]
) -> None:
    """Of texts as written, and of texts with something put in the place of a part."""
    texts = []
    for moment, at, edit in drawn:
        text = moment.strftime(form)
        texts.append(text[:at] + edit + text[at + len(edit) :])
    found = outcomes(PARSERS[form], [json.dumps({"ts": text}) for text in texts])
    for text, outcome in zip(texts, found, strict=True):
        try:
            expected = datetime.strptime(text, form)  # noqa: DTZ007 (without is UTC)
            if expected.tzinfo is None:
                expected = expected.replace(tzinfo=UTC)
            expected.astimezone(UTC)
        except (ValueError, OverflowError):
            assert outcome[:1] == ("bad",), text
        else:
            assert outcome[1]["event_time"] == expected, text


PARSERS = {form: parser_of("json", "ts", ts=column_type("timestamp", form)) for form in FORMATS}


@pytest.mark.parametrize(
    "text",
    [
        "31/Feb/2015:10:05:03 +0000",
        "29/Feb/2015:10:05:03 +0000",
        "00/May/2015:10:05:03 +0000",
        "17/Mai/2015:10:05:03 +0000",
        "17/May/0000:10:05:03 +0000",
        "17/May/2015:24:05:03 +0000",
        "17/May/2015:10:60:03 +0000",
        "17/May/2015:10:05:60 +0000",
        "17/May/2015:10:05:03 +2400",
        "17/May/2015:10:05:03 +0060",
        "17/May/2015:10:05:03 00000",
        "17/May/2015 10:05:03 +0000",
    ],
)
def test_a_time_that_there_is_not_is_bad(text: str) -> None:
    found = outcomes(PARSERS[FORMATS[0]], [json.dumps({"ts": text})])
    assert found[0][:2] == ("bad", "wrong type")


def test_dates_with_a_format_and_nulls_among_them() -> None:
    day = column_type("date", "%d.%m.%Y")
    found = outcomes(parser_of("csv", n="int", day=day), ["1,29.02.2024", "2,", "3,1.3.2024"])
    assert [str(each[1]["day"]) for each in found] == ["2024-02-29", "None", "2024-03-01"]
    assert outcomes(parser_of("json", day=day), ['{"day":"31.02.2024"}'])[0][1:] == (
        "wrong type",
        "column day: '31.02.2024' is no date in the format '%d.%m.%Y'",
    )
