"""`forget` deletes a person's records from every table and from the disk; `verify` and a rebuild
know that they are gone on purpose.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from deltalake import DeltaTable

from strandline_spark import stores
from strandline_spark.bronze.compaction import Fence
from strandline_spark.bronze.verify import verify
from strandline_spark.commands.main import main
from strandline_spark.delta_log.table_log import snapshot
from strandline_spark.errors import OptionError, TableError
from strandline_spark.maintenance import removals
from strandline_spark.maintenance.compaction import compact
from strandline_spark.maintenance.forget import forget
from strandline_spark.maintenance.retention import retain
from strandline_spark.pipeline.verify import verify_parsed
from strandline_spark.silver.rebuild import Rebuild
from strandline_spark.state.step import run_step
from strandline_spark.state.verify import verify_step
from support.bronze_values import InlineSpark, Record, take
from support.deduped import FILE, level, make, pipeline_in, record

if TYPE_CHECKING:
    from strandline_spark.pipeline.config import Pipeline

STATE = """
[[state]]
name = "people"
key = ["id"]
order = ["event_time"]
"""
PLAIN = FILE.replace('dedupe = { key = ["id", "kind"], within = "10 seconds" }', "")
WHERE = "id = 7"
LEFT: Final = {(0, 1), (0, 3), (1, 0), (2, 0)}
"""The records of others."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Person 7 has three records and a duplicate, among those of others, in three batches."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "pipeline.toml").write_text(FILE + STATE)
    one = pipeline_in(folder, FILE + STATE)
    make(one)
    take(one.bronze, 0, [record(0, 0, 7, 100), record(0, 1, 8, 100), Record(1, 0, b"[")])
    take(one.bronze, 1, [record(0, 2, 7, 105), record(0, 3, 8, 130), Record(2, 0, None)])
    take(one.bronze, 2, [record(0, 4, 7, 200), record(2, 1, 7, 300)])
    level(one)
    run(one)
    return folder


@pytest.fixture
def pipeline(made: Path, tmp_path: Path) -> Pipeline:
    """A copy of the tables that were made; a table is read by relative paths alone."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return pipeline_in(tmp_path, FILE + STATE)


def run(pipeline: Pipeline) -> None:
    for step in pipeline.state:
        run_step(step, pipeline.silver, pipeline=pipeline.name)


def said(pipeline: Pipeline) -> list[str]:
    raw: list[list[Any]] = [verify(pipeline.bronze, "t", None, full=full) for full in (False, True)]
    parsed: list[list[Any]] = [
        verify_parsed(pipeline, values=True, full=full) for full in (False, True)
    ]
    state: list[Any] = [verify_step(step, pipeline.silver, pipeline="p") for step in pipeline.state]
    return [one for every in (*raw, *parsed, state) for found in every for one in found.problems]


def places(path: str) -> list[tuple[int, int]]:
    rows = DeltaTable(path).to_pyarrow_table(columns=["partition", "offset"]).to_pylist()
    return sorted((row["partition"], row["offset"]) for row in rows)


def test_the_records_are_in_no_table_and_verify_knows(pipeline: Pipeline) -> None:
    assert said(pipeline) == []
    assert places(pipeline.quarantine) == [(0, 2), (1, 0)]
    dry = forget(pipeline, WHERE, dry_run=True)
    assert said(pipeline) == []
    assert len(places(pipeline.bronze)) == 8
    done = forget(pipeline, WHERE)
    assert done.rows == dry.rows == {"bronze": 4, "quarantine": 1, "silver": 3}
    assert (done.records, done.begun_again) == (4, ["people"])
    assert places(pipeline.bronze) == [(0, 1), (0, 3), (1, 0), (2, 0)]
    assert places(pipeline.silver) == [(0, 1), (0, 3), (2, 0)]
    assert places(pipeline.quarantine) == [(1, 0)]
    assert not os.path.exists(pipeline.state[0].table)
    run(pipeline)
    assert said(pipeline) == []
    found = [one.removed for one in verify(pipeline.bronze, "t", None)]
    assert found == [3, 0, 1]


def on_the_disk(pipeline: Pipeline) -> set[tuple[int, int]]:
    """The records of all data files, of earlier versions and of killed tasks too."""
    found = set()
    for table in (pipeline.bronze, pipeline.silver, pipeline.quarantine):
        for file in Path(table).rglob("topic=*/**/*.parquet"):
            for row in pq.read_table(file, partitioning=None).to_pylist():
                found.add((row["partition"], row["offset"]))
    return found


def test_no_file_on_the_disk_has_them(pipeline: Pipeline) -> None:
    forget(pipeline, WHERE)
    assert on_the_disk(pipeline) == LEFT


def test_no_file_that_was_replaced_before_has_them(pipeline: Pipeline) -> None:
    """A compaction has replaced files, and a killed task has left a whole file and half of one."""
    for table in (pipeline.bronze, pipeline.silver, pipeline.quarantine):
        first = min(Path(table).rglob("topic=*/**/*.parquet"))
        compact(table, 1 << 27)
        shutil.copy(first, first.with_name("killed.parquet"))
    assert (0, 4) in on_the_disk(pipeline)
    whole = first.read_bytes()
    first.with_name("torn.parquet").write_bytes(whole[:-9])
    forget(pipeline, WHERE)
    assert on_the_disk(pipeline) == LEFT
    run(pipeline)
    assert said(pipeline) == []


@pytest.mark.parametrize("files", range(5))
def test_no_file_has_them_after_a_run_that_broke_off_is_run_again(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, files: int
) -> None:
    one = stores.files.remove
    deleted: list[str] = []

    def crash(path: str) -> None:
        if len(deleted) == files:
            raise KeyboardInterrupt
        deleted.append(path)
        one(path)

    with monkeypatch.context() as patch:
        patch.setattr(stores.files, "remove", crash)
        with pytest.raises(KeyboardInterrupt):
            forget(pipeline, WHERE)
    with contextlib.suppress(OptionError):  # all rows are gone, and only files are left
        forget(pipeline, WHERE)
    assert on_the_disk(pipeline) == LEFT
    run(pipeline)
    assert said(pipeline) == []


def test_a_rebuild_that_broke_off_begins_again_without_them(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark: Any = InlineSpark()

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Rebuild, "_rename", crash)
        with pytest.raises(KeyboardInterrupt):
            Rebuild(pipeline, lambda line: None).run(spark)
    assert (0, 4) in places(f"{pipeline.silver}.rebuild")
    forget(pipeline, WHERE)
    assert not list(Path(pipeline.silver).parent.glob("*.rebuild"))
    Rebuild(pipeline, lambda line: None).run(spark)
    run(pipeline)
    assert (places(pipeline.silver), said(pipeline)) == ([(0, 1), (0, 3), (2, 0)], [])


def test_the_entry_has_no_value_of_the_person(pipeline: Pipeline) -> None:
    forget(pipeline, "id = 7 AND kind = 'a'")
    for table in (pipeline.bronze, pipeline.silver, pipeline.quarantine):
        (entry,) = Path(table, removals.FOLDER).glob("*.json")
        found = json.loads(entry.read_text())
        assert "kind = " not in entry.read_text()
        assert found["kind"] == "forget"
    (removal,) = removals.read(snapshot(pipeline.bronze))
    assert removal.rows == 4


def test_a_rebuild_does_not_bring_them_back(pipeline: Pipeline) -> None:
    forget(pipeline, WHERE)
    spark: Any = InlineSpark()
    Rebuild(pipeline, lambda line: None).run(spark)
    run(pipeline)
    assert places(pipeline.silver) == [(0, 1), (0, 3), (2, 0)]
    assert said(pipeline) == []


def test_the_job_goes_on_and_takes_new_records_of_the_person(pipeline: Pipeline) -> None:
    """The time of their duplicates is forgotten with them."""
    forget(pipeline, WHERE)
    take(pipeline.bronze, 3, [record(0, 5, 7, 201), record(0, 6, 7, 202)])
    assert level(pipeline) == 1
    run(pipeline)
    assert said(pipeline) == []
    assert forget(pipeline, WHERE).rows == {"bronze": 2, "quarantine": 1, "silver": 1}
    run(pipeline)
    assert said(pipeline) == []


@pytest.mark.parametrize("commits", range(1, 4))
def test_a_run_that_breaks_off_is_run_again(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, commits: int
) -> None:
    one, made = Fence.commit, []

    def crash(self: Fence, change: Any) -> None:
        made.append(change)
        if len(made) == commits:
            raise KeyboardInterrupt
        one(self, change)

    with monkeypatch.context() as patch:
        patch.setattr(Fence, "commit", crash)
        with pytest.raises(KeyboardInterrupt):
            forget(pipeline, WHERE)
    forget(pipeline, WHERE)
    run(pipeline)
    assert places(pipeline.bronze) == [(0, 1), (0, 3), (1, 0), (2, 0)]
    assert places(pipeline.silver) == [(0, 1), (0, 3), (2, 0)]
    assert places(pipeline.quarantine) == [(1, 0)]
    assert said(pipeline) == []


def test_a_record_that_is_left_in_one_table_is_found(pipeline: Pipeline) -> None:
    """Another program brings a file of before back."""
    kept = f"{pipeline.silver}-kept"
    shutil.copytree(pipeline.silver, kept)
    forget(pipeline, WHERE)
    shutil.rmtree(pipeline.silver)
    shutil.move(kept, pipeline.silver)
    run(pipeline)
    assert any("rows are in silver that were removed or forgotten" in one for one in said(pipeline))


def test_no_such_row_is_one_line(pipeline: Pipeline, capsys: pytest.CaptureFixture[str]) -> None:
    before = [snapshot(path).version for path in (pipeline.bronze, pipeline.silver)]
    with pytest.raises(SystemExit) as ended:
        main(["forget", str(pipeline.file), "--where", "id = 99"])
    (line,) = capsys.readouterr().err.splitlines()
    assert ended.value.code == 1
    assert "--where 'id = 99': no row of" in line
    assert line.endswith("nothing was changed")
    assert [snapshot(path).version for path in (pipeline.bronze, pipeline.silver)] == before


@pytest.mark.parametrize("where", ["ident = 7", "id =", "count(*) > 1", "id"])
def test_a_condition_that_is_none_is_one_line(pipeline: Pipeline, where: str) -> None:
    with pytest.raises(OptionError, match=r"^--where "):
        forget(pipeline, where)


def test_silver_that_is_behind_is_refused(pipeline: Pipeline) -> None:
    take(pipeline.bronze, 3, [record(0, 5, 7, 201)])
    with pytest.raises(TableError, match=r"does not hold all records of t:0 .*run the pipeline"):
        forget(pipeline, WHERE)


def test_results_that_cannot_be_computed_again_are_kept_unless_asked(tmp_path: Path) -> None:
    pipeline = pipeline_in(tmp_path, PLAIN + STATE)
    make(pipeline)
    take(pipeline.bronze, 0, [record(0, n, 7, 100) for n in range(5)])
    level(pipeline)
    run(pipeline)
    retain(pipeline.silver, 3600)
    take(pipeline.bronze, 1, [record(0, 5, 7, 201)])
    level(pipeline)
    with pytest.raises(TableError, match=r"people can be computed again only .*--drop-older"):
        forget(pipeline, WHERE)
    assert forget(pipeline, WHERE, drop_older=True).begun_again == ["people"]
    run(pipeline)
    assert said(pipeline) == []
