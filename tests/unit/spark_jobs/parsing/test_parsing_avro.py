"""Avro: one datum of the writer's schema a record, and not a byte more."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from strandline_spark.parsing import column_type
from support.parsing import one_by_one, outcomes, parser_of

FIELDS: list[dict[str, Any]] = [
    {"name": "unused", "type": {"type": "array", "items": "string"}},
    {"name": "ts", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
    {"name": "us", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "n", "type": ["null", "long"]},
    {"name": "x", "type": "float"},
    {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
    {"name": "again", "type": ["null", "Kind"]},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    {
        "name": "m",
        "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3},
    },
    {"name": "b", "type": "boolean"},
]
SCHEMA = {"type": "record", "name": "Flight", "fields": FIELDS}
OPTIONS = {"avro_schema": json.dumps(SCHEMA)}
PARSER = parser_of(
    "avro",
    "ts",
    OPTIONS,
    b="boolean",
    m="decimal(6,2)",
    day="date",
    again="string",
    kind="string",
    x="double",
    n="int",
    us="timestamp",
    ts="timestamp",
)
MOMENT = datetime(2024, 5, 1, 10, 0, 0, 1000, tzinfo=UTC)
DATUM: dict[str, Any] = {
    "unused": ["é"],
    "ts": MOMENT,
    "us": MOMENT.replace(microsecond=1),
    "n": -5,
    "x": 0.5,
    "kind": "B",
    "again": None,
    "day": date(2024, 2, 29),
    "m": Decimal("1.250"),
    "b": True,
}


def encoded(**other: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(SCHEMA), {**DATUM, **other})
    return out.getvalue()


def raw(ts: int) -> bytes:
    """A datum with a time that Python has no name for."""
    fields = [{**FIELDS[1], "type": ["null", "long"]} if f["name"] == "ts" else f for f in FIELDS]
    out = io.BytesIO()
    schema = fastavro.parse_schema({**SCHEMA, "fields": fields})
    fastavro.schemaless_writer(out, schema, {**DATUM, "ts": ts})
    return out.getvalue()


GOOD = encoded()
BAD = {
    b"": "not Avro",
    b"\xff" * 12: "not Avro",
    GOOD[:-1]: "not Avro",
    GOOD + b"\0": "not Avro",
    GOOD + GOOD: "not Avro",
    encoded(n=2**31): "out of range",
    encoded(m=Decimal("1.255")): "out of range",
    encoded(m=Decimal("12345.5")): "out of range",
    raw(2**62): "out of range",
    raw(-62_135_596_800_001): "out of range",
    encoded(ts=None): "no event time",
}


@pytest.mark.parametrize("value", BAD)
def test_a_wrong_value_is_bad_and_the_rows_around_it_are_good(value: bytes) -> None:
    values = [GOOD, value, None, GOOD]
    found = outcomes(PARSER, values)
    assert [each[0] for each in found] == ["good", "bad", "tombstone", "good"]
    assert found[1][1] == BAD[value]
    assert found == one_by_one(PARSER, values)


def test_values_become_what_they_say() -> None:
    first, second = outcomes(PARSER, [GOOD, encoded(n=None, again="A", x=3)])
    expected = {**DATUM, "event_time": MOMENT}
    del expected["unused"]
    assert first[1] == expected
    assert second[1] == {**expected, "n": None, "again": "A", "x": 3.0}


def test_a_detail_names_the_column_and_the_value() -> None:
    no_text = GOOD.replace("é".encode(), b"\xff\xff")
    found = outcomes(PARSER, [encoded(n=2**31), b"\2", no_text, GOOD + b"\0"])
    assert found[0][2] == "column n: 2147483648 does not fit int"
    assert found[1][2] == "the value ends before the datum does: b'\\x02'"
    assert found[2][2].startswith("a string is not UTF-8: b'\\x02\\x04\\xff\\xff")
    assert found[3][2].startswith("1 bytes are left over: b'")
    assert outcomes(PARSER, [b"\xff" * 12])[0][2].startswith("no datum of the schema: b'")


def test_a_column_reads_the_field_that_it_names() -> None:
    columns = {
        "sent": replace(column_type("timestamp"), field="ts"),
        "ts": replace(column_type("int"), field="n"),
    }
    ((_, row),) = outcomes(parser_of("avro", "sent", OPTIONS, **columns), [GOOD])
    assert row == {"sent": MOMENT, "ts": -5, "event_time": MOMENT}


def _of_schema(*fields: dict[str, Any], kind: str = "bigint") -> Any:
    schema = {"type": "record", "name": "R", "fields": [{"name": "v", "type": "long"}, *fields]}
    return parser_of("avro", "timestamp", {"avro_schema": json.dumps(schema)}, v=kind)


def _list_of(levels: int) -> bytes:
    return b"\x0e\x02" * (levels - 1) + b"\x0e\0"


def test_a_list_of_any_length_is_read_or_bad_and_never_ends_the_process() -> None:
    parser = _of_schema({"name": "next", "type": ["null", "R"]})
    values = [_list_of(n) for n in (1, 200, 201, 400_000)]
    found = outcomes(parser, [*values, b"\x0e\x02" * 400_000])
    assert [each[0] for each in found] == ["good", "good", "bad", "bad", "bad"]
    assert {each[1] for each in found[2:]} == {"nested too deeply"}
    assert found[2][2].startswith("more than 200 levels within each other: b'")


@pytest.mark.parametrize(
    "empty",
    [
        "null",
        {"type": "fixed", "name": "F", "size": 0},
        {"type": "record", "name": "N", "fields": [{"name": "a", "type": "null"}]},
    ],
    ids=["null", "fixed", "record"],
)
def test_elements_without_a_byte_take_no_memory(empty: Any) -> None:
    parser = _of_schema({"name": "a", "type": {"type": "array", "items": empty}})
    few, many = b"\x0e\x06\0", b"\x0e" + b"\xff" * 8 + b"\x7e\0"
    blocks = b"\x0e" + b"\x80\x80\x06" * 200 + b"\0"  # 49,152 in each
    found = outcomes(parser, [few, many, blocks])
    assert [each[:2] for each in found[1:]] == [("bad", "not Avro")] * 2
    assert found[0][0] == "good"


def test_a_negative_place_of_a_symbol_is_bad() -> None:
    enum = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "e", "type": enum},
            {"name": "again", "type": "E"},
        ],
    }
    parser = parser_of("avro", "timestamp", {"avro_schema": json.dumps(schema)}, e="string")
    found = outcomes(parser, [b"\2\2", b"\1\2", b"\2\1"])
    assert found[0][1]["e"] == "B"
    assert [each[:2] for each in found[1:]] == [("bad", "not Avro")] * 2


@pytest.mark.parametrize(
    ("avro", "column", "good", "bad"),
    [
        (["null", "long"], "bigint", (b"\2\x0e", 7), b"\1\x0e"),
        ("int", "bigint", (b"\xfe\xff\xff\xff\x0f", 2**31 - 1), b"\x80\x80\x80\x80\x80\x40"),
        ("int", "bigint", (b"\xff\xff\xff\xff\x0f", -(2**31)), b"\x80\x80\x80\x80\x10"),
        ("boolean", "boolean", (b"\1", True), b"\7"),
    ],
    ids=["place of a branch", "int above", "int below", "boolean"],
)
def test_bytes_that_no_value_of_the_type_has_are_bad(
    avro: Any, column: str, good: tuple[bytes, Any], bad: bytes
) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "v", "type": avro}]}
    parser = parser_of("avro", "timestamp", {"avro_schema": json.dumps(schema)}, v=column)
    found = outcomes(parser, [good[0], bad])
    assert found[0][1]["v"] == good[1]
    assert found[1][:2] == ("bad", "not Avro")
