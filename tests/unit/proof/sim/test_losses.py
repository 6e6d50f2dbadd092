"""When a loss is permitted (I-54); what must be said of it is in test_sim_loss_reports.py."""

from __future__ import annotations

import random

import pytest

from strandline_proof.sim.disk import SimDisk
from strandline_proof.sim.oracles.committed import Committed
from strandline_proof.sim.oracles.log_view import Entry, LogView
from strandline_proof.sim.oracles.violation import Violation

OLD, NEW = Entry(1, 2, 0, 7, (0, 0)), Entry(1, 2, 1, 8, (0, 0))
"""What a deposed leader has appended at offset 1, and what was committed there."""
LAST = Entry(2, 3, 1, 9, (1, 1))


def ghost(*, always: bool = False) -> Committed:
    """Offsets 0 to 2 are committed."""
    found = Committed(0, min_insync=2, always=always)
    found.entries = [Entry(0, 1, 0, 6, None), NEW, LAST]
    found.end = 3
    return found


def log(*entries: Entry) -> LogView:
    view = LogView(SimDisk(random.Random(0), lambda: 0.0), "/data/t-0")
    view.entries = list(entries)
    return view


def lose_power(found: Committed, node: str) -> None:
    found.on_power_lost(node, log(*found.entries), log(), counted=True, wiped=False)


def test_one_of_two_may_lose_nothing_that_counts() -> None:
    found = ghost()
    found.on_members(2, 0, removed=False)
    lose_power(found, "broker-1")
    assert found.excused is None
    lose_power(found, "broker-2")
    assert found.excused is not None


def test_the_one_that_an_administrator_has_left_may_lose_all() -> None:
    """I-86: a cancelled move may take every other replica in sync away."""
    found = ghost()
    found.on_members(1, 0, removed=True)
    lose_power(found, "broker-1")
    assert found.excused is not None


def test_that_holds_until_there_are_enough_again() -> None:
    found = ghost()
    found.on_members(1, 0, removed=True)
    found.on_members(1, 1, removed=False)
    found.on_members(2, 0, removed=False)
    lose_power(found, "broker-1")
    assert found.excused is None


def test_a_log_may_lead_that_parts_from_the_others_below_its_start() -> None:
    """I-15: all records up to 3 are deleted, and it goes on behind them."""
    found, other = ghost(), Entry(2, 3, 0, 5, (1, 0))
    parted = log(found.entries[0], OLD, other)
    with pytest.raises(Violation, match="I-15"):
        found.check_complete(parted, "I-15", "it")
    found._removed_to = 3
    found.check_complete(parted, "I-15", "it")
    with pytest.raises(Violation, match="I-15"):
        found.check_complete(log(found.entries[0], OLD), "I-15", "it ends before that, and")
