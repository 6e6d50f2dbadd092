"""`retention` removes whole files of old rows; `verify` knows that they are gone on purpose, and
finds everything else that is missing.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from strandline_spark.bronze.columns import BronzeTable
from strandline_spark.bronze.verify import verify
from strandline_spark.delta_log.commit import Change, commit
from strandline_spark.delta_log.table_log import snapshot
from strandline_spark.errors import OptionError, TableError
from strandline_spark.maintenance import removals
from strandline_spark.maintenance.compaction import compact
from strandline_spark.maintenance.retention import retain
from strandline_spark.pipeline.verify import verify_parsed
from strandline_spark.silver.tables import SilverTable
from support.bronze_values import Record, take
from support.deduped import FILE, level, make, pipeline_in, record

if TYPE_CHECKING:
    from strandline_spark.pipeline.config import Pipeline

DAY_S = 86_400
PLAIN = FILE.replace('dedupe = { key = ["id", "kind"], within = "10 seconds" }', "")


def days_ago(days: float) -> int:
    return int(time.time() - days * DAY_S)


def aged(pipeline: Pipeline) -> None:
    """Batches of 40, 35, 20 and 0 days ago, by event time."""
    make(pipeline)
    for n, days in enumerate((40, 35, 20, 0)):
        records = [record(0, 2 * n, n, days_ago(days)), record(0, 2 * n + 1, 9 + n, days_ago(days))]
        take(pipeline.bronze, n, [*records, Record(1, n, b"[")])
        level(pipeline)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    aged(pipeline_in(folder, PLAIN))
    return folder


@pytest.fixture
def pipeline(made: Path, tmp_path: Path) -> Pipeline:
    """A copy of the tables that were made; a table is read by relative paths alone."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return pipeline_in(tmp_path, PLAIN)


def offsets(path: str) -> list[int]:
    found: list[Any] = DeltaTable(path).to_pyarrow_table(columns=["offset"])["offset"].to_pylist()
    return sorted(found)


def said(pipeline: Pipeline) -> list[str]:
    raw: list[list[Any]] = [verify(pipeline.bronze, "t", None, full=full) for full in (False, True)]
    parsed: list[list[Any]] = [
        verify_parsed(pipeline, values=True, full=full) for full in (False, True)
    ]
    return [str(problem) for every in (*raw, *parsed) for one in every for problem in one.problems]


def test_old_files_go_and_verify_knows(pipeline: Pipeline) -> None:
    assert said(pipeline) == []
    dry = retain(pipeline.silver, 30 * DAY_S, dry_run=True)
    assert len(dry.files) == 2
    assert offsets(pipeline.silver) == list(range(8))
    done = retain(pipeline.silver, 30 * DAY_S)
    assert (done.files, done.rows) == (dry.files, 4)
    assert offsets(pipeline.silver) == [4, 5, 6, 7]
    assert said(pipeline) == []
    assert retain(pipeline.silver, 30 * DAY_S).files == []
    assert retain(pipeline.silver, 10 * DAY_S).rows == 2
    assert said(pipeline) == []
    # The files stay for readers of an earlier version.
    assert all(os.path.exists(os.path.join(pipeline.silver, path)) for path in done.files)


def test_a_job_goes_on_over_it(pipeline: Pipeline) -> None:
    before = SilverTable.open(pipeline.silver)
    retain(pipeline.silver, 30 * DAY_S)
    before.commit("a job that has read the state before", 0, [], [])
    take(pipeline.bronze, 4, [record(0, 8, 1, days_ago(0))])
    level(pipeline)
    assert said(pipeline) == []
    assert offsets(pipeline.silver) == [4, 5, 6, 7, 8]


def test_bronze_and_quarantine_go_by_their_timestamps(pipeline: Pipeline) -> None:
    """The records' own timestamps are those of 1970."""
    assert retain(pipeline.quarantine, DAY_S).rows == 4
    assert said(pipeline) == []
    done = retain(pipeline.bronze, DAY_S)
    assert done.rows == 12
    assert said(pipeline) == []
    take(pipeline.bronze, 4, [record(0, 8, 1, days_ago(0))])
    level(pipeline)
    assert said(pipeline) == []
    assert offsets(pipeline.silver) == list(range(9))


def test_a_compacted_table_goes_by_days(pipeline: Pipeline) -> None:
    compact(pipeline.silver, 1 << 27)
    assert retain(pipeline.silver, 30 * DAY_S).rows == 4
    assert said(pipeline) == []


def test_silver_that_is_behind_does_not_miss_what_bronze_has_removed(tmp_path: Path) -> None:
    one = pipeline_in(tmp_path, PLAIN)
    make(one)
    take(one.bronze, 0, [record(0, 0, 1, days_ago(0))])
    level(one)
    take(one.bronze, 1, [record(0, 1, 1, days_ago(0))])
    assert retain(one.bronze, DAY_S).rows == 2
    level(one)
    assert said(one) == []
    assert offsets(one.silver) == [0]


def test_a_row_that_is_missing_for_another_reason_is_found(pipeline: Pipeline) -> None:
    retain(pipeline.silver, 30 * DAY_S)
    state = snapshot(pipeline.silver)
    change = Change("DELETE")
    first = SilverTable.open(pipeline.silver).file_paths()[0]
    change.remove(first, 1, {"topic": "t", "ingest_date": "2026-01-01"}, data_change=True)
    commit(state, change)
    assert any("neither silver nor quarantine does" in one for one in said(pipeline))


def test_a_row_that_comes_back_is_found(pipeline: Pipeline) -> None:
    version = snapshot(pipeline.bronze).version
    done = retain(pipeline.bronze, DAY_S)
    old = DeltaTable(pipeline.bronze, version=version)
    assert old.version() == version
    change = Change()
    path = done.files[0]
    day = path.split("ingest_date=")[1][:10]
    stats = {"numRecords": 2, "minValues": {}, "maxValues": {}}
    change.add(path, 1, {"topic": "t", "ingest_date": day}, json.dumps(stats))
    commit(snapshot(pipeline.bronze), change)
    assert any("that were removed from the table" in one for one in said(pipeline))


@pytest.mark.parametrize("damage", ["changed", "gone", "garbage", "first"])
def test_an_entry_that_was_changed_is_an_error(pipeline: Pipeline, damage: str) -> None:
    retain(pipeline.silver, 36 * DAY_S)
    retain(pipeline.silver, 30 * DAY_S)
    number = 1 if damage == "first" else 2
    path = Path(pipeline.silver, removals.FOLDER, f"{number:08}.json")
    if damage == "gone":
        path.unlink()
    elif damage == "garbage":
        path.write_text("[")
    else:
        path.write_text(path.read_text().replace('"rows": 2', '"rows": 3'))
    with pytest.raises(TableError, match=r"about removed rows (does not read|is not the one)"):
        said(pipeline)


def test_an_entry_without_its_commit_excuses_nothing(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash between the entry and the commit leaves a file that the next removal replaces."""
    from strandline_spark.bronze.compaction import Fence

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Fence, "commit", crash)
        with pytest.raises(KeyboardInterrupt):
            retain(pipeline.silver, 30 * DAY_S)
    assert removals.read(snapshot(pipeline.silver)) == []
    assert said(pipeline) == []
    assert retain(pipeline.silver, 36 * DAY_S).rows == 2
    assert said(pipeline) == []


def test_rows_that_later_ones_may_repeat_are_kept(tmp_path: Path) -> None:
    one = pipeline_in(tmp_path, FILE.replace('"10 seconds"', '"20 days"'))
    aged(one)
    with pytest.raises(OptionError, match=r"finds duplicates within 1728000 seconds"):
        retain(one.silver, 10 * DAY_S)
    assert retain(one.silver, 30 * DAY_S).rows == 4


def test_the_table_says_no_longer_that_it_only_takes_rows(pipeline: Pipeline) -> None:
    assert BronzeTable.open(pipeline.bronze).setting("delta.appendOnly") == "true"
    retain(pipeline.bronze, DAY_S)
    assert BronzeTable.open(pipeline.bronze).setting("delta.appendOnly") == "false"
    assert DeltaTable(pipeline.bronze).to_pyarrow_table().num_rows == 0
