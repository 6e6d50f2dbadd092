"""The elements of one array of each record as rows."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline_spark.errors import OptionError
from strandline_spark.parsing import Parser, column_type
from strandline_spark.parsing.parts import explode
from support.examples import examples
from support.parsing import batch_of, parser_of

PLACE: Final = replace(column_type("int"), source="position")


def of(kind: str, field: str | None = None, form: str | None = None, **more: Any) -> Any:
    return replace(column_type(kind, form), field=field, **more)


COLUMNS: Final[dict[str, Any]] = {
    "position": PLACE,
    "order": "bigint",
    "sku": of("string", "items.sku"),
    "price": of("decimal(5,2)", "$.items.price", default="0"),
    "at": of("timestamp", "items.sent.at", "epoch_s"),
    "item": of("json", "items"),
    "tags": of("array<date>", "items.tags"),
}


def read(
    values: Any, array: str = "items", form: Any = "json", columns: Any = None, **options: Any
) -> Any:
    """Rows of silver as pairs of the record's place and its columns, and the faulty records."""
    columns = COLUMNS if columns is None else columns
    parser = parser_of(form, options={"explode": array, **options}, **columns)
    parsed = parser.parse(batch_of(values))
    parsed.good.validate(full=True)
    rows = []
    for record, row in zip(parsed.good_rows.to_pylist(), parsed.good.to_pylist(), strict=True):
        row.pop("event_time")
        rows.append((record, row))
    faults = dict(
        zip(
            parsed.bad_rows.to_pylist(),
            zip(parsed.reasons, parsed.details, strict=True),
            strict=True,
        )
    )
    return rows, faults, parsed


def test_each_element_is_a_row_and_a_record_without_any_is_one() -> None:
    values = [
        '{"order":1,"items":[{"sku":"a","price":1.5,"sent":{"at":5},"tags":["2026-01-01"]},'
        '{"sku" : "b"},null]}',
        '{"order":2,"items":[]}',
        '{"order":3}',
        '{"order":4,"items":null}',
        None,
    ]
    rows, faults, parsed = read(values)
    assert faults == {}
    held = [(n, *(row[name] for name in ("position", "order", "sku", "price"))) for n, row in rows]
    zero = Decimal("0.00")
    assert held == [
        (0, 0, 1, "a", Decimal("1.50")),
        (0, 1, 1, "b", zero),
        (0, 2, 1, None, zero),
        (1, None, 2, None, zero),
        (2, None, 3, None, zero),
        (3, None, 4, None, zero),
    ]
    assert rows[0][1]["at"] == datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)
    assert [str(one) for one in rows[0][1]["tags"]] == ["2026-01-01"]
    assert [row["item"] for _, row in rows[1:3]] == ['{"sku" : "b"}', None]
    assert parsed.tombstone_rows.to_pylist() == [4]
    assert set(parsed.tombstones.to_pylist()[0].values()) == {None}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ('{"items":{"a":1}}', "explode items: items is an object, and no array to explode"),
        ('{"items":"x"}', "explode items: items is a string, and no array to explode"),
        ('{"items":5}', "explode items: items is number 5, and no array to explode"),
        ('{"items":[{"sku":"x"},{"sku":1}]}', "column sku[1]: number 1 is no string"),
        ('{"items":[{},"x"]}', "column sku[1]: the value is a string, and no object"),
        ('{"items":[{"sent":{"at":"x"}},{}]}', "column at[]: 'x' is no timestamp in the format"),
    ],
)
def test_a_fault_in_one_element_is_the_whole_records(value: str, said: str) -> None:
    good = '{"items":[{"sku":"g"},{"sku":"h"}]}'
    rows, faults, _ = read([good, value, good])
    assert [record for record, _ in rows] == [0, 0, 2, 2]
    ((record, (reason, detail)),) = faults.items()
    assert (record, reason) == (1, "wrong type")
    assert detail.startswith(said)


def test_the_array_may_be_nested_and_its_elements_no_objects() -> None:
    columns = {"place": PLACE, "tag": of("string", "page.tags"), "page": of("json")}
    rows, faults, parsed = read(
        ['{"page":{"tags":["a","b"]}}', '{"page":"x"}', '{"more":1}'], "page.tags", columns=columns
    )
    assert [(n, row["place"], row["tag"]) for n, row in rows] == [
        (0, 0, "a"), (0, 1, "b"), (2, None, None),
    ]  # fmt: skip
    assert faults[1][1] == "explode page.tags: page is a string, and no object"
    assert set(parsed.new_fields) == {"more"}


def test_arrays_within_elements_are_reached_by_the_path_that_goes_on() -> None:
    columns = {"position": PLACE, "first": of("int", "$.rows[0]"), "row": of("json", "rows")}
    rows, _, _ = read(['{"rows":[[1,2],[],[3]]}'], "$.rows", columns=columns)
    assert [(row["first"], row["row"]) for _, row in rows] == [
        (1, "[1,2]"),
        (None, "[]"),
        (3, "[3]"),
    ]


def test_event_times_and_required_columns_of_elements() -> None:
    columns = {"position": PLACE, "at": of("timestamp", "e.at", "epoch_s"), "n": "int"}
    parser = parser_of("json", "at", options={"explode": "e"}, **columns)
    values = ['{"e":[{"at":1},{"at":2}],"n":1}', '{"e":[{"at":1},{}]}', '{"e":[]}']
    parsed = parser.parse(batch_of(values))
    assert [one.timestamp() for one in parsed.good.column("event_time").to_pylist()] == [1, 2]
    assert parsed.reasons == ["no event time"] * 2
    ahead = ['{"e":[{"at":1},{"at":99999999999}]}']
    strict = parser_of("json", "at", options={"explode": "e", "max_ahead": 0}, **columns)
    assert strict.parse(batch_of(ahead)).reasons == ["event time ahead"]
    needs = {"position": replace(PLACE, required=True), "x": of("int", "e.x", required=True)}
    rows, faults, _ = read(['{"e":[{"x":1}]}', '{"e":[{"x":1},{}]}', "{}"], "e", columns=needs)
    assert ([record for record, _ in rows], sorted(faults)) == ([0], [1, 2])
    assert faults[1] == ("null", "column x is required, and it is null")


def test_elements_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explode, "ELEMENTS_MAX", 3)
    monkeypatch.setattr(explode, "REPEATED_MAX", 40)
    columns = {"position": PLACE, "all": of("json", "$")}
    values = ['{"items":[1,2,3,4]}', '{"items":[1,2]}', '{"items":[1]}', '{"items":[1,2,3]}']
    repeated = []
    event_times = Parser._event_times

    def seen(parser: Parser, decoded: Any, stamps: Any) -> Any:
        repeated.append(len(stamps))
        return event_times(parser, decoded, stamps)

    monkeypatch.setattr(Parser, "_event_times", seen)
    rows, faults, _ = read(values, columns=columns)
    assert repeated == [5], "a record at fault repeats nothing"
    assert [record for record, _ in rows] == [1, 1, 2]
    assert faults == {
        0: ("out of range", "4 elements, above 3"),
        3: ("out of range", "3 elements would repeat 17 bytes of all"),
    }


LOCAL: Final = {"type": "long", "logicalType": "local-timestamp-millis"}
SCHEMA: Final = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "order", "type": "long"},
        {
            "name": "lines",
            "type": [
                "null",
                {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "Line",
                        "fields": [
                            {"name": "sku", "type": ["null", "string"]},
                            {"name": "at", "type": LOCAL},
                        ],
                    },
                },
            ],
        },
        {"name": "any", "type": ["string", {"type": "array", "items": "int"}]},
    ],
}
AVRO: Final[dict[str, Any]] = {
    "position": PLACE,
    "order": "bigint",
    "sku": of("string", "lines.sku", trim=True),
    "at": of("timestamp", "lines.at", zone="Europe/Berlin"),
    "line": of("struct<sku:string>", "lines"),
}


def datum(**fields: Any) -> bytes:
    out = io.BytesIO()
    schema = fastavro.parse_schema(json.loads(json.dumps(SCHEMA)))
    fastavro.schemaless_writer(out, schema, {"order": 1, "lines": None, "any": "x"} | fields)
    return out.getvalue()


def test_avro_arrays_are_exploded() -> None:
    at = datetime(2026, 1, 1, 12)  # noqa: DTZ001 - a local time
    lines = [{"sku": " a ", "at": at}, {"sku": None, "at": at}]
    values = [datum(lines=lines), datum(), datum(lines=[]), b"\x00", None]
    options = {"avro_schema": json.dumps(SCHEMA)}
    rows, faults, parsed = read(values, "lines", "avro", AVRO, **options)
    assert [(n, row["position"], row["sku"]) for n, row in rows] == [
        (0, 0, "a"), (0, 1, None), (1, None, None), (2, None, None),
    ]  # fmt: skip
    assert rows[0][1]["at"] == datetime(2026, 1, 1, 11, tzinfo=UTC)
    assert [row["line"] for _, row in rows] == [{"sku": " a "}, {"sku": None}, None, None]
    assert (faults[3][0], parsed.tombstone_rows.to_pylist()) == ("not Avro", [4])


@pytest.mark.parametrize(
    ("form", "array", "columns", "said"),
    [
        ("json", "$", COLUMNS, r"explode = '\$' is the whole value, and that is an object"),
        ("json", "a..b", COLUMNS, "explode: field 'a..b' is no path"),
        ("json", "a[*]", COLUMNS, "explode: field .* names many places"),
        ("json", "a", {"n": "int"}, 'explode = .a. needs one column .* from = "position", not 0'),
        (
            "csv",
            "a",
            {"position": PLACE, "n": "int"},
            "explode = 'a' is for the formats json, avro",
        ),
        ("json", None, {"position": PLACE}, "position: from = .position. is the place of an expl"),
        ("json", "a", {"p": replace(PLACE, name="string")}, "p: from = .position. is a whole num"),
        ("avro", "order", {"position": PLACE}, "explode: order is long in the Avro schema, and no"),
        ("avro", "any", {"position": PLACE}, "explode: any is array or string in the Avro schema"),
        ("avro", "nope", {"position": PLACE}, "explode: the Avro schema has no field nope: it has"),
        ("avro", "lines", {"position": PLACE, "x": of("int", "lines.zz")}, "has no field zz"),
    ],
)
def test_what_is_no_array_is_refused(form: str, array: Any, columns: Any, said: str) -> None:
    options = {"avro_schema": json.dumps(SCHEMA)} if form == "avro" else {}
    with pytest.raises(OptionError, match=rf"^\[silver(?:.columns)?\] .*{said}"):
        read([], array, form, columns, **options)


ELEMENTS: Final = st.lists(
    st.one_of(
        st.none(),
        st.fixed_dictionaries({}, optional={"sku": st.sampled_from(["a", "b", 1]), "x": st.none()}),
        st.just("text"),
    ),
    max_size=4,
)
RECORDS: Final[st.SearchStrategy[Any]] = st.lists(
    st.one_of(
        st.none(),
        st.fixed_dictionaries(
            {"order": st.integers(0, 9)},
            optional={"items": st.one_of(ELEMENTS, st.sampled_from([None, {}, 5]))},
        ),
    ),
    max_size=6,
)


def plainly(records: list[Any]) -> tuple[list[Any], list[int]]:
    """The rows and the faulty records, by a plain loop."""
    rows: list[Any] = []
    bad: list[int] = []
    for n, record in enumerate(records):
        if record is None:
            continue
        items = record.get("items")
        wrong = items is not None and not isinstance(items, list)
        for one in items or [] if not wrong else []:
            wrong |= one is not None and (one == "text" or type(one.get("sku", "")) is int)
        if wrong:
            bad.append(n)
        elif not items:
            rows.append((n, None, record["order"], None))
        else:
            for place, one in enumerate(items):
                rows.append((n, place, record["order"], (one or {}).get("sku")))
    return rows, bad


@settings(max_examples=examples(80))
@given(RECORDS, st.integers(0, 6))
def test_rows_are_those_of_a_plain_loop_however_batches_are_cut(records: Any, cut: int) -> None:
    parser = parser_of(
        "json", options={"explode": "items"}, position=PLACE, order="int", sku=COLUMNS["sku"]
    )
    values = [None if one is None else json.dumps(one) for one in records]
    rows, bad = [], []
    for start, part in ((0, values[:cut]), (cut, values[cut:])):
        parsed = parser.parse(batch_of(part))
        for n, row in zip(parsed.good_rows.to_pylist(), parsed.good.to_pylist(), strict=True):
            rows.append((start + n, row["position"], row["order"], row["sku"]))
        bad += [start + n for n in parsed.bad_rows.to_pylist()]
    assert (rows, bad) == plainly(records)
