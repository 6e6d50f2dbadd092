"""Fields within objects that columns read in part: each is named, and nothing else is."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from strandline_spark.parsing.parser import make_parser
from strandline_spark.pipeline.config import parse_pipeline
from strandline_spark.silver.judge import Judge

FILE = """
[pipeline]
name = "p"
topics = ["t"]
[silver]
format = "json"
event_time = "timestamp"
{}
[silver.columns]
{}
"""


def left_out(columns: str, *values: Any, silver: str = "") -> list[str]:
    settings = parse_pipeline(FILE.format(silver, columns), "/srv/p.toml").parse
    texts = [json.dumps(value).encode() for value in values]
    batch = pa.record_batch(
        {
            "value": pa.array(texts, pa.binary()),
            "timestamp": pa.array([0] * len(texts), pa.timestamp("us", "UTC")),
            "key": pa.array([None] * len(texts), pa.binary()),
        }
    )
    parsed = make_parser(settings).parse(batch)
    assert parsed.reasons == []
    return sorted(parsed.left_out)


URL = 'url = { type = "string", field = "page.url" }'


@pytest.mark.parametrize(
    ("columns", "value", "found"),
    [
        (
            URL,
            {"page": {"url": "a", "referrer": "b", "size": {"w": 1}}},
            ["page.referrer", "page.size"],
        ),
        (URL, {"page": {"url": "a", "referrer": None}}, []),
        (URL, {"page": None, "page.url": "a"}, []),
        (URL, {"page": {"a.b": 1}}, ["page.['a.b']"]),
        ('page = "struct<url:string>"', {"page": {"url": "a", "more": 1}}, ["page.more"]),
        ('page = "json"\n' + URL, {"page": {"url": "a", "more": 1}}, []),
        ('page = "map<string,int>"', {"page": {"url": 1, "more": 2}}, []),
        (
            'items = "array<struct<sku:string>>"',
            {"items": [{"sku": "a"}, {"sku": "b", "colour": "red"}]},
            ["items[].colour"],
        ),
        (
            'by = "map<string,struct<n:int>>"',
            {"by": {"a": {"n": 1, "m": 2}}},
            ["by.a.m"],
        ),
        (
            'sku = { type = "string", field = "items[0].sku" }',
            {"items": [{"sku": "a"}, {"sku": "b", "colour": "red"}]},
            ["items[].colour"],
        ),
    ],
)
def test_a_field_beside_what_a_column_reads_is_named(
    columns: str, value: Any, found: list[str]
) -> None:
    assert left_out(columns, value) == found
    assert left_out(columns, value, silver='on_new_field = "add"') == found
    assert left_out(columns, value, silver='on_new_field = "ignore"') == []


def test_elements_have_fields_too() -> None:
    sku = 'sku = { type = "string", field = "items.sku" }'
    value = {"items": [{"sku": "a", "colour": "red"}], "page": 1}
    assert left_out(sku, value, silver='explode = "items"') == ["items[].colour"]
    whole = 'item = { type = "json", field = "items" }'
    assert left_out(whole, value, silver='explode = "items"') == []
    assert left_out('order = "int"', value, silver='explode = "items"') == []


def test_flat_values_have_no_such_fields() -> None:
    assert left_out('page = "string"\nn = "int"', {"page": "a", "new": {"x": 1}}) == []


def test_names_that_are_data_do_not_fill_memory() -> None:
    value = {"page": {"url": "a"} | {f"n{n}": n for n in range(1000)}}
    assert len(left_out(URL, value)) == 20


def test_a_run_says_it_once_with_the_remedy() -> None:
    pipeline = parse_pipeline(FILE.format("", URL), "/srv/p.toml")
    judge = Judge(pipeline)

    def batch(*paths: str) -> Any:
        manifest = SimpleNamespace(left_out=list(paths), unseen=None, records=1)
        return [SimpleNamespace(manifest=manifest)]

    (said,) = judge.notes(batch("page.referrer", "page.size"))
    assert said == (
        "silver: objects of which columns read a part have further fields, which are left out:"
        " page.referrer, page.size; give them columns in [silver.columns] of /srv/p.toml, or say"
        ' on_new_field = "ignore" (bronze keeps them)'
    )
    assert list(judge.notes(batch("page.size"))) == []
    assert len(list(judge.notes(batch("page.other")))) == 1
