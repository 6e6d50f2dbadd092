"""Plans that once broke something, each named after what it found: they stay sound.

Its note says what that was. A plan keeps its faults, not every latency: where code has changed, the
same faults strike a history that differs a little. What must not come back has a unit test besides.

`make test` runs one plan in twenty-four, `make proof` a sixth of the others: another sixth with
another commit, and all of them with CORPUS=all.
"""

import os
import zlib
from pathlib import Path

import pytest

from strandline_proof.sim.plan.plan import read_plan
from strandline_proof.sim.run.run import run_plan

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.json"))
ONE_IN = 24
SHARES = 6
TURN = os.environ.get("TEST_CORPUS_TURN", "")
"""A number of the commit, which chooses its share. Without it all plans run."""


def has_its_turn(number: int) -> bool:
    """A name's number decides, so that a new plan moves no other."""
    is_chosen = TURN == "" or number // ONE_IN % SHARES == int(TURN) % SHARES
    return number % ONE_IN == 0 or is_chosen


NUMBERED = [(file, zlib.crc32(file.stem.encode())) for file in CORPUS]
PLANS = [
    pytest.param(file, id=file.stem, marks=[pytest.mark.proof] if number % ONE_IN else [])
    for file, number in NUMBERED
    if has_its_turn(number)
]


def test_there_is_a_corpus() -> None:
    assert CORPUS


@pytest.mark.parametrize("file", PLANS)
def test_what_was_found_does_not_come_back(file: Path) -> None:
    outcome = run_plan(read_plan(file.read_text("utf-8"), commit=""))
    assert outcome.failure is None, outcome.timeline.text()


@pytest.mark.parametrize("file", CORPUS, ids=lambda file: file.stem)
def test_a_plan_that_is_kept_says_what_it_found(file: Path) -> None:
    assert read_plan(file.read_text("utf-8"), commit="").note
