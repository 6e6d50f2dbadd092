"""JSON: which objects are rows, which are not and why, whichever way they are read."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from strandline_spark.parsing import column_type, merge_fields
from strandline_spark.parsing.inference import (
    BOOLEAN,
    TEXT,
    narrowest,
    types_of_number,
    types_of_whole,
)
from strandline_spark.parsing.parts.json_parts import NESTED_MAX
from strandline_spark.parsing.settings import ColumnType
from support.parsing import Value, batch_of, one_by_one, outcomes, outcomes_of, parser_of
from support.parsing_json import TYPES, NoRows, OnlyRows, columns, in_rows

PARSER = parser_of("json", **TYPES)
GOOD = '{"s":"good"}'


def moment_of(
    year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0, us: int = 0
) -> datetime:
    return datetime(year, month, day, hour, minute, second, us, tzinfo=UTC)


BAD = {
    "": "not JSON",
    " \n": "not JSON",
    "x": "not JSON",
    '{"i":1': "not JSON",
    "}": "not JSON",
    '{"i":1}}': "not JSON",
    '{"i":1},': "not JSON",
    '{"i":1} x': "not JSON",
    '{"i":1}\0': "not JSON",
    '{"i":01}': "not JSON",
    '{"i":1,}': "not JSON",
    "{'i':1}": "not JSON",
    '{"s":"a\nb"}': "not JSON",
    '{"d":NaN}': "not JSON",
    '{"d":-Infinity}': "not JSON",
    '{"new":NaN}': "not JSON",
    '{"new":[Infinity]}': "not JSON",
    '{"s":"\\ud800"}': "not JSON",
    '{"new":{"\\udc00":1}}': "not JSON",
    "\ufeff{}": "not JSON",
    "{}{}": "more than one value",
    '{"i":1}\n\n{"i":2} {"i":3}': "more than one value",
    '{"i":1} 5': "more than one value",
    "[]": "not an object",
    '[{"i":1}]': "not an object",
    "5": "not an object",
    '"s"': "not an object",
    "null": "not an object",
    '{"i":1,"i":1}': "field twice",
    '{"i":1,"\\u0069":null}': "field twice",
    '{"new":1,"new":2}': "field twice",
    '{"new":[{"a":1,"a":2}]}': "field twice",
    '{"i":1.5}': "wrong type",
    '{"i":1.0}': "wrong type",
    '{"l":1e2}': "wrong type",
    '{"i":"5"}': "wrong type",
    '{"i":true}': "wrong type",
    '{"i":[1]}': "wrong type",
    '{"d":"1"}': "wrong type",
    '{"d":"NaN"}': "wrong type",
    '{"s":5}': "wrong type",
    '{"s":{}}': "wrong type",
    '{"b":1}': "wrong type",
    '{"b":"true"}': "wrong type",
    '{"m":"x"}': "wrong type",
    '{"m":true}': "wrong type",
    '{"m":""}': "wrong type",
    '{"ts":5}': "wrong type",
    '{"ts":1700000000000}': "wrong type",
    '{"ts":"5"}': "wrong type",
    '{"ts":""}': "wrong type",
    '{"ts":"2024-02-30T00:00:00Z"}': "wrong type",
    '{"ts":"2024-01-01T24:00:00Z"}': "wrong type",
    '{"day":"2024-02-30"}': "wrong type",
    '{"day":"2024-01-01T00:00:00"}': "wrong type",
    '{"day":19000}': "wrong type",
    '{"i":2147483648}': "out of range",
    '{"i":-2147483649}': "out of range",
    '{"l":9223372036854775808}': "out of range",
    '{"l":-9223372036854775809}': "out of range",
    '{"i":' + "9" * 5000 + "}": "out of range",
    '{"d":1e400}': "out of range",
    '{"d":-1.7976931348623159e308}': "out of range",
    '{"m":1.505}': "out of range",
    '{"m":"1.505"}': "out of range",
    '{"m":12345.5}': "out of range",
    '{"m":1e5}': "out of range",
    '{"day":"0000-01-01"}': "out of range",
    '{"ts":"0000-12-31T23:59:59Z"}': "out of range",
    '{"ts":"9999-12-31T23:59:59-01:00"}': "out of range",
    '{"new":' + "[" * (NESTED_MAX + 1) + "]" * (NESTED_MAX + 1) + "}": "nested too deeply",
    '{"new":' + '{"a":' * 100_000 + "1" + "}" * 100_000 + "}": "nested too deeply",
}


@pytest.mark.parametrize("value", BAD, ids=lambda value: value[:30])
def test_a_wrong_value_is_bad_and_the_rows_around_it_are_good(value: str) -> None:
    for values in ([value], [value, GOOD], [GOOD, value], [GOOD, value, GOOD]):
        found = outcomes(PARSER, values)
        for each, outcome in zip(values, found, strict=True):
            if each == GOOD:
                assert columns(outcome)["s"] == "good"
            else:
                assert outcome[:2] == ("bad", BAD[value])
                assert 0 < len(outcome[2]) <= 200


def test_bytes_that_are_no_utf8_are_bad() -> None:
    found = outcomes(PARSER, [GOOD, b'{"s":"\xff"}', b'{"s":"\xed\xa0\x80"}', GOOD])
    assert [outcome[:2] for outcome in found[1:3]] == [("bad", "not UTF-8")] * 2
    assert found[0][0] == found[3][0] == "good"


def test_values_may_nest_as_deeply_as_the_limit_says() -> None:
    wide = ",".join(["[]"] * 10)
    for depth, outcome in ((NESTED_MAX, "good"), (NESTED_MAX + 1, "bad")):
        deep = "[" * depth + "]" * depth
        for value in (f'{{"new":{deep}}}', f'{{"new":{deep},"wide":[{wide}]}}'):
            assert outcomes(PARSER, [value])[0][0] == outcome


def test_the_first_wrong_column_is_the_reason() -> None:
    (found,) = outcomes(PARSER, ['{"ts":"x","day":"0000-01-01"}'])
    assert found[1:] == ("out of range", "column day: '0000-01-01' does not fit date")
    (found,) = outcomes(PARSER, ['{"m":"x","ts":"x"}'])
    assert found[2] == "column m: 'x' is no decimal(6,2)"


def test_details_name_the_column_and_the_value() -> None:
    found = outcomes(PARSER, ['{"i":1.5}', '{"s":5}', '{"ts":"x"}', '{"l":9223372036854775808}'])
    assert [outcome[2] for outcome in found] == [
        "column i: number 1.5 is no int",
        "column s: number 5 is no string",
        "column ts: 'x' is no timestamp",
        "column l: 9223372036854775808 does not fit bigint",
    ]


WHOLE = '{"i":5,"l":-9223372036854775808,"d":1,"s":"\\u00e9\\n","b":true,"m":"1.5"}'


def test_values_become_what_they_say() -> None:
    (found,) = outcomes(PARSER, [WHOLE])
    time = found[1]["event_time"]
    assert columns(found) == {
        "i": 5,
        "l": -(2**63),
        "d": 1.0,
        "s": "é\n",
        "b": True,
        "m": Decimal("1.50"),
        "event_time": time,
    }


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2024-05-01T10:00:00Z", moment_of(2024, 5, 1, 10)),
        ("2024-05-01 10:00:00", moment_of(2024, 5, 1, 10)),
        ("2024-05-01T10:00:00+02:00", moment_of(2024, 5, 1, 8)),
        ("2024-05-01T10:00:00-0130", moment_of(2024, 5, 1, 11, 30)),
        ("2024-05-01T10:00:00.000001Z", moment_of(2024, 5, 1, 10, 0, 0, 1)),
        ("2024-05-01T10:00:00.1234569+00:00", moment_of(2024, 5, 1, 10, 0, 0, 123456)),
        ("2024-05-01T10:00:00.123456789", moment_of(2024, 5, 1, 10, 0, 0, 123456)),
        ("2024-05-01", moment_of(2024, 5, 1)),
        ("0001-01-01T00:00:00Z", moment_of(1, 1, 1)),
        ("9999-12-31T23:59:59.999999Z", moment_of(9999, 12, 31, 23, 59, 59, 999999)),
    ],
)
def test_times_have_a_zone_or_are_moment_of(text: str, moment: datetime) -> None:
    others = [json.dumps({"ts": other}) for other in ("2020-01-01T00:00:00Z", "2020-01-01")]
    for values in ([json.dumps({"ts": text})], [json.dumps({"ts": text}), *others]):
        assert columns(outcomes(PARSER, values)[0])["ts"] == moment


def test_null_and_absent_fields_are_null_and_tombstones_have_no_row() -> None:
    found = outcomes(PARSER, [None, '{"i":null,"ts":null}', "{}", None])
    assert [each[0] for each in found] == ["tombstone", "good", "good", "tombstone"]
    assert set(columns(found[1])) == set(columns(found[2])) == {"event_time"}


def test_no_rows_and_only_tombstones_are_batches_too() -> None:
    assert outcomes(PARSER, []) == []
    assert outcomes(PARSER, [None]) == [("tombstone",)]
    assert PARSER.parse(batch_of([])).good.schema == PARSER.parse(batch_of([GOOD])).good.schema


def test_the_event_time_is_a_column_or_the_records_time_and_is_never_null() -> None:
    by_day = parser_of("json", "day", day="date")
    found = outcomes(by_day, ['{"day":"2024-05-01"}', "{}"])
    assert found[0][1]["event_time"] == datetime(2024, 5, 1, tzinfo=UTC)
    assert found[1] == ("bad", "no event time", "column day is null")
    timeless = PARSER.parse(batch_of([GOOD, None, GOOD], timestamps=[5, None, None]))
    assert outcomes_of(timeless, 3)[2][1:] == ("no event time", "the record has no timestamp")
    assert timeless.good.column("event_time").cast("int64").to_pylist() == [5]


def test_a_column_named_event_time_is_the_event_time() -> None:
    parser = parser_of("json", "event_time", event_time="timestamp", i="int")
    found = outcomes(parser, ['{"event_time":"2024-05-01","i":1}', '{"i":1}'])
    assert found[0][1] == {"event_time": datetime(2024, 5, 1, tzinfo=UTC), "i": 1}
    assert found[1][:2] == ("bad", "no event time")


@pytest.mark.parametrize(
    "values",
    [
        ['{"i":1}', '{"s":"x","ts":"2024-05-01","m":1.5,"d":2}'],
        ['{\n  "i": 1\n}\n', ' {"s":\t"x"} '],
        ['{"s":"\\u0041\\u0002\\\\"}', '{"s":"\\ud83d\\ude00"}', '{"s":"\\\\\\""}'],
        ['{"s":"é","\\u0069":1}', '{"day":"2024-05-01","m":"1.50"}', '{"m":null,"s":null}'],
        ["{}", '{"d":0}', '{"d":-0.5}', '{"i":-0,"l":null,"b":false}'],
        ['{"s":"{[{[{["}', '{"s":"-0","d":1.0}'],
    ],
)
def test_good_values_are_read_once(values: list[str]) -> None:
    parser = parser_of("json", **TYPES)
    parser._decoder = NoRows(parser._settings.columns)
    assert outcomes(parser, values) == one_by_one(PARSER, values)


@pytest.mark.parametrize(
    "value",
    [
        '{"i":1,"i":2}',
        '{"s":"x","s":"y"}',
        '{"s":"x","\\u0073":"y"}',
        '{"s":"\\"","s":"\\\\"}',
        '{"s":null,"s":"\\\\\\""}',
        '{"m":1.5,"m":"1.5"}',
        '{"m":"1.5","m":1.5}',
        '{"b":true,"b":true}',
    ],
)
def test_a_field_that_stands_twice_is_seen_among_others(value: str) -> None:
    others = ['{"i":1}', '{"s":"a\\"b\\\\"}', '{"i":"x"}', '{"m":"2.5"}', "{}", '{"new":1}']
    found = outcomes(PARSER, [*others, value, *others])
    assert found[len(others)][:2] == ("bad", "field twice")
    assert found[: len(others)] == outcomes(PARSER, others)


def test_zero_keeps_its_sign() -> None:
    found = outcomes(PARSER, ['{"d":-0}', '{"d":-0.0}', '{"d":0,"s":"-0"}', '{"d":0}'])
    assert [str(outcome[1]["d"]) for outcome in found] == ["-0.0", "-0.0", "0.0", "0.0"]


@pytest.mark.parametrize(
    "values",
    [
        ['{"i":1', ',"l":2}{"i":3}'],
        ['{"i":1}{"i":2', '}{"i":3}', ""],
        ['{"new":', '{"i":1}}', '{"i":2}{"i":3}'],
        ['{"new":[', '{"i":1}', "]}{}{}"],
        ['{"s":"', '"}{"s":"x"}'],
        ['{"i":1', '{"\\u0001":1,"i":2}', "}"],
        ['{"new":', '{"i":2}}{"\\u0001":1}'],
        ['{"i":1}\0', '{"i":2}'],
        ['{"i":1}/*', '*/{"i":2}'],
        ['{"i":1},', '{"i":2}'],
    ],
)
def test_an_object_cut_over_records_is_never_a_row(values: list[str]) -> None:
    found = outcomes(PARSER, values)
    assert found == in_rows(list(values))[0] == one_by_one(PARSER, values)
    assert "bad" in {outcome[0] for outcome in found}
    for value, outcome in zip(values, found, strict=True):
        try:
            right = isinstance(json.loads(value), dict)
        except ValueError:
            right = False
        assert (outcome[0] == "good") == right


def test_only_the_wrong_rows_of_a_long_batch_are_bad() -> None:
    values = [f'{{"i":{n},"m":{n % 100}.25}}' for n in range(3007)]
    wrong = {0, 999, 2000, len(values) - 1}
    for n in wrong:
        values[n] = '{"i":"x","new":1}'
    found = outcomes(PARSER, values)
    assert {n for n, outcome in enumerate(found) if outcome[0] == "bad"} == wrong
    rest = [(n, columns(found[n])) for n in range(len(values)) if n not in wrong]
    assert all(row["i"] == n and row["m"] == n % 100 + Decimal("0.25") for n, row in rest)


def test_a_slice_of_a_batch_is_read_as_itself() -> None:
    values = [f'{{"i":{n},"s":"{n}","ts":"2024-05-01"}}' for n in range(20)]
    for wanted in (values, [*values[:12], '{"i":"x"}', *values[13:]]):
        part = PARSER.parse(batch_of(wanted).slice(7, 9))
        assert outcomes_of(part, 9) == outcomes(PARSER, wanted)[7:16]


def new_fields(*values: Value) -> dict[str, str]:
    parsed = PARSER.parse(batch_of(values))
    assert in_rows(list(values))[1] == parsed.new_fields
    return narrowest_of(parsed.new_fields)


def narrowest_of(fields: dict[str, str]) -> dict[str, str]:
    return {name: narrowest(types) for name, types in fields.items()}


def test_new_fields_have_the_type_that_fits_all_their_values() -> None:
    assert new_fields('{"a":1,"n":1.5,"c":true,"e":"2024-05-01","f":null}') == {
        "a": "bigint",
        "n": "double",
        "c": "boolean",
        "e": "string",
    }
    assert new_fields('{"a":1}', '{"a":null}', '{"a":2.5}') == {"a": "double"}
    assert new_fields('{"a":9223372036854775808}', '{"a":1}') == {"a": "decimal(38,18)"}
    assert new_fields('{"a":9223372036854775807}', '{"a":1}') == {"a": "bigint"}
    assert new_fields('{"a":9007199254740993}', '{"a":0.5}') == {"a": "decimal(38,18)"}
    assert new_fields('{"a":9007199254740992}', '{"a":0.5}') == {"a": "double"}
    assert new_fields('{"a":9007199254740993}', '{"a":1e300}') == {"a": "string"}
    assert new_fields('{"a":0.1}', '{"a":1e-300}') == {"a": "double"}
    assert new_fields('{"a":1e400}') == {"a": "string"}
    assert new_fields('{"a":1e-400}', '{"a":-1e-1000000000}') == {"a": "string"}
    assert new_fields('{"a":0e9999999999999999999999}') == {"a": "string"}
    assert new_fields('{"a":0.1234567890123456789}') == {"a": "string"}
    assert new_fields('{"a":0.123456789012345678}') == {"a": "decimal(38,18)"}
    assert new_fields('{"a":1}', '{"a":"x"}') == {"a": "string"}
    assert new_fields('{"a":true}', '{"a":1}') == {"a": "string"}
    assert new_fields('{"a":{}}', '{"n":[]}') == {"a": "string", "n": "string"}
    assert new_fields(None, "{}", '{"i":1}') == {}


def test_a_bad_row_has_no_new_fields() -> None:
    assert new_fields('{"i":"x","a":1}', '{"n":1}') == {"n": "bigint"}
    assert new_fields('{"ts":"x","a":1}', '{"n":1}') == {"n": "bigint"}
    assert new_fields('{"ts":"x","a":1.5}', '{"a":1}') == {"a": "bigint"}
    timed = parser_of("json", "ts", ts="timestamp")
    values = ['{"a":1}', '{"ts":"2024-05-01","n":1}']
    assert narrowest_of(timed.parse(batch_of(values)).new_fields) == {"n": "bigint"}


def test_a_bad_row_of_a_later_piece_has_no_new_fields() -> None:
    values = ["{}"] * 1000 + ['{"n":1}', '{"ts":"x","a":1}', '{"i":"x"}']
    assert narrowest_of(PARSER.parse(batch_of(values)).new_fields) == {"n": "bigint"}


def test_new_fields_of_pieces_and_batches_are_merged() -> None:
    values = ['{"a":1,"n":1}'] * 1000 + ['{"a":1.5,"n":"x"}', '{"i":"x","c":1}']
    parsed = PARSER.parse(batch_of(values))
    assert narrowest_of(parsed.new_fields) == {"a": "double", "n": "string"}
    found = {"a": types_of_whole("1"), "b": types_of_whole("1")}
    merge_fields(found, {"a": types_of_number("1.5"), "b": BOOLEAN, "c": TEXT})
    assert narrowest_of(found) == {"a": "double", "b": "string", "c": "string"}
    merge_fields(found, {"a": types_of_whole("1"), "b": types_of_whole("1")})
    assert narrowest_of(found) == {"a": "double", "b": "string", "c": "string"}
    merge_fields(found, {"a": types_of_whole(str(2**53 + 1))})
    assert narrowest_of(found)["a"] == "decimal(38,18)"


def test_a_string_column_made_for_a_new_field_takes_any_value_as_its_text() -> None:
    text = column_type("string")
    parser = parser_of("json", a=ColumnType(text.name, text.arrow, any_kind=True), i="int")
    texts = ['{"x": [1.50,\n2]}', "1.50", "true", "[]"]
    found = outcomes(parser, [f'{{"a":{each},"i":1}}' for each in [*texts, '"s"', "null"]])
    assert [outcome[1]["a"] for outcome in found] == [*texts, "s", None]
    assert outcomes(parser, ['{"a":{},"i":"x"}'])[0][:2] == ("bad", "wrong type")


@pytest.mark.parametrize("name", ['say "it"', "a\\b", "new\nline", "\x1b[31m"])
def test_a_field_may_have_a_name_that_msgspec_cannot_have(name: str) -> None:
    parser = parser_of("json", n="int", odd=replace(column_type("string"), field=name))
    field = json.dumps(name)
    values: list[Value] = [
        f'{{"n":1,{field}:"x"}}',
        '{"n":2}',
        f'{{{field}:"y",{field}:"z"}}',
        f"{{{field}:3}}",
        '{"f1":"z"}',
    ]
    parsed = parser.parse(batch_of(values))
    found = outcomes_of(parsed, len(values))
    assert [columns(one).get("odd") for one in found[:2]] == ["x", None]
    assert [one[1] for one in found[2:4]] == ["field twice", "wrong type"]
    assert parsed.new_fields == {"f1": "string"}


@pytest.mark.parametrize("reads_rows", [False, True])
def test_a_column_reads_the_field_that_it_names(reads_rows: bool) -> None:
    sent = replace(column_type("bigint"), field="timestamp")
    nameless = replace(column_type("string"), field="")
    parser = parser_of("json", sent=sent, nameless=nameless)
    if reads_rows:
        parser._decoder = OnlyRows(parser._settings.columns)
    values: list[Value] = [
        '{"timestamp":5,"":"x"}',
        '{"\\u0074imestamp":6}',
        '{"timestamp":7,"timestamp":7}',
        '{"timestamp":"late"}',
        '{"sent":8}',
    ]
    parsed = parser.parse(batch_of(values))
    found = outcomes_of(parsed, len(values))
    assert [columns(one).get("sent") for one in (found[0], found[1], found[4])] == [5, 6, None]
    assert columns(found[0])["nameless"] == "x"
    assert [one[1] for one in found[2:4]] == ["field twice", "wrong type"]
    assert "column sent" in found[3][2]
    assert narrowest_of(parsed.new_fields) == {"sent": "bigint"}
