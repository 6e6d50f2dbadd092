"""Log lines about a trouble that lasts."""

from __future__ import annotations

from strandline_broker.hosts.common.quiet import QUIET_S, Quiet
from support.hand_clock import HandClock


def test_a_trouble_of_a_minute_is_told_at_once_and_then_six_times() -> None:
    clock = HandClock()
    quiet = Quiet(clock)
    told = []
    for second in range(61):
        if quiet.is_due():
            told.append(second)
        clock.now_s += 1
    assert told == [0, 10, 20, 30, 40, 50, 60]
    assert QUIET_S == 10


def test_a_trouble_after_a_long_peace_is_told_at_once() -> None:
    clock = HandClock()
    quiet = Quiet(clock)
    assert quiet.is_due()
    clock.now_s += 1_000
    assert (quiet.is_due(), quiet.is_due()) == (True, False)
