"""The history of groups is kept in order, and within its bound."""

import pytest

from strandline_proof.sim.workload.group_history import GroupHistory, Joined, Left


def test_what_is_told_keeps_its_order_and_its_time() -> None:
    now_s = 1.5
    history = GroupHistory(lambda: now_s)
    history.add("member-1", Joined("g", "m1", 1))
    now_s = 2.0
    history.add("member-1", Left())
    assert history.told == [(1.5, "member-1", Joined("g", "m1", 1)), (2.0, "member-1", Left())]


def test_operations_have_numbers_of_their_own() -> None:
    history = GroupHistory(lambda: 0.0)
    assert [history.new_operation(), history.new_operation()] == [1, 2]


def test_a_member_that_spins_ends_the_run() -> None:
    history = GroupHistory(lambda: 0.0, bound=2)
    history.add("a", Left())
    history.add("a", Left())
    with pytest.raises(AssertionError, match="2 events"):
        history.add("a", Left())
