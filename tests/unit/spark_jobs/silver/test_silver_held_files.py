"""The list of a table's files that follows the log is the list that is read as a whole."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from strandline_spark.bronze.columns import BronzeTable
from strandline_spark.bronze.compaction import compact
from strandline_spark.cluster.offsets import TopicPartition
from strandline_spark.delta_log import held_files
from strandline_spark.delta_log.held_files import HeldFile, HeldFiles, files_of
from strandline_spark.silver.tables import QuarantineTable, SilverTable
from support.bronze_values import Record, take
from support.deduped import level, make, pipeline_in, record

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from strandline_spark.bronze.fenced_table import FencedTable

PARTITIONS = [TopicPartition("t", n) for n in range(3)]


def check(kept: HeldFiles, table: FencedTable) -> None:
    kept.up_to(table)
    found = {file.path: file for tp in PARTITIONS for file in kept.near(tp)}
    assert found == {file.path: file for file in files_of(table)}
    assert all(os.path.isfile(path) for path in found)


def test_a_list_follows_commits_and_a_compaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = pipeline_in(tmp_path)
    make(pipeline)
    kept = {"bronze": HeldFiles(), "silver": HeldFiles(), "quarantine": HeldFiles()}
    read: list[str] = []
    whole = held_files.files_of

    def counted(table: FencedTable) -> list[HeldFile]:
        read.append(table.KIND)
        return whole(table)

    monkeypatch.setattr(held_files, "files_of", counted)
    for n in range(4):
        tombstone = Record(2, n, None)
        take(pipeline.bronze, n, [record(0, n, n, 100 + n), Record(1, n, b"["), tombstone])
        level(pipeline)
        read.clear()
        check(kept["bronze"], BronzeTable.open(pipeline.bronze))
        check(kept["silver"], SilverTable.open(pipeline.silver))
        check(kept["quarantine"], QuarantineTable.open(pipeline.quarantine))
        # The check itself reads each list once.
        assert len(read) == (3 if n == 0 else 0)
    assert kept["bronze"].partitions() == set(PARTITIONS)
    assert kept["quarantine"].partitions() == {PARTITIONS[1]}
    compact(pipeline.bronze)
    check(kept["bronze"], BronzeTable.open(pipeline.bronze))
    assert read == []


def test_a_log_that_has_lost_entries_is_read_as_a_whole(tmp_path: Path) -> None:
    pipeline = pipeline_in(tmp_path)
    make(pipeline)
    kept = HeldFiles()
    take(pipeline.bronze, 0, [record(0, 0, 1, 100)])
    check(kept, BronzeTable.open(pipeline.bronze))
    take(pipeline.bronze, 1, [record(0, 1, 1, 100)])
    take(pipeline.bronze, 2, [record(0, 2, 1, 100)])
    table = BronzeTable.open(pipeline.bronze)
    table.delta.create_checkpoint()
    os.remove(table.log_entry(2))
    check(kept, BronzeTable.open(pipeline.bronze))
