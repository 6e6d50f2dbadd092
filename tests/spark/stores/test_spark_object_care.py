"""The care of a pipeline's tables in an object store: what `compact`, `vacuum`, `retention` and
`forget` do there, and a second `verify`. Spark's tasks run in this process.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from strandline_spark.bronze.compaction import Fence
from strandline_spark.bronze.vacuum import vacuum
from strandline_spark.commands.main import main
from strandline_spark.delta_log import commit as delta_commit
from strandline_spark.errors import OptionError, TableError
from strandline_spark.maintenance.compaction import compact
from strandline_spark.maintenance.forget import forget
from strandline_spark.maintenance.retention import retain
from strandline_spark.pipeline.config import parse_pipeline
from strandline_spark.pipeline.verify import verify_parsed, verify_raw
from strandline_spark.silver.tables import SilverTable
from strandline_spark.state.step import run_step
from strandline_spark.state.table import StateTable
from strandline_spark.state.verify import verify_step
from strandline_spark.stores import files, objects
from strandline_spark.verification.readings import Readings
from support.bronze_values import Record, take
from support.deduped import FILE, level, make, record
from support.object_store import BUCKET, object_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from strandline_spark.pipeline.config import Pipeline

DAY_S = 86_400
STATE = """
[[state]]
name = "people"
key = ["id"]
order = ["event_time"]
"""


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with object_store() as address:
        yield address


@pytest.fixture
def pipeline(endpoint: str, tmp_path: Path) -> Pipeline:
    """Person 7 has three records and a duplicate, of 40 days ago and of now, beside others."""
    lake = f's3://{BUCKET}/{secrets.token_hex(4)}"\ncheckpoint = "{tmp_path}/checkpoint'
    text = FILE.replace('name = "p"', f'name = "p"\ndirectory = "{lake}"') + STATE
    (tmp_path / "pipeline.toml").write_text(text)
    one = parse_pipeline(text, str(tmp_path / "pipeline.toml"))
    make(one)
    old, now = (int(time.time() - days * DAY_S) for days in (40, 0))
    batches = [
        [record(0, 0, 7, old), record(0, 1, 8, old), Record(1, 0, b"[")],
        [record(0, 2, 7, old + 5), record(0, 3, 8, old + 30), Record(2, 0, None)],
        [record(0, 4, 7, now), record(2, 1, 7, now + 100)],
    ]
    for n, batch in enumerate(batches):
        take(one.bronze, n, batch)
    level(one)
    run(one)
    return one


def run(pipeline: Pipeline) -> None:
    for step in pipeline.state:
        run_step(step, pipeline.silver, pipeline=pipeline.name)


def said(pipeline: Pipeline, *, full: bool = False) -> list[str]:
    readings = Readings(full=full)
    found: list[Any] = [*verify_raw(pipeline, None, full=full, readings=readings)]
    found += verify_parsed(pipeline, full=full, readings=readings)
    steps = [verify_step(one, pipeline.silver, pipeline="p", full=full) for one in pipeline.state]
    return [problem for one in (*found, *steps) for problem in one.problems]


def places(table: str) -> list[tuple[int, int]]:
    rows = DeltaTable(table).to_pyarrow_table(columns=["partition", "offset"]).to_pylist()
    return sorted((row["partition"], row["offset"]) for row in rows)


def data_of(table: str) -> set[str]:
    """The data files below the table's address, of earlier versions too."""
    return {path for path in files.below(table) if path.startswith("topic=")}


def in_the_store(pipeline: Pipeline) -> set[tuple[int, int]]:
    """The records of all data files, of earlier versions and of killed tasks too."""
    return {
        (row["partition"], row["offset"])
        for table in (pipeline.bronze, pipeline.silver, pipeline.quarantine)
        for path in data_of(table)
        for row in files.parquet(f"{table}/{path}")
        .read(columns=["partition", "offset"])
        .to_pylist()
    }


def test_silver_is_merged_by_days_cleaned_and_loses_old_rows(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    silver = pipeline.silver
    before, held = places(silver), data_of(silver)
    assert said(pipeline) == []
    with monkeypatch.context() as patch:
        patch.setattr(delta_commit, "_now_ms", lambda: int((time.time() - 7200) * 1000))
        done = compact(silver, 1 << 27)
    assert (done.files_before, done.rows, places(silver)) == (5, 6, before)
    assert vacuum(silver, kept_hours=24).files == []
    assert {*vacuum(silver, kept_hours=1, dry_run=True).files} == held - data_in(silver)
    assert data_of(silver) == held | data_in(silver)
    vacuum(silver, kept_hours=1)
    assert data_of(silver) == data_in(silver)
    assert said(pipeline) == said(pipeline, full=True) == []

    assert retain(silver, 30 * DAY_S, dry_run=True).rows == 4
    assert retain(silver, 30 * DAY_S).rows == 4
    assert places(silver) == [(0, 4), (2, 1)]
    assert retain(silver, 30 * DAY_S).files == []
    assert said(pipeline) == said(pipeline, full=True) == []
    take(pipeline.bronze, 3, [record(0, 5, 9, int(time.time()))])
    level(pipeline)
    run(pipeline)
    assert said(pipeline) == []


def data_in(table: str) -> set[str]:
    """The data files of the present version."""
    return set(SilverTable.open(table).file_paths())


def test_no_object_has_the_records_of_a_forgotten_person(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor if a run breaks off, after a merge that has left the files of before."""
    compact(pipeline.bronze, 1 << 27)
    remove, deleted = files.remove, list[str]()

    def crash(path: str) -> None:
        if len(deleted) == 2:
            raise KeyboardInterrupt
        deleted.append(path)
        remove(path)

    dry = forget(pipeline, "id = 7", dry_run=True)
    with monkeypatch.context() as patch:
        patch.setattr(files, "remove", crash)
        with pytest.raises(KeyboardInterrupt):
            forget(pipeline, "id = 7")
    assert (0, 4) in in_the_store(pipeline)
    done = forget(pipeline, "id = 7")
    assert dry.rows == {"bronze": 4, "quarantine": 1, "silver": 3}
    assert done.rows == {"bronze": 0, "quarantine": 1, "silver": 3}
    assert done.begun_again == ["people"]
    assert not files.is_folder(pipeline.state[0].table)
    others = {(0, 1), (0, 3), (1, 0), (2, 0)}
    assert in_the_store(pipeline) == others
    assert {*places(pipeline.silver), *places(pipeline.quarantine)} == others
    with pytest.raises(OptionError, match=r"no row of s3://.* is so; nothing was changed"):
        forget(pipeline, "id = 7")
    run(pipeline)
    assert said(pipeline) == said(pipeline, full=True) == []


def test_of_a_merge_and_a_retention_at_once_the_later_is_refused(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, held = Fence.commit, data_of(pipeline.silver)

    def late(fence: Fence, change: Any) -> None:
        monkeypatch.undo()
        retain(pipeline.silver, 30 * DAY_S)
        commit(fence, change)

    monkeypatch.setattr(Fence, "commit", late)
    with pytest.raises(TableError, match="another"):
        compact(pipeline.silver, 1 << 27)
    # What it has written is gone, and each file that was there is left.
    assert data_of(pipeline.silver) == held
    assert places(pipeline.silver) == [(0, 4), (2, 1)]
    assert said(pipeline, full=True) == []


def test_a_second_verify_asks_for_no_object_and_finds_one_that_has_changed_or_is_gone(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert said(pipeline) == []
    heads: list[str] = []
    head = objects._head
    with monkeypatch.context() as patch:
        patch.setattr(objects, "_head", lambda one: heads.append(one) or head(one))  # type: ignore[func-returns-value]
        assert said(pipeline) == []
    assert not [one for one in heads if "/topic=" in one]
    path = sorted(data_of(pipeline.silver))[0]
    content = objects.read(f"{pipeline.silver}/{path}")
    rows = files.parquet(f"{pipeline.silver}/{path}").read()
    files.write_parquet(rows.slice(1), f"{pipeline.silver}/{path}")
    assert any("1 files have changed since they were verified" in one for one in said(pipeline))
    files.remove(f"{pipeline.silver}/{path}")
    with pytest.raises(TableError, match=r"1 of \d files of the table s3://.* are not there"):
        said(pipeline)
    objects.write_over(f"{pipeline.silver}/{path}", content)
    assert said(pipeline) == []


def command(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_a_state_table_is_copied_aside_and_begins_again_wherever_its_removal_breaks_off(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (step,) = pipeline.state
    take(pipeline.bronze, 3, [record(0, 5, 9, int(time.time()))])
    level(pipeline)
    run(pipeline)
    rows = places(step.table)
    reset = ("state", "reset", "people", pipeline.file)
    delete = objects._obstore().delete
    monkeypatch.setattr(objects, "_AT_ONCE", 1)
    for left in ("an earlier version", "files without a log", "the mark"):
        names = list(files.below(step.table))
        log = [name for name in names if name.startswith("_delta_log/")]
        count = {"an earlier version": 1, "files without a log": len(log)}.get(left, len(names))
        with monkeypatch.context() as patch:
            patch.setattr("obstore.delete", that_dies_after(count, delete))
            assert command(*reset) == 130
        assert DeltaTable.is_deltatable(step.table) == (left == "an earlier version")
        capsys.readouterr()
        assert command(*reset) == 0
        aside = capsys.readouterr().out.rpartition("The table as it was: ")[2].strip()
        assert left == "an earlier version" or places(aside) == rows
        assert not files.exists(step.table)
        assert not files.exists(f"{step.table}.aside")
        run(pipeline)
        assert places(step.table) == rows
    assert said(pipeline) == []
    # The earlier version was copied once more.
    assert len(forget(pipeline, "id = 9", dry_run=True).aside) == 4


def that_dies_after(count: int, delete: Callable[..., None]) -> Callable[..., None]:
    left = iter(range(count))

    def crash(store: Any, paths: Any) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt
        delete(store, paths)

    return crash


def test_a_step_that_begins_again_ends_a_removal_that_broke_off(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    (step,) = pipeline.state
    rows = places(step.table)

    def crash(path: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(files, "remove", crash)
        with pytest.raises(KeyboardInterrupt):
            StateTable.open(step, "p").set_aside()
    assert files.is_file(f"{step.table}.aside")
    run(pipeline)
    assert places(step.table) == rows
    assert not files.exists(f"{step.table}.aside")
