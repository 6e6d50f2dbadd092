"""A second `verify` reads only what came since the first, and finds later changes of the rest."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from strandline_spark.bronze.audit import AuditCopier, audit_path
from strandline_spark.bronze.columns import BronzeTable
from strandline_spark.bronze.compaction import compact
from strandline_spark.bronze.verify import verify
from strandline_spark.errors import TableError
from strandline_spark.stores import files
from strandline_spark.verification import accounts, noted_runs, runs
from strandline_spark.verification.readings import Readings
from support.spark_tables import DAY, clean_log, commit, take, taken, write_file

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


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The entries of the log and the files of the audit that are parsed."""
    names: list[str] = []
    one = accounts._Sources.parse

    def counted(self: accounts._Sources, parse: Callable[[list[str]], Any]) -> None:
        def noted(new: list[str]) -> Any:
            names.extend(new)
            return parse(new)

        one(self, noted)

    monkeypatch.setattr(accounts._Sources, "parse", counted)
    monkeypatch.setattr(accounts, "_NEW_MIN", 1)
    return names


def copied(root: str) -> None:
    AuditCopier(root).copy(BronzeTable.open(root))


def test_only_new_accounts_are_parsed(root: str, parsed: list[str]) -> None:
    copied(root)
    assert said(root) == []
    (copy,) = Path(audit_path(root)).glob("*.parquet")
    assert sorted(parsed) == sorted([*(f"{n:020}.json" for n in range(4)), copy.name])
    parsed.clear()
    assert said(root) == []
    assert parsed == []
    take(root, 30, 40)
    assert said(root) == []
    assert parsed == [f"{4:020}.json"]
    parsed.clear()
    assert said(root, full=True) == []
    assert len(parsed) == 6


def test_few_new_accounts_do_not_write_the_note_again(
    root: str, parsed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounts, "_NEW_MIN", 5)
    assert said(root) == []
    assert not Path(root, accounts.NOTE).exists()
    take(root, 30, 40)
    assert said(root) == []
    assert Path(root, accounts.NOTE).exists()
    assert len(parsed) == 4 + 5


def test_noted_accounts_that_left_the_log_are_taken_from_the_audit(
    root: str, parsed: list[str]
) -> None:
    copied(root)
    assert said(root) == []
    parsed.clear()
    clean_log(root, 3)
    assert said(root) == []
    assert parsed == []
    shutil.rmtree(audit_path(root))
    (problem, *_) = said(root)
    assert "are not those that were verified" in problem


def test_a_noted_entry_of_the_same_size_and_time_is_compared_by_its_content(
    root: str, parsed: list[str]
) -> None:
    assert said(root) == []
    entry = Path(BronzeTable.open(root).log_entry(2))
    before = entry.stat()
    entry.write_text(entry.read_text().replace('"start": 10', '"start": 11'))
    os.utime(entry, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert entry.stat().st_size == before.st_size
    found = said(root)
    assert any("are not those that were verified" in one for one in found)
    assert any("commits took in up to 10, then from 11" in one for one in found)


def test_a_noted_copy_in_the_audit_is_compared_by_its_content(root: str, parsed: list[str]) -> None:
    copied(root)
    clean_log(root, 4)
    assert said(root) == []
    (copy,) = Path(audit_path(root)).glob("*.parquet")
    rows = pq.read_table(copy)
    place = rows.column_names.index("rows")
    lacking = pc.subtract(rows.column("rows"), 1)
    pq.write_table(rows.set_column(place, "rows", lacking), copy)
    assert any("was committed with 9 rows, 10 are there" in one for one in said(root))
    copy.write_bytes(b"PAR1")
    for full in (False, True):
        with pytest.raises(TableError, match=r"ingest_audit does not read"):
            said(root, full=full)
    copy.unlink()
    for full in (False, True):
        with pytest.raises(TableError, match=r"ingest_audit does not read"):
            said(root, full=full)


def test_a_noted_entry_that_does_not_read_now_is_named(root: str, parsed: list[str]) -> None:
    assert said(root) == []
    entry = Path(BronzeTable.open(root).log_entry(2))
    entry.unlink()
    entry.mkdir()
    with pytest.raises(TableError, match=r"2\.json of the table's log does not read"):
        said(root)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b"PAR1"),
        lambda path: pq.write_table(pq.read_table(path).slice(1), path),
        lambda path: pq.write_table(
            (rows := pq.read_table(path)).set_column(
                rows.column_names.index("rows"), "rows", pc.add(rows.column("rows"), 1)
            ),
            path,
        ),
        lambda path: pq.write_table(pq.read_table(path).drop_columns("content"), path),
    ],
)
def test_a_damaged_note_of_accounts_counts_as_none(
    root: str, parsed: list[str], damage: Callable[[Path], None]
) -> None:
    assert said(root) == []
    parsed.clear()
    damage(Path(root, accounts.NOTE))
    assert said(root) == []
    assert len(parsed) == 4


def test_accounts_noted_of_another_table_count_as_none(
    root: str, tmp_path: Path, parsed: list[str]
) -> None:
    assert said(root) == []
    other = str(tmp_path / "other")
    take(other, 0, 10)
    Path(other, "_ops").mkdir()
    shutil.copy(Path(root, accounts.NOTE), Path(other, accounts.NOTE))
    parsed.clear()
    assert said(other) == []
    assert len(parsed) == 2


def test_a_table_is_read_once_by_the_parts_of_a_verification(root: str, read: list[str]) -> None:
    readings = Readings(full=True)
    table = BronzeTable.open(root)
    one = readings.of(table)
    assert one.runs("t") is readings.of(BronzeTable.open(root)).runs("t")
    assert len(read) == 3
    take(root, 30, 40)
    assert readings.of(BronzeTable.open(root)) is not one


def test_a_file_of_several_runs_is_noted_with_all_of_them(root: str, read: list[str]) -> None:
    offsets = [*range(30, 33), *range(34, 37), 39]
    commit(root, 3, taken(30, 40, rows=7, skipped=3), write_file(root, offsets))
    assert said(root) == []
    assert said(root) == []
    assert len(read) == 1
    path = max(Path(root, DAY).iterdir(), key=lambda one: one.stat().st_mtime_ns)
    os.utime(path, (1, 1))
    assert said(root) == []
    assert len(read) == 2


def test_a_file_of_the_same_size_or_of_the_same_time_that_has_changed_is_found(root: str) -> None:
    path = Path(a_file(root))
    content, before = path.read_bytes(), path.stat()
    rows = pq.read_table(path, partitioning=None)
    pq.write_table(rows.slice(1), path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert any("1 files have changed since they were verified" in one for one in said(root))
    path.write_bytes(content)
    assert said(root) == []
    place = rows.column_names.index("leader_epoch")
    later = pc.add(rows.column("leader_epoch"), 1).cast(rows.schema.field(place).type)
    pq.write_table(rows.set_column(place, rows.schema.field(place), later), path)
    assert path.stat().st_size == before.st_size
    assert any("1 files have changed since they were verified" in one for one in said(root))


@pytest.mark.parametrize("name", ["rows", "lost"])
def test_a_count_of_an_account_that_changes_later_is_found(root: str, name: str) -> None:
    entry = Path(BronzeTable.open(root).log_entry(1))
    said(root)
    before = {"rows": 10, "lost": 0}[name]
    entry.write_text(entry.read_text().replace(f'"{name}": {before}', f'"{name}": 9'))
    assert any("are not those that were verified" in problem for problem in said(root))


def test_a_file_of_accounts_that_cannot_be_compared_is_parsed_each_time(
    root: str, parsed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_fingerprint", lambda path: "")
    for _ in range(2):
        parsed.clear()
        assert said(root) == []
        assert len(parsed) == 4
