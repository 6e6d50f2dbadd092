"""`compact` and `vacuum` of silver, quarantine and gold: rows stay, files become few, and readers
with a condition on event time skip files.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from deltalake import DeltaTable

from strandline_spark.bronze.compaction import Compacted
from strandline_spark.bronze.vacuum import vacuum
from strandline_spark.delta_log.table_log import snapshot
from strandline_spark.errors import TableError
from strandline_spark.maintenance import written
from strandline_spark.maintenance.compaction import compact
from strandline_spark.pipeline.verify import verify_parsed
from strandline_spark.silver.tables import QuarantineTable, SilverTable
from support.bronze_values import Record, take
from support.deduped import level, make, pipeline_in, record

if TYPE_CHECKING:
    from strandline_spark.bronze.fenced_table import FencedTable

TARGET = 1 << 27
DAY_S = 86_400


def rows(path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = DeltaTable(path).to_pyarrow_table().to_pylist()
    return sorted(found, key=lambda one: (one["partition"], one["offset"]))


def files(path: str) -> list[str]:
    return sorted(pa.table(snapshot(path).handle().get_add_actions())["path"].to_pylist())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six batches with records of two days in each, and records that do not parse."""
    folder = tmp_path_factory.mktemp("made") / "a lake%"
    one = pipeline_in(folder)
    make(one)
    for n in range(6):
        day = DAY_S * (n % 2)
        take(
            one.bronze,
            n,
            [
                record(0, 2 * n, n, day + n),
                record(0, 2 * n + 1, 100 + n, DAY_S - day + n),
                Record(1, n, b"["),
                Record(2, n, None),
            ],
        )
        level(one)
    return folder


@pytest.fixture
def pipeline(made: Path, tmp_path: Path) -> Any:
    """A copy of the tables that were made; a table is read by relative paths alone."""
    shutil.copytree(made, tmp_path / "a lake%")
    return pipeline_in(tmp_path / "a lake%")


def sound(pipeline: Any) -> bool:
    return all(
        one.sound
        for full in (False, True)
        for one in verify_parsed(pipeline, values=True, full=full)
    )


def test_rows_stay_and_files_are_few(pipeline: Any) -> None:
    for path in (pipeline.silver, pipeline.quarantine):
        before, count = rows(path), len(files(path))
        done = compact(path, TARGET)
        assert (done.files_before, done.rows) == (count, len(before))
        assert done.files_after == len(files(path)) < count
        assert rows(path) == before
        assert sound(pipeline)
        assert compact(path, TARGET).files_before == 0
    take(pipeline.bronze, 6, [record(0, 12, 1_000, 5)])
    level(pipeline)
    assert sound(pipeline)
    assert compact(pipeline.silver, TARGET).files_before == 3
    assert sound(pipeline)


def test_a_file_of_silver_has_one_day_and_rising_offsets(pipeline: Any) -> None:
    compact(pipeline.silver, TARGET)
    actions = pa.table(snapshot(pipeline.silver).handle().get_add_actions(flatten=True)).to_pylist()
    assert len([one for one in actions if one["min.partition"] == 0]) == 2
    for one in actions:
        found = pq.read_table(os.path.join(pipeline.silver, one["path"]), partitioning=None)
        times = found["event_time"].drop_null().cast(pa.int64()).to_pylist()
        assert len({time // (DAY_S * 1_000_000) for time in times}) <= 1
        assert found["offset"].to_pylist() == sorted(found["offset"].to_pylist())
        assert one["null_count.event_time"] == found["event_time"].null_count
        if times:
            assert one["min.event_time"].timestamp() * 1e6 <= min(times)
            assert max(times) <= one["max.event_time"].timestamp() * 1e6


def test_statistics_hold_for_every_column(pipeline: Any) -> None:
    compact(pipeline.silver, TARGET)
    compact(pipeline.quarantine, TARGET)
    for path in (pipeline.silver, pipeline.quarantine):
        for one in pa.table(snapshot(path).handle().get_add_actions(flatten=True)).to_pylist():
            found = pq.read_table(os.path.join(path, one["path"]), partitioning=None)
            assert one["num_records"] == found.num_rows
            for name in found.column_names:
                if one.get(f"min.{name}") is None:
                    continue
                values = [value for value in found[name].to_pylist() if value is not None]
                assert all(one[f"min.{name}"] <= value <= one[f"max.{name}"] for value in values)


@pytest.mark.parametrize("kind", ["silver", "quarantine"])
def test_a_job_goes_on_over_a_compaction(pipeline: Any, kind: str) -> None:
    """The job has read the state before, and commits after it."""
    path = getattr(pipeline, kind)
    table: FencedTable = {"silver": SilverTable, "quarantine": QuarantineTable}[kind].open(path)
    compact(path, TARGET)
    table.commit("another job", 0, [], [])
    assert sound(pipeline)


def test_a_foreign_writer_that_removes_rows_meanwhile_stops_the_compaction(
    pipeline: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = written.NewFile.close

    def overtaken(self: written.NewFile) -> None:
        one(self)
        if DeltaTable(pipeline.quarantine).version() == version:
            handle = DeltaTable(pipeline.quarantine)
            handle.alter.set_table_properties({"delta.appendOnly": "false"})
            handle.delete()

    version = snapshot(pipeline.quarantine).version
    monkeypatch.setattr(written.NewFile, "close", overtaken)
    with pytest.raises(TableError, match=r"was changed meanwhile .*this commit changed nothing"):
        compact(pipeline.quarantine, TARGET)
    assert files(pipeline.quarantine) == []
    assert not list(Path(pipeline.quarantine).rglob("compact-*"))


@pytest.mark.parametrize("at", ["_flush", "close"])
def test_a_disk_that_fills_changes_nothing_and_leaves_nothing(
    pipeline: Any, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = files(pipeline.silver)
    monkeypatch.setattr(written.NewFile, at, full)
    with pytest.raises(TableError, match=r"cannot be written .*No space left.*make room there"):
        compact(pipeline.silver, TARGET)
    monkeypatch.undo()
    assert files(pipeline.silver) == before
    assert not list(Path(pipeline.silver).rglob("compact-*"))
    assert compact(pipeline.silver, TARGET).files_before > 0
    assert sound(pipeline)


def test_a_new_column_is_null_in_older_rows(pipeline: Any) -> None:
    from strandline_spark.parsing.parts.type_names import column_type

    SilverTable.open(pipeline.silver).add_columns({"later": column_type("string")})
    take(pipeline.bronze, 6, [record(0, 12, 1_000, 5)])
    level(pipeline)
    before = rows(pipeline.silver)
    compact(pipeline.silver, TARGET)
    assert rows(pipeline.silver) == before


def test_vacuum_removes_what_was_replaced_long_ago(pipeline: Any) -> None:
    before = set(files(pipeline.silver))
    compact(pipeline.silver, TARGET)
    assert vacuum(pipeline.silver).files == []
    for path in before:
        os.utime(os.path.join(pipeline.silver, path), (1, 1))
    for entry in sorted(Path(pipeline.silver, "_delta_log").glob("*.json")):
        lines = [json.loads(line) for line in entry.read_text().splitlines()]
        for action in lines:
            if "remove" in action:
                action["remove"]["deletionTimestamp"] = int(time.time() - 30 * DAY_S) * 1000
        entry.write_text("".join(json.dumps(action) + "\n" for action in lines))
    assert set(vacuum(pipeline.silver).files) == before
    assert sound(pipeline)


def test_a_state_table_and_a_foreign_table_are_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "foreign")
    os.makedirs(path)
    DeltaTable.create(path, pa.schema([("a", pa.int64())]))
    for act in (lambda: compact(path, TARGET), lambda: vacuum(path)):
        with pytest.raises(TableError, match="is no table of a Strandline job"):
            act()
    with pytest.raises(TableError, match="is no Delta table"):
        compact(str(tmp_path / "none"), TARGET)


def test_an_empty_table_has_nothing_to_compact(tmp_path: Path) -> None:
    one = pipeline_in(tmp_path)
    make(one)
    assert compact(one.silver, TARGET) == Compacted(version=snapshot(one.silver).version)
