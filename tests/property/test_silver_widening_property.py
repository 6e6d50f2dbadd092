"""With `on_new_field = "add"`, what silver holds, its columns' types and what is quarantined follow
from the records alone, however they are cut into micro-batches; and no digit is ever lost.
"""

from __future__ import annotations

import json
import tempfile
from decimal import Context, Decimal, InvalidOperation
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline_spark.bronze.columns import BronzeTable
from strandline_spark.errors import TableError
from strandline_spark.silver.tables import SilverTable
from support.silver_cuts import Cuts

EXACT = Context(prec=2000, Emax=10**17, Emin=-(10**17))
NULL = "null"


def types_by_hand(texts: list[str]) -> str:
    """The narrowest type that holds all values."""
    values = [json.loads(text, parse_int=Decimal, parse_float=Decimal) for text in texts]
    if all(type(value) is bool for value in values):
        return "boolean"
    if any(type(value) is not Decimal for value in values):
        return "string"
    whole = all(text.lstrip("-").isdigit() for text in texts)
    if whole and all(-(2**63) <= value < 2**63 for value in values):
        return "long"
    if all(is_double(text) for text in texts):
        return "double"
    return "decimal(38,18)" if all(map(is_decimal, values)) else "string"


def is_double(text: str) -> bool:
    return str(float(text)) != "inf" and Decimal(str(float(text))) == Decimal(text)


def is_decimal(value: Decimal) -> bool:
    try:
        return value.quantize(Decimal("1e-18"), context=Context(prec=38)) == value
    except InvalidOperation:
        return False


def held_by_hand(text: str, kind: str) -> Any:
    if text == NULL:
        return None
    if kind == "string":
        return json.loads(text) if text[0] == '"' else text
    if kind == "boolean":
        return text == "true"
    return {"long": int, "double": float}.get(kind, Decimal)(text)


NUMBERS = st.one_of(
    st.integers(-100, 100).map(str),
    st.integers(-(2**70), 2**70).map(str),
    st.sampled_from([2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 10**18]).map(str),
    st.decimals(-1000, 1000, places=2).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(json.dumps),
    st.sampled_from(
        [
            *("-0", "-0.0", "1.50", "1e2", "1E-7", "1e300", "1e-400", "0.1234567890123456789"),
            *("9007199254740993.5", "1.000000000000000000", "0.1000000000000000055511151231257827"),
        ]
    ),
)
OTHERS = st.sampled_from(["true", "false", '"x"', '"1"', '"1.50"', '""', "[1, 2.50]", '{"a":1}'])
FIELDS = st.one_of(
    st.lists(st.integers(-(10**17), 10**17).map(str), min_size=1, max_size=4),
    st.lists(NUMBERS, min_size=1, max_size=6),
    st.lists(st.one_of(NUMBERS, OTHERS, st.just(NULL)), min_size=1, max_size=6),
    st.lists(st.sampled_from(["true", "false", NULL, "1", '"true"']), min_size=1, max_size=6),
)


def record(number: int, fields: dict[str, str]) -> str:
    shown = "".join(f', "{name}": {value}' for name, value in fields.items())
    return f'{{"n": {number}{shown}}}'


def cut(values: list[str], cuts: list[int]) -> list[list[str]]:
    edges = sorted({0, len(values), *(each % len(values) for each in cuts)})
    return [values[a:b] for a, b in pairwise(edges)]


def outcome(values: list[str], cuts: list[int]) -> tuple[Any, Any, Any]:
    """What silver holds, its types, and what is quarantined."""
    with tempfile.TemporaryDirectory() as folder:
        made = Cuts(Path(folder))
        for batch in cut(values, cuts):
            made.take(*batch)
        return made.rows(), made.types(), made.quarantined()


@given(FIELDS, FIELDS, st.lists(st.integers(1, 20), max_size=4), st.integers(0, 20))
@settings(max_examples=15)
def test_cuts_change_nothing_and_no_digit_is_lost(
    some: list[str], others: list[str], cuts: list[int], bad_at: int
) -> None:
    size = max(len(some), len(others))
    fields = [
        {name: texts[n] for name, texts in (("a", some), ("b", others)) if n < len(texts)}
        for n in range(size)
    ]
    values = [record(n, one) for n, one in enumerate(fields)]
    bad_at %= size + 1
    # What does not parse makes no column wider.
    values.insert(bad_at, '{"n": "x", "a": "text", "b": "text", "c": 1}')
    rows, types, quarantined = outcome(values, cuts)
    assert quarantined == [(0, bad_at, "wrong type")]
    seen = {name: [t for t in texts if t != NULL] for name, texts in (("a", some), ("b", others))}
    assert types == {name: types_by_hand(texts) for name, texts in seen.items() if texts}
    offsets = [n + (n >= bad_at) for n in range(size)]
    for offset, one in zip(offsets, fields, strict=True):
        for name, kind in types.items():
            expected = held_by_hand(one.get(name, NULL), kind)
            assert str(rows[0, offset][name]) == str(expected) or (
                kind == "decimal(38,18)" and rows[0, offset][name] == expected
            )
    assert set(rows) == {(0, offset) for offset in offsets}


def batches(folder: Path, *steps: tuple[str, ...]) -> Cuts:
    """Of values of the field `a`."""
    made = Cuts(folder)
    for step in steps:
        made.take(*(record(0, {"a": text}) for text in step))
    return made


def held(made: Cuts) -> list[Any]:
    return [row["a"] for _, row in sorted(made.rows().items())]


def test_whole_numbers_and_fractions_are_good_in_any_batches(tmp_path: Path) -> None:
    for number, steps in enumerate(
        [
            (("10", "12.5"),),
            (("10",), ("12.5",)),
            (("12.5",), ("10",)),
            (("10",), ("12.5",), ("3",)),
        ]
    ):
        (tmp_path / str(number)).mkdir()
        made = batches(tmp_path / str(number), *steps)
        assert made.types() == {"a": "double"}
        assert made.quarantined() == []
        assert sorted(held(made)) == sorted(float(one) for step in steps for one in step)


def test_a_whole_number_that_no_double_holds_keeps_its_digits_beside_a_fraction(
    tmp_path: Path,
) -> None:
    made = batches(tmp_path, ("9007199254740993",), ("0.5",))
    assert made.types() == {"a": "decimal(38,18)"}
    assert held(made) == [Decimal(9007199254740993), Decimal("0.5")]
    assert made.added == [{"a": "bigint"}, {"a": "decimal(38,18) in place of bigint"}]
    made.take(record(0, {"a": "1e300"}))
    assert made.types() == {"a": "string"}
    assert held(made) == ["9007199254740993", "0.5", "1e300"]


@pytest.mark.parametrize("number", [-(2**63), 2**63 - 1, 2**53 + 1, -(2**53) - 1])
def test_the_outermost_whole_numbers_are_kept_when_a_column_becomes_wider(
    tmp_path: Path, number: int
) -> None:
    made = batches(tmp_path, (str(number),), ("0.5",))
    assert held(made) == [Decimal(number), Decimal("0.5")]


def test_a_text_after_numbers_keeps_all_of_them_as_they_were_written(tmp_path: Path) -> None:
    made = batches(tmp_path, ("1.50", "1e2", "-0.0"), (NULL,), ("true",), ("[1.50]", '"x"'))
    assert made.types() == {"a": "string"}
    assert held(made) == ["1.50", "1e2", "-0.0", None, "true", "[1.50]", "x"]
    assert made.quarantined() == []


def test_a_wider_column_is_one_commit_and_leaves_other_files_as_they_are(tmp_path: Path) -> None:
    made = Cuts(tmp_path)
    made.take('{"n": 1}')
    made.take('{"n": 2, "a": 1}', '{"n": 3}')
    made.take('{"n": 4}', partition=1)
    table = SilverTable.open(made.pipeline.silver)
    before, version, ends = set(table.file_paths()), table.version, table.commits()
    made.take('{"n": 5, "a": 1.5}', partition=1)
    table = SilverTable.open(made.pipeline.silver)
    after = set(table.file_paths())
    assert table.version == version + 2
    assert len(after & before) == len(before) - 2
    assert {key: row["a"] for key, row in made.rows().items()} == {
        (0, 0): None,
        (0, 1): 1.0,
        (0, 2): None,
        (1, 0): None,
        (1, 1): 1.5,
    }
    # An earlier version reads as it was, and the accounts of commits are what they were.
    earlier = DeltaTable(made.pipeline.silver, version=version).to_pyarrow_table(columns=["a"])
    assert sorted(earlier.column("a").to_pylist(), key=str) == [1, None, None, None]
    assert table.commits()[1:] == ends
    assert table.delta.metadata().configuration["delta.appendOnly"] == "true"


def test_a_pipeline_that_adds_no_columns_makes_none_wider(tmp_path: Path) -> None:
    batches(tmp_path, ("1",))
    stops = Cuts(tmp_path, "stop")
    stops._batch, stops._ends = 1, {0: 1}
    stops.take(record(0, {"a": "1.5"}), record(0, {"a": "2"}))
    assert stops.types() == {"a": "long"}
    assert stops.quarantined() == [(0, 1, "wrong type")]


def test_a_record_that_bronze_has_lost_is_named_and_silver_stays_as_it_is(tmp_path: Path) -> None:
    made = batches(tmp_path, ("1", "2"))
    folder = Path(made.pipeline.bronze)
    (file,) = (folder / path for path in BronzeTable.open(str(folder)).file_paths())
    copy = file.read_bytes()
    file.unlink()
    version = SilverTable.open(made.pipeline.silver).version
    with pytest.raises(TableError, match=r"does not read .*records 0 to 1 of t:0, .*put bronze"):
        made.take(record(0, {"a": "1.5"}))
    table = SilverTable.open(made.pipeline.silver)
    assert table.version == version
    assert not list(Path(made.pipeline.silver).rglob("wider-*"))
    file.write_bytes(copy)
    made.take(record(0, {"a": "1.5"}))
    assert held(made) == [1.0, 2.0, 1.5]


def test_a_commit_that_comes_between_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = batches(tmp_path, ("1",))
    replace_files = SilverTable.replace_files

    def late(self: SilverTable, *given: Any) -> None:
        other = SilverTable.open(self.path)
        other.add_columns({"z": made.pipeline.parse.columns["n"]})
        replace_files(self, *given)

    monkeypatch.setattr(SilverTable, "replace_files", late)
    with pytest.raises(TableError, match=r"another writer committed .* run one job for a table"):
        made.take(record(0, {"a": "1.5"}))
    assert not list(Path(made.pipeline.silver).rglob("wider-*"))
    assert not list(Path(made.pipeline.silver).rglob("*.tmp"))
    assert SilverTable.open(made.pipeline.silver).parsed_columns()["a"] == "long"
