"""What executors say that they have written: nothing is committed that does not hold together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from strandline_spark.bronze.commits import CommittedRange
from strandline_spark.bronze.fenced_table import DataFile
from strandline_spark.bronze.manifests import check_account, check_complete
from strandline_spark.bronze.micro_batch import MicroBatchWriter
from strandline_spark.cluster.offsets import TopicPartition
from strandline_spark.errors import OptionError, TableError
from strandline_spark.source.positions import PositionFiles

if TYPE_CHECKING:
    from pathlib import Path

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
TAKEN = CommittedRange("t", "A" * 22, 0, 10, 20, rows=8, skipped=2, leader_epoch=0)
FILE = DataFile("x", 1, "t", "2026-01-01", 0, 8, 10, 19, 0, 0)
REMEDY = "nothing was committed, start the job again"


def test_accounts_that_add_up_are_taken() -> None:
    check_account(TAKEN, [FILE])
    check_account(replace(TAKEN, rows=3, skipped=None), [])
    check_complete({(T0, 10)}, {(T0, 10)})


@pytest.mark.parametrize(
    ("account", "file", "why"),
    [
        (replace(TAKEN, rows=7), FILE, "do not add up to 10"),
        (replace(TAKEN, rows=11, skipped=None), FILE, "more rows than offsets"),
        (TAKEN, replace(FILE, offset_min=9), "offsets outside"),
        (TAKEN, replace(FILE, offset_max=20), "offsets outside"),
    ],
)
def test_an_account_that_does_not_add_up_is_refused(
    account: CommittedRange, file: DataFile, why: str
) -> None:
    with pytest.raises(TableError, match=f"{why}.*; {REMEDY}"):
        check_account(account, [file])


def test_a_manifest_too_many_or_too_few_is_refused() -> None:
    with pytest.raises(TableError, match=f"which the batch does not read; {REMEDY}"):
        check_complete({(T0, 10), (T1, 0)}, {(T0, 10)})
    with pytest.raises(TableError, match=f"no manifest for .*t.*; {REMEDY}"):
        check_complete({(T0, 10)}, {(T0, 10), (T1, 0)})


def test_initial_offsets_that_hold_nothing_are_named(tmp_path: Path) -> None:
    path = tmp_path / "initial.json"
    path.write_text("null")
    with pytest.raises(OptionError, match=r"initial\.json .*it holds nothing"):
        PositionFiles(str(path)).initial()


def test_a_batch_without_its_initial_offsets_names_the_file(tmp_path: Path) -> None:
    log = tmp_path / "c" / "offsets" / "0"
    log.parent.mkdir(parents=True)
    log.write_text('v1\n{}\n{"t":{"0":1}}')
    writer = MicroBatchWriter(
        table_path="",
        checkpoint=str(tmp_path / "c"),
        offsets_file=str(tmp_path / "initial.json"),
        direct=True,
        on_batch=lambda _: None,
    )
    with pytest.raises(TableError, match=r"initial\.json is gone.*; restore it"):
        writer._ranges(0)
