"""Silver and quarantine against bronze: what `verify` must find."""

from __future__ import annotations

from dataclasses import replace

from strandline_spark.bronze.commits import Commit, CommittedRange
from strandline_spark.cluster.offsets import TopicPartition
from strandline_spark.pipeline.verify import ParsedFindings, check_parsed
from strandline_spark.verification.accounts import Accounts, Ranges
from strandline_spark.verification.runs import Run, Runs

TP = TopicPartition("t", 0)


def run(start: int, end: int) -> Run:
    return Run(start, end, -1, -1)


def account(start: int, end: int, rows: int, elsewhere: int) -> Ranges:
    taken = CommittedRange("t", "AAECAwQFBgcICQoLDA0ODw", 0, start, end, rows, 0, 0)
    commit = Commit(1, 0, "job", 0, [replace(taken, elsewhere=elsewhere)])
    return Accounts.of_commits([commit]).of_partition(0)


def check(bronze: list[Run], silver: list[Run], quarantine: list[Run]) -> ParsedFindings:
    accounts = [account(0, 10, 10, 0), account(0, 10, 8, 2), account(0, 10, 2, 8)]
    runs = (Runs.of(one) for one in (bronze, silver, quarantine))
    return check_parsed(TP, *runs, accounts=accounts)


def test_what_bronze_holds_is_in_one_of_the_two() -> None:
    found = check([run(0, 10)], [run(0, 4), run(6, 10)], [run(4, 6)])
    assert found.sound
    assert (found.bronze, found.silver, found.quarantine) == (10, 8, 2)


def test_a_row_in_both_is_found() -> None:
    found = check([run(0, 10)], [run(0, 5), run(6, 10)], [run(4, 6)])
    assert any("repeat an offset" in problem for problem in found.problems)


def test_a_row_in_neither_is_found() -> None:
    found = check([run(0, 10)], [run(0, 4), run(7, 10)], [run(4, 6)])
    assert any("1 offsets from 6 on: bronze holds the row" in p for p in found.problems)


def test_a_row_that_bronze_lacks_is_found() -> None:
    found = check([run(0, 9)], [run(0, 4), run(6, 10)], [run(4, 6)])
    assert any("1 offsets from 9 on: bronze holds no such row" in p for p in found.problems)


def test_as_many_rows_with_other_offsets_are_found() -> None:
    """The counts of the range are right."""
    found = check([run(0, 10)], [run(0, 4), run(6, 10)], [run(4, 5), run(12, 13)])
    assert not found.sound


def test_a_row_that_went_to_the_other_table_is_found() -> None:
    found = check([run(0, 10)], [run(0, 4), run(5, 10)], [run(4, 5)])
    assert any("committed with 8 rows to silver, 9 are there" in p for p in found.problems)
