"""The audit: what commits say of themselves, copied once each, before the log is cleaned of it."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from strandline_spark.bronze import audit as audit_module
from strandline_spark.bronze.audit import AuditCopier, accounts, audit_path, last_ranges
from strandline_spark.bronze.bronze import BronzeJob, prepare_start
from strandline_spark.bronze.columns import BronzeTable
from strandline_spark.bronze.commits import CommittedRange
from strandline_spark.bronze.verify import verify
from strandline_spark.cluster.offsets import TopicPartition
from strandline_spark.errors import TableError
from support.spark_tables import ID, clean_log, commit, take, taken, write_file

if TYPE_CHECKING:
    from pathlib import Path

    from support.fake_broker_sync import FakeBroker

T0 = TopicPartition("t", 0)


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "table")


def rows(root: str) -> list[dict[str, Any]]:
    found = DeltaTable(audit_path(root)).to_pyarrow_table().to_pylist()
    return sorted(found, key=lambda row: (row["table_version"], row["partition"]))


def ranges(root: str) -> list[tuple[int, int, int]]:
    return [(row["table_version"], row["start_offset"], row["end_offset"]) for row in rows(root)]


def copied(root: str) -> int:
    return AuditCopier(root).copy(BronzeTable.open(root))


def test_a_row_says_all_that_the_commit_said(root: str) -> None:
    made = CommittedRange(
        "t",
        ID,
        0,
        0,
        10,
        rows=6,
        skipped=1,
        leader_epoch=4,
        lost=3,
        size=1234,
        offset_min=3,
        offset_max=8,
        leader_epoch_min=2,
        leader_epoch_max=3,
        timestamp_min_ms=1_700_000_000_123,
        timestamp_max_ms=1_700_000_000_456,
        high_watermark=17,
    )
    commit(root, 7, made, write_file(root, [3, 4, 5, 6, 7, 8]))
    assert copied(root) == 0
    (row,) = rows(root)
    assert abs((row.pop("committed_at") - datetime.now(UTC)).total_seconds()) < 60
    at = [row.pop(name).timestamp() for name in ("min_timestamp", "max_timestamp")]
    assert at == [1_700_000_000.123, 1_700_000_000.456]
    assert row == {
        "job": "j",
        "batch_id": 7,
        "topic": "t",
        "topic_id": ID,
        "partition": 0,
        "start_offset": 0,
        "end_offset": 10,
        "rows": 6,
        "skipped": 1,
        "lost": 3,
        "bytes": 1234,
        "min_offset": 3,
        "max_offset": 8,
        "min_epoch": 2,
        "max_epoch": 3,
        "leader_epoch": 4,
        "high_watermark": 17,
        "lag": 7,
        "table_version": 1,
    }


def test_what_a_commit_of_an_earlier_version_did_not_say_is_null(root: str) -> None:
    commit(root, 0, taken(0, 5), write_file(root, list(range(5))))
    copied(root)
    (row,) = rows(root)
    unknown = ("bytes", "min_offset", "max_epoch", "min_timestamp", "high_watermark", "lag")
    assert [row[name] for name in unknown] == [None] * 6
    assert (row["rows"], row["skipped"], row["lost"]) == (5, 0, 0)


def test_each_commit_is_copied_once_however_often_it_is_asked(root: str) -> None:
    take(root, 0, 10)
    take(root, 10, 20)
    for _ in range(3):
        copied(root)
        AuditCopier(root).copy_if_due(BronzeTable.open(root))
    take(root, 20, 25)
    copied(root)
    assert ranges(root) == [(1, 0, 10), (2, 10, 20), (3, 20, 25)]
    # A handle that is behind what was copied copies nothing.
    old = BronzeTable.open(root)
    take(root, 25, 30)
    copied(root)
    AuditCopier(root).copy(old)
    assert len(ranges(root)) == 4


def test_of_two_copies_at_once_one_is_kept(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    take(root, 0, 10)
    copied(root)
    take(root, 10, 20)
    append = audit_module._append

    def later(*arguments: Any) -> None:
        monkeypatch.setattr(audit_module, "_append", append)
        copied(root)
        append(*arguments)

    monkeypatch.setattr(audit_module, "_append", later)
    assert copied(root) == 0
    assert ranges(root) == [(1, 0, 10), (2, 10, 20)]


def test_two_tables_have_audits_of_their_own(root: str, tmp_path: Path) -> None:
    """A copied folder brings its audit along, and the copy's own commits come after it."""
    take(root, 0, 10)
    copied(root)
    other = str(tmp_path / "other")
    shutil.copytree(root, other)
    take(other, 10, 20)
    copied(other)
    assert (ranges(root), ranges(other)) == ([(1, 0, 10)], [(1, 0, 10), (2, 10, 20)])


def test_a_copy_is_due_once_there_are_many_commits_or_an_old_one(root: str) -> None:
    copier = AuditCopier(root)
    for n in range(audit_module.COMMITS_MAX - 1):
        take(root, n, n + 1)
        copier.copy_if_due(BronzeTable.open(root))
        if n < audit_module.COMMITS_MAX - 2:
            assert not os.path.exists(audit_path(root))
    assert len(ranges(root)) == audit_module.COMMITS_MAX - 1
    take(root, 19, 20)
    copier.copy_if_due(BronzeTable.open(root))
    assert len(ranges(root)) == 19
    table = BronzeTable.open(root)
    # An hour and a bit ago.
    os.utime(table.log_entry(20), (1, 1))
    copier.copy_if_due(table)
    assert len(ranges(root)) == 20


def test_versions_that_had_left_the_log_are_counted(root: str) -> None:
    for n in range(6):
        take(root, n, n + 1)
    copier = AuditCopier(root)
    copier.copy(BronzeTable.open(root))
    for n in range(6, 10):
        take(root, n, n + 1)
    table = BronzeTable.open(root)
    table.delta.create_checkpoint()
    for version in range(9):
        os.unlink(table.log_entry(version))
    # Versions 0 to 6 are copied; 7 and 8 were not, and are gone.
    assert copier.copy(BronzeTable.open(root)) == 2
    assert [version for version, _, _ in ranges(root)] == [1, 2, 3, 4, 5, 6, 9, 10]
    assert copier.copy(BronzeTable.open(root)) == 0


def test_ranges_are_known_once_each_by_the_log_or_by_the_audit(root: str) -> None:
    for n in range(4):
        take(root, n, n + 1)
    copied(root)
    take(root, 4, 5)
    table = BronzeTable.open(root)
    in_order = [(n + 1, taken(n, n + 1)) for n in reversed(range(5))]
    for limit in (None, 1, 3):
        assert list(accounts(table, limit)) == in_order
    clean_log(root, 4)
    assert list(accounts(table)) == in_order
    assert last_ranges(table, {T0, TopicPartition("u", 0)}, 2) == {T0: taken(4, 5)}
    shutil.rmtree(audit_path(root))
    assert list(accounts(table)) == in_order[:2]


def test_a_range_of_the_audit_is_what_its_commit_said(root: str) -> None:
    """Of silver, too, whose records may be in quarantine; and where the job did not see which
    offsets hold no record.
    """
    silver = CommittedRange("t", ID, 0, 0, 10, 4, 1, 7, lost=2, elsewhere=3)
    unseen = taken(10, 20, rows=8, skipped=None)
    for n, one in enumerate((silver, unseen)):
        commit(root, n, one, write_file(root, list(range(one.start, one.start + one.rows))))
    copied(root)
    clean_log(root, 3)
    assert list(accounts(BronzeTable.open(root))) == [(2, unseen), (1, silver)]


def test_the_audit_of_another_table_says_nothing(root: str, tmp_path: Path) -> None:
    other = str(tmp_path / "other")
    for path in (root, other):
        take(path, 0, 10)
        take(path, 10, 20)
        clean_log(path, 2)
    copied(other)
    shutil.copytree(audit_path(other), audit_path(root))
    assert list(accounts(BronzeTable.open(root))) == [(2, taken(10, 20))]


def test_a_new_checkpoint_knows_the_topic_of_a_commit_that_left_the_log(
    root: str, tmp_path: Path, broker: FakeBroker
) -> None:
    """So a topic that was created anew is noticed, though it is longer by now."""
    topic = broker.create("t")
    topic.topic_id = b"x" * 16
    topic.partitions[0].append([(b"", b"")] * 200)
    commit(root, 0, replace(taken(0, 10), leader_epoch=3), write_file(root, list(range(10))))
    commit(root, 1, CommittedRange("u", ID, 0, 0, 5, rows=0, skipped=5, leader_epoch=0))
    copied(root)
    clean_log(root, 2)
    job = BronzeJob(broker.address, ("t",), root, str(tmp_path / "checkpoint"))
    start = prepare_start(job, BronzeTable.open(root))
    assert json.loads(start) == {
        "t": {"0": 10},
        "@lineage": {"t": {"id": ID, "epochs": {"0": 3}}},
    }


def test_an_audit_that_does_not_read_is_named_with_its_remedy(root: str) -> None:
    take(root, 0, 10)
    copied(root)
    log = os.path.join(audit_path(root), "_delta_log")
    for name in os.listdir(log):
        with open(os.path.join(log, name), "w") as file:
            file.write("garbage")
    take(root, 10, 20)
    with pytest.raises(TableError, match=r"ingest_audit cannot be written .*move it away") as why:
        copied(root)
    assert len(str(why.value).splitlines()) == 1
    with pytest.raises(TableError, match=r"ingest_audit does not read .*move it away"):
        verify(root, "t", None)
    shutil.rmtree(audit_path(root))
    copied(root)
    assert ranges(root) == [(1, 0, 10), (2, 10, 20)]


def test_the_audit_is_on_disk_when_the_copy_returns(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(root, 0, 10)
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    copied(root)
    path = audit_path(root)
    log = os.path.join(path, "_delta_log")
    (file,) = DeltaTable(path).file_uris()
    made = [os.path.join(log, f"{n:020}.json") for n in range(2)]
    assert {file, *made, log, path, os.path.dirname(path), root} <= set(synced)
    assert synced.index(file) < synced.index(made[1])


def test_the_audit_is_no_part_of_the_table(root: str) -> None:
    take(root, 0, 10)
    copied(root)
    assert all(one.sound for one in verify(root, "t", None))
    assert BronzeTable.open_or_create(root).delta.count() == 10
    assert replace(taken(0, 10), rows=10) == BronzeTable.open(root).commits()[0].ranges[0]
