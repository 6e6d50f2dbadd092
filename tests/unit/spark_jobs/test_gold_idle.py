"""The idle partitions of a silver table, by its log."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from strandline_spark.delta_log import entries
from strandline_spark.gold.silver import Silver
from strandline_spark.gold.watermark import PartitionProgress
from support.silver_tables import SilverRow, take

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SECOND = 1_000_000


def taken_at(root: Path, seconds: int, *rows: SilverRow) -> None:
    """Commits the rows at that time, as the log says."""
    take(str(root), rows)
    log = root / "_delta_log"
    newest = max(log.glob("*.json"))
    entries = [log / f"{0:020}.json", newest] if newest.name.endswith("1.json") else [newest]
    for path in entries:  # the first is the creation
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        for action in actions:
            if "commitInfo" in action:
                action["commitInfo"]["timestamp"] = seconds * 1000
        path.write_text("".join(json.dumps(action) + "\n" for action in actions))


def idle(silver: Path, since: int) -> list[bool]:
    table = Silver.open(str(silver))
    backlog = dict.fromkeys(table.ends, False)
    return [one.is_idle for one in table.progress(backlog, since * SECOND)]


def test_a_partition_is_idle_if_no_commit_since_then_brought_rows(tmp_path: Path) -> None:
    taken_at(tmp_path, 1000, SilverRow(0, 0, 100), SilverRow(1, 0, 50))
    taken_at(tmp_path, 2000, SilverRow(0, 1, 200))
    table = Silver.open(str(tmp_path))
    backlog = dict.fromkeys(table.ends, False)
    assert [one.is_idle for one in table.progress(backlog)] == [False, False]
    assert table.progress(backlog, 1001 * SECOND) == [
        PartitionProgress(200, False, "t", is_idle=False),
        PartitionProgress(50, False, "t", is_idle=True),
    ]
    assert idle(tmp_path, 2001) == [True, True]
    assert idle(tmp_path, 1000) == [False, False]


def test_a_log_that_begins_later_makes_nothing_idle(tmp_path: Path) -> None:
    taken_at(tmp_path, 1000, SilverRow(0, 0, 100), SilverRow(1, 0, 50))
    assert idle(tmp_path, 999) == [False, False]
    assert not Silver.open(str(tmp_path)).is_older_than(999 * SECOND)
    assert Silver.open(str(tmp_path)).is_older_than(1001 * SECOND)


def test_a_long_log_is_read_as_far_as_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(5):
        taken_at(tmp_path, 1000 + n, SilverRow(0 if n else 1, n, 100))
    read: list[int] = []
    one = entries._info

    def counted(table: str, version: int) -> dict[str, Any] | None:
        read.append(version)
        return one(table, version)

    monkeypatch.setattr(entries, "_info", counted)
    assert idle(tmp_path, 1005) == [True, True]
    assert read == [5]
    assert idle(tmp_path, 1001) == [False, True]
    assert idle(tmp_path, 1000) == [False, False]
    # Each entry is read once, and those behind it too when the next come.
    assert read == [5, 4, 3, 2, 1, 0]
    read.clear()
    take(str(tmp_path), [SilverRow(1, 5, 100)])
    Silver.open(str(tmp_path)).backlog()
    assert read == [6]
