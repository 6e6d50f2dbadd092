"""The state that follows a table's log is that of delta-rs, and a known log is not read again."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction

from strandline_spark.delta_log import table_log
from strandline_spark.delta_log.commit import Change, commit
from strandline_spark.delta_log.entries import (
    LogError,
    NoLogError,
    checkpoint_path,
    entry_path,
    read_entry,
)
from strandline_spark.delta_log.table_log import snapshot

SCHEMA = pa.schema([("a", pa.int64())])
APPS = ("one", "two", "three")


@pytest.fixture
def root(tmp_path: Path) -> str:
    path = str(tmp_path / "a table%")
    made(path)
    return path


def made(path: str, **configuration: str) -> None:
    os.makedirs(path)
    DeltaTable.create(path, SCHEMA, configuration=configuration or None)


def by_delta_rs(path: str, **transactions: int) -> None:
    DeltaTable(path).create_write_transaction(
        [],
        "append",
        SCHEMA,
        commit_properties=CommitProperties(
            app_transactions=[Transaction(app, number) for app, number in transactions.items()]
        ),
    )


def check(path: str) -> None:
    """The state is that of delta-rs, and of a process that reads all of the log."""
    there, handle = snapshot(path), DeltaTable(path)
    assert there.version == handle.version()
    assert there.id == str(handle.metadata().id)
    assert dict(there.configuration) == handle.metadata().configuration
    assert there.schema == handle.schema()
    assert [there.transactions.get(app) for app in APPS] == [
        handle.transaction_version(app) for app in APPS
    ]
    new = table_log.TableLog(path).snapshot()
    assert (new.version, new.metadata, new.transactions) == (
        there.version,
        there.metadata,
        there.transactions,
    )


def test_the_state_follows_both_writers_and_a_checkpoint(root: str) -> None:
    for number in range(12):
        check(root)
        if number % 3 == 0:
            by_delta_rs(root, one=number, two=-number)
        else:
            commit(snapshot(root), Change(transactions={"three": number, "one": number}))
        if number == 5:
            DeltaTable(root).create_checkpoint()
    DeltaTable(root).alter.set_table_properties({"delta.appendOnly": "true"})
    check(root)


def test_a_known_log_is_not_read_again(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        by_delta_rs(root, one=number)
    snapshot(root)
    read: list[int] = []

    def counted(path: str, version: int) -> Any:
        read.append(version)
        return read_entry(path, version)

    monkeypatch.setattr(table_log, "read_entry", counted)
    monkeypatch.setattr(os, "listdir", None)
    assert snapshot(root).version == 30
    by_delta_rs(root, one=30)
    assert snapshot(root).transactions == {"one": 30}
    assert read == [31, 31, 32]


def test_another_table_in_the_place_is_another_lineage(root: str) -> None:
    by_delta_rs(root, one=1)
    first = snapshot(root)
    by_delta_rs(root, two=1)
    assert snapshot(root).lineage is first.lineage
    shutil.rmtree(root)
    made(root)
    by_delta_rs(root, three=1)
    by_delta_rs(root, three=2)
    check(root)
    assert snapshot(root).lineage is not first.lineage


def test_an_older_copy_of_the_log_is_read_as_it_is(root: str) -> None:
    for number in range(4):
        by_delta_rs(root, one=number)
    assert snapshot(root).version == 4
    os.unlink(entry_path(root, 4))
    check(root)


def test_a_log_without_its_first_entries_begins_at_the_checkpoint(root: str) -> None:
    for number in range(6):
        by_delta_rs(root, one=number)
        if number == 3:
            DeltaTable(root).create_checkpoint()
    for version in range(4):
        os.unlink(entry_path(root, version))
    assert table_log.TableLog(root).snapshot().transactions == {"one": 5}


@pytest.mark.parametrize("lost", [0, 2])
def test_a_lost_entry_is_an_error(root: str, lost: int) -> None:
    for number in range(3):
        by_delta_rs(root, one=number)
    os.unlink(entry_path(root, lost))
    with pytest.raises(LogError, match=f"has lost the entry of version {lost}"):
        table_log.TableLog(root).snapshot()


@pytest.mark.parametrize("content", ["{", "[1]\n", '{"txn": {"appId": "a"}}\n', '{"txn": 1}\n'])
def test_a_damaged_entry_is_an_error_that_names_it(root: str, content: str) -> None:
    Path(entry_path(root, 1)).write_text(content)
    with pytest.raises(LogError, match=r"0001\.json of the table's log does not read"):
        snapshot(root)


def test_a_damaged_checkpoint_is_an_error_that_names_it(root: str) -> None:
    DeltaTable(root).create_checkpoint()
    Path(checkpoint_path(root, 0)).write_bytes(b"PAR1")
    with pytest.raises(LogError, match=r"the checkpoint .*does not read"):
        table_log.TableLog(root).snapshot()


def test_no_table_is_called_so(tmp_path: Path) -> None:
    with pytest.raises(NoLogError):
        snapshot(str(tmp_path / "none"))
    (tmp_path / "empty" / "_delta_log").mkdir(parents=True)
    with pytest.raises(NoLogError):
        snapshot(str(tmp_path / "empty"))


def test_a_table_with_unknown_features_is_read_and_not_written(root: str) -> None:
    Path(entry_path(root, 1)).write_text(
        '{"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures":'
        ' ["deletionVectors"], "writerFeatures": ["deletionVectors", "appendOnly"]}}\n'
    )
    there = snapshot(root)
    with pytest.raises(LogError, match=r"does not write \(deletionVectors\)"):
        commit(there, Change(transactions={"one": 1}))
    assert not os.path.exists(entry_path(root, 2))
