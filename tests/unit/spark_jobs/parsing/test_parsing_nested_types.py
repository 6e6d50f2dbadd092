"""Columns of the types struct, array, map and json, and their names."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from strandline_spark.errors import OptionError
from strandline_spark.parsing import column_type
from strandline_spark.parsing.parts.type_names import stored
from support.parsing import one_by_one, outcomes, parser_of

FIRST = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "name", "in_table"),
    [
        ("json", "json", "string"),
        ("array<json>", "array<json>", "array<string>"),
        ("struct<url:string,n:bigint>", "struct<url:string,n:bigint>", None),
        (
            "STRUCT< Url : String , p : Decimal( 5 , 2 ) >",
            "struct<Url:string,p:decimal(5,2)>",
            None,
        ),
        ("map<string,struct<`a.b`:int>>", "map<string,struct<`a.b`:int>>", None),
        ("array<array<map<string,date>>>", "array<array<map<string,date>>>", None),
    ],
)
def test_a_type_has_one_name(text: str, name: str, in_table: str | None) -> None:
    found = column_type(text)
    assert (found.name, stored(found)) == (name, in_table or name)
    assert column_type(found.name) == found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("struct", "is none of string, .*, json, .*map<string,type>"),
        ("struct<>", "'>' stands where the name of a field is expected"),
        ("struct<a int>", "'int>' stands where ':' is expected"),
        ("struct<a:int,A:int>", "has the field A twice"),
        ("struct<`a b`:int>", "a table cannot have a field named 'a b'"),
        ("array<", "nothing is left where a type is expected"),
        ("array<int>>", "'>' stands where the end is expected"),
        ("array<float>", "'array<float>' is none of string"),
        ("array<decimal(50,2)>", "1 <= p <= 38 digits"),
        ("map<int,string>", "the key of a map is the name of a field"),
        ("map<string>", "'>' stands where ',' is expected"),
        ("array<" * 60 + "int" + ">" * 60, "more than 50 types within each other"),
    ],
)
def test_a_name_of_no_type_is_refused(text: str, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        column_type(text)


def read(kind: str, *values: str, form: Any = "json", **more: Any) -> list[Any]:
    """What a column holds of JSON texts, or the reason and detail of the quarantine."""
    options: dict[str, Any] = {}
    rows = [f'{{"v":{value},"n":1}}' for value in values]
    if form == "csv":
        rows = ['"{}",1'.format(value.replace('"', '""')) for value in values]
    elif form == "regex":
        options, rows = {"pattern": "(?P<v>.*)(?P<n>1)"}, [f"{value}1" for value in values]
    parser = parser_of(form, options=options, v=replace(column_type(kind), **more), n="int")
    found = outcomes(parser, rows)
    assert found == one_by_one(parser, rows)
    return [each[1]["v"] if each[0] == "good" else each[1:] for each in found]


@pytest.mark.parametrize("form", ["json", "csv", "regex"])
def test_parts_have_their_types_in_all_formats(form: str) -> None:
    kind = "array<struct<n:bigint,at:timestamp,p:decimal(5,2),d:date,ok:boolean>>"
    values = [
        '[{"n":1,"at":"2026-01-01","p":1.5,"d":"2026-01-02","ok":true,"more":[]}]',
        '[{"p":"2.25"},null,{}]',
        "[]",
        "null",
    ]
    nothing = dict.fromkeys(("n", "at", "p", "d", "ok"))
    assert read(kind, *values, form=form) == [
        [{"n": 1, "at": FIRST, "p": Decimal("1.50"), "d": date(2026, 1, 2), "ok": True}],
        [nothing | {"p": Decimal("2.25")}, None, nothing],
        [],
        None,
    ]


def test_a_map_has_the_fields_of_an_object_in_their_order() -> None:
    found = read("map<string,double>", '{"b":1,"a":null,"c.d":2.5}', "{}", "null")
    assert found == [[("b", 1.0), ("a", None), ("c.d", 2.5)], [], None]
    times = read("map<string,array<timestamp>>", '{"x":["2026-01-01"],"y":[],"z":null}')
    assert times == [[("x", [FIRST]), ("y", []), ("z", None)]]


@pytest.mark.parametrize(
    ("kind", "value", "reason", "said"),
    [
        ("array<int>", '{"a":1}', "wrong type", "column v: an object is no array<int>"),
        ("struct<a:int>", "[1]", "wrong type", "column v: an array is no struct<a:int>"),
        ("map<string,int>", '"x"', "wrong type", "column v: a string 'x' is no map<string,int>"),
        ("array<int>", '[1,"x"]', "wrong type", "column v[1]: a string 'x' is no int"),
        ("struct<a:int>", '{"a":3000000000}', "out of range", "column v.a: 3000000000 does not"),
        ("array<date>", '["2026-01-01","no"]', "wrong type", "column v[]: 'no' is no date"),
        ("map<string,decimal(3,2)>", '{"k":1.234}', "out of range", "column v.value: '1.234'"),
        ("array<array<boolean>>", "[[true],[1]]", "wrong type", "column v[1][0]: number 1 is no"),
    ],
)
def test_a_part_that_does_not_fit_quarantines_its_record(
    kind: str, value: str, reason: str, said: str
) -> None:
    good = "null"
    (first, (found, detail), last) = read(kind, good, value, good)
    assert (first, last, found) == (None, None, reason)
    assert detail.startswith(said)


def test_json_is_the_text_of_any_value_as_it_is_written() -> None:
    texts = ['{"x": [1.50,\t2]}', "1.50", "-0", "true", '"s"', '"\\u0041"', "[]", '"NA"', "null"]
    assert read("json", *texts) == [*texts[:-1], None]
    assert read("array<json>", '[1.50, {"a" : 1},null]') == [["1.50", '{"a" : 1}', None]]
    assert read("map<string,json>", '{"a": {"b":  2}}') == [[("a", '{"b":  2}')]]
    assert read("json", '"NA"', '{"a":1}', null_values=("NA",)) == [None, '{"a":1}']
    assert read("json", "1", '"1"', null_values=("1",)) == ["1", None]


@pytest.mark.parametrize("form", ["csv", "regex"])
def test_a_text_that_is_no_json_is_quarantined(form: str) -> None:
    found = read("json", '{"a": 1}', "", "{", "1 2", '{"a":1,"a":2}', form=form)
    assert found[:2] == ['{"a": 1}', None]
    assert [each[0] for each in found[2:]] == ["not JSON", "more than one value", "field twice"]
    assert all(each[1].startswith("column v: ") for each in found[2:])


def test_a_default_of_parts_is_json() -> None:
    assert read("array<int>", "null", "[1]", default="[]") == [[], [1]]
    with pytest.raises(OptionError, match=r"v: default '\[x' is no array<int>"):
        read("array<int>", default="[x")


@pytest.mark.parametrize(
    ("kind", "more", "said"),
    [
        ("array<timestamp>", {"format": "%Y"}, r"a array<timestamp> has no format"),
        ("struct<a:timestamp>", {"zone": "UTC"}, "zone 'UTC' is for a timestamp"),
        ("json", {"trim": True}, "trim is for a text, and the column is a json"),
        ("array<binary>", {}, "the texts of a binary within array<binary> have no format"),
    ],
)
def test_keys_that_parts_do_not_have_are_refused(kind: str, more: Any, said: str) -> None:
    with pytest.raises(OptionError, match=rf"\[silver.columns\] v: .*{said}"):
        read(kind, **more)


def test_a_field_may_be_read_whole_and_in_parts() -> None:
    page, url = column_type("json"), replace(column_type("string"), field="page.url")
    parsed = replace(column_type("struct<url:string>"), field="page")
    parser = parser_of("json", page=page, url=url, parsed=parsed)
    ((_, row),) = outcomes(parser, ['{"page":{"url":"u"}}'])
    assert (row["page"], row["url"], row["parsed"]) == ('{"url":"u"}', "u", {"url": "u"})


def test_levels_are_bounded() -> None:
    deep = json.loads("[" * 400 + "]" * 400)
    (text,) = read("json", json.dumps(deep))
    assert json.loads(text) == deep
    ((reason, _),) = read("json", "[" * 600 + "]" * 600)
    assert reason == "nested too deeply"
