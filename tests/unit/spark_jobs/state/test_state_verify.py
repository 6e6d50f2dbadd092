"""`verify` of a state table finds what the table and silver do not have in common."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from deltalake import DeltaTable, write_deltalake

from strandline_spark.errors import TableError
from strandline_spark.state import noted_keys, verify
from support.silver_tables import SilverRow, take
from support.state_tables import States


@pytest.fixture
def states(tmp_path: Path) -> States:
    made = States(tmp_path, delete_when="carrier = 'd'")
    rows = [SilverRow(0, n, 10 + n, key=b"%d" % (n % 4)) for n in range(6)]
    take(made.silver, [*rows, SilverRow(0, 6, 20, "d", key=b"3")])
    made.run()
    return made


def test_a_sound_table_shows_its_keys_and_what_it_lacks(states: States) -> None:
    found = states.verify()
    assert (found.keys, found.silver, found.left_out, found.behind) == (3, 7, 0, 0)
    assert found.sound
    take(states.silver, [SilverRow(0, 9, 30, key=b"0"), SilverRow(1, 4, 5, key=None)])
    found = states.verify()
    assert (found.keys, found.silver, found.behind) == (3, 7, 3 + 5)
    assert found.sound


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("delete", "1 rows of silver are the latest of their key, and are not there: key = b'1'"),
        (
            "update",
            "1 rows differ from silver's: key = b'1' (record t:0 offset 5), column delay is 7.5",
        ),
        (
            "older",
            "1 rows are there that are not the latest of their key, or are deleted: key = b'",
        ),
        ("double", "1 rows repeat a record of silver"),
    ],
)
def test_a_changed_row_is_found(states: States, change: str, said: str) -> None:
    table = DeltaTable(states.step.table)
    if change == "delete":
        table.delete("key = X'31'")
    elif change == "update":
        table.update(predicate="key = X'31'", updates={"delay": "7.5"})
    else:
        row = table.to_pyarrow_table().slice(0, 1)
        if change == "older":
            names = row.column_names
            row = row.set_column(names.index("offset"), "offset", pa.array([6]))
        write_deltalake(states.step.table, row, mode="append")
    (problem,) = states.verify().problems
    assert problem.startswith(said)


def test_a_key_that_silver_has_in_two_partitions_is_found(states: States) -> None:
    take(states.silver, [SilverRow(1, 0, 30, key=b"0")])
    text = states.verify()
    assert text.sound  # the table does not hold it yet
    with pytest.raises(TableError, match="two partitions"):
        states.run()
    assert states.verify().sound


def test_a_table_of_another_silver_is_found(states: States, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    strange = States(other, delete_when="carrier = 'd'")
    take(strange.silver, [SilverRow(0, 0, 1, key=b"0")])
    states.silver = strange.silver
    assert "another silver table" in states.verify().problems[0]


def test_a_table_without_a_commit_has_no_rows(tmp_path: Path) -> None:
    states = States(tmp_path)
    take(states.silver, [])
    states.run()
    found = states.verify()
    assert (found.keys, found.sound) == (0, True)


def grow(states: States, count: int = 3) -> None:
    """More rows than the first verification has seen."""
    for n in range(10, 10 + count):
        take(states.silver, [SilverRow(0, n, 40 + n, key=b"%d" % (n % 4))])
        states.run()


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows of silver each pass over it has read."""
    passes: list[int] = []
    rows = verify._Recomputed._rows

    def counting(self: verify._Recomputed, columns: list[str]) -> Any:
        passes.append(0)
        for row in rows(self, columns):
            passes[-1] += 1
            yield row

    monkeypatch.setattr(verify._Recomputed, "_rows", counting)
    return passes


def test_a_second_verification_reads_only_what_came_since(
    states: States, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert states.verify(full=False).noted == 0
    passes = counted(monkeypatch)
    found = states.verify(full=False)
    assert (found.sound, found.silver, found.noted, passes) == (True, 7, 7, [0, 0])
    grow(states)
    passes.clear()
    found = states.verify(full=False)
    assert (found.sound, found.silver, found.noted, passes) == (True, 10, 7, [3, 3])
    assert (found.keys, found.problems) == (states.verify().keys, [])
    assert states.verify(full=False).noted == 10


@pytest.mark.parametrize("order", [(), ("event_time",), ("delay", "event_time")])
def test_a_note_has_deleted_keys_too(tmp_path: Path, order: tuple[str, ...]) -> None:
    """An older row of a deleted key comes after the note."""
    states = States(tmp_path, order=order, delete_when="carrier = 'd'")
    rows = [SilverRow(0, n, 10 + n, key=b"%d" % (n % 4)) for n in range(6)]
    take(states.silver, [*rows, SilverRow(0, 6, 20, "d", delay=float("nan"), key=b"3")])
    states.run()
    assert states.verify(full=False).sound
    take(states.silver, [SilverRow(0, 7, 15, key=b"3"), SilverRow(0, 8, 16, key=b"0")])
    states.run()
    found, whole = states.verify(full=False), states.verify()
    assert (found.noted, found.problems, whole.problems) == (7, [], [])
    assert (found.keys, found.silver) == (whole.keys, whole.silver)


@pytest.mark.parametrize("change", ["delete", "update", "bring back"])
def test_a_row_that_was_noted_and_has_changed_is_found(states: States, change: str) -> None:
    assert states.verify(full=False).sound
    kept = DeltaTable(states.step.table).to_pyarrow_table()
    grow(states, 1)
    table = DeltaTable(states.step.table)
    if change == "delete":
        table.delete("key = X'31'")
    elif change == "update":
        table.update(predicate="key = X'31'", updates={"delay": "7.5"})
    else:
        old = kept.filter(pa.compute.equal(kept["key"], b"2"))
        write_deltalake(states.step.table, old, mode="append")
    found = states.verify(full=False)
    assert (found.noted, len(found.problems)) == (0, 1)
    assert found.problems == states.verify().problems


def test_a_note_that_is_damaged_or_of_another_table_counts_as_none(states: States) -> None:
    assert states.verify(full=False).sound
    note = Path(states.step.table, noted_keys.FILE)
    whole = note.read_bytes()
    for damaged in (b"", whole[:-3], whole[: len(whole) // 2], b"PAR1"):
        note.write_bytes(damaged)
        assert (states.verify(full=False).noted, note.read_bytes()) == (0, whole)
    rows = pq.read_table(note)
    facts = rows.schema.metadata
    for changed in (
        rows.slice(1),
        rows.replace_schema_metadata({**facts, b"facts": facts[b"facts"].replace(b"7", b"6")}),
    ):
        pq.write_table(changed, note)
        assert states.verify(full=False).noted == 0
    shutil.rmtree(states.step.table)
    states.run()
    note.parent.mkdir(parents=True)
    note.write_bytes(whole)
    assert states.verify(full=False).noted == 0


def test_a_step_that_begins_again_has_no_note(states: States) -> None:
    assert states.verify(full=False).sound
    kept = Path(states.step.table, noted_keys.FILE).read_bytes()
    changed = replace(states.step, delete_when="carrier = 'e'")
    shutil.move(states.step.table, f"{states.step.table}.before")
    states.step = changed
    states.run()
    assert not Path(states.step.table, noted_keys.FILE).exists()
    Path(states.step.table, "_ops", "verified").mkdir(parents=True)
    Path(states.step.table, noted_keys.FILE).write_bytes(kept)
    found = states.verify(full=False)
    assert (found.noted, found.problems) == (0, [])
