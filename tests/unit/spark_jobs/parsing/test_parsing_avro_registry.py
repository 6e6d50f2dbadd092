"""Avro as schema registries write it: a header, and writers' schemas by their ids."""

from __future__ import annotations

import contextlib
import io
import json
import struct
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from strandline_spark.errors import OptionError
from strandline_spark.parsing import column_type
from support.parsing import one_by_one, outcomes, parser_of

MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
MOMENT = datetime(2026, 7, 1, 10, tzinfo=UTC)


def decimal(scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": scale}


def record(*fields: Any, name: str = "Order", **more: Any) -> dict[str, Any]:
    """A record's schema; a field is its name, type and perhaps more."""
    made = [{"name": n, "type": t, **(m[0] if m else {})} for n, t, *m in fields]
    return {"type": "record", "name": name, "namespace": "shop", "fields": made, **more}


def datum(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def framed(number: int, schema: Any, value: Any) -> bytes:
    return struct.pack(">bI", 0, number) + datum(schema, value)


def schemas(by_id: dict[int, Any], reader: Any = None) -> dict[str, Any]:
    options: dict[str, Any] = {
        "registry": "header",
        "schemas": {str(number): json.dumps(schema) for number, schema in by_id.items()},
    }
    return options if reader is None else options | {"avro_schema": json.dumps(reader)}


FIRST = record(("id", "int"), ("total", decimal(2)), ("note", ["null", "string"]))
SECOND = record(
    ("at", ["null", MILLIS], {"default": None}),
    ("number", "long", {"aliases": ["id"]}),
    ("total", decimal(3)),
    ("state", {"type": "enum", "name": "State", "symbols": ["NEW", "OLD"]}, {"default": "OLD"}),
    ("weight", "double", {"default": 1}),
    ("code", "bytes", {"default": "\u00ff"}),
)
COLUMNS = {
    "number": "bigint",
    "total": "decimal(9,3)",
    "at": "timestamp",
    "state": "string",
    "weight": "double",
    "code": "binary",
}
OF_FIRST = framed(7, FIRST, {"id": 5, "total": Decimal("1.25"), "note": "x"})
OF_SECOND = framed(
    8,
    SECOND,
    {
        "at": MOMENT,
        "number": 1 << 40,
        "total": Decimal("2.125"),
        "state": "NEW",
        "weight": 0.5,
        "code": b"\0",
    },
)


def test_a_header_is_skipped_whatever_its_id_is() -> None:
    options = {"registry": "header", "avro_schema": json.dumps(FIRST)}
    parser = parser_of("avro", options=options, total="decimal(9,2)")
    value = {"id": 5, "total": Decimal("1.25"), "note": None}
    found = outcomes(parser, [framed(n, FIRST, value) for n in (0, 7, 2**32 - 1)])
    assert [each[1]["total"] for each in found] == [Decimal("1.25")] * 3


@pytest.mark.parametrize(
    ("value", "reason", "said"),
    [
        (b"", "no schema id", "the value ends before the schema id does: b''"),
        (b"\0\0\0\0", "no schema id", "the value ends before the schema id does"),
        (b"\1" + OF_FIRST[1:], "no schema id", "the first byte is 1, and a registry's header"),
        (b'{"n": 5}', "no schema id", "the first byte is 123"),
        (OF_FIRST[:5], "not Avro", "the value ends before the datum does"),
        (OF_FIRST[:-1], "not Avro", "the value ends before the datum does"),
        (OF_FIRST + b"\0", "not Avro", "1 bytes are left over"),
        (
            framed(9, FIRST, {"id": 5, "total": Decimal(1), "note": None}),
            "schema id without a schema",
            "[silver] schemas has no schema 9: b'",
        ),
    ],
)
def test_a_value_without_a_known_schema_is_bad_and_those_around_it_are_good(
    value: bytes, reason: str, said: str
) -> None:
    parser = parser_of("avro", options=schemas({7: FIRST, 8: SECOND}), **COLUMNS)
    values = [OF_FIRST, value, None, OF_SECOND]
    found = outcomes(parser, values)
    assert [each[0] for each in found] == ["good", "bad", "tombstone", "good"]
    assert found[1][1] == reason
    assert found[1][2].startswith(said)
    assert found == one_by_one(parser, values)


@pytest.mark.parametrize(
    "options", [schemas({7: FIRST, 8: SECOND}), schemas({7: FIRST, 8: SECOND}, SECOND)]
)
def test_a_value_is_of_its_own_schema_and_resolves_to_the_readers(options: Any) -> None:
    """The reader's is that of the greatest id, unless avro_schema says another."""
    parser = parser_of("avro", options=options, **COLUMNS)
    first, second = outcomes(parser, [OF_FIRST, OF_SECOND])
    del first[1]["event_time"], second[1]["event_time"]
    assert first[1] == {
        "number": 5,
        "total": Decimal("1.250"),
        "at": None,
        "state": "OLD",
        "weight": 1.0,
        "code": b"\xff",
    }
    assert second[1] == {
        "number": 1 << 40,
        "total": Decimal("2.125"),
        "at": MOMENT,
        "state": "NEW",
        "weight": 0.5,
        "code": b"\0",
    }


def test_a_field_within_fields_resolves_too() -> None:
    one = record(("page", record(("url", "string"), name="Page")))
    page = record(
        ("address", "string", {"aliases": ["url"]}),
        ("code", "bytes", {"default": "\u00ff"}),
        name="Page",
    )
    other = record(
        ("page", page), ("tags", {"type": "array", "items": "bytes"}, {"default": ["\u00fe"]})
    )
    columns = {
        "address": replace(column_type("string"), field="page.address"),
        "code": replace(column_type("binary"), field="$.page.code"),
        "tags": column_type("array<binary>"),
    }
    parser = parser_of("avro", options=schemas({1: one}, other), **columns)
    found = outcomes(parser, [framed(1, one, {"page": {"url": "/x"}})])[0][1]
    assert (found["address"], found["code"], found["tags"]) == ("/x", b"\xff", [b"\xfe"])


def test_schemas_alone_mean_a_header() -> None:
    options = schemas({7: FIRST})
    del options["registry"]
    parser = parser_of("avro", options=options, number=replace(column_type("int"), field="id"))
    assert outcomes(parser, [OF_FIRST])[0][1]["number"] == 5


@pytest.mark.parametrize(
    ("writer", "reader", "value", "kind", "held"),
    [
        ("int", "long", 5, "bigint", 5),
        ("int", "double", 5, "double", 5.0),
        ("string", "bytes", "é", "binary", "é".encode()),
        ("bytes", "string", "é".encode(), "string", "é"),
        (["null", "int"], "long", 5, "bigint", 5),
        ("long", ["null", "long"], 5, "bigint", 5),
        (MILLIS, MICROS, MOMENT, "timestamp", MOMENT),
        (["null", MILLIS], ["null", MICROS], MOMENT, "timestamp", MOMENT),
        (MILLIS, ["null", MICROS], MOMENT, "timestamp", MOMENT),
        (decimal(1), decimal(2), Decimal("1.5"), "decimal(9,2)", Decimal("1.50")),
        ("long", MICROS, 1_000_000, "timestamp", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        (MICROS, "long", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "bigint", 1_000_000),
        (
            {"type": "int", "logicalType": "time-millis"},
            {"type": "long", "logicalType": "time-micros"},
            1500,
            "bigint",
            1500,
        ),
    ],
)
def test_types_that_resolve(writer: Any, reader: Any, value: Any, kind: str, held: Any) -> None:
    """A logical type is the writer's, if both have one."""
    plain = {"type": "int"} if writer == {"type": "int", "logicalType": "time-millis"} else writer
    one, other = record(("v", writer)), record(("v", reader))
    parser = parser_of("avro", options=schemas({1: one}, other), v=kind)
    found = outcomes(parser, [framed(1, record(("v", plain)), {"v": value})])
    assert [each[1]["v"] for each in found if each[0] == "good"] == [held], found


def test_a_named_type_of_another_scale_is_read_by_the_writers_wherever_it_stands() -> None:
    def money(scale: int) -> dict[str, Any]:
        of = {"type": "fixed", "name": "Money", "size": 4, "logicalType": "decimal"}
        return {**of, "precision": 9, "scale": scale}

    one = record(("a", money(1)), ("b", ["null", "shop.Money"]))
    other = record(
        ("a", ["null", money(2)]), ("b", "Money"), ("c", ["null", "Money"], {"default": None})
    )
    kind = "decimal(9,2)"
    parser = parser_of("avro", options=schemas({1: one}, other), a=kind, b=kind, c=kind)
    value = framed(1, one, {"a": Decimal("1.5"), "b": Decimal("-2.5")})
    found = outcomes(parser, [value])[0][1]
    assert (found["a"], found["b"], found["c"]) == (Decimal("1.50"), Decimal("-2.50"), None)


def test_a_value_of_no_type_of_the_readers_is_quarantined() -> None:
    one, other = record(("v", ["null", "int"])), record(("v", "long"))
    parser = parser_of("avro", options=schemas({1: one}, other), v="bigint")
    found = outcomes(parser, [framed(1, one, {"v": v}) for v in (5, None)])
    assert found[0][1]["v"] == 5
    assert found[1][1:2] == ("wrong type",)
    assert found[1][2].startswith("a value of schema 1 is of no type of the reader's schema: b'")


def test_a_symbol_that_the_reader_lacks_becomes_its_default() -> None:
    def enum(*symbols: str, **more: Any) -> dict[str, Any]:
        return {"type": "enum", "name": "E", "symbols": list(symbols), **more}

    one = record(("v", enum("A", "B")))
    for reader, held in ((enum("A", "X", default="X"), "X"), (enum("A"), None)):
        parser = parser_of("avro", options=schemas({1: one}, record(("v", reader))), v="string")
        found = outcomes(parser, [framed(1, one, {"v": "B"})])[0]
        assert (found[1]["v"] if held else found[1]) == (held or "wrong type")


@pytest.mark.parametrize(("second", "held"), [("v", 2), ("older", 1)])
def test_a_field_that_is_there_twice_is_that_of_its_name_or_first_alias(
    second: str, held: int
) -> None:
    one = record(("old", "int"), (second, "int"))
    other = record(("v", "int", {"aliases": ["old", "older"]}))
    parser = parser_of("avro", options=schemas({1: one}, other), v="int")
    assert outcomes(parser, [framed(1, one, {"old": 1, second: 2})])[0][1]["v"] == held


@pytest.mark.parametrize(
    ("by_id", "reader", "columns", "said"),
    [
        ({"x": FIRST}, None, {"id": "int"}, r"\[silver\] schemas: 'x' is no id of a registry"),
        ({"07": FIRST}, None, {"id": "int"}, r"\[silver\] schemas: '07' is no id"),
        ({str(2**31): FIRST}, None, {"id": "int"}, r"schemas: '2147483648' is no id"),
        ({"7": "int"}, None, {"id": "int"}, "schemas: the schema 7 is no record"),
        (
            {"7": FIRST},
            "int",
            {"id": "int"},
            r"avro_schema: '\"int\"' is no record: give the reader",
        ),
        ({"7": FIRST}, None, {"no": "int"}, r"\[silver.columns\] no: the Avro schema has no"),
        (
            {"7": FIRST},
            record(("id", "int"), ("more", "int")),
            {"id": "int"},
            "the schema 7 does not resolve to the reader's schema: it has no field more, for which",
        ),
        (
            {"7": FIRST},
            record(("id", "string")),
            {"id": "string"},
            "the field id is int, and string in the reader's schema",
        ),
        (
            {"7": record(("v", "long"))},
            record(("v", "int")),
            {"v": "int"},
            "the field v is long, and int in the reader's",
        ),
        (
            {"7": FIRST},
            record(("id", "int"), name="Sale"),
            {"id": "int"},
            "the record is shop.Order, and shop.Sale in the reader's schema, which can give it the"
            " alias Order",
        ),
        (
            {"7": record(("v", record(("at", MILLIS), name="In")))},
            record(("v", record(("at", MICROS), name="In")), ("w", "int", {"default": 0})),
            {"w": "int"},
            "the field v.at is timestamp-millis, and timestamp-micros in the reader's schema",
        ),
        (
            {"7": FIRST},
            record(("id", "int"), ("b", "bytes", {"default": "\u0100"})),
            {"id": "int"},
            "avro_schema: .* has a default that is no value of its type",
        ),
    ],
)
def test_schemas_that_do_not_resolve_are_refused(
    by_id: Any, reader: Any, columns: Any, said: str
) -> None:
    with pytest.raises(OptionError, match=said):
        parser_of("avro", options=schemas(by_id, reader), **columns)


def test_a_schema_that_refers_to_itself_resolves() -> None:
    tree = record(("v", "int"), ("next", ["null", "shop.Order"]))
    other = record(("v", "long"), ("next", ["null", "Order"]), ("more", "int", {"default": 3}))
    parser = parser_of("avro", options=schemas({1: tree}, other), v="bigint", more="int")
    value = framed(1, tree, {"v": 1, "next": {"v": 2, "next": None}})
    found = outcomes(parser, [value])[0][1]
    assert (found["v"], found["more"]) == (1, 3)


@pytest.mark.parametrize("of", [{"type": "shop.Money"}, {"type": {"type": "Money"}}])
def test_a_name_in_place_of_a_definition_stands_for_its_type(of: Any) -> None:
    money = {"type": "fixed", "name": "Money", "size": 2}
    plain = record(("a", money), ("b", "Money"))
    schema = record(("a", money), ("b", of))
    options = {"avro_schema": json.dumps(schema)}
    found = outcomes(
        parser_of("avro", options=options, b="binary"), [datum(plain, {"a": b"12", "b": b"34"})]
    )
    assert found[0][1]["b"] == b"34"


def test_a_registrys_answer_is_a_schema() -> None:
    answer = json.dumps({"subject": "orders", "id": 7, "schema": json.dumps(FIRST)})
    parser = parser_of("avro", options={"schemas": {"7": answer}}, id="int")
    assert outcomes(parser, [OF_FIRST])[0][1]["id"] == 5


@pytest.mark.parametrize(
    "more",
    [
        {"precision": 0},
        {"precision": 2, "scale": 3},
        {"precision": "9"},
        {"precision": 9, "scale": -1},
        {"precision": 9, "scale": 1.5},
        {"precision": 40, "type": "fixed", "name": "F", "size": 4},
        {},
    ],
)
def test_a_decimal_that_cannot_be_one_counts_as_its_base_type(more: dict[str, Any]) -> None:
    of = {"type": "bytes", "logicalType": "decimal", **more}
    plain = {key: one for key, one in of.items() if key != "logicalType"}
    options = {"avro_schema": json.dumps(record(("v", ["null", of])))}
    value = datum(record(("v", ["null", plain])), {"v": b"abcd"})
    assert outcomes(parser_of("avro", options=options, v="binary"), [value])[0][1]["v"] == b"abcd"


def test_schemas_that_are_nested_too_deeply_are_refused() -> None:
    taken = 0
    for level in range(0, 2000, 50):
        fields = f'{{"name": "v", "type": {_text(level)}}}'
        more = f'{fields}, {{"name": "n", "type": "int", "default": 1}}'
        writer, reader = (
            f'{{"type": "record", "name": "R", "fields": [{one}]}}' for one in (fields, more)
        )
        with contextlib.suppress(OptionError):
            options = {"schemas": {"1": writer}, "avro_schema": reader}
            parser_of("avro", options=options, n="int")
            taken += 1
    assert 0 < taken < 40  # more on Python 3.13 than on 3.11


def _text(levels: int) -> str:
    return '{"type": "array", "items": ' * levels + '"int"' + "}" * levels
