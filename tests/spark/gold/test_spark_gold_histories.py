"""Random histories of a topic, closed bit by bit, against plain Python over all of its rows."""

from __future__ import annotations

import random
from collections import defaultdict
from itertools import groupby
from typing import TYPE_CHECKING, Final

import pytest

from strandline_spark.gold.step import run_step
from strandline_spark.gold.table import GoldTable
from strandline_spark.gold.verify import verify_step
from strandline_spark.gold.watermark import GoldCommit, Window, WindowKind, in_window, is_late
from strandline_spark.pipeline.steps import GoldStep
from support.silver_tables import EPOCH, SilverRow, take

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from strandline_spark.gold.account import GoldAccount

UNIT: Final = 700
"""Microseconds: no window or row lies on whole milliseconds alone."""
DELAY, GAP = 4 * UNIT, 5 * UNIT
KINDS: Final = {
    "tumbling": WindowKind(10 * UNIT, 10 * UNIT),
    "hopping": WindowKind(10 * UNIT, 4 * UNIT),
}
SQL: Final = """SELECT window_start, window_end, max(carrier) AS carrier,
  sort_array(collect_list(struct(partition, offset))) AS members
FROM silver GROUP BY window_start, window_end"""
SQL_OF_SESSIONS: Final = SQL + ", carrier"
Gold = set[tuple[Window, str | None, tuple[tuple[int, int], ...]]]


def history_of(chance: random.Random) -> list[list[SilverRow]]:
    """For each batch its rows. Event times rise, out of order by more than the step waits for."""
    batches = []
    offsets = [0, 0, 0]
    for n in range(7):
        batch = []
        for partition in chance.sample(range(3), k=chance.randint(1, 3)):
            for _ in range(chance.randint(1, 6)):
                at = UNIT * (11 * n - 20 + chance.randint(-14, 14))
                time = None if chance.random() < 0.1 else at
                carrier = chance.choice(["AA", "UA", None])
                batch.append(SilverRow(partition, offsets[partition], time, carrier))
                offsets[partition] += chance.randint(1, 2)
        batches.append(batch)
    return batches


def held(step: GoldStep) -> Gold:
    found = [
        (
            Window(
                *((row[name] - EPOCH).total_seconds() for name in ("window_start", "window_end"))
            ),
            row["carrier"],
            tuple((one["partition"], one["offset"]) for one in row["members"]),
        )
        for row in GoldTable.open(step, "p").rows().to_pylist()
    ]
    micros = [
        (Window(round(window.start * 1e6), round(window.end * 1e6)), carrier, members)
        for window, carrier, members in found
    ]
    assert len(set(micros)) == len(micros)
    return set(micros)


def windows_of(kind: WindowKind, commits: list[GoldCommit], rows: list[SilverRow]) -> Gold:
    members: dict[Window, list[SilverRow]] = defaultdict(list)
    for row in rows:
        if row.time is not None:
            for window in kind.windows_of(row.time):
                if in_window(commits, window, row.tp, row.offset):
                    members[window].append(row)
    return {
        (window, max((row.carrier for row in of if row.carrier), default=None), _members(of))
        for window, of in members.items()
    }


def sessions_of(commits: list[GoldCommit], rows: list[SilverRow]) -> Gold:
    """Of all rows that were not late, at once: that a session is cut when it closes shows here."""
    timely = [row for row in rows if row.time is not None and not late(commits, row)]
    out: Gold = set()
    timely.sort(key=lambda row: (row.carrier or "", row.time))
    for _, group in groupby(timely, key=lambda row: row.carrier):
        session: list[SilverRow] = []
        for row in group:
            if session and _time(row) - _time(session[-1]) >= GAP:
                out.add(_session(session))
                session = []
            session.append(row)
        out.add(_session(session))
    return out


def late(commits: list[GoldCommit], row: SilverRow) -> bool:
    first = next((n for n, one in enumerate(commits) if one.has(row.tp, row.offset)), len(commits))
    return first > 0 and _time(row) < commits[first - 1].watermark


def _session(rows: list[SilverRow]) -> tuple[Window, str | None, tuple[tuple[int, int], ...]]:
    window = Window(_time(rows[0]), _time(rows[-1]) + GAP)
    return window, rows[0].carrier, _members(rows)


def _members(rows: list[SilverRow]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted((row.partition, row.offset) for row in rows))


def _time(row: SilverRow) -> int:
    assert row.time is not None
    return row.time


def check_late(kind: WindowKind | None, accounts: list[GoldAccount], rows: list[SilverRow]) -> int:
    """That each commit counted the late rows that came since the one before; how many in all."""
    commits = [one.closed.commit for one in accounts]
    for n, account in enumerate(accounts):
        came = [
            row
            for row in rows
            if row.time is not None
            and commits[n].has(row.tp, row.offset)
            and not (n > 0 and commits[n - 1].has(row.tp, row.offset))
        ]
        if kind is None:
            expected = [row for row in came if n > 0 and _time(row) < commits[n - 1].watermark]
        else:
            expected = [
                row for row in came if is_late(commits[:n], kind, row.tp, row.offset, _time(row))
            ]
        assert account.late == len(expected)
    return sum(one.late for one in accounts)


@pytest.mark.proof
def test_in_whatever_order_rows_come_gold_is_what_plain_python_says(
    spark: SparkSession, tmp_path: Path
) -> None:
    chance = random.Random(1)
    silver = str(tmp_path / "silver")
    batches = history_of(chance)
    rows = [row for batch in batches for row in batch]
    steps = {
        name: GoldStep(name, str(tmp_path / name), SQL, 1, DELAY, kind.size, kind.slide)
        for name, kind in KINDS.items()
    }
    steps["sessions"] = GoldStep(
        *("sessions", str(tmp_path / "sessions"), SQL_OF_SESSIONS, 1, DELAY),
        session=GAP,
        session_key=("carrier",),
    )
    for n, batch in enumerate(batches):
        behind = {p: 1000 for p in range(3) if chance.random() < 0.1}
        take(silver, batch, high_watermarks=behind, digits=chance.choice([3, 6]))
        last = n == len(batches) - 1
        for step in steps.values():
            if last or chance.random() < 0.7:
                run_step(spark, step, silver, pipeline="p", close=last)
    for name, step in steps.items():
        accounts = GoldTable.open(step, "p").accounts()
        commits = [one.closed.commit for one in accounts]
        assert len(commits) > 2
        kind = KINDS.get(name)
        assert check_late(kind, accounts, rows) > 0
        assert any(len(members) > 1 for *_, members in held(step))
        expected = sessions_of(commits, rows) if kind is None else windows_of(kind, commits, rows)
        assert held(step) == expected
        assert verify_step(spark, step, silver, pipeline="p").problems == []
