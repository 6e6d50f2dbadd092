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
    found = outcomes(PARSER, [encoded(n=2**31), b"\2", b"\2\2\xff", GOOD + b"\0"])
    assert found[0][2] == "column n: 2147483648 does not fit int"
    assert found[1][2] == "the value ends before the datum does: b'\\x02'"
    assert found[2][2] == "a string is not UTF-8: b'\\x02\\x02\\xff'"
    assert found[3][2].startswith("1 bytes are left over: b'")
    assert outcomes(PARSER, [b"\xff" * 12])[0][2].startswith("no datum of the schema: b'")


def test_a_column_reads_the_field_that_it_names() -> None:
    columns = {
        "sent": replace(column_type("timestamp"), field="ts"),
        "ts": replace(column_type("int"), field="n"),
    }
    ((_, row),) = outcomes(parser_of("avro", "sent", OPTIONS, **columns), [GOOD])
    assert row == {"sent": MOMENT, "ts": -5, "event_time": MOMENT}
