"""A gold table whose rows may be replaced, made without Spark."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from pyspark.sql.types import LongType, StructField, StructType, TimestampType

from strandline_spark.errors import TableError
from strandline_spark.gold.account import Closed, GoldAccount
from strandline_spark.gold.table import GoldTable
from strandline_spark.gold.watermark import GoldCommit
from strandline_spark.pipeline.steps import GoldStep

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = StructType(
    [
        StructField("window_start", TimestampType()),
        StructField("window_end", TimestampType()),
        StructField("n", LongType()),
    ]
)


def rows(*ends: int) -> Any:
    time = pa.timestamp("us", "UTC")
    return pa.table(
        {
            "window_start": pa.array([end - 10 for end in ends], pa.int64()).cast(time),
            "window_end": pa.array(ends, pa.int64()).cast(time),
            "n": pa.array([end // 10 for end in ends], pa.int64()),
        }
    )


def account(number: int, updated: int | None = 0) -> GoldAccount:
    closed = Closed(GoldCommit(100 * number, {}))
    return GoldAccount(number, closed, 100 * (number - 1), "s", 1, 1, 0, "a:b", updated)


def ends_in(table: GoldTable) -> list[int]:
    return sorted(table.rows().column("window_end").cast(pa.int64()).to_pylist())


def make(tmp_path: Path, *, updates: bool = True) -> tuple[GoldStep, GoldTable]:
    step = GoldStep("s", str(tmp_path / "gold"), "SELECT 1", 1, 0, window=10, updates=updates)
    return step, GoldTable.open_or_create(step, "p", COLUMNS, "a:b")


def test_rows_of_a_window_are_replaced_and_the_others_stay(tmp_path: Path) -> None:
    step, table = make(tmp_path)
    table.commit(rows(10, 20, 1000), account(1))
    table.commit(rows(2_000_000), account(2))
    before = set(table.delta.file_uris())
    table = GoldTable.open(step, "p")
    table.commit(rows(20, 3_000_000), account(3, 1), frozenset([20, 30]))
    assert ends_in(table) == [10, 20, 1000, 2_000_000, 3_000_000]
    # The file without one of the windows stays as it is.
    assert len(before & set(table.delta.file_uris())) == 1
    assert [one.updated for one in table.accounts()] == [0, 0, 1]


def test_a_window_without_rows_now_is_gone(tmp_path: Path) -> None:
    step, table = make(tmp_path)
    table.commit(rows(10), account(1))
    table = GoldTable.open(step, "p")
    table.commit(pa.table({}), account(2, 1), frozenset([10]))
    assert ends_in(table) == []


def test_a_driver_that_is_behind_replaces_nothing(tmp_path: Path) -> None:
    step, table = make(tmp_path)
    table.commit(rows(10), account(1))
    behind = GoldTable.open(step, "p")
    GoldTable.open(step, "p").commit(rows(10), account(2, 1), frozenset([10]))
    with pytest.raises(TableError, match=r"another driver committed step s .* nothing was"):
        behind.commit(rows(10), account(2, 1), frozenset([10]))
    assert ends_in(GoldTable.open(step, "p")) == [10]


def test_a_table_without_a_commit_is_made_again_for_a_step_that_updates(tmp_path: Path) -> None:
    step, table = make(tmp_path, updates=False)
    assert table.delta.metadata().configuration["delta.appendOnly"] == "true"
    table = GoldTable.open_or_create(replace(step, updates=True), "p", COLUMNS, "a:b")
    table.commit(rows(10), account(1))
    table = GoldTable.open(step, "p")
    table.commit(rows(10), account(2, 1), frozenset([10]))
    assert ends_in(table) == [10]


def test_an_account_of_an_earlier_version_has_no_updates(tmp_path: Path) -> None:
    _, table = make(tmp_path, updates=False)
    table.commit(rows(10), account(1, None))
    (found,) = table.accounts()
    assert found.updated is None
