"""Protobuf: one message of a descriptor a record, bare or with a registry's header."""

from __future__ import annotations

import base64
import struct
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from strandline_spark.errors import OptionError
from strandline_spark.parsing import column_type
from strandline_spark.parsing.protobuf.descriptors import DescriptorProblem, descriptor_text
from support.descriptors import descriptor_set, message_class
from support.parsing import one_by_one, outcomes, parser_of

SHOP = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
import "date.proto";
message Other { string s = 1; }
// An order.
message Order {
  message Line { string sku = 1; int32 n = 2; message Note { string text = 1; } }
  enum State { NEW = 0; PAID = 2; }
  int64 id = 1;
  int32 n = 2;
  uint32 u = 3;
  uint64 big = 4;
  sint32 z = 5;
  fixed64 f = 6;
  bool paid = 7;
  string name = 8;
  bytes photo = 9;
  float weight = 10;
  double price = 11;
  State state = 12;
  google.protobuf.Timestamp at = 13;
  google.protobuf.Duration took = 14;
  google.protobuf.Int64Value maybe = 15;
  google.protobuf.StringValue word = 16;
  google.type.Date day = 17;
  optional int32 given = 18;
  oneof how { string card = 19; string cash = 20; }
  Line first = 21;
  repeated Line lines = 22;
  map<string, int32> counts = 23;
  repeated int32 numbers = 24;
}
"""
DATE = """
syntax = "proto3";
package google.type;
message Date { int32 year = 1; int32 month = 2; int32 day = 3; }
"""
SET = descriptor_set("--include_imports", date=DATE, shop=SHOP)
ORDER = message_class(SET, "shop.Order")
OPTIONS = {"message": "shop.Order", "descriptor": descriptor_text(SET, "shop.Order")}
COLUMNS = {
    "id": "bigint",
    "n": "int",
    "u": "int",
    "big": "decimal(22,2)",
    "z": "int",
    "f": "bigint",
    "paid": "boolean",
    "name": "string",
    "photo": "binary",
    "weight": "double",
    "price": "double",
    "state": "string",
    "at": "timestamp",
    "took": "string",
    "maybe": "bigint",
    "word": "string",
    "day": "date",
    "given": "int",
    "card": "string",
    "cash": "string",
}
MOMENT = datetime(2026, 7, 1, 10, 0, 0, 123456, UTC)
VALUES: dict[str, Any] = {
    "id": 1 << 40,
    "n": -5,
    "u": 7,
    "big": 2**64 - 1,
    "z": -(2**31),
    "f": 3,
    "paid": True,
    "name": "é",
    "photo": b"\0\xff",
    "weight": 0.5,
    "price": 0.1,
    "state": 2,
    "at": {"seconds": int(MOMENT.timestamp()), "nanos": 123_456_789},
    "took": {"seconds": -3, "nanos": -500_000_000},
    "maybe": {"value": 0},
    "word": {"value": "w"},
    "day": {"year": 2024, "month": 2, "day": 29},
    "given": 0,
    "cash": "",
    "lines": [{"sku": "a", "n": 1}],
    "counts": {"b": 1, "a": 2},
    "numbers": [1, -2],
}
GOOD: bytes = ORDER(**VALUES).SerializeToString()


def order(**values: Any) -> bytes:
    made: bytes = ORDER(**values).SerializeToString()
    return made


def parser(*names: str, options: Any = None, **columns: Any) -> Any:
    found = {name: COLUMNS[name] for name in names} | columns
    return parser_of("protobuf", options=OPTIONS | (options or {}), **found)


def test_values_become_what_they_say() -> None:
    ((_, found),) = outcomes(parser(*COLUMNS), [GOOD])
    del found["event_time"]
    assert found == {
        **{name: VALUES[name] for name in COLUMNS if name in VALUES},
        "big": Decimal("18446744073709551615.00"),
        "state": "PAID",
        "at": MOMENT,
        "took": "PT-3.5S",
        "maybe": 0,
        "word": "w",
        "day": date(2024, 2, 29),
        "card": None,
    }


def test_what_a_message_lacks_is_null_if_its_field_has_presence_and_zero_if_not() -> None:
    ((_, found),) = outcomes(parser(*COLUMNS), [b""])
    del found["event_time"]
    zero = {"id": 0, "n": 0, "u": 0, "big": Decimal(0), "z": 0, "f": 0, "paid": False, "name": ""}
    zero |= {"photo": b"", "weight": 0.0, "price": 0.0, "state": "NEW"}
    assert found == dict.fromkeys(COLUMNS) | zero


def test_a_field_within_messages_has_a_path() -> None:
    columns = {
        "sku": replace(column_type("string"), field="first.sku"),
        "secs": replace(column_type("timestamp", "epoch_s"), field="at.seconds"),
    }
    found = outcomes(
        parser(**columns), [order(first={"sku": "x"}), order(at={"seconds": 5}), order(first={})]
    )
    assert [each[1]["sku"] for each in found] == ["x", None, ""]
    assert [each[1]["secs"] for each in found] == [
        None,
        datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC),
        None,
    ]


def test_columns_clean_their_texts_and_have_defaults() -> None:
    columns = {
        "name": replace(column_type("string"), trim=True, null_values=("-",), default="none"),
        "at": replace(column_type("timestamp"), required=True),
    }
    rows = [order(name=" a ", at={}), order(name=" - ", at={}), order(name="b")]
    found = outcomes(parser(**columns), rows)
    assert [each[1]["name"] for each in found[:2]] == ["a", "none"]
    assert found[2][1] == "null"


INT32 = b"\x10"  # field 2, n
BAD = {
    b"\xff": ("not Protobuf", "no message of shop.Order: b'\\xff'"),
    GOOD[:-1]: ("not Protobuf", "no message of shop.Order: b'"),
    b"\x42\x01\xff": ("not Protobuf", "no message of shop.Order: b'B\\x01\\xff'"),
    INT32 + b"\x80\x80\x80\x80\x20": ("out of range", "field n: 8589934592 is beyond its type: b'"),
    b"\x18\x80\x80\x80\x80\x10": ("out of range", "field u: 4294967296 is beyond its type: b'"),
    b"\x38\x02": ("out of range", "field paid: 2 is beyond its type: b'8\\x02'"),
    b"\x12\x01a": ("wrong type", "field n has the wire type 2, not 0: b'"),
    b"\x40\x01": ("wrong type", "field name has the wire type 0, not 2: b'"),
    b"\xaa\x01\x02\x08\x01": ("wrong type", "field sku has the wire type 0, not 2: b'"),
    INT32 + b"\1" + INT32 + b"\2": ("field twice", "field n has two values: b'"),
    order(card="a") + order(cash="b"): ("field twice", "field how has two values: b'"),
    order(u=2**31): ("out of range", "column u: 2147483648 does not fit int"),
    order(f=2**63): ("out of range", "column f: 9223372036854775808 does not fit bigint"),
    order(state=1): ("out of range", "column state: 1 is no value of shop.Order.State"),
    order(at={"seconds": 2**40}): ("out of range", "column at: 1099511627776 seconds and 0 nanos"),
    order(at={"nanos": 10**9}): ("out of range", "column at: 0 seconds and 1000000000 nanos"),
    order(took={"seconds": 1, "nanos": -1}): (
        "out of range",
        "column took: 1 seconds and -1 nanos",
    ),
    order(day={"year": 2023, "month": 2, "day": 29}): ("out of range", "column day: year 2023"),
    order(day={"year": 2023}): ("out of range", "column day: year 2023, month 0, day 0 is no date"),
}


@pytest.mark.parametrize("value", BAD)
def test_a_wrong_value_is_bad_and_the_rows_around_it_are_good(value: bytes) -> None:
    values = [GOOD, value, None, GOOD]
    found = outcomes(parser(*COLUMNS), values)
    assert [each[0] for each in found] == ["good", "bad", "tombstone", "good"]
    reason, said = BAD[value]
    assert found[1][1] == reason
    assert found[1][2].startswith(said)
    assert found == one_by_one(parser(*COLUMNS), values)


@pytest.mark.parametrize(
    ("value", "n"),
    [
        (b"\xfa\x3f\x01x" + INT32 + b"\5", 5),  # a later field, 1023
        (INT32 + b"\5" + b"\xf8\x3f\x01", 5),
        (INT32 + b"\x85\x00", 5),  # more bytes than needed
        (INT32 + b"\0", 0),
        (b"\xc3\x3e\x08\x01\xc4\x3e" + INT32 + b"\5", 5),  # a group, 1000
        (b"\xc2\x01\x02\x01\x02" + b"\xc0\x01\x03" + INT32 + b"\5", 5),  # packed or not
        (b"\xba\x01\x05\x0a\x01z\x10\1" + b"\xba\x01\x05\x0a\x01a\x10\1" + INT32 + b"\5", 5),
    ],
)
def test_a_message_that_another_version_or_language_writes_is_good(value: bytes, n: int) -> None:
    assert outcomes(parser("n"), [value])[0][1]["n"] == n


def test_a_column_that_is_not_read_may_hold_a_value_that_is_not_known() -> None:
    assert outcomes(parser("n"), [order(n=5, state=1)])[0][1]["n"] == 5


PROTO2 = """
syntax = "proto2";
package old;
enum Kind { A = 1; B = 2; }
message Event {
  required int32 id = 1;
  optional Kind kind = 2;
  optional int32 size = 3 [default = 7];
  optional string name = 4;
  extensions 100 to 200;
}
"""


def test_proto2() -> None:
    data = descriptor_set(old=PROTO2)
    options = {"message": "old.Event", "descriptor": descriptor_text(data, "old.Event")}
    columns = {"id": "int", "kind": "string", "size": "int", "name": "string"}
    read = parser_of("protobuf", options=options, **columns)
    rows = [
        b"\x08\1",
        b"\x08\1\x10\2\x18\0\x22\x01x",
        b"\x10\1",
        b"\x08\1\x10\3",
        b"\x08\1\x22\x01\xff",
        b"\x08\1\xa2\x06\x01x",
    ]
    found = outcomes(read, rows)
    assert [tuple(each[1][name] for name in columns) for each in found[:2]] == [
        (1, None, 7, None),
        (1, "B", 0, "x"),
    ]
    assert [each[:2] for each in found[2:5]] == [
        ("bad", "not Protobuf"),
        ("bad", "out of range"),
        ("bad", "not UTF-8"),
    ]
    assert found[2][2].startswith("old.Event lacks a required field: b'")
    assert found[3][2].startswith("field kind: 3 is no value of old.Kind: b'")
    assert found[5][0] == "good"
    assert outcomes(parser_of("protobuf", options=options, id="int"), [rows[3]])[0][0] == "good"


def test_messages_within_each_other_have_a_limit() -> None:
    data = descriptor_set(deep='syntax = "proto3"; message T { T t = 1; int32 n = 2; }')
    options = {"message": "T", "descriptor": descriptor_text(data, "T")}
    read = parser_of("protobuf", options=options, n="int")

    def deep(levels: int) -> bytes:
        value = b"\x10\0"
        for _ in range(levels):
            size = len(value)
            value = (
                b"\x0a"
                + (bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7]))
                + value
            )
        return value

    found = outcomes(read, [deep(50), deep(1000), b"\x0b" * 1000])
    assert [each[:2] for each in found[1:]] == [("bad", "not Protobuf")] * 2
    assert found[0][0] == "good"


def framed(value: bytes, *indexes: int, number: int = 7) -> bytes:
    return struct.pack(">bI", 0, number) + bytes(indexes) + value


@pytest.mark.parametrize(
    ("value", "message", "held"),
    [
        (framed(GOOD, 2, 2), "shop.Order", "é"),  # zigzag: one index, 1
        (framed(GOOD, 2, 2, number=2**32 - 1), "shop.Order", "é"),
        (framed(b"\x0a\x01o", 0), "shop.Other", "o"),  # the short form of [0]
        (framed(b"\x0a\x01o", 2, 0), "shop.Other", "o"),
        (framed(b"\x0a\x01o", 4, 2, 0), "shop.Order.Line", "o"),
        (framed(b"\x0a\x01o", 6, 2, 0, 0), "shop.Order.Line.Note", "o"),
        (framed(GOOD, 0), "shop.Order", "another message"),
        (framed(GOOD, 4, 2, 0), "shop.Order", "another message"),
        (framed(b"", 2, 1), "shop.Order", "another message"),
        (GOOD, "shop.Order", "no schema id"),
        (framed(b""), "shop.Order", "no schema id"),
        (framed(b"", 2), "shop.Order", "no schema id"),
        (framed(b"", 1), "shop.Order", "no schema id"),
        (framed(b"", 0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF), "shop.Order", "no schema id"),
        (framed(b"\xff", 2, 2), "shop.Order", "not Protobuf"),
    ],
)
def test_a_registrys_header_names_the_message(value: bytes, message: str, held: str) -> None:
    options = {
        "message": message,
        "descriptor": descriptor_text(SET, message),
        "registry": "header",
    }
    field = {"shop.Order": "name", "shop.Other": "s", "shop.Order.Line": "sku"}.get(message, "text")
    read = parser_of("protobuf", options=options, v=replace(column_type("string"), field=field))
    ((good, *found),) = outcomes(read, [value])
    assert (found[0]["v"] if good == "good" else found[0]) == held
    if held == "another message":
        assert "of its file, and shop.Order is at 1: b'" in found[1]


@pytest.mark.parametrize(
    ("options", "columns", "said"),
    [
        ({"message": None}, {"n": "int"}, r"\[silver\] message: format 'protobuf' needs it"),
        ({"descriptor": None}, {"n": "int"}, r"\[silver\] descriptor: format 'protobuf' needs it"),
        ({"descriptor": "-"}, {"n": "int"}, r"\[silver\] descriptor: is not base64"),
        (
            {"message": "Order"},
            {"n": "int"},
            r"message: 'Order' is no message .* shop.Order, .*full",
        ),
        ({}, {"no": "int"}, r"\[silver.columns\] no: shop.Order has no field no: it has id, n"),
        ({}, {"n": "string"}, r"columns\] n: string does not fit the Protobuf field of type int32"),
        (
            {},
            {"at": "bigint"},
            "at: bigint does not fit .* google.protobuf.Timestamp: it takes enum",
        ),
        ({}, {"numbers": "int"}, "numbers: the field numbers is a repeated field, and int is one"),
        ({}, {"counts": "int"}, "counts: the field counts is a map, and int is one value"),
        ({}, {"first": "string"}, "first: string does not fit .* of type shop.Order.Line"),
        (
            {},
            {"x": replace(column_type("int"), field="lines.n")},
            "x: lines of lines.n is a repeated field in the descriptor, and has no fields",
        ),
        (
            {},
            {"x": replace(column_type("int"), field="n.n")},
            "x: n of n.n is a value in the descriptor, and has no fields",
        ),
        (
            {},
            {"at": replace(column_type("timestamp"), zone="Europe/Berlin")},
            "at: zone 'Europe/Berlin': a google.protobuf.Timestamp is in UTC",
        ),
        ({}, {"photo": column_type("binary", "hex")}, "a binary column of protobuf has no format"),
    ],
)
def test_settings_that_make_no_sense_are_refused(options: Any, columns: Any, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        parser(options=options, **columns)


def test_a_set_without_its_imports_is_refused() -> None:
    alone = descriptor_set(date=DATE, shop=SHOP)
    text = descriptor_text(alone, "shop.Order")
    with pytest.raises(OptionError, match=r"it imports google/protobuf/dur.*--include_imports"):
        parser("n", options={"descriptor": text})


@pytest.mark.parametrize("data", [b"", b"\xff", b"syntax", b"\x0a\x00"])
def test_a_file_that_is_no_set_is_refused(data: bytes) -> None:
    with pytest.raises(DescriptorProblem, match="is no FileDescriptorSet: write it with protoc"):
        descriptor_text(data, "shop.Order")


def test_a_descriptors_text_is_what_the_message_needs_without_the_comments_of_its_source() -> None:
    more = descriptor_set(
        "--include_imports",
        "--include_source_info",
        unrelated='syntax = "proto3"; message Unrelated {}',
        date=DATE,
        shop=SHOP,
    )
    assert descriptor_text(more, "shop.Order") == OPTIONS["descriptor"]
    assert b"unrelated" not in base64.b64decode(OPTIONS["descriptor"])
