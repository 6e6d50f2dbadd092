"""Lines, and lines of JSON, as records; the pace at which they are sent."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline import Record
from strandline_cli.errors import UsageMistake
from strandline_cli.records.json_records import JsonParser
from strandline_cli.records.line_producer import RECORD_BYTES_MAX, LineProducer
from strandline_cli.records.line_records import BadLine, LineParser, parse_headers
from strandline_cli.records.pace import Pace
from strandline_cli.records.record_json import json_line


def test_a_null_marker_makes_tombstones_and_null_keys() -> None:
    parse = LineParser(separator=b":", null_marker=b"NULL")
    assert parse(b"a:NULL") == (b"a", None)
    assert parse(b"NULL:b") == (None, b"b")
    assert parse(b"a:") == (b"a", b"")
    assert LineParser(separator=b":", null_marker=b"")(b"a:") == (b"a", None)


def test_every_record_has_the_key_and_the_headers_that_were_given() -> None:
    headers = parse_headers(["source=shop", "empty=", "more=a=b"])
    assert headers == (("source", b"shop"), ("empty", b""), ("more", b"a=b"))
    record = LineParser(key=b"k", headers=headers)(b"v")
    assert record == Record(b"v", b"k", tuple(headers))
    assert LineParser(key=b"k")(b"v") == (b"k", b"v")


@pytest.mark.parametrize("text", ["source", "=shop", ""])
def test_a_header_without_a_name_or_a_sign_is_refused(text: str) -> None:
    with pytest.raises(UsageMistake, match="is not NAME=VALUE"):
        parse_headers([text])


@pytest.mark.parametrize(
    ("line", "record"),
    [
        ('{"key": "a", "value": "b"}', Record(b"b", b"a")),
        ('{"value": null, "key": "a"}', Record(None, b"a")),
        ('{"value_base64": "/w==", "key_base64": "AA=="}', Record(b"\xff", b"\0")),
        ('{"value": "", "timestamp": 7}', Record(b"", timestamp_ms=7)),
        ('{"value": {"b": 1.50, "a": [9007199254740993]}}',
         Record(b'{"b": 1.50, "a": [9007199254740993]}')),
        ('{"value": false}', Record(b"false")),
        ('{"value": "x", "headers": {"a": "1", "b": null}}',
         Record(b"x", headers=(("a", b"1"), ("b", None)))),
        ('{"value": "x", "headers": [{"name": "a", "value_base64": "/w=="}, {"name": "a"}]}',
         Record(b"x", headers=(("a", b"\xff"), ("a", None)))),
        ('{"value": "\u00e9\\n"}', Record("\u00e9\n".encode())),
    ],
)  # fmt: skip
def test_a_line_of_json_is_a_record(line: str, record: Record) -> None:
    assert JsonParser()(line.encode()) == record


def test_headers_of_every_record_follow_those_of_the_line() -> None:
    record = JsonParser(headers=[("all", b"1")])(b'{"value": "x", "headers": {"own": "2"}}')
    assert record == Record(b"x", headers=(("own", b"2"), ("all", b"1")))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"x", "it is not JSON"),
        (b"[1]", "it is no JSON object"),
        (b"{}", "it has no value"),
        (b'{"key": "a"}', "null makes a tombstone"),
        (b'{"valeu": "b"}', "unknown field 'valeu'; do you mean 'value'"),
        (b'{"value": "b", "zzz": 1}', "unknown field 'zzz'; known: key, key_base64"),
        (b'{"value": "b", "key": 1}', "key is neither text nor null"),
        (b'{"value_base64": "?"}', "value_base64 is not base64"),
        (b'{"value_base64": 7}', "value_base64 is not base64"),
        (b'{"value": "b", "value_base64": "AA=="}', "both value and value_base64"),
        (b'{"value": "b", "headers": 0}', "headers are neither"),
        (b'{"value": "b", "headers": ["a"]}', "a header is not"),
        (b'{"value": "b", "headers": [{"name": "a", "vlaue": "b"}]}', "unknown field 'vlaue'"),
        (b'{"value": "b", "headers": {"a": 1}}', "value is neither text nor null"),
        (b'{"value": "b", "timestamp": -1}', "timestamp -1 is not a number"),
        (b'{"value": "b", "timestamp": true}', "timestamp True is not a number"),
        (b'{"value": "b", "timestamp": 9223372036854775808}', "is not a number"),
        (b'{"value": "\xff"}', "it is not JSON"),
        (b"[" * 100_000, "it is no JSON object|it is not JSON"),
        (b'{"value": ' + b"[" * 100_000, "it is not JSON"),
    ],
)
def test_a_line_that_is_no_record_says_why(line: bytes, why: str) -> None:
    with pytest.raises(BadLine, match=why):
        JsonParser()(line)


@dataclass(frozen=True)
class Consumed:
    """A record as the consumer gives it."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int = 5
    topic: str = "t"
    partition: int = 0
    offset: int = 9
    leader_epoch: int = 2


_BYTES = st.none() | st.binary(max_size=9)


@given(_BYTES, _BYTES, st.lists(st.tuples(st.text(max_size=3), _BYTES), max_size=3))
def test_what_consume_prints_is_read_as_the_same_record(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    record: Any = Consumed(key, value, tuple(headers))
    read = JsonParser()(json_line(record))
    assert read == Record(value, key, tuple(headers), timestamp_ms=5)


def producer(**options: Any) -> LineProducer:
    return LineProducer(bootstrap="a:1", topic="t", **options)


def test_lines_before_a_bad_one_are_records_and_those_after_it_are_not() -> None:
    lines = producer(parse=JsonParser())
    assert lines.records([b'{"value": "a"}', b" "]) == [Record(b"a")]
    assert lines.records([b'{"value": "b"}', b"oops", b'{"value": "c"}']) == [Record(b"b")]
    assert (lines.counts.not_written, lines.counts.stopped_early) == (1, True)
    assert "line 4 is no record: it is not JSON" in lines.counts.summary()


def test_a_document_is_measured_by_its_record() -> None:
    lines = producer(parse=JsonParser())
    long = json.dumps({"value": "x" * RECORD_BYTES_MAX, "key": "k"}).encode()
    assert lines.records([long, b'{"value": "a"}']) == [Record(b"a")]
    assert lines.counts.not_written == 1
    assert "RecordTooLarge: a record of" in lines.counts.summary()


def portions(lines: LineProducer) -> list[list[Any]]:
    async def read() -> list[list[Any]]:
        return [list(portion) async for portion in lines._portions()]

    return asyncio.run(read())


class Clock:
    """A clock that only waiting moves."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.waits.append(round(seconds, 6))
        self.now_s += seconds


def test_records_that_are_given_go_at_the_pace() -> None:
    clock = Clock()
    given_records = [Record(b"%d" % n) for n in range(7)]
    pace = Pace(20, clock=clock, sleep=clock.sleep)
    found = portions(producer(given=given_records, pace=pace))
    assert [len(portion) for portion in found] == [2, 2, 2, 1]
    assert [record for portion in found for record in portion] == given_records
    assert clock.waits == [0.1, 0.1, 0.1]


def test_a_slow_pace_sends_one_record_after_the_other() -> None:
    clock = Clock()
    pace = Pace(0.5, clock=clock, sleep=clock.sleep)
    found = portions(producer(given=[Record(b"a"), Record(b"b")], pace=pace))
    assert (len(found), clock.waits) == (2, [2.0])


def test_a_pause_of_the_input_is_not_made_up_for() -> None:
    clock = Clock()
    pace = Pace(10, clock=clock, sleep=clock.sleep)
    asyncio.run(pace.turn(1))
    clock.now_s += 60
    asyncio.run(pace.turn(1))
    asyncio.run(pace.turn(1))
    assert clock.waits == [0.1]
