"""Columns that are read from fields within fields, by the two spellings of paths."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline_spark.errors import OptionError
from strandline_spark.parsing import column_type
from strandline_spark.parsing.parts.paths import field_text, path_of
from support.examples import examples
from support.parsing import batch_of, one_by_one, outcomes, outcomes_of, parser_of


def of(kind: str, field: str | None = None, **more: Any) -> Any:
    return replace(column_type(kind), field=field, **more)


@pytest.mark.parametrize(
    ("text", "steps", "name"),
    [
        ("page.url", ("page", "url"), "page.url"),
        ("items[0].sku", ("items", 0, "sku"), "items[0].sku"),
        ("$.page.url", ("page", "url"), None),
        ("$['page.url']", ("page.url",), None),
        ('$["a\\"b"][-1]', ('a"b', -1), None),
        ("$['it\\'s']", ("it's",), None),
        ("$", (), None),
        ("topic", ("topic",), None),
        ("$oid", ("$oid",), None),
        ("$oid.x", ("$oid", "x"), "$oid.x"),
        ("my field", ("my field",), None),
        ("a[x]", ("a[x]",), None),
        ("*", ("*",), None),
        ("", ("",), None),
    ],
)
def test_a_field_is_a_name_or_a_path(text: str, steps: Any, name: str | None) -> None:
    found = path_of(text)
    assert (found.steps, found.name) == (steps, name)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("page..url", r"is no path from '\.\.url' on: .*itself is \$\['page\.\.url'\]"),
        ("page.", r"is no path from '\.' on"),
        (".page", r"is no path from '\.\.page' on"),
        ("$.", r"is no path from '\.' on"),
        ("$page[", None),
        ("$[x]", r"is no path from '\[x\]' on"),
        ("$['a'", r"is no path from"),
        ("$[01]", r"is no path from"),
        ("$..url", "names many places"),
        ("items[*].sku", "names many places, and a column holds one value: name one of them"),
        ("$.items[*]", "names many places"),
        ("$.*", "names many places"),
        ("$[?(@.a)]", "names many places"),
        ("$.a[1:2]", "names many places"),
        ("$['a','b']", "names many places"),
        ("$" + ".a" * 101, "has more than 100 steps"),
    ],
)
def test_a_path_that_names_no_one_place_is_refused(text: str, said: str | None) -> None:
    if said is None:
        assert path_of(text).plain == text
        return
    with pytest.raises(OptionError, match=rf"^\[silver.columns\] v: field .*{said}"):
        parser_of("json", v=of("string", text))


@pytest.mark.parametrize("name", ["a", "a.b", "a..b", "$.x", "$", "", "it's", "a[0]", "\\", "x\n."])
def test_each_field_of_a_value_has_a_text_that_reads_it(name: str) -> None:
    parser = parser_of("json", v=of("string", field_text(name)), w="int")
    assert outcomes(parser, [json.dumps({name: "x"})])[0][1]["v"] == "x"


def test_a_path_leads_into_objects_and_arrays() -> None:
    parser = parser_of(
        "json",
        url=of("string", "page.url"),
        first=of("bigint", "$.items[0].n"),
        last=of("decimal(5,2)", "items[-1].price"),
        deep=of("timestamp", "$.a.b[1][0].c"),
        flag=of("boolean", "page.ok"),
    )
    values = [
        '{"page":{"url":"u","ok":true,"more":[1]},"items":[{"n":1,"price":1.5},{"price":"2.25"}]}',
        '{"page":null,"items":[]}',
        '{"page":{},"a":{"b":[0,[{"c":"2026-01-02T03:04:05Z"}]]},"items":[null]}',
        "{}",
        None,
    ]
    found = outcomes(parser, values)
    assert found == one_by_one(parser, values)
    rows = [list(map(str, each[1].values()))[:5] for each in found[:4]]
    assert rows == [
        ["u", "1", "2.25", "None", "True"],
        ["None"] * 5,
        ["None", "None", "None", "2026-01-02 03:04:05+00:00", "None"],
        ["None"] * 5,
    ]


def test_a_field_of_the_whole_name_comes_first_and_a_json_path_never_means_it() -> None:
    parser = parser_of(
        "json", plain=of("string", "a.b"), full=of("string", "$.a.b"), own=of("string", "$['a.b']")
    )
    found = outcomes(parser, ['{"a.b":"x","a":{"b":"y"}}', '{"a":{"b":"y"}}', '{"a.b":null}'])
    held = [tuple(each[1].values())[:3] for each in found]
    assert held == [("x", "y", "x"), ("y", "y", None), (None, None, None)]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ('{"page":"x"}', "column url: page of page.url is a string, and no object"),
        ('{"page":[1]}', "column url: page of page.url is an array, and no object"),
        ('{"page":5.0}', "column url: page of page.url is number 5.0, and no object"),
        ('{"items":{"a":1}}', "column n: items of $.items[0] is an object, and no array"),
        ('{"page":{"url":1}}', "column url: number 1 is no string"),
        ('{"items":["x"]}', "column n: a string 'x' is no int"),
    ],
)
def test_a_value_without_such_parts_is_quarantined(value: str, said: str) -> None:
    parser = parser_of("json", url=of("string", "page.url"), n=of("int", "$.items[0]"))
    assert outcomes(parser, [value]) == [("bad", "wrong type", said)]


def test_a_field_of_which_a_column_reads_a_part_is_no_new_one() -> None:
    values = ['{"page":{"url":"u","title":"t"},"other":{"a":1}}']
    parser = parser_of("json", url=of("string", "page.url"))
    assert parser.parse(batch_of(values)).new_fields == {"other": "string"}
    whole = parser_of("json", v=of("json", "$"))
    assert outcomes(whole, [' {"a" : 1}\n'])[0][1]["v"] == '{"a" : 1}'
    assert set(whole.parse(batch_of(values)).new_fields) == {"page", "other"}


def test_a_nested_value_is_cleaned_defaulted_and_required_like_another() -> None:
    parser = parser_of(
        "json",
        url=of("string", "page.url", trim=True, null_values=("-",), default="none"),
        n=of("int", "page.n", required=True),
    )
    values = ['{"page":{"url":" u ","n":1}}', '{"page":{"url":"- ","n":2}}', '{"page":{}}', "{}"]
    found = outcomes(parser, values)
    assert [each[1]["url"] for each in found[:2]] == ["u", "none"]
    assert [each[:2] for each in found[2:]] == [("bad", "null")] * 2


def test_the_event_time_may_be_nested() -> None:
    parser = parser_of("json", "at", at=replace(of("timestamp", "page.at"), format="epoch_s"))
    ((_, row),) = outcomes(parser, ['{"page":{"at":1}}'])
    assert row["event_time"].timestamp() == 1


def test_a_name_twice_at_any_depth_is_a_fault() -> None:
    parser = parser_of("json", url=of("string", "page.url"))
    (found,) = outcomes(parser, ['{"page":{"x":{"a":1,"a":2}}}'])
    assert found[:2] == ("bad", "field twice")


NAMES = ("a", "b", "a.b", "c")
LEAVES = st.one_of(st.none(), st.integers(0, 9), st.text("xyz", max_size=2), st.booleans())
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4)
STEPS = st.lists(
    st.one_of(st.sampled_from(("a", "b", "c")), st.integers(-2, 2)), min_size=1, max_size=3
)


def plainly(value: Any, steps: list[Any]) -> Any:
    """What a path gives in a plain loop: the value's JSON, None, or "bad"."""
    for step in steps:
        if value is None:
            return None
        if not isinstance(value, dict if isinstance(step, str) else list):
            return "bad"
        try:
            value = value[step]
        except LookupError:
            return None
    return None if value is None else json.dumps(value)


@settings(max_examples=examples(80))
@given(st.lists(OBJECTS, min_size=1, max_size=4), STEPS)
def test_a_path_gives_what_a_plain_loop_gives(objects: list[Any], steps: list[Any]) -> None:
    text = "$" + "".join(f"[{s}]" if isinstance(s, int) else f"['{s}']" for s in steps)
    parser = parser_of("json", v=of("json", text))
    found = outcomes_of(parser.parse(batch_of(list(map(json.dumps, objects)))), len(objects))
    held = ["bad" if each[0] == "bad" else each[1]["v"] for each in found]
    assert held == [plainly(each, steps) for each in objects]
