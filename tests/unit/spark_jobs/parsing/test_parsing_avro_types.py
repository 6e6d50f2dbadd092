"""Avro's logical types, in the columns that take them."""

from __future__ import annotations

import io
import json
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from strandline_spark.errors import OptionError
from strandline_spark.parsing import column_type
from support.parsing import outcomes, parser_of

if TYPE_CHECKING:
    from strandline_spark.parsing.settings import ColumnType

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
ID = uuid.UUID("12345678-1234-5678-1234-567812345678")


def logical(base: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": base, "logicalType": name, **more}


def fixed(name: str, size: int) -> dict[str, Any]:
    return {"type": "fixed", "name": "F", "size": size, "logicalType": name}


def without(schema: Any) -> Any:
    return {key: value for key, value in schema.items() if key != "logicalType"}


def read(kind: ColumnType, of: dict[str, Any], *values: Any, among: Any = ()) -> list[Any]:
    """What the column holds of values of the base type."""
    record = {"type": "record", "name": "R", "fields": [{"name": "v", "type": without(of)}]}
    out = []
    for value in values:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, fastavro.parse_schema(record), {"v": value})
        out.append(stream.getvalue())
    fields = [{"name": "v", "type": [*among, of] if among else of}]
    text = json.dumps({"type": "record", "name": "R", "fields": fields})
    found = outcomes(parser_of("avro", options={"avro_schema": text}, v=kind), out)
    return [each[1]["v"] if each[0] == "good" else each[1:] for each in found]


@pytest.mark.parametrize(
    ("name", "value", "micros"),
    [
        ("timestamp-nanos", 1_700_000_000_123_456_789, 1_700_000_000_123_456),
        ("timestamp-nanos", -1, -1),
        ("local-timestamp-millis", 1, 1000),
        ("local-timestamp-micros", 1, 1),
        ("local-timestamp-nanos", 1999, 1),
    ],
)
def test_timestamps(name: str, value: int, micros: int) -> None:
    found = read(column_type("timestamp"), logical("long", name), value)
    assert found == [EPOCH + micros * MICROSECOND]


def test_a_local_timestamp_is_of_the_columns_zone() -> None:
    kind = replace(column_type("timestamp"), zone="Europe/Berlin")
    local = logical("long", "local-timestamp-millis")
    noon = 1_782_907_200_000  # 2026-07-01 12:00
    assert read(kind, local, noon, 253_402_300_799_999) == [
        datetime(2026, 7, 1, 10, tzinfo=UTC),
        ("out of range", "column v: 253402300799999 does not fit timestamp"),
    ]
    with pytest.raises(OptionError, match="zone 'Europe/Berlin' is for a local-timestamp"):
        read(kind, logical("long", "timestamp-millis"))


@pytest.mark.parametrize(
    ("kind", "of", "value", "held"),
    [
        ("string", logical("int", "time-millis"), 86_399_999, "23:59:59.999"),
        ("string", logical("long", "time-micros"), 1, "00:00:00.000001"),
        (
            "string",
            logical("long", "time-micros"),
            -1,
            ("out of range", "column v: -1 is no time of a day"),
        ),
        ("bigint", logical("long", "time-micros"), 7, 7),
        ("int", logical("int", "time-millis"), 7, 7),
        (
            "string",
            fixed("duration", 12),
            bytes([1, 0, 0, 0, 2, 0, 0, 0, 0xBC, 0x0B, 0, 0]),
            "P1M2DT3.004S",
        ),
        ("string", logical("string", "uuid"), str(ID), str(ID)),
        ("string", fixed("uuid", 16), ID.bytes, str(ID)),
        ("binary", {"type": "bytes"}, b"\0\xff", b"\0\xff"),
        ("binary", fixed("none", 2), b"\0\xff", b"\0\xff"),
        ("string", logical("string", "of-our-house"), "x", "x"),
        ("bigint", logical("long", "of-our-house"), 5, 5),
        ("bigint", logical("long", "time-millis"), 5, 5),
        ("binary", fixed("duration", 11), b"0" * 11, b"0" * 11),
    ],
)
def test_a_logical_type(kind: str, of: Any, value: Any, held: Any) -> None:
    assert read(column_type(kind), of, value) == [held]


def test_a_named_type_is_found_by_its_full_name_and_in_a_union() -> None:
    money = {
        "type": "fixed", "name": "Money", "namespace": "shop", "size": 4,
        "logicalType": "decimal", "precision": 9, "scale": 2,
    }  # fmt: skip
    fields = [
        {"name": "first", "type": ["null", money]},
        {"name": "second", "type": ["null", "shop.Money"]},
        {"name": "third", "type": "shop.Money"},
    ]
    schema = {"type": "record", "name": "R", "namespace": "other", "fields": fields}
    out = io.BytesIO()
    row = {"first": Decimal("1.25"), "second": Decimal("-2.50"), "third": Decimal("3.75")}
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row)
    for columns in (("second",), ("third", "second", "first")):
        parser = parser_of(
            "avro",
            options={"avro_schema": json.dumps(schema)},
            **dict.fromkeys(columns, column_type("decimal(9,2)")),
        )
        ((_, found),) = outcomes(parser, [out.getvalue()])
        assert {name: found[name] for name in columns} == {name: row[name] for name in columns}


@pytest.mark.parametrize(
    ("kind", "of", "said"),
    [
        (
            "timestamp",
            logical("long", "time-micros"),
            "does not fit the Avro field of type time-micros",
        ),
        ("binary", logical("string", "uuid"), "does not fit the Avro field of type uuid"),
        ("int", fixed("duration", 12), "does not fit the Avro field of type duration"),
    ],
)
def test_a_column_that_does_not_take_the_type_is_refused(kind: str, of: Any, said: str) -> None:
    with pytest.raises(OptionError, match=rf"\[silver.columns\] v: {kind} {said}"):
        read(column_type(kind), of)


def test_two_logical_types_in_one_field_are_refused() -> None:
    with pytest.raises(OptionError, match="of type time-micros or time-millis"):
        read(
            column_type("string"),
            logical("long", "time-micros"),
            among=[logical("int", "time-millis")],
        )


@pytest.mark.parametrize(
    ("form", "text", "held"),
    [
        ("base64", "AP8=", b"\0\xff"),
        ("base64", "AP8", "wrong type"),
        ("base64", "A P8=", "wrong type"),
        ("base64", "\u00e9", "wrong type"),
        ("hex", "00fF", b"\0\xff"),
        ("hex", "0", "wrong type"),
        ("hex", "00 ff", "wrong type"),
    ],
)
@pytest.mark.parametrize("values", ["json", "csv"])
def test_a_text_that_stands_for_bytes(values: Any, form: str, text: str, held: Any) -> None:
    parser = parser_of(values, v=column_type("binary", form), n="int")
    found = outcomes(parser, [json.dumps({"v": text, "n": 1}) if values == "json" else f"{text},1"])
    assert (found[0][1]["v"] if found[0][0] == "good" else found[0][1]) == held


@pytest.mark.parametrize(
    ("values", "form", "said"),
    [
        (
            "json",
            None,
            "a binary column of json needs the format of its texts, base64 or hex; none",
        ),
        ("csv", "utf8", "a binary column of csv needs the format of its texts.*; not 'utf8'"),
    ],
)
def test_bytes_without_a_format_are_refused(values: Any, form: str | None, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        parser_of(values, v=column_type("binary", form))
