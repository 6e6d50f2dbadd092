"""A channel is replaced after a second of calls that found no peer, and not for a single one."""

from __future__ import annotations

from strandline_runtime.renewal import PAUSE_S, RENEW_AFTER_S, Renewal
from support.hand_clock import HandClock


def test_failures_that_follow_each_other_for_a_second_are_enough() -> None:
    clock = HandClock()
    renewal = Renewal(clock)
    assert not renewal.is_due()
    clock.now_s += RENEW_AFTER_S - 0.01
    assert not renewal.is_due()
    clock.now_s += 0.01
    assert renewal.is_due()


def test_each_channel_has_its_second() -> None:
    clock = HandClock()
    renewal = Renewal(clock)
    due = []
    for _ in range(31):
        due.append(renewal.is_due())
        clock.now_s += 0.1
    assert 2 <= sum(due) <= 3, "at about 1, 2 and 3 s"


def test_a_failure_long_after_another_begins_again() -> None:
    clock = HandClock()
    renewal = Renewal(clock)
    assert not renewal.is_due()
    clock.now_s += PAUSE_S + 0.1
    assert not renewal.is_due()
