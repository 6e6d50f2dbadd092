"""The planted bugs that a written history finds: each history fails with its bug, by an assertion.

A test that waits longer, or fails otherwise, may let its bug survive. `make proof` plays one
history in sixteen, others with another commit, and all of them with CORPUS=all.
"""

import os
import zlib

import pytest

from strandline_proof.mutants.catalogue import MUTANTS
from strandline_proof.mutants.harness import Bounds, look_for
from strandline_proof.mutants.mutant import Mutant

SHARES = 16
TURN = os.environ.get("TEST_CORPUS_TURN", "")
"""A number of the commit, which chooses its share. Without it all histories are played."""


def has_its_turn(name: str) -> bool:
    return TURN == "" or zlib.crc32(name.encode()) % SHARES == int(TURN) % SHARES


WRITTEN = [each for each in MUTANTS if each.history]
PLAYED = [pytest.param(each, id=each.name) for each in WRITTEN if has_its_turn(each.name)]


def test_there_are_written_histories() -> None:
    assert WRITTEN


@pytest.mark.parametrize("mutant", PLAYED)
def test_a_written_history_finds_its_bug(mutant: Mutant) -> None:
    result = look_for(mutant, Bounds(1, 240))
    assert result.passes, f"{result.status}: {mutant.history}\n{result.why}"
