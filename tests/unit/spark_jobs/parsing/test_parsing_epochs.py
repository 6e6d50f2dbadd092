"""Times that are numbers since 1970, in each format of values; exact, or quarantined."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from decimal import ROUND_FLOOR, Context, Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from strandline_spark.errors import OptionError
from strandline_spark.parsing import column_type
from support.examples import examples
from support.parsing import one_by_one, outcomes, parser_of

if TYPE_CHECKING:
    from strandline_spark.parsing import Parser
    from strandline_spark.parsing.settings import ColumnType

UNITS: dict[str, int | Decimal] = {
    "epoch_s": 10**6,
    "epoch_ms": 10**3,
    "epoch_us": 1,
    "epoch_ns": Decimal("0.001"),
}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EXACT = Context(prec=20_000)
MICROSECOND = timedelta(microseconds=1)
YEARS = (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
LOW, HIGH = ((end - EPOCH) // MICROSECOND for end in YEARS)
TEXTS = ("json", "quoted json", "csv", "regex")


@cache
def parser(form: str, unit: str) -> Parser:
    options: Any = {"max_ahead": None}
    if form == "regex":
        options["pattern"] = r"(?P<ts>(?:.|\n)*)"
    return parser_of(form.split()[-1], options=options, ts=column_type("timestamp", unit))  # type: ignore[arg-type]


def value_of(form: str, text: str) -> str:
    if form == "json":
        return f'{{"ts":{text}}}'
    return json.dumps({"ts": text}) if form == "quoted json" else text


def read(form: str, unit: str, *texts: str) -> list[Any]:
    """The microseconds in the column, or the reason why the value is quarantined."""
    values = [value_of(form, text) for text in texts]
    found = outcomes(parser(form, unit), values)
    assert found == one_by_one(parser(form, unit), values)
    return [
        (each[1]["ts"] - EPOCH) // MICROSECOND if each[0] == "good" else each[1] for each in found
    ]


def expected(unit: str, text: str) -> int | str:
    micros = EXACT.multiply(Decimal(text), Decimal(UNITS[unit])).to_integral_value(ROUND_FLOOR)
    return int(micros) if LOW <= micros <= HIGH else "out of range"


NUMBERS = st.one_of(
    st.integers(-(10**21), 10**21).map(str),
    st.integers(LOW // 10**6 - 2, HIGH // 10**6 + 2).map(str),
    st.decimals(-(10**12), 10**12, allow_nan=False).map(lambda number: f"{number:f}"),
    st.builds("{}e{}".format, st.integers(-(10**9), 10**9), st.integers(-40, 40)),
)


@pytest.mark.parametrize("form", TEXTS)
@pytest.mark.parametrize("unit", UNITS)
@settings(max_examples=examples(40))
@example(["1700000000.1234567", "-0.0000001", "-1", "0", "-0", "1700000000123456789"])
@example(["253402300799", "253402300800", "-62135596800", "-62135596801", "1.7E9", "1e400"])
@given(texts=st.lists(NUMBERS, min_size=1, max_size=6))
def test_a_number_is_the_exact_microsecond_or_out_of_range(
    form: str, unit: str, texts: list[str]
) -> None:
    assert read(form, unit, *texts) == [expected(unit, text) for text in texts]


@pytest.mark.parametrize("form", ["quoted json", "csv", "regex"])
def test_a_text_that_is_no_number_is_of_a_wrong_type(form: str) -> None:
    wrong = ["abc", "0x10", "1_000", "nan", "inf", "1.2.3", "2024-01-01", "１７"]  # noqa: RUF001
    assert read(form, "epoch_ms", *wrong, "5") == ["wrong type"] * len(wrong) + [5000]
    ((_, _, detail),) = outcomes(parser(form, "epoch_ms"), [value_of(form, "abc")])
    assert detail == "column ts: 'abc' is no timestamp in the format 'epoch_ms'"


@pytest.mark.parametrize("text", ["1e99999999999999999999", "-1e-99999999999999999999"])
def test_an_exponent_of_any_size_costs_nothing(text: str) -> None:
    assert read("csv", "epoch_s", text) == ["out of range"]


@pytest.mark.parametrize("value", ["true", "[]", "{}", '"x"'])
def test_another_json_value_is_of_a_wrong_type(value: str) -> None:
    assert read("json", "epoch_s", value) == ["wrong type"]


def test_null_and_no_field_are_null() -> None:
    found = outcomes(parser("json", "epoch_s"), ['{"ts":null}', "{}", '{"ts":1}'])
    assert [each[1]["ts"] for each in found] == [None, None, EPOCH + timedelta(seconds=1)]


def test_the_event_time_can_be_a_number() -> None:
    kind = column_type("timestamp", "epoch_ms")
    ((_, row),) = outcomes(parser_of("json", "at", at=kind), ['{"at":1700000000123}'])
    assert row["event_time"] == row["at"] == datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=UTC)


def avro(kind: ColumnType, of: Any, *values: Any) -> list[Any]:
    schema = {"type": "record", "name": "R", "fields": [{"name": "v", "type": of}]}
    out = []
    for value in values:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), {"v": value})
        out.append(stream.getvalue())
    parser = parser_of("avro", options={"avro_schema": json.dumps(schema)}, v=kind)
    return [each[1]["v"] if each[0] == "good" else each[1:] for each in outcomes(parser, out)]


@pytest.mark.parametrize(
    ("of", "unit", "value", "micros"),
    [
        ("long", "epoch_ms", 1_700_000_000_123, 1_700_000_000_123_000),
        ("int", "epoch_s", -1, -(10**6)),
        ("double", "epoch_s", 1_700_000_000.1, 1_700_000_000_100_000),
        (["null", "string"], "epoch_ns", "-1", -1),
    ],
)
def test_avro_numbers_and_texts(of: Any, unit: str, value: Any, micros: int) -> None:
    found = avro(column_type("timestamp", unit), of, value)
    assert found == [EPOCH + micros * MICROSECOND]


def test_avro_numbers_that_are_no_time() -> None:
    kind = column_type("timestamp", "epoch_s")
    assert avro(kind, "double", float("nan"), 1e300) == [
        ("out of range", "column v: nan is no timestamp in the format 'epoch_s'"),
        ("out of range", "column v: 1e+300 does not fit timestamp"),
    ]


@pytest.mark.parametrize(
    ("kind", "form", "said"),
    [
        ("timestamp", "epoch_m", "format 'epoch_m' is none of epoch_s, epoch_ms, epoch_us"),
        ("date", "epoch_s", "format 'epoch_s' is of a time, and the column is a date: make it"),
        ("bigint", "epoch_s", "a bigint has no format, and 'epoch_s' is given"),
    ],
)
def test_a_format_that_does_not_fit_is_refused(kind: str, form: str, said: str) -> None:
    with pytest.raises(OptionError, match=rf"\[silver.columns\] at: {said}"):
        parser_of("csv", at=column_type(kind, form))


def test_a_unit_for_an_avro_timestamp_is_refused() -> None:
    of = {"type": "long", "logicalType": "timestamp-millis"}
    with pytest.raises(OptionError, match="with the format 'epoch_ms' does not fit the Avro field"):
        avro(column_type("timestamp", "epoch_ms"), of)
