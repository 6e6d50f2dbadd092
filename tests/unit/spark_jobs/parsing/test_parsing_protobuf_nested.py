"""Protobuf's messages, repeated fields and maps, in columns and by paths."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from strandline_spark.errors import OptionError
from strandline_spark.parsing import column_type
from strandline_spark.parsing.protobuf.descriptors import descriptor_text
from strandline_spark.parsing.settings import POSITION
from support.descriptors import descriptor_set, message_class
from support.parsing import batch_of, outcomes, parser_of

CART = """
syntax = "proto3";
package cart;
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
message Line {
  string sku = 1;
  optional int32 n = 2;
  bytes raw = 3;
  map<string, int64> tags = 4;
}
message Cart {
  Line first = 1;
  repeated Line lines = 2;
  map<string, Line> named = 3;
  map<int32, string> numbered = 4;
  repeated google.protobuf.Int64Value sizes = 5;
  google.protobuf.Struct free = 6;
  enum State { NEW = 0; PAID = 1; }
  repeated State states = 7;
  repeated google.protobuf.Timestamp times = 8;
  double x = 9;
}
"""
SET = descriptor_set("--include_imports", cart=CART)
MADE = message_class(SET, "cart.Cart")
OPTIONS = {"message": "cart.Cart", "descriptor": descriptor_text(SET, "cart.Cart")}
VALUE = MADE(
    first={"sku": "a", "tags": {"z": 1, "b": 2**62}},
    lines=[{"sku": "b", "n": 0}, {"sku": "c", "raw": b"\xff"}],
    named={"k": {"sku": "d"}},
    numbered={-1: "minus", 10: "ten"},
    sizes=[{"value": 5}, {}],
    free={"any": [1, "x"]},
    states=[1, 0],
    times=[{"seconds": 1}],
).SerializeToString()


def read(kind: str, field: str, *values: bytes) -> list[Any]:
    column = replace(column_type(kind), field=field)
    found = outcomes(parser_of("protobuf", options=OPTIONS, v=column), list(values or (VALUE,)))
    return [each[1]["v"] if each[0] == "good" else each[1:] for each in found]


@pytest.mark.parametrize(
    ("kind", "field", "held"),
    [
        ("string", "first.sku", "a"),
        ("bigint", "first.tags.b", 2**62),
        ("bigint", "first.tags.no", None),
        ("string", "lines[1].sku", "c"),
        ("int", "lines[0].n", 0),
        ("int", "lines[1].n", None),
        ("string", "lines[-2].sku", "b"),
        ("string", "lines[7].sku", None),
        ("string", "$.named['k'].sku", "d"),
        ("string", "named.no.sku", None),
        ("string", "states[0]", "PAID"),
        ("bigint", "sizes[0]", 5),
        ("array<string>", "states", ["PAID", "NEW"]),
        ("array<bigint>", "sizes", [5, 0]),
        ("array<int>", "states", [1, 0]),
        (
            "array<struct<sku:string,n:int,raw:binary>>",
            "lines",
            [{"sku": "b", "n": 0, "raw": b""}, {"sku": "c", "n": None, "raw": b"\xff"}],
        ),
        ("struct<tags:map<string,bigint>>", "first", {"tags": [("b", 2**62), ("z", 1)]}),
        ("map<string,string>", "numbered", [("-1", "minus"), ("10", "ten")]),
        ("map<string,struct<sku:string>>", "named", [("k", {"sku": "d"})]),
        ("struct<first:struct<sku:string>,x:double>", "$", {"first": {"sku": "a"}, "x": 0.0}),
    ],
)
def test_a_place(kind: str, field: str, held: Any) -> None:
    assert read(kind, field) == [held]


def test_what_is_not_there_is_null_or_empty() -> None:
    assert read("struct<sku:string>", "first", b"") == [None]
    assert read("string", "first.sku", b"") == [None]
    assert read("array<string>", "states", b"") == [[]]
    assert read("map<string,string>", "numbered", b"") == [[]]
    assert read("json", "first", b"") == [None]
    assert read("json", "lines", b"") == ["[]"]


@pytest.mark.parametrize(
    ("field", "held"),
    [
        ("first", {"sku": "a", "raw": "", "tags": {"z": "1", "b": str(2**62)}}),
        ("numbered", {"-1": "minus", "10": "ten"}),
        ("states", ["PAID", "NEW"]),
        ("free", {"any": [1.0, "x"]}),
        ("times", ["1970-01-01T00:00:01Z"]),
        ("x", 0.0),
        ("lines[1]", {"sku": "c", "raw": "/w==", "tags": {}}),
    ],
)
def test_json_is_that_of_protobuf(field: str, held: Any) -> None:
    ((text),) = read("json", field)
    assert json.loads(text) == held


def test_json_of_a_whole_message_and_within_a_struct() -> None:
    (whole,) = read("json", "$")
    assert json.loads(whole)["named"] == {"k": {"sku": "d", "raw": "", "tags": {}}}
    (within,) = read("struct<tags:json,n:json>", "first")
    assert json.loads(within["tags"]) == {"z": "1", "b": str(2**62)}
    assert within["n"] is None


def test_a_map_is_in_the_order_of_its_keys_whatever_the_order_of_the_bytes() -> None:
    entries = [b"\x22\x04\x08\x05\x12\x00", b"\x22\x04\x08\x03\x12\x00"]
    both = [b"".join(entries), b"".join(reversed(entries))]
    assert read("map<string,string>", "numbered", *both) == [[("3", ""), ("5", "")]] * 2


def test_a_wrong_value_within_is_bad() -> None:
    wrong = MADE(states=[0, 7]).SerializeToString()
    assert read("array<string>", "states", wrong) == [
        ("out of range", "column v: 7 is no value of cart.Cart.State")
    ]
    endless = MADE(x=float("inf"), free={"n": float("inf")}).SerializeToString()
    assert read("json", "free", endless)[0][0] == "out of range"


@pytest.mark.parametrize(
    ("kind", "field", "said"),
    [
        ("string", "first.no", "cart.Line has no field no in first: it has sku, n, raw, tags"),
        ("string", "lines.sku", "lines of lines.sku is a repeated field .*, and has no fields"),
        ("string", "first[0]", r"first of first\[0\] is a message .*, and has no elements"),
        ("string", "numbered.10", "numbered of numbered.10 is a map .*, and has no fields"),
        ("array<string>", "first", "does not fit .* of type cart.Line: it takes a repeated field"),
        (
            "struct<sku:string>",
            "lines",
            "does not fit .* of type repeated field: it takes a message",
        ),
        ("map<string,string>", "lines", "it takes a map"),
        ("struct<no:string>", "first", "cart.Line has no field no: it has sku"),
        ("array<int>", "lines", "int does not fit the Protobuf field of type cart.Line"),
        ("array<json>", "lines", "make all of it json"),
        ("string", "$", "the message is no string"),
        ("json", "sizes[0]", None),
        ("json", "states[0]", "json is for a field or a message"),
    ],
)
def test_a_place_that_does_not_fit_is_refused(kind: str, field: str, said: str | None) -> None:
    if said is None:
        assert read(kind, field) == ['"5"']
        return
    with pytest.raises(OptionError, match=rf"\[silver.columns\] v: .*{said}"):
        read(kind, field)


def exploded(field: str, *values: bytes, **columns: str) -> list[Any]:
    """The rows of each record by the columns and the element's place."""
    kinds = {
        name: replace(column_type(kind.partition(" ")[0]), field=kind.partition(" ")[2])
        for name, kind in columns.items()
    }
    place = replace(column_type("int"), source=POSITION)
    options = OPTIONS | {"explode": field}
    parser = parser_of("protobuf", options=options, **kinds, place=place)
    parsed = parser.parse(batch_of(list(values)))
    rows = parsed.good.to_pylist()
    found = [tuple(row[name] for name in (*columns, "place")) for row in rows]
    return [list(zip(parsed.good_rows.to_pylist(), found, strict=True)), parsed.reasons]


def test_the_elements_of_a_repeated_field_are_rows() -> None:
    empty = MADE(x=2).SerializeToString()
    rows, reasons = exploded(
        "lines", VALUE, empty, b"\xff", sku="string lines.sku", n="int lines.n", x="double x"
    )
    assert rows == [(0, ("b", 0, 0.0, 0)), (0, ("c", None, 0.0, 1)), (1, (None, None, 2.0, None))]
    assert reasons == ["not Protobuf"]


def test_a_repeated_field_of_plain_values_is_exploded() -> None:
    rows, _ = exploded("$.states", VALUE, state="string $.states", size="array<bigint> sizes")
    assert rows == [(0, ("PAID", [5, 0], 0)), (0, ("NEW", [5, 0], 1))]
    wrong = MADE(states=[0, 7]).SerializeToString()
    assert exploded("states", wrong, VALUE, state="string states")[1] == ["out of range"]


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("first", "first is a cart.Line in the descriptor, and no repeated field"),
        ("named", "named is a map in the descriptor, and no repeated field"),
        ("no", "cart.Cart has no field no: it has first"),
    ],
)
def test_what_is_not_repeated_is_not_exploded(field: str, said: str) -> None:
    with pytest.raises(OptionError, match=rf"\[silver\] explode: {said}"):
        exploded(field, VALUE, x="double x")
