"""Silver tables whose rows are elements of records, from commit to verify."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from deltalake import DeltaTable

from strandline_spark.bronze import runs
from strandline_spark.errors import OptionError, TableError
from strandline_spark.pipeline.config import parse_pipeline
from strandline_spark.pipeline.verify import verify_parsed
from strandline_spark.silver.from_bronze import RangeTask, parse_range
from strandline_spark.silver.range_output import SilverManifest, SilverPlan
from strandline_spark.silver.tables import SilverTable
from support.silver_cuts import TEXT, Cuts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COLUMNS: Final = """
sku = { type = "string", field = "items.sku" }
"""
VALUES: Final = (
    '{"n":1,"items":[{"sku":"a"},{"sku":"b"},{"sku":"c"}]}',
    '{"n":2,"items":[]}',
    '{"n":3,"items":{}}',
    '{"n":4,"items":[{"sku":"d"},{"sku":"e"}]}',
)
ROWS: Final = [
    (0, 0, 1, "a"),
    (0, 1, 1, "b"),
    (0, 2, 1, "c"),
    (1, None, 2, None),
    (3, 0, 4, "d"),
    (3, 1, 4, "e"),
]


def exploded(folder: Path, mode: str = "stop") -> Cuts:
    return Cuts(folder, mode, COLUMNS, explode="items")


@pytest.fixture
def cuts(tmp_path: Path) -> Cuts:
    made = exploded(tmp_path)
    made.take(*VALUES)
    made.take((None, b"k", None), '{"n":5}')
    return made


def rows(cuts: Cuts) -> list[tuple[Any, ...]]:
    found = SilverTable.open(cuts.pipeline.silver).delta.to_pyarrow_table()
    names = ["offset", "position", "n", "sku"]
    taken = [tuple(one[name] for name in names) for one in found.to_pylist()]
    return sorted(taken, key=lambda row: (row[0], -1 if row[1] is None else row[1]))


def problems(cuts: Cuts, *, values: bool = True) -> list[str]:
    return [said for one in verify_parsed(cuts.pipeline, values=values) for said in one.problems]


@pytest.mark.parametrize("batch_rows", [1, 2, 4, 1 << 17])
def test_offset_and_position_are_the_key(
    cuts: Cuts, monkeypatch: pytest.MonkeyPatch, batch_rows: int
) -> None:
    monkeypatch.setattr(runs, "_BATCH_ROWS", batch_rows)
    assert rows(cuts) == [*ROWS, (4, None, None, None), (5, None, 5, None)]
    (found,) = verify_parsed(cuts.pipeline, values=True)
    assert found.problems == []
    assert (found.bronze, found.silver, found.quarantine, found.differing) == (6, 5, 1, 0)
    assert cuts.quarantined() == [(0, 2, "wrong type")]
    (first, _) = reversed(SilverTable.open(cuts.pipeline.silver).commits())
    assert [(one.rows, one.elsewhere) for one in first.ranges] == [(3, 1)]


def change(cuts: Cuts, act: Callable[[list[Any]], list[Any]]) -> None:
    for path in DeltaTable(cuts.pipeline.silver).file_uris():
        table = pq.ParquetFile(path).read()
        if 0 in table.column("offset").to_pylist():
            pq.write_table(pa.Table.from_pylist(act(table.to_pylist()), table.schema), path)


def without(place: int) -> Callable[[list[Any]], list[Any]]:
    return lambda rows: [*rows[:place], *rows[place + 1 :]]


@pytest.mark.parametrize(
    ("act", "values", "said"),
    [
        (without(1), False, "1 rows of silver and quarantine repeat an offset"),
        (without(0), False, "1 offsets from 0 on: bronze holds the row, neither"),
        (lambda rows: [rows[0], *rows], False, "1 rows of silver and quarantine repeat an offset"),
        (without(2), True, "at offset 0: it has 2 rows, and the record gives 3"),
        (
            lambda rows: [rows[0], rows[1] | {"sku": "x"}, *rows[2:]],
            True,
            "at offset 0: sku is 'x', and the record gives 'b'",
        ),
        (
            lambda rows: [*rows[:3], rows[3] | {"position": 0}, *rows[4:]],
            True,
            "at offset 1: position is 0, and the record gives None",
        ),
    ],
)
def test_a_lost_repeated_or_changed_element_is_found(
    cuts: Cuts, act: Callable[[list[Any]], list[Any]], values: bool, said: str
) -> None:
    change(cuts, act)
    assert any(said in one for one in problems(cuts, values=values)), problems(cuts, values=True)


def test_a_lost_element_is_found_wherever_a_file_is_cut(
    cuts: Cuts, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(cuts, without(1))
    for batch_rows in (1, 2, 3):
        monkeypatch.setattr(runs, "_BATCH_ROWS", batch_rows)
        assert "1 rows of silver and quarantine repeat an offset" in problems(cuts, values=False)


def test_rows_in_another_order_are_the_same_values(cuts: Cuts) -> None:
    change(cuts, lambda rows: [rows[2], rows[0], rows[1], *rows[3:]])
    (found,) = verify_parsed(cuts.pipeline, values=True)
    assert found.differing == 0


def again(cuts: Cuts, folder: Path, **held: Any) -> tuple[SilverManifest, list[Any]]:
    """The range parsed from bronze once more, and the rows of its file in silver."""
    pipeline = cuts.pipeline
    silver, quarantine = folder / "s", folder / "q"
    silver.mkdir(parents=True)
    quarantine.mkdir()
    plan = SilverPlan(str(silver), str(quarantine), pipeline.parse).to_json()
    bronze = tuple(DeltaTable(pipeline.bronze).file_uris())
    count, text = parse_range(plan, RangeTask("t", 0, 0, 4, bronze, "2024-01-01", **held))
    assert count == 4
    found = SilverManifest.from_json(text)
    paths = [os.path.join(at, name) for at, _, names in os.walk(silver) for name in names]
    table = [pq.ParquetFile(path).read().to_pylist() for path in paths]
    return found, [
        (one["offset"], one["position"], one["n"], one["sku"]) for each in table for one in each
    ]


def test_bronze_gives_the_same_rows_again_for_the_table_that_lacks_them(
    cuts: Cuts, tmp_path: Path
) -> None:
    silver = tuple(DeltaTable(cuts.pipeline.silver).file_uris())
    quarantine = tuple(DeltaTable(cuts.pipeline.quarantine).file_uris())
    found, made = again(cuts, tmp_path / "a")
    assert (found.records, found.quarantine["rows"], made) == (3, 1, ROWS)
    found, made = again(cuts, tmp_path / "b", quarantine_held=quarantine)
    assert (found.records, found.quarantine["rows"], made) == (3, 0, ROWS)
    found, made = again(cuts, tmp_path / "c", silver_held=silver)
    assert (found.records, found.quarantine["rows"], made) == (0, 1, [])
    found, made = again(cuts, tmp_path / "d", kept=silver)
    assert (found.records, found.quarantine["rows"], made) == (3, 1, ROWS)


def test_new_fields_of_the_record_are_columns_beside_its_elements(tmp_path: Path) -> None:
    cuts = exploded(tmp_path, "add")
    cuts.take('{"n":1,"x":1,"items":[{"sku":"a","y":1},{"sku":"b"}]}')
    cuts.take('{"n":2,"x":1.5,"items":[{},{}]}')
    assert cuts.types() == {"position": "integer", "sku": "string", "x": "double"}
    found = SilverTable.open(cuts.pipeline.silver).delta.to_pyarrow_table().sort_by("offset")
    assert found.column("x").to_pylist() == [1.0, 1.0, 1.5, 1.5]
    assert problems(cuts) == []


def test_the_column_of_the_place_may_have_another_name(tmp_path: Path) -> None:
    named = COLUMNS + 'line = { type = "bigint", from = "position" }\nposition = "string"\n'
    cuts = Cuts(tmp_path, "stop", named, explode="items")
    cuts.take('{"items":[{"sku":"a"},{"sku":"b"}],"position":"p"}')
    found = SilverTable.open(cuts.pipeline.silver).delta.to_pyarrow_table()
    assert found.select(["line", "position"]).to_pylist() == [
        {"line": 0, "position": "p"},
        {"line": 1, "position": "p"},
    ]
    assert problems(cuts) == []


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (None, "items", "made with no explode, and .* has explode = 'items' and places in the col"),
        ("items", None, "made with explode = 'items' and .*, and .* has no explode"),
        ("items", "other", "made with explode = 'items' and .*, and .* has explode = 'other'"),
    ],
)
def test_a_table_of_other_rows_is_refused(
    tmp_path: Path, before: str | None, after: str | None, said: str
) -> None:
    cuts = Cuts(tmp_path, "stop", explode=before)
    cuts.take('{"n":1}')
    cuts.pipeline = Cuts(tmp_path / "x", "stop", explode=after).pipeline
    cuts.pipeline = replace(
        cuts.pipeline,
        **{
            key: getattr(cuts.pipeline, key).replace("/x/", "/")
            for key in ("bronze", "silver", "quarantine", "file")
        },
    )
    for act in (lambda: cuts.take('{"n":2}'), lambda: verify_parsed(cuts.pipeline)):
        with pytest.raises(TableError, match=rf"{said}.*rebuild silver"):
            act()


def test_a_column_with_the_name_of_the_place_is_refused() -> None:
    text = TEXT.format(mode="stop", more='explode = "items"') + 'Position = "int"\n'
    words = r"\[silver.columns\] Position \(line 14\): with explode silver has a column position"
    with pytest.raises(OptionError, match=words):
        parse_pipeline(text, "/srv/pipeline.toml")
