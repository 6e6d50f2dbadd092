"""Columns that are read from a record's key and headers."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from strandline_spark.errors import OptionError
from strandline_spark.parsing import column_type
from support.parsing import Outcome, outcomes_of, parser_of, records_of

VALUE = '{"a":1}'
FORMATS: dict[str, tuple[Any, str | bytes]] = {
    "json": ({}, VALUE),
    "csv": ({}, "1"),
    "regex": ({"pattern": "(?P<a>.*)"}, "1"),
    "avro": (
        {
            "avro_schema": json.dumps(
                {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
            )
        },
        b"\x02",
    ),
}


def of(source: str, kind: str, form: str | None = None, **more: Any) -> Any:
    return replace(column_type(kind, form), source=source, **more)


def read(
    columns: dict[str, Any], *records: tuple[Any, Any, Any], form: Any = "json", **options: Any
) -> tuple[list[Outcome], list[dict[str, Any]]]:
    """What comes of each record, and what columns hold of tombstones."""
    parser = parser_of(form, options=options, a="int", **columns)
    batch = records_of(*records)
    parsed = parser.parse(batch)
    parsed.tombstones.validate(full=True)
    found = outcomes_of(parsed, len(records))
    apart = [outcomes_of(parser.parse(batch.slice(n, 1)), 1)[0] for n in range(len(records))]
    assert found == apart
    assert len(parsed.tombstones) == len(parsed.tombstone_rows)
    return found, parsed.tombstones.to_pylist()


@pytest.mark.parametrize("form", list(FORMATS))
def test_key_and_headers_are_decoded_in_all_formats(form: str) -> None:
    options, value = FORMATS[form]
    columns = {
        "user": of("key", "bigint"),
        "trace": of("header:trace-id", "string"),
        "sent": of("header:sent", "timestamp", "epoch_ms"),
        "raw": of("header:raw", "binary"),
        "hex": of("header:hex", "binary", "hex"),
        "price": of("header:p", "decimal(5,2)"),
        "tags": of("header:tags", "array<string>"),
        "meta": of("header:meta", "json"),
    }
    headers = [
        ("trace-id", b"x"), ("sent", b"1000"), ("raw", b"\xff"), ("hex", b"ff"), ("p", b"1.5"),
        ("tags", b'["a"]'), ("meta", b' {"a": 1} '), ("other", b"\xff"),
    ]  # fmt: skip
    found, _ = read(columns, (value, b"7", headers), (value, None, None), form=form, **options)
    row, nothing = (each[1] for each in found)
    assert [str(row[name]) for name in ("user", "trace", "price", "meta")] == [
        "7", "x", "1.50", '{"a": 1}',
    ]  # fmt: skip
    assert row["sent"] == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert (row["raw"], row["hex"], row["tags"], row["a"]) == (b"\xff", b"\xff", ["a"], 1)
    assert {nothing[name] for name in columns} == {None}


def test_the_last_header_of_a_name_counts_and_an_empty_text_is_null_but_in_strings() -> None:
    columns = {"h": of("header:h", "int"), "s": of("header:s", "string")}
    records = [
        (VALUE, None, [("h", b"1"), ("x", b"9"), ("h", b"2")]),
        (VALUE, None, [("h", b"1"), ("h", None)]),
        (VALUE, None, [("h", b""), ("s", b"")]),
        (VALUE, None, []),
        (VALUE, None, [("s", b"y"), ("H", b"3")]),
    ]
    found, _ = read(columns, *records)
    assert [(each[1]["h"], each[1]["s"]) for each in found] == [
        (2, None), (None, None), (None, ""), (None, None), (None, "y"),
    ]  # fmt: skip


def test_tombstones_have_the_columns_of_key_and_headers() -> None:
    columns = {
        "id": of("key", "bigint", required=True),
        "op": of("header:op", "string", default="d", trim=True),
    }
    records = [
        (None, b"1", [("op", b" c ")]),
        (None, b"2", None),
        (None, b"x", None),
        (None, None, None),
        (VALUE, b"3", None),
    ]
    found, tombstones = read(columns, *records)
    assert [each[:2] for each in found[:4]] == [
        ("tombstone",), ("tombstone",), ("bad", "wrong type"), ("bad", "null"),
    ]  # fmt: skip
    assert found[3][2] == "column id is required, and it is null"
    assert [(one["a"], one["id"], one["op"], one["event_time"]) for one in tombstones] == [
        (None, 1, "c", None), (None, 2, "d", None),
    ]  # fmt: skip
    assert found[4][1]["op"] == "d"


def test_a_key_may_be_json_with_paths() -> None:
    columns = {
        "id": of("key", "bigint", field="payload.id"),
        "all": of("key", "json"),
        "names": of("key", "array<string>", field="$.names"),
    }
    records = [
        (VALUE, b'{"payload":{"id":7},"names":["n"],"more":1}', None),
        (None, b'{"payload":{"id":8}}', None),
        (VALUE, None, None),
        (VALUE, b"[1]", None),
        (None, b"{", None),
        (VALUE, b'{"payload":{"id":"x"}}', None),
    ]
    found, tombstones = read(columns, *records)
    assert (found[0][1]["id"], found[0][1]["names"]) == (7, ["n"])
    assert found[0][1]["all"] == '{"payload":{"id":7},"names":["n"],"more":1}'
    assert (tombstones[0]["id"], found[2][1]["id"]) == (8, None)
    said = "the key: column id: the value is an array, and no object"
    assert found[3] == ("bad", "wrong type", said)
    assert found[4][:2] == ("bad", "not JSON")
    assert found[5][2] == "the key: column id: a string 'x' is no bigint"


def test_a_key_may_be_any_json_value() -> None:
    columns = {
        "text": of("key", "string", field="$"),
        "first": of("header:ids", "int", field="$[0]"),
    }
    records = [
        (VALUE, b'"a\\u0062"', [("ids", b"[1,2]")]),
        (VALUE, b" null ", [("ids", b"[]")]),
        (VALUE, b"5", None),
        (VALUE, None, [("ids", b"1")]),
    ]
    found, _ = read(columns, *records)
    assert [(each[1]["text"], each[1]["first"]) for each in found[:2]] == [("ab", 1), (None, None)]
    assert [each[2] for each in found[2:]] == [
        "the key: column text: number 5 is no string",
        "the header ids: column first: the value is number 1, and no array",
    ]


@pytest.mark.parametrize("value", [VALUE, None])
def test_a_part_that_does_not_fit_quarantines_its_record(value: str | None) -> None:
    columns = {"k": of("key", "string"), "h": of("header:h", "int")}
    found, _ = read(columns, (value, b"\xff", None), (value, b"", [("h", b"1.5")]))
    assert found == [
        ("bad", "not UTF-8", "the key: byte 0 of b'\\xff'"),
        ("bad", "wrong type", "column h: '1.5' is no int"),
    ]


def test_a_fault_of_the_value_comes_before_one_of_the_key() -> None:
    columns = {"k": of("key", "int")}
    found, _ = read(columns, ("{", b"x", None), (b"\xff", b"x", None))
    assert [each[1] for each in found] == ["not JSON", "not UTF-8"]


def test_the_event_time_may_be_a_header() -> None:
    parser = parser_of("json", "at", a="int", at=of("header:at", "timestamp", "epoch_s"))
    batch = records_of((VALUE, None, [("at", b"5")]), (VALUE, None, None), (None, None, None))
    found = outcomes_of(parser.parse(batch), 3)
    assert found[0][1]["event_time"] == datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)
    assert [each[:2] for each in found[1:]] == [("bad", "no event time"), ("tombstone",)]


def test_a_field_with_the_name_of_such_a_column_is_a_new_field() -> None:
    parser = parser_of("json", a="int", k=of("key", "int"))
    parsed = parser.parse(records_of(('{"a":1,"k":"x"}', b"5", None)))
    assert (parsed.good.column("k").to_pylist(), parsed.new_fields) == ([5], {"k": "string"})


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (of("headers:h", "int"), 'from = \'headers:h\' is no part .*: give "key", or "header:"'),
        (of("header:", "int"), "from = 'header:' is no part"),
        (of("offset", "int"), "from = 'offset' is no part"),
        (of("key", "binary", "epoch_s"), "has the format 'epoch_s', which is none of base64, hex"),
        (of("key", "int", field="a[*]"), r"field 'a\[\*\]' names many places"),
        (of("key", "int", default="x"), "default 'x' is no int"),
    ],
)
def test_a_part_that_there_is_not_is_refused(kind: Any, said: str) -> None:
    with pytest.raises(OptionError, match=rf"\[silver.columns\] v: .*{said}"):
        parser_of("json", v=kind)


def test_csv_needs_a_column_of_its_own() -> None:
    with pytest.raises(OptionError, match=r"\[silver.columns\] has no column of the value"):
        parser_of("csv", v=of("key", "int"))
