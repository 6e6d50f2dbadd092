"""Silver tables with nested columns and with columns of keys and headers, up to verify."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import duckdb
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from deltalake import DeltaTable

from strandline_spark.bronze.commits import CommittedRange
from strandline_spark.errors import TableError
from strandline_spark.parsing import column_type
from strandline_spark.pipeline.columns import with_columns_of
from strandline_spark.pipeline.config import parse_pipeline
from strandline_spark.pipeline.verify import verify_parsed
from strandline_spark.silver.from_bronze import RangeTask, parse_range
from strandline_spark.silver.judge import Judge, ParsedRange
from strandline_spark.silver.range_output import SilverManifest, SilverPlan
from strandline_spark.silver.tables import SilverTable
from support.silver_cuts import TEXT, Cuts

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS: Final = """
url = { type = "string", field = "page.url" }
page = "json"
items = "array<struct<sku:string,price:decimal(6,2),at:timestamp,`x.y`:double>>"
tags = "map<string,array<bigint>>"
geo = { type = "struct<lat:double,at:date>", field = "$.geo['a.b']" }
user = { type = "bigint", from = "key" }
trace = { type = "string", from = "header:trace-id", default = "none" }
"""
NAMES: Final = ("url", "page", "items", "tags", "geo", "user", "trace")
VALUE: Final = (
    '{"n":1,"page":{"url":"u"},"items":[{"sku":"s","price":1.5,"at":"2026-01-01","x.y":-0.0}],'
    '"tags":{"a":[1,null]},"geo":{"a.b":{"lat":0.5}}}'
)
HELD: Final = (
    "u",
    '{"url":"u"}',
    [{"sku": "s", "price": Decimal("1.50"), "at": datetime(2026, 1, 1, tzinfo=UTC), "x.y": -0.0}],
    [("a", [1, None])],
    {"lat": 0.5, "at": None},
    7,
    "t",
)


@pytest.fixture
def cuts(tmp_path: Path) -> Cuts:
    made = Cuts(tmp_path, "stop", COLUMNS)
    made.take((VALUE, b"7", [("trace-id", b"t")]), ("{}", None, None))
    made.take((None, b"8", None), ('{"page":1}', b"9", None), ('{"n":2}', b"x", None))
    return made


def rows(cuts: Cuts) -> list[tuple[Any, ...]]:
    found = SilverTable.open(cuts.pipeline.silver).delta.to_pyarrow_table()
    names = ["offset", "tombstone", *NAMES]
    return sorted(tuple(one[name] for name in names) for one in found.to_pylist())


def test_parts_are_held_as_they_are_and_verified(cuts: Cuts) -> None:
    nothing = (None,) * 5
    assert rows(cuts) == [
        (0, False, *HELD),
        (1, False, *nothing, None, "none"),
        (2, True, *nothing, 8, "none"),
    ]
    assert cuts.quarantined() == [(0, 3, "wrong type"), (0, 4, "wrong type")]
    (found,) = verify_parsed(cuts.pipeline, values=True)
    assert (found.problems, found.differing) == ([], 0)


def changed(column: str, value: Any) -> Any:
    def change(table: Any) -> Any:
        place = table.schema.get_field_index(column)
        values = table.column(column).to_pylist()
        values[0] = value
        return table.set_column(
            place, table.schema.field(column), pa.array(values, table.schema.field(column).type)
        )

    return change


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("items", [{"sku": "s", "price": Decimal("1.51"), "at": None, "x.y": -0.0}]),
        ("items", [HELD[2][0] | {"x.y": 0.0}]),
        ("tags", [("a", [1])]),
        ("tags", None),
        ("geo", {"lat": 0.25, "at": None}),
        ("page", '{"url": "u"}'),
        ("user", 6),
        ("trace", None),
    ],
)
def test_a_part_that_someone_changed_is_found(cuts: Cuts, column: str, value: Any) -> None:
    for path in DeltaTable(cuts.pipeline.silver).file_uris():
        table = pq.ParquetFile(path).read()
        if 0 in table.column("offset").to_pylist():
            pq.write_table(changed(column, value)(table), path)
    (found,) = verify_parsed(cuts.pipeline, values=True)
    assert found.differing == 1
    assert f"{column} is" in found.problems[0]


def test_bronze_gives_the_same_rows_again(cuts: Cuts, tmp_path: Path) -> None:
    pipeline = cuts.pipeline
    bronze = tuple(DeltaTable(pipeline.bronze).file_uris())
    (tmp_path / "s").mkdir()
    (tmp_path / "q").mkdir()
    plan = SilverPlan(str(tmp_path / "s"), str(tmp_path / "q"), pipeline.parse).to_json()
    assert SilverPlan.from_json(plan).parse == pipeline.parse
    count, _ = parse_range(plan, RangeTask("t", 0, 0, 5, bronze, "2024-01-01"))
    assert count == 5
    (path,) = (os.path.join(at, name) for at, _, names in os.walk(tmp_path / "s") for name in names)
    again = pq.ParquetFile(path).read().sort_by("offset")
    held = DeltaTable(pipeline.silver).to_pyarrow_table().sort_by("offset")
    for name in NAMES:
        assert again.column(name).to_pylist() == held.column(name).to_pylist()


def test_every_leaf_of_a_column_is_compressed(cuts: Cuts) -> None:
    for path in DeltaTable(cuts.pipeline.silver).file_uris():
        group = pq.ParquetFile(path).metadata.row_group(0)
        found = [group.column(n) for n in range(group.num_columns)]
        assert "tags.key_value.value.list.element" in [one.path_in_schema for one in found]
        assert {one.compression for one in found} == {"SNAPPY"}


def test_duckdb_reads_parts(cuts: Cuts) -> None:
    silver = DeltaTable(cuts.pipeline.silver).to_pyarrow_dataset()
    with duckdb.connect() as connection:
        connection.register("silver", silver)
        found = connection.execute(
            "select items[1].sku, items[1].price, tags['a'], geo.lat from silver"
            ' where "offset" = 0'
        ).fetchall()
    assert [tuple(map(str, one)) for one in found] == [("s", "1.50", "[1, None]", "0.5")]


def test_a_declared_part_that_comes_later_is_added_and_one_of_another_type_is_refused(
    tmp_path: Path,
) -> None:
    cuts = Cuts(tmp_path, "stop")
    cuts.take('{"n":1}')
    cuts.pipeline = parse_pipeline(
        TEXT.format(mode="stop", more="") + COLUMNS, str(tmp_path / "pipeline.toml")
    )
    cuts.take((VALUE, b"7", [("trace-id", b"t")]))
    assert rows(cuts) == [(0, False, *[None] * 7), (1, False, *HELD)]
    types = SilverTable.open(cuts.pipeline.silver).parsed_columns()
    assert types["tags"] == "map<string,array<bigint>>"
    assert types["page"] == "string"
    other = dict(cuts.pipeline.parse.columns) | {"tags": column_type("map<string,array<int>>")}
    pipeline = replace(cuts.pipeline, parse=replace(cuts.pipeline.parse, columns=other))
    words = (
        r"has the column tags of type map<string,array<bigint>>, and \[silver.columns\] says map"
    )
    with pytest.raises(TableError, match=words):
        with_columns_of(pipeline, SilverTable.open(pipeline.silver))


@pytest.mark.parametrize("mode", ["add", "stop"])
def test_a_new_field_of_a_columns_name_stops_silver_and_says_how_to_read_it(
    tmp_path: Path, mode: str
) -> None:
    columns = 'trace = { type = "string", from = "header:t" }\nwho = { type = "int", field = "id" }'
    cuts = Cuts(tmp_path, mode, columns)
    for name in ("trace", "who"):
        with pytest.raises(TableError, match=f'my_column = .*field = "{name}"') as raised:
            cuts.take(f'{{"{name}":1}}')
        assert f"the table has a column {name} already" in str(raised.value)
    assert Judge(cuts.pipeline).new_columns([], ()) == {}


def test_a_column_that_becomes_wider_leaves_the_parts_beside_it_as_they_are(tmp_path: Path) -> None:
    cuts = Cuts(tmp_path, "add", COLUMNS)
    cuts.take((VALUE.replace('"n":1', '"n":1,"new":1'), b"7", [("trace-id", b"t")]))
    cuts.take('{"new":0.5}')
    assert cuts.types()["new"] == "double"
    assert rows(cuts)[0] == (0, False, *HELD)
    (found,) = verify_parsed(cuts.pipeline, values=True)
    assert (found.problems, found.differing) == ([], 0)


def test_a_path_that_names_nothing_in_any_record_is_noted(tmp_path: Path) -> None:
    columns = """
url = { type = "string", field = "page.urll", default = "none" }
n2 = { type = "int", field = "more.n" }
id = { type = "int", from = "key", field = "id" }
"""
    cuts = Cuts(tmp_path, "stop", columns)
    values = '{"page":{"url":"u"},"more":{"n":1}}'
    cuts.take((values, b'{"id":1}', None), (values, None, None), '{"page":5}')
    (said,) = cuts.notes
    assert said.startswith(
        "silver: column url is null in all of a batch's 2 records, none of which has field ="
        " 'page.urll': correct the path in [silver.columns] of "
    )
    cuts.take((None, b'{"id":1}', None), '{"page":5}')
    assert cuts.notes == []
    cuts.take('{"page":{"urll":"x"}}')
    assert [said.split()[2] for said in cuts.notes] == ["id", "n2"]
    judge = Judge(cuts.pipeline)
    account = CommittedRange("t", "", 0, 0, 1, 1, 0, -1)
    parts: list[list[str] | None] = [["url", "id"], None, ["url"]]
    manifests = [SilverManifest({}, {}, records=2, unseen=one) for one in parts]
    ranges = [ParsedRange(account, "", "", one) for one in manifests]
    assert ["4 records" in said for said in judge.paths_to_nothing(ranges)] == [True]
    assert list(judge.paths_to_nothing(ranges)) == [], "once for each column"


def test_a_nested_column_that_is_no_longer_declared_is_read_on(cuts: Cuts, tmp_path: Path) -> None:
    text = TEXT.format(mode="stop", more="") + COLUMNS.replace("tags = ", "# ")
    cuts.pipeline = parse_pipeline(text, str(tmp_path / "pipeline.toml"))
    cuts.take((VALUE, b"7", None))
    assert rows(cuts)[-1][5] == [("a", [1, None])]
