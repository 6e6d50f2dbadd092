"""A commit by our own entry of the log: delta-rs reads it, and a conflict refuses it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake

from strandline_spark.delta_log import checkpoints
from strandline_spark.delta_log import commit as commits
from strandline_spark.delta_log.commit import Change, ConflictError, UnsyncedError, commit
from strandline_spark.delta_log.entries import LOG, checkpoint_path, entry_path
from strandline_spark.delta_log.table_log import TableLog, snapshot

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = pa.schema([("a", pa.int64()), ("day", pa.string())])


@pytest.fixture
def root(tmp_path: Path) -> str:
    path = str(tmp_path / "a table%")
    os.makedirs(path)
    DeltaTable.create(path, SCHEMA, partition_by=["day"])
    return path


def added(root: str, name: str, value: int) -> Change:
    """A file in a folder whose name needs quoting."""
    path = f"day=1%2/{name}.parquet"
    os.makedirs(os.path.join(root, "day=1%2"), exist_ok=True)
    pq.write_table(pa.table({"a": [value]}), os.path.join(root, path))
    change = Change(transactions={name: value})
    size = os.path.getsize(os.path.join(root, path))
    change.add(path, size, {"day": "1%2"}, json.dumps({"numRecords": 1}))
    return change


def rows(root: str) -> list[Any]:
    found: list[Any] = DeltaTable(root).to_pyarrow_table().sort_by("a").to_pylist()
    return found


def test_another_reader_sees_files_transactions_and_what_the_commit_says(root: str) -> None:
    change = added(root, "one", 1)
    change.info = {"strandline": {"format": 4}}
    assert commit(snapshot(root), change) == 1
    handle = DeltaTable(root)
    assert rows(root) == [{"a": 1, "day": "1%2"}]
    assert handle.transaction_version("one") == 1
    assert handle.history(1)[0]["strandline"] == {"format": 4}
    handle.create_checkpoint()
    gone = Change("DELETE")
    gone.remove("day=1%2/one.parquet", 1, {"day": "1%2"}, data_change=True)
    commit(snapshot(root), gone)
    assert rows(root) == []


def test_a_process_that_begins_at_a_checkpoint_commits(root: str) -> None:
    """A checkpoint has null for the features that the table's protocol does not list."""
    commit(snapshot(root), added(root, "one", 1))
    DeltaTable(root).create_checkpoint()
    begun = TableLog(root).snapshot()
    assert begun.protocol["writerFeatures"] is None
    assert commit(begun, added(root, "two", 2)) == 2
    assert [one["a"] for one in rows(root)] == [1, 2]


def test_appends_of_two_writers_go_one_behind_the_other(root: str) -> None:
    before = snapshot(root)
    write_deltalake(root, pa.table({"a": [7], "day": ["x"]}, SCHEMA), mode="append")
    assert commit(before, added(root, "one", 1)) == 2
    assert commit(before, added(root, "two", 2)) == 3
    assert [one["a"] for one in rows(root)] == [1, 2, 7]


def test_of_two_with_one_transaction_the_later_is_refused(root: str) -> None:
    before = snapshot(root)
    DeltaTable(root).create_write_transaction(
        [],
        "append",
        SCHEMA,
        partition_by=["day"],
        commit_properties=CommitProperties(app_transactions=[Transaction("one", 5)]),
    )
    with pytest.raises(ConflictError, match="version 1 has the transaction one"):
        commit(before, added(root, "one", 6))
    assert commit(before, added(root, "two", 6)) == 2


def test_a_foreign_change_of_the_table_refuses_the_commit(root: str) -> None:
    before = snapshot(root)
    DeltaTable(root).alter.set_table_properties({"delta.logRetentionDuration": "interval 1 days"})
    with pytest.raises(ConflictError, match="version 1 changed the table's columns or settings"):
        commit(before, added(root, "one", 1))
    assert rows(root) == []


def test_a_table_that_is_append_only_meanwhile_loses_no_row(root: str) -> None:
    """Rows that are added stand beside such a change."""
    commit(snapshot(root), added(root, "one", 1))
    before = snapshot(root)
    DeltaTable(root).alter.set_table_properties({"delta.appendOnly": "true"})
    change = Change()
    change.remove("day=1%2/one.parquet", 1, {"day": "1%2"}, data_change=True)
    with pytest.raises(ConflictError, match="version 2 made the table append-only"):
        commit(before, change)
    assert commit(before, added(root, "two", 2)) == 3


def test_a_file_that_another_removed_is_not_replaced(root: str) -> None:
    commit(snapshot(root), added(root, "one", 1))
    before = snapshot(root)
    DeltaTable(root).delete("a = 1")
    change = added(root, "two", 2)
    change.remove("day=1%2/one.parquet", 1, {"day": "1%2"}, data_change=False)
    with pytest.raises(ConflictError, match=r"version 2 removed day=1%252/one\.parquet"):
        commit(before, change)


def test_new_columns_wait_for_no_one(root: str) -> None:
    before = snapshot(root)
    commit(before, added(root, "one", 1))
    wider = SCHEMA.append(pa.field("b", pa.int64()))
    metadata = {**before.metadata, "schemaString": Schema.from_arrow(wider).to_json()}
    with pytest.raises(ConflictError, match="version 1 was committed before the new columns"):
        commit(before, Change(metadata=metadata))


def test_a_disk_that_does_not_sync_the_name_leaves_the_commit_in_doubt(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: str) -> None:
        raise OSError("No space left")

    monkeypatch.setattr(commits, "sync", full)
    with pytest.raises(UnsyncedError):
        commit(snapshot(root), added(root, "one", 1))
    assert len(rows(root)) == 1


def test_checkpoints_become_rarer_as_they_grow_and_the_old_ones_go(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(85):
        version = commit(snapshot(root), Change(transactions={"one": number}))
        checkpoints.write_if_due(root, version)
    names = {name for name in os.listdir(os.path.join(root, LOG)) if "checkpoint.p" in name}
    assert names == {f"{n:020}.checkpoint.parquet" for n in (60, 80)}
    assert snapshot(root).transactions == {"one": 84}
    with open(os.path.join(root, LOG, "_last_checkpoint"), "w") as file:
        json.dump({"version": 80, "size": 20_000}, file)
    for number in range(85, 121):
        version = commit(snapshot(root), Change(transactions={"one": number}))
        assert checkpoints.write_if_due(root, version) == (version == 120)
    assert DeltaTable(root).version() == 121
    assert [checkpoints.interval(n) for n in (0, 10_000, 180_000, 10_000_000)] == [
        20,
        20,
        360,
        2_000,
    ]


def test_a_checkpoint_of_each_earlier_day_stays(root: str) -> None:
    for version in range(1, 9):
        commit(snapshot(root), Change(transactions={"one": version}))
        DeltaTable(root).create_checkpoint()
        age = 86_400 * (4 - version // 2) * 1_000_000_000
        now = os.stat(entry_path(root, version)).st_mtime_ns // 86_400_000_000_000
        day = now * 86_400_000_000_000 - age
        os.utime(checkpoint_path(root, version), ns=(day, day))
    checkpoints.thin(root, 8)
    left = [n for n in range(9) if os.path.exists(checkpoint_path(root, n))]
    assert left == [1, 3, 5, 7, 8]
    assert DeltaTable(root, version=4).version() == 4
