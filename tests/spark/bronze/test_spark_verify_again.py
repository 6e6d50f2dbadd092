"""A second `verify` reads only what came since the first, and finds later changes of the rest."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from strandline_spark.bronze import noted_runs, runs
from strandline_spark.bronze.columns import BronzeTable
from strandline_spark.bronze.compaction import compact
from strandline_spark.bronze.verify import verify
from support.spark_tables import take

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def root(tmp_path: Path) -> str:
    path = str(tmp_path / "table")
    for start in (0, 10, 20):
        take(path, start, start + 10)
    assert said(path, full=True) == []
    return path


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are read."""
    paths: list[str] = []
    one = runs.TopicRuns._runs_of

    def counted(self: runs.TopicRuns, path: str) -> list[noted_runs.Row]:
        paths.append(path)
        return one(self, path)

    monkeypatch.setattr(runs.TopicRuns, "_runs_of", counted)
    return paths


def said(root: str, *, full: bool = False) -> list[str]:
    return [problem for one in verify(root, "t", None, full=full) for problem in one.problems]


def a_file(root: str) -> str:
    return os.path.join(root, BronzeTable.open(root).file_paths()[0])


def test_only_new_files_are_read(root: str, read: list[str]) -> None:
    assert said(root) == []
    assert read == []
    take(root, 30, 40)
    assert said(root) == []
    assert len(read) == 1
    assert said(root, full=True) == []
    assert len(read) == 5


def test_after_a_compaction_its_files_are_read(root: str, read: list[str]) -> None:
    compact(root)
    read.clear()
    assert said(root) == []
    assert len(read) == 1


def test_a_file_with_other_rows_is_found(root: str) -> None:
    path = a_file(root)
    rows = pq.read_table(path, partitioning=None)
    pq.write_table(rows.slice(1), path)
    found = said(root)
    assert any("1 files have changed since they were verified" in one for one in found)
    assert any("offsets have no row" in one for one in found)
    # It is no finding just once: what is not sound is not noted.
    assert said(root) == found


def test_a_file_that_was_only_copied_is_read_again_and_no_finding(
    root: str, read: list[str]
) -> None:
    os.utime(a_file(root), (1, 1))
    assert said(root) == []
    assert len(read) == 1
    assert said(root) == []
    assert len(read) == 1


def test_an_account_that_changes_later_is_found(root: str) -> None:
    entry = Path(BronzeTable.open(root).log_entry(1))
    actions = [json.loads(line) for line in entry.read_text().splitlines()]
    (info,) = (one["commitInfo"] for one in actions if "commitInfo" in one)
    info["strandline"]["ranges"][0]["topic_id"] = "AQECAwQFBgcICQoLDA0ODw"
    entry.write_text("".join(json.dumps(one) + "\n" for one in actions))
    assert said(root, full=True) == []
    take(root, 30, 40)  # the note of the full run is behind it
    assert said(root) == []
    info["strandline"]["ranges"][0]["topic_id"] = "AgECAwQFBgcICQoLDA0ODw"
    entry.write_text("".join(json.dumps(one) + "\n" for one in actions))
    (problem,) = said(root)
    assert "are not those that were verified" in problem


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b"PAR1"),
        lambda path: path.unlink(),
        lambda path: pq.write_table(pq.read_table(path).slice(1), path),
    ],
)
def test_a_damaged_note_counts_as_none(
    root: str, read: list[str], damage: Callable[[Path], None]
) -> None:
    damage(Path(root, noted_runs.FOLDER, "t.parquet"))
    assert said(root) == []
    assert len(read) == 3


def test_a_note_of_another_table_counts_as_none(root: str, tmp_path: Path, read: list[str]) -> None:
    other = str(tmp_path / "other")
    take(other, 0, 10)
    target = Path(other, noted_runs.FOLDER)
    target.mkdir(parents=True)
    (target / "t.parquet").write_bytes(Path(root, noted_runs.FOLDER, "t.parquet").read_bytes())
    assert said(other) == []
    assert len(read) == 1
