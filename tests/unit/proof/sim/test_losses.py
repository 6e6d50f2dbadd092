"""When a loss is permitted (I-54); what must be said of it is in test_sim_loss_reports.py."""

from __future__ import annotations

import random

import pytest

from strandline_proof.sim.disk.disk import SimDisk
from strandline_proof.sim.oracles.partition.committed import Committed
from strandline_proof.sim.oracles.replica.log_view import Entry, LogView
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


@pytest.mark.parametrize(("isr", "is_one"), [(None, True), ((1, 2), True), ((2, 3), False)])
def test_what_is_committed_without_it_a_replica_has_not_lost(
    isr: tuple[int, ...] | None, *, is_one: bool
) -> None:
    """Its fetch may be under way to a leader that still counts it when its power goes."""
    found, more = ghost(), Entry(3, 4, 1, 10, (2, 1))
    short, held = log(*found.entries), log(*found.entries, more)
    found.on_power_lost("broker-1", held, short, counted=True, wiped=False)
    found.on_high_watermark(4, held, "broker-2", isr)
    assert ("broker-1" in found.lost_on) == is_one
    found.on_power_lost("broker-2", held, short, counted=True, wiped=False)
    assert (found.excused is not None) == is_one


@pytest.mark.parametrize("always", [False, True])
def test_nobody_may_be_left_who_has_it(always: bool) -> None:
    """A broker is dead and its disk is gone before its session ends: it stays in the ISR, alone."""
    found = ghost(always=always)
    found.on_power_lost("broker-1", log(*found.entries), log(), counted=True, wiped=True)
    found.on_left_with(["broker-1", "broker-2"])
    assert found.excused is None
    found.on_left_with(["broker-1"])
    assert found.excused is not None


def test_what_was_to_be_durable_is_missed_whoever_is_left() -> None:
    found = ghost(always=True)
    found.on_damaged("broker-1", LAST)
    assert found.on_cut([LAST], "broker-1", "cut", start=0, unread=None)
    found.on_left_with(["broker-1"])
    found.on_left_with([])
    assert found.excused is None


def survived() -> Committed:
    """Both have lost all, and a leader of epoch 2 has committed a log that lacks the last."""
    found = ghost()
    for node in ("broker-1", "broker-2"):
        lose_power(found, node)
    found.start_again(2, log(*found.entries[:2]), 2, 2)
    return found


def test_what_survives_is_committed_and_the_excuse_is_over() -> None:
    found = survived()
    assert (found.excused, found.end, list(found.lost.values())) == (None, 2, [LAST])
    assert found.permitted is not None
    assert not found.lost_uncleanly
    assert found.judged_from == found.seen_to == 3
    with pytest.raises(Violation, match="I-15"):
        found.check_complete(log(found.entries[0]), "I-15", "it")


def test_the_next_loss_needs_as_many_again() -> None:
    found = survived()
    lose_power(found, "broker-1")
    assert found.excused is None
    lose_power(found, "broker-2")
    assert found.excused is not None


def test_who_led_before_has_nothing_to_say_any_more() -> None:
    found, deposed = survived(), 1
    assert deposed < found.unclean_epoch
    found.on_late_high_watermark(4, log(*found.entries, LAST, Entry(3, 4, 1, 5, (2, 1))))
    assert len(found.lost) == 2
    assert found.lost_uncleanly


def test_a_partition_that_was_given_up_stays_so() -> None:
    found = ghost()
    assert found.can_start_again
    found.give_up("bits have flipped everywhere")
    assert not found.can_start_again


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
