"""`verify` of a state table finds what the table and silver do not have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from deltalake import DeltaTable, write_deltalake

from strandline_spark.errors import TableError
from support.silver_tables import SilverRow, take
from support.state_tables import States

if TYPE_CHECKING:
    from pathlib import Path


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
