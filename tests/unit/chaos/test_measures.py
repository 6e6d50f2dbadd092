"""How long clients waited and how old their answers were, by a history."""

from __future__ import annotations

from strandline_chaos.history import History
from strandline_chaos.measures import Measures, measure

KEY = 0


class TimedHistory:
    """A history whose clock the test sets, in milliseconds."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.history = History(None, lambda: self.now_ms * 1_000_000)
        self.writer = self.history.new_process()
        self.reader = self.history.new_process()

    def begin(self, at_ms: int, value: int) -> int:
        self.now_ms = at_ms
        return self.history.invoke_send(self.writer, KEY, value)

    def end(self, at_ms: int, op: int, value: int) -> None:
        self.now_ms = at_ms
        self.history.sent(self.writer, op, KEY, value, value)

    def fail(self, at_ms: int, op: int, value: int, *, maybe: bool) -> None:
        self.now_ms = at_ms
        self.history.not_sent(self.writer, op, KEY, value, maybe=maybe, error="why")

    def poll(self, at_ms: int, *offsets: int, by: int | None = None, takes_ms: int = 0) -> None:
        process = self.reader if by is None else by
        self.now_ms = at_ms
        op = self.history.invoke_poll(process)
        self.now_ms = at_ms + takes_ms
        self.history.polled(process, op, {KEY: [(offset, offset) for offset in offsets]})

    def ends(self, at_ms: int, end: int) -> None:
        self.now_ms = at_ms
        self.history.ended(self.reader, self.history.invoke_ends(self.reader), {KEY: end})

    def measured(self) -> Measures:
        return measure(self.history.events)


def test_a_wait_that_ends_with_an_acknowledgement() -> None:
    timed = TimedHistory()
    timed.end(100, timed.begin(0, 0), 0)
    timed.end(1700, timed.begin(1000, 1), 1)
    assert timed.measured().outages_ms == (700.0,)


def test_nobody_waits_for_what_nobody_has_sent() -> None:
    timed = TimedHistory()
    timed.end(10, timed.begin(0, 0), 0)
    timed.end(60_010, timed.begin(60_000, 1), 1)
    assert timed.measured().outages_ms == ()


def test_a_wait_goes_on_over_sends_that_surely_failed() -> None:
    timed = TimedHistory()
    timed.fail(400, timed.begin(0, 0), 0, maybe=False)
    timed.end(900, timed.begin(800, 1), 1)
    assert timed.measured().outages_ms == (900.0,)


def test_a_wait_ends_when_the_client_gives_up() -> None:
    timed = TimedHistory()
    timed.fail(4000, timed.begin(0, 0), 0, maybe=True)
    assert timed.measured().outages_ms == (4000.0,)


def test_sends_under_way_wait_from_the_last_acknowledgement_on() -> None:
    timed = TimedHistory()
    first, second = timed.begin(0, 0), timed.begin(10, 1)
    timed.end(100, first, 0)
    timed.end(700, second, 1)
    assert timed.measured().outages_ms == (600.0,)


def test_a_reader_that_stays_behind_what_was_acknowledged() -> None:
    timed = TimedHistory()
    timed.end(10, timed.begin(0, 0), 0)
    timed.poll(20, 0)
    timed.end(40, timed.begin(30, 1), 1)
    timed.poll(540)
    assert timed.measured().worst_realtime_lag_ms == 500


def test_a_poll_that_began_before_the_acknowledgement_is_not_late() -> None:
    timed = TimedHistory()
    timed.end(10, timed.begin(0, 0), 0)
    timed.poll(20, 0)
    op = timed.begin(25, 1)
    timed.end(40, op, 1)
    timed.poll(30, takes_ms=500)
    assert timed.measured().worst_realtime_lag_ms == 0


def test_a_reader_that_begins_anew_is_not_late_before_it_has_caught_up() -> None:
    timed = TimedHistory()
    for value in range(3):
        timed.end(10 * value + 5, timed.begin(10 * value, value), value)
    timed.poll(1000, 0)
    assert timed.measured().worst_realtime_lag_ms == 0


def test_an_end_below_what_another_client_was_told() -> None:
    timed = TimedHistory()
    timed.end(10, timed.begin(0, 0), 0)
    timed.ends(15, 1)
    timed.end(40, timed.begin(30, 1), 1)
    timed.ends(290, 1)
    assert timed.measured().worst_end_lag_ms == 250


def test_a_value_that_one_reader_was_given_twice() -> None:
    timed = TimedHistory()
    timed.poll(0, 0, 1)
    timed.poll(10, 1)
    timed.poll(20, 0, 1, by=timed.history.new_process())
    assert timed.measured().consumed_again == 1
