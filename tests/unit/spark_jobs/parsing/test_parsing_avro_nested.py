"""Paths into Avro records, and columns of the types struct, array, map and json."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

import fastavro
import pytest

from strandline_spark.errors import OptionError
from strandline_spark.parsing import column_type
from support.parsing import one_by_one, outcomes, parser_of

AT: Final = datetime(2026, 1, 1, tzinfo=UTC)
PAGE: Final = {
    "type": "record",
    "name": "Page",
    "fields": [
        {"name": "url", "type": "string"},
        {"name": "n", "type": ["null", "long"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {
            "name": "d",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
        },
    ],
}
SCHEMA: Final = {
    "type": "record",
    "name": "R",
    "namespace": "x",
    "fields": [
        {"name": "page", "type": ["null", PAGE]},
        {"name": "items", "type": {"type": "array", "items": "x.Page"}},
        {"name": "m", "type": {"type": "map", "values": ["null", "double"]}},
        {"name": "u", "type": ["null", "string", "bytes", "x.Page"]},
    ],
}
OPTIONS: Final = {"avro_schema": json.dumps(SCHEMA)}
ONE: Final = {"url": "u", "n": None, "at": AT, "d": Decimal("1.5")}
EMPTY: Final[dict[str, Any]] = {"page": None, "items": [], "m": {}, "u": None}


def of(kind: str, field: str | None = None) -> Any:
    return replace(column_type(kind), field=field)


def datum(**fields: Any) -> bytes:
    out = io.BytesIO()
    schema = fastavro.parse_schema(json.loads(OPTIONS["avro_schema"]))
    fastavro.schemaless_writer(out, schema, EMPTY | fields)
    return out.getvalue()


def read(column: Any, *values: bytes) -> list[Any]:
    parser = parser_of("avro", options=OPTIONS, v=column)
    found = outcomes(parser, list(values))
    assert found == one_by_one(parser, list(values))
    return [each[1]["v"] if each[0] == "good" else each[1:] for each in found]


@pytest.mark.parametrize(
    ("kind", "field", "held"),
    [
        ("string", "page.url", "u"),
        ("bigint", "$.items[-1].n", 7),
        ("timestamp", "items[0].at", AT),
        ("decimal(6,3)", "page.d", Decimal("1.500")),
        ("double", "m.x", 1.5),
        ("string", "u.url", "u"),
        ("struct<d:decimal(5,2),at:timestamp>", "page", {"d": Decimal("1.50"), "at": AT}),
        ("array<struct<n:int>>", "items", [{"n": None}, {"n": 7}]),
        ("map<string,double>", "m", [("x", 1.5), ("y", None)]),
        ("json", "$.page", '{"url":"u","n":null,"at":1767225600000,"d":1.50}'),
        ("json", "m", '{"x":1.5,"y":null}'),
        ("struct<page:struct<url:string>>", "$", {"page": {"url": "u"}}),
    ],
)
def test_paths_and_parts(kind: str, field: str, held: Any) -> None:
    value = datum(page=ONE, items=[ONE, ONE | {"n": 7}], m={"x": 1.5, "y": None}, u=ONE)
    first, second = read(of(kind, field), value, datum())
    assert first == held
    empty: dict[str, Any] = {"array": [], "map": [], "json": "{}" if field == "m" else None}
    nothing = {"page": None} if field == "$" else empty.get(kind.partition("<")[0])
    assert second == nothing


def test_json_of_a_whole_record() -> None:
    (text,) = read(of("json", "$"), datum(u=b"\xff", m={"x": 2.0}))
    assert text == '{"page":null,"items":[],"m":{"x":2.0},"u":"/w=="}'
    ((reason, said),) = read(of("json", "$"), datum(m={"x": float("nan")}))
    assert (reason, said) == ("out of range", "column v: nan is no number of JSON")


def test_a_branch_without_such_a_field_is_quarantined() -> None:
    found = read(of("string", "u.url"), datum(u="text"), datum(u=ONE))
    assert found == [("wrong type", "column v: u of u.url is a string, and no object"), "u"]


@pytest.mark.parametrize(
    ("kind", "field", "said"),
    [
        (
            "string",
            "page.title",
            "the Avro schema has no field title in page: it has url, n, at, d",
        ),
        ("string", "nope.x", "the Avro schema has no field nope: it has page, items, m, u"),
        ("json", "$.zz", "the Avro schema has no field zz: it has page, items, m, u"),
        ("string", "page.url.x", "page.url of page.url.x is string in the .*, and has no fields"),
        ("string", "items.url", "items of items.url is array in the Avro schema, and has no field"),
        ("string", "page[0]", r"page of page\[0\] is record in the Avro schema, and has no elem"),
        ("array<int>", "page", "array<int> does not fit the Avro field of type record: it takes"),
        ("struct<zz:int>", "page", "the record x.Page of the Avro schema has no field zz"),
        ("struct<url:int>", "page", "int does not fit the Avro field of type string"),
        ("struct<url:string>", "u", "does not fit .* type bytes or record or string: it takes one"),
    ],
)
def test_a_path_that_names_nothing_is_refused(kind: str, field: str, said: str) -> None:
    with pytest.raises(OptionError, match=rf"^\[silver.columns\] v: .*{said}"):
        read(of(kind, field))
