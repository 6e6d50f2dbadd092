"""Plans that once broke something, each named after what it found: they stay sound.

Its note says what that was. A plan keeps its faults, not every latency: where code has changed, the
same faults strike a history that differs a little. What must not come back has a unit test besides.

`make test` runs one plan in eight, `make proof` the others.
"""

import zlib
from pathlib import Path

import pytest

from strandline_proof.sim.plan.plan import read_plan
from strandline_proof.sim.run.run import run_plan

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.json"))
ONE_IN = 8
PLANS = [
    pytest.param(
        file,
        id=file.stem,
        marks=[pytest.mark.proof] if zlib.crc32(file.stem.encode()) % ONE_IN else [],
    )
    for file in CORPUS
]
"""A name decides which command runs its plan, so that a new plan moves no other."""


def test_there_is_a_corpus() -> None:
    assert CORPUS


@pytest.mark.parametrize("file", PLANS)
def test_what_was_found_does_not_come_back(file: Path) -> None:
    outcome = run_plan(read_plan(file.read_text("utf-8"), commit=""))
    assert outcome.failure is None, outcome.timeline.text()


@pytest.mark.parametrize("file", CORPUS, ids=lambda file: file.stem)
def test_a_plan_that_is_kept_says_what_it_found(file: Path) -> None:
    assert read_plan(file.read_text("utf-8"), commit="").note
