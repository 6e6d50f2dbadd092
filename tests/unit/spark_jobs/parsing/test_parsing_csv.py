"""CSV: one record is one row of as many fields as there are columns."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.examples import examples
from support.parsing import one_by_one, outcomes, parser_of

PARSER = parser_of("csv", n="int", s="string", d="double")
GOOD = "1,good,2.5"
BAD = {
    "": "wrong number of fields",
    "\n": "wrong number of fields",
    "1,a": "wrong number of fields",
    "1,a,1,": "wrong number of fields",
    '1,"a,1"': "wrong number of fields",
    "1,a,1\n1,a,1": "not one row",
    "1,a,1\n\n": "not one row",
    "\n1,a,1": "not one row",
    '1,a,1\n1,a,"1': "not one row",
    "\r\r": "not one row",
    '0,0,0\r"': "not one row",
    '0,0,0\n"': "not one row",
    '0,0,0\n1,"': "not one row",
    "\n\r\n": "not one row",
    "1,a,1\r\r": "not one row",
    '1,a,"1\r\r': "not one row",
    '1,"a,1': "not one row",
    '1,"a,1\n0,0,0': "not one row",
    '1,a,"1\n0,0,0\n': "not one row",
    '1,a,1\n1,"a': "not one row",
    "x,a,1": "wrong type",
    " 1,a,1": "wrong type",
    "1.0,a,1": "wrong type",
    "0x1F,a,1": "wrong type",
    "+1,a,1": "wrong type",
    "1,a,nan": "wrong type",
    "1,a,inf": "wrong type",
    "1,a,0x1p3": "wrong type",
    "\ufeff1,a,1": "wrong type",
    "2147483648,a,1": "out of range",
    "1,a,1e400": "out of range",
}


@pytest.mark.parametrize("value", BAD)
def test_a_wrong_value_is_bad_and_the_rows_around_it_are_good(value: str) -> None:
    for values in ([value], [value, GOOD], [GOOD, value], [GOOD, value, GOOD], [value, value]):
        for each, outcome in zip(values, outcomes(PARSER, values), strict=True):
            if each == GOOD:
                assert outcome[1]["s"] == "good"
            else:
                assert outcome[:2] == ("bad", BAD[value])


@pytest.mark.parametrize(
    ("value", "n", "s", "d"),
    [
        ("1,a,2", 1, "a", 2.0),
        ("-7,é,.5\r\n", -7, "é", 0.5),
        ("1,a,2\n", 1, "a", 2.0),
        ("1,a,2\r", 1, "a", 2.0),
        (",,", None, "", None),
        ('"1","",""', 1, "", None),
        ('1,"a,""b""",2', 1, 'a,"b"', 2.0),
        ('1,"a\r\nb",2', 1, "a\r\nb", 2.0),
        ('1,a"b,2', 1, 'a"b', 2.0),
        ("1,0,0", 1, "0", 0.0),
    ],
)
def test_values_become_what_they_say(value: str, n: object, s: object, d: object) -> None:
    for values in ([value], [GOOD, value, GOOD]):
        found = outcomes(PARSER, values)[len(values) // 2]
        assert found[0] == "good", found
        assert (found[1]["n"], found[1]["s"], found[1]["d"]) == (n, s, d)


def test_details_name_the_column_and_the_value() -> None:
    found = outcomes(PARSER, ["x,a,1", "1,a", "9999999999,a,1", b"1,\xff,1"])
    assert [outcome[2] for outcome in found] == [
        "column n: 'x' is no int",
        "2 instead of 3: '1,a'",
        "column n: '9999999999' does not fit int",
        "byte 2 of b'1,\\xff,1'",
    ]


def test_all_types_and_tombstones_in_the_order_of_the_rows() -> None:
    parser = parser_of(
        "csv", "ts", ts="timestamp", b="boolean", m="decimal(6,2)", day="date", big="bigint"
    )
    good = "2024-05-01T10:00:00+02:00,TRUE,1.5,2024-02-29,-9223372036854775808"
    found = outcomes(parser, [None, good, good.replace("TRUE", "yes"), ",,,,", None])
    assert [each[0] for each in found] == ["tombstone", "good", "bad", "bad", "tombstone"]
    assert list(found[1][1].values()) == [
        datetime(2024, 5, 1, 8, tzinfo=UTC),
        True,
        Decimal("1.50"),
        datetime(2024, 2, 29, tzinfo=UTC).date(),
        -(2**63),
        datetime(2024, 5, 1, 8, tzinfo=UTC),
    ]
    assert found[3][1:] == ("no event time", "column ts is null")


def test_delimiter_quote_and_null_values_are_the_settings() -> None:
    options = {"delimiter": "|", "quote": "'", "null_values": ("-", "NA")}
    parser = parser_of("csv", options=options, n="int", s="string")
    found = outcomes(parser, ["-|'a|b'", "NA|-", '|"x', "'-'|NA"])
    assert [(each[1]["n"], each[1]["s"]) for each in found] == [
        (None, "a|b"),
        (None, None),
        (None, '"x'),
        (None, None),
    ]
    unquoted = parser_of("csv", options={"quote": ""}, s="string")
    assert [each[1]["s"] for each in outcomes(unquoted, ['"a', "", "\n"])] == ['"a', "", ""]


SOUP = st.lists(st.sampled_from([*',,"\r\n01a', "0,0,0", "1,a,2"]), max_size=9).map("".join)
PLAIN = st.tuples(st.integers(-9, 9), st.text(st.sampled_from('a, "é'), max_size=4), st.just(1.5))


def written(row: tuple[object, ...]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(row)
    return out.getvalue()


@given(st.lists(st.one_of(SOUP, PLAIN.map(written)), max_size=8))
@settings(max_examples=examples(100))
def test_a_row_comes_out_the_same_whatever_rows_are_around_it(values: list[str]) -> None:
    found = outcomes(PARSER, values)
    assert found == one_by_one(PARSER, values)
    for value, outcome in zip(values, found, strict=True):
        if outcome[0] == "good":
            (row,) = csv.reader(io.StringIO(value, newline=""))
            assert row[1] == outcome[1]["s"]
            assert int(row[0] or 0) == (outcome[1]["n"] or 0)


@given(st.lists(PLAIN, max_size=8))
@settings(max_examples=examples(40))
def test_what_a_writer_wrote_is_read_again(rows: list[tuple[int, str, float]]) -> None:
    found = outcomes(PARSER, [written(row) for row in rows])
    assert [(each[1]["n"], each[1]["s"], each[1]["d"]) for each in found] == rows
