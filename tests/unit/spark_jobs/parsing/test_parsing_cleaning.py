"""Texts that mean null, blanks, defaults and required columns, in all formats."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from strandline_spark.errors import OptionError
from strandline_spark.parsing import column_type
from support.parsing import batch_of, one_by_one, outcomes, parser_of

if TYPE_CHECKING:
    from strandline_spark.parsing.settings import ColumnType

FORMATS = ("json", "csv", "regex", "avro")


def of(kind: str, form: str | None = None, **more: Any) -> ColumnType:
    return replace(column_type(kind, form), **more)


def read(form: Any, kind: ColumnType, *texts: str) -> list[Any]:
    """What the column holds of texts, or the reason why they are quarantined."""
    options: dict[str, Any] = {}
    values: list[Any] = list(texts)
    if form == "json":
        values = [json.dumps({"v": text, "n": 1}) for text in texts]
    elif form == "csv":
        values = [f'"{text}",1' for text in texts]
    elif form == "regex":
        options["pattern"] = r"(?P<v>(?:.|\n)*)"
    else:
        fields = [{"name": "v", "type": "string"}, {"name": "n", "type": "int"}]
        schema = {"type": "record", "name": "R", "fields": fields}
        options["avro_schema"] = json.dumps(schema)
        values = []
        for text in texts:
            out = io.BytesIO()
            row = {"v": text, "n": 1}
            fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row)
            values.append(out.getvalue())
    others = {} if form == "regex" else {"n": "int"}
    parser = parser_of(form, options=options, v=kind, **others)
    found = outcomes(parser, values)
    assert found == one_by_one(parser, values)
    return [each[1]["v"] if each[0] == "good" else each[1] for each in found]


@pytest.mark.parametrize("form", FORMATS)
def test_blanks_at_both_ends_do_not_count(form: str) -> None:
    texts = [" a b ", "\u00a0\t x", "  ", "c"]
    assert read(form, of("string", trim=True), *texts) == ["a b", "x", "", "c"]
    assert read(form, of("string"), *texts) == texts


@pytest.mark.parametrize("form", FORMATS)
def test_texts_of_a_column_mean_null(form: str) -> None:
    kind = of("string", null_values=("NA", "-"), trim=True)
    assert read(form, kind, "NA", " - ", "x", "na") == [None, None, "x", "na"]


@pytest.mark.parametrize(
    ("kind", "text", "held"),
    [
        (of("timestamp"), "2026-01-02T03:04:05", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        (of("timestamp", "epoch_s"), "1", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        (of("decimal(5,2)"), "1.25", Decimal("1.25")),
        (of("binary", "hex"), "ff", b"\xff"),
    ],
    ids=["timestamp", "epoch", "decimal", "binary"],
)
@pytest.mark.parametrize("form", ["json", "csv", "regex"])
def test_a_text_is_cleaned_before_its_type(
    form: str, kind: ColumnType, text: str, held: Any
) -> None:
    kind = replace(kind, trim=True, null_values=("none", "NULL"))
    assert read(form, kind, f" {text} ", "none ", text, "NULL", "x") == [
        held, None, held, None, "wrong type",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["int", "bigint", "double", "boolean"])
def test_a_json_string_in_another_column_may_mean_null(name: str) -> None:
    parser = parser_of("json", v=of(name, null_values=("N/A",), trim=True), n="int")
    value = "true" if name == "boolean" else "5"
    values = [f'{{"v":{each},"n":1}}' for each in ('"N/A"', '" N/A "', '"x"', value, "null")]
    found = outcomes(parser, values)
    assert found == one_by_one(parser, values)
    held = [each[1]["v"] if each[0] == "good" else each[1] for each in found]
    assert held == [None, None, "wrong type", True if name == "boolean" else 5, None]


def test_a_json_number_never_means_null() -> None:
    parser = parser_of("json", v=of("decimal(9,2)", null_values=("-1",)))
    assert [each[1]["v"] for each in outcomes(parser, ['{"v":-1}', '{"v":"-1"}'])] == [-1, None]


@pytest.mark.parametrize(
    ("kind", "given", "held"),
    [
        ("string", "unknown", "unknown"),
        ("bigint", "7", 7),
        ("double", "0.5", 0.5),
        ("boolean", "false", False),
        ("decimal(5,2)", "1.5", Decimal("1.50")),
        ("timestamp", "2026-01-01", datetime(2026, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_default_stands_in_place_of_null(kind: str, given: str, held: Any) -> None:
    parser = parser_of("json", v=of(kind, default=given), n="int")
    values = ['{"n":1}', '{"v":null}', '{"v":[]}', None]
    found = outcomes(parser, values)
    assert [each[1]["v"] for each in found[:2]] == [held, held]
    assert [each[0] for each in found[2:]] == ["bad", "tombstone"]
    assert found == one_by_one(parser, values)


def test_a_default_may_be_the_event_time() -> None:
    parser = parser_of("json", "at", at=of("timestamp", default="2023-01-01"))
    ((_, row),) = outcomes(parser, ["{}"])
    assert row["event_time"] == datetime(2023, 1, 1, tzinfo=UTC)


def test_a_record_without_a_required_value_is_quarantined() -> None:
    parser = parser_of("json", v=of("int", required=True), n="int")
    found = outcomes(parser, ['{"v":1}', "{}", '{"v":null}', '{"v":"x"}'])
    assert [each[:2] for each in found[1:]] == [("bad", "null")] * 2 + [("bad", "wrong type")]
    assert found[1][2] == "column v is required, and it is null"


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (of("int", default="x"), "default 'x' is no int"),
        (of("timestamp", "epoch_s", default="x"), "default 'x' is no timestamp in the format"),
        (
            of("int", default="1", required=True),
            "default '1' leaves no null, so required never applies",
        ),
        (of("string", default="-", null_values=("-",)), "default '-' means null"),
        (of("string", default=" a", trim=True), "default ' a' means null, or has blanks"),
    ],
)
def test_a_default_that_never_fits_is_refused(kind: ColumnType, said: str) -> None:
    with pytest.raises(OptionError, match=rf"\[silver.columns\] v: {said}"):
        parser_of("json", v=kind)


def test_new_fields_can_be_ignored() -> None:
    values = ['{"v":1,"more":{"a":[1]}}', '{"v":2}', '{"v":3,"more":1,"more":2}']
    for ignores in (True, False):
        parser = parser_of("json", options={"ignores_new_fields": ignores}, v="int")
        parsed = parser.parse(batch_of(values))
        assert parsed.good.column("v").to_pylist() == [1, 2]
        assert parsed.reasons == ["field twice"]
        assert parsed.new_fields == ({} if ignores else {"more": "string"})


def test_a_group_that_took_no_part_is_null_and_an_empty_one_is_empty() -> None:
    pattern = r"(?P<a>x)?(?P<b>y?)(?:(?P<c>1)|(?P<c__2>2?))"
    parser = parser_of("regex", options={"pattern": pattern}, a="string", b="string", c="string")
    found = [tuple(each[1].values())[:3] for each in outcomes(parser, ["xy1", "2", ""])]
    assert found == [("x", "y", "1"), (None, "", "2"), (None, "", "")]
