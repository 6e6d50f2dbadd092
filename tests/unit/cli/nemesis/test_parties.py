"""The programs of a run of transfers, as small scripts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from strandline_chaos.transfers.book import Book
from strandline_cli.errors import CliError
from strandline_cli.nemesis.parties import Party, reading_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

DEADLINE_S = 60.0
POLITE = """
import sys
print("ready", flush=True)
print("begun m-1 0 1 5", flush=True)
print("leg 0 0 m-1 0 -5", flush=True)
for line in sys.stdin:
    if line == "pause\\n":
        print("paused", flush=True)
    if line == "stop\\n":
        print("committed m-1", flush=True)
        break
"""


@pytest.fixture
def book() -> Book:
    return Book()


@pytest.fixture
def start(book: Book, tmp_path: Path) -> Iterator[Callable[[str], Party]]:
    made: list[Party] = []

    def begin(script: str) -> Party:
        argv = [sys.executable, "-c", script]
        made.append(Party(reading_for(book, "p"), argv, book, tmp_path / "p.log"))
        return made[-1]

    yield begin
    for party in made:
        party.kill()


def test_a_program_is_heard_and_told(start: Callable[[str], Party], book: Book) -> None:
    party = start(POLITE)
    assert party.is_ready.wait(DEADLINE_S)
    assert not party.is_paused.is_set()
    party.tell("pause")
    assert party.is_paused.wait(DEADLINE_S)
    party.tell("pause")
    assert party.is_paused.wait(DEADLINE_S), "it pauses once more"
    assert party.why_ended() == ""
    party.tell("stop")
    assert party.wait(DEADLINE_S)
    assert (party.status, book.answered) == (0, ["m-1"])
    assert [leg.delta for _, _, leg in book.readings["p"].legs] == [-5]
    party.tell("go")  # to nobody


def test_a_program_that_dies_is_described_by_its_last_lines(
    start: Callable[[str], Party],
) -> None:
    party = start("import sys; sys.exit('no broker here')")
    assert party.wait(DEADLINE_S)
    assert party.why_ended() == "p ended with exit status 1: no broker here"


def test_a_program_that_says_something_else_is_named(start: Callable[[str], Party]) -> None:
    party = start("print('hello')")
    assert party.wait(DEADLINE_S)
    assert party.why_ended() == "p said 'hello\\n', which is no line of a run"


def test_a_program_that_is_not_there_is_an_error(book: Book, tmp_path: Path) -> None:
    with pytest.raises(CliError, match="p cannot be started: /no/such/program"):
        Party("p", ["/no/such/program"], book, tmp_path / "p.log")
