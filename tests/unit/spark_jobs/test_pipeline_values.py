"""`verify --values` of a pipeline: what of silver and quarantine is not what bronze parses to."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from deltalake import DeltaTable

from strandline_spark.commands.main import main
from strandline_spark.pipeline import parsed_values
from strandline_spark.pipeline.verify import verify_parsed
from strandline_spark.silver.tables import SilverTable
from support.silver_cuts import TEXT, Cuts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def cuts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cuts:
    """Three batches of two partitions: fields that come late and grow wider, and bad records."""
    monkeypatch.setattr(parsed_values, "WINDOW", 4)
    made = Cuts(tmp_path)
    made.take('{"n": 1}', '{"n": 2, "x": 10}', "{", '{"n": 4, "x": 12.5}')
    made.take('{"n": 5, "s": "a"}', "[]", partition=1)
    made.take('{"n": 6, "x": null, "s": {"b": 1}}', '{"n": "7"}', '{"n": 8, "x": -0.0}')
    return made


def problems(cuts: Cuts) -> list[str]:
    found = verify_parsed(cuts.pipeline, values=True)
    said = [problem for one in found for problem in one.problems]
    assert (sum(one.differing for one in found) == 0) == (not any("record" in s for s in said))
    return said


def rewrite(root: str, partition: int, change: Callable[[Any], Any], *, at: int = 0) -> None:
    """Changes the file of a table that holds the partition's offset `at`."""
    for path in DeltaTable(root).file_uris():
        rows = pq.ParquetFile(path).read()
        held = rows.filter(pc.equal(rows.column("partition"), partition)).column("offset")
        if at in held.to_pylist():
            pq.write_table(change(rows), path)
            return
    raise AssertionError(f"no file of {root} holds {partition}/{at}")


def setting(column: str, offset: int, value: Any) -> Callable[[Any], Any]:
    def change(rows: Any) -> Any:
        place = rows.schema.get_field_index(column)
        held = rows.column(column)
        is_it = pc.equal(rows.column("offset"), offset)
        new = pc.if_else(is_it, pa.scalar(value, held.type), held)
        return rows.set_column(place, rows.schema.field(column), new)

    return change


def test_tables_that_nobody_touched_are_what_bronze_parses_to(cuts: Cuts) -> None:
    assert problems(cuts) == []
    assert {one.differing for one in verify_parsed(cuts.pipeline)} == {-1}


@pytest.mark.parametrize(
    ("partition", "column", "offset", "value", "words"),
    [
        (0, "n", 1, 3, "n is 3, and the record gives 2"),
        (0, "n", 1, None, "n is None, and the record gives 2"),
        (0, "n", 4, 7, "n is 7, and the record gives 6"),
        (1, "s", 0, "A", "s is 'A', and the record gives 'a'"),
        (0, "event_time", 0, 5, "event_time is 5, and the record gives 1700000000000000"),
        (0, "timestamp", 3, 5, "timestamp is 5, and the record gives 1700000000000003"),
        (0, "key", 3, b"k", "key is b'k', and the record gives None"),
        (0, "tombstone", 3, True, "tombstone is True, and the record gives False"),
    ],
)
def test_a_wrong_value_of_silver_is_found(
    cuts: Cuts, partition: int, column: str, offset: int, value: Any, words: str
) -> None:
    rewrite(cuts.pipeline.silver, partition, setting(column, offset, value), at=offset)
    assert problems(cuts) == [
        f"1 rows of silver are not what bronze's records give, the first at offset {offset}: "
        + words
    ]


@pytest.mark.parametrize(
    ("column", "value"), [("value", b"?"), ("reason", "wrong type"), ("key", b""), ("timestamp", 1)]
)
def test_a_wrong_value_of_quarantine_is_found(cuts: Cuts, column: str, value: Any) -> None:
    rewrite(cuts.pipeline.quarantine, 1, setting(column, 1, value), at=1)
    (problem,) = problems(cuts)
    assert problem.startswith(
        "1 rows of quarantine are not what bronze's records give, the first at offset 1:"
        f" {column} is "
    )


def test_rows_that_are_missing_too_many_or_in_the_wrong_table_are_found(cuts: Cuts) -> None:
    silver, quarantine = cuts.pipeline.silver, cuts.pipeline.quarantine
    rewrite(silver, 0, setting("offset", 6, 5), at=6)
    said = problems(cuts)
    assert (
        "1 rows of silver are missing, which bronze's records give, the first at offset 6" in said
    )
    assert (
        "1 rows of silver are too many, which bronze's records do not give, the first at offset 5"
        in said
    )
    rewrite(quarantine, 0, lambda rows: rows.slice(0, 0), at=2)
    assert (
        "1 rows of quarantine are missing, which bronze's records give, the first at offset 2"
        in problems(cuts)
    )


def test_two_zeros_and_numbers_that_are_none_are_told_apart() -> None:
    values = [0.0, -0.0, float("nan"), None, 1.5]
    array = pa.array(values, pa.float64(), from_pandas=False)
    once, again = parsed_values._plain(array), parsed_values._plain(array)
    assert once == again
    assert len(set(once)) == 5


def test_a_column_that_silver_lacks_is_null_and_silver_is_not_changed(tmp_path: Path) -> None:
    cuts = Cuts(tmp_path, "stop")
    cuts.take('{"n": 1}')
    version = SilverTable.open(cuts.pipeline.silver).version
    more = TEXT.format(mode="stop", more="") + 'm = { type = "int", field = "n2" }\no = "string"\n'
    (tmp_path / "pipeline.toml").write_text(more)
    with pytest.raises(SystemExit) as ended:
        main(["verify", str(tmp_path / "pipeline.toml"), "--values"])
    assert ended.value.code == 0
    assert SilverTable.open(cuts.pipeline.silver).version == version


def test_the_command_compares_values_without_a_cluster(
    cuts: Cuts, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("STRANDLINE_BOOTSTRAP", "STRANDLINE_DIR"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "pipeline.toml"
    file.write_text(TEXT.format(mode="add", more=""))
    rewrite(cuts.pipeline.silver, 0, setting("n", 1, 3), at=1)
    for flags, code, differing in (((), 0, -1), (("--values",), 1, 1)):
        with pytest.raises(SystemExit) as ended:
            main(["verify", str(file), *flags, "--format", "json"])
        assert ended.value.code == code
        found = json.loads(capsys.readouterr().out)
        assert found["silver"][0]["differing"] == differing
    assert os.getcwd() == str(tmp_path)
