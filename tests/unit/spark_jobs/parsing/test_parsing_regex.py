"""Regular expressions: all of a value must match, and groups are columns."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from strandline_spark.parsing import column_type
from support.parsing import one_by_one, outcomes, parser_of

if TYPE_CHECKING:
    from strandline_spark.parsing import Parser

PATTERN = r"(?P<host>\S+) (?:(?P<n>\w+)|-)(?P<mark>!)?"
PARSER = parser_of("regex", options={"pattern": PATTERN}, mark="string", n="int", host="string")
GOOD = "good 1!"
BAD = {
    "": "no match",
    "x": "no match",
    "a 5\n": "no match",
    " a 5": "no match",
    "a 5 ": "no match",
    "a 5\nb 6": "no match",
    "a x": "wrong type",
    "a 0x10": "wrong type",
    "a 2147483648": "out of range",
}


@pytest.mark.parametrize("value", BAD)
def test_a_wrong_value_is_bad_and_the_rows_around_it_are_good(value: str) -> None:
    for values in ([value], [GOOD, value, None, GOOD]):
        found = outcomes(PARSER, values)
        assert found[values.index(value)][:2] == ("bad", BAD[value])
        assert found == one_by_one(PARSER, values)
        assert [each[0] for each in found if each[0] != "bad"] == [
            "tombstone" if each is None else "good" for each in values if each != value
        ]


def test_groups_that_took_no_part_are_null() -> None:
    found = outcomes(PARSER, ["é -", "a 5!"])
    assert [list(each[1].values())[:3] for each in found] == [[None, None, "é"], ["!", 5, "a"]]


def test_an_alternative_at_the_top_of_the_pattern_matches_all_of_a_value_too() -> None:
    parser = parser_of("regex", options={"pattern": "(?P<a>x+)|y"}, a="string")
    assert [each[0] for each in outcomes(parser, ["xx", "y", "xy", "yx"])] == ["good"] * 2 + [
        "bad"
    ] * 2


def test_bytes_that_are_no_utf8_are_bad() -> None:
    found = outcomes(PARSER, [GOOD, b"\xff 5", None, GOOD])
    assert [each[0] for each in found] == ["good", "bad", "tombstone", "good"]
    assert found[1][1] == "not UTF-8"


COMBINED = (
    r'(?P<host>\S+) \S+ (?P<user>\S+) \[(?P<time>[^\]]+)\] "(?P<request>(?:[^"\\]|\\.)*)"'
    r' (?P<status>\d{3}) (?P<bytes>\d+|-) "(?:[^"\\]|\\.)*" "(?P<agent>(?:[^"\\]|\\.)*)"'
)
LINE = '10.0.0.1 - - [31/Dec/2015:23:59:59 -0100] "GET / HTTP/1.1" 200 - "-" "a \\"b\\""'
ACCESS = next(
    (log for up in Path(__file__).parents if (log := up / "shared/data/access.log").is_file()), None
)


def access_log() -> Parser:
    time = column_type("timestamp", "%d/%b/%Y:%H:%M:%S %z")
    options = {"pattern": COMBINED, "null_values": ("-",)}
    return parser_of(
        "regex", "time", options, host="string", status="int", bytes="bigint", time=time
    )


def test_a_line_of_an_access_log() -> None:
    ((_, columns),) = outcomes(access_log(), [LINE])
    assert columns["event_time"] == columns["time"] == datetime(2016, 1, 1, 0, 59, 59, tzinfo=UTC)
    assert (columns["host"], columns["status"], columns["bytes"]) == ("10.0.0.1", 200, None)


@pytest.mark.skipif(ACCESS is None, reason="there is no shared/data/access.log above this file")
def test_a_real_access_log_is_what_a_plain_loop_makes_of_it() -> None:
    assert ACCESS is not None
    lines = ACCESS.read_bytes().splitlines()
    found = outcomes(access_log(), lines)
    assert [each[1] for each in found if each[0] != "good"] == ["no match"]
    assert sum(each[0] == "good" and each[1]["bytes"] is None for each in found) == 669
    for line, outcome in zip(lines, found, strict=True):
        if outcome[0] == "bad":
            continue
        _, time, rest = re.split(r" \[|\] ", line.decode(), maxsplit=2)
        row = outcome[1]
        assert row["time"] == datetime.strptime(time, "%d/%b/%Y:%H:%M:%S %z")
        status, size = rest.split('" ', 1)[1].split()[:2]
        assert (row["status"], row["bytes"]) == (int(status), None if size == "-" else int(size))


def test_a_column_may_stand_in_several_alternatives() -> None:
    pattern = r"n=(?P<n>\d*)|(?P<n__2>\d+)!|(?P<s>x)?(?P<n__10>-\d+)?(?P<n__x>y)?"
    parser = parser_of("regex", options={"pattern": pattern}, n="int", s="string")
    found = outcomes(parser, ["n=5", "6!", "x-7", "n=", "xy"])
    assert [(each[1]["n"], each[1]["s"]) for each in found] == [
        *((5, None), (6, None), (-7, "x")),
        *((None, None), (None, "x")),
    ]
