"""The checker finds each kind of wrong in a history that holds it, and nothing in a sound one."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from strandline_chaos.checkers import ANOMALIES, FINAL_READ, REMOVED, CheckResult, check
from strandline_chaos.history import Event, History, read_history

KEY = 0


class Run:
    """A history told step by step; every call takes a millisecond."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._now_ns = 0
        self.history = History(self.lines.append, self._tick)
        self.writer = self.history.new_process()
        self.reader = self.history.new_process()

    def _tick(self) -> int:
        self._now_ns += 1_000_000
        return self._now_ns

    def send(self, value: int, offset: int | None = None, *, outcome: str = "ok") -> None:
        op = self.history.invoke_send(self.writer, KEY, value)
        if outcome == "ok":
            self.history.sent(self.writer, op, KEY, value, offset)
        elif outcome != "open":
            maybe = outcome == "info"
            self.history.not_sent(self.writer, op, KEY, value, maybe=maybe, error="Error: why")

    def poll(self, *pairs: tuple[int, int], process: int | None = None) -> None:
        by = self.reader if process is None else process
        self.history.polled(by, self.history.invoke_poll(by), {KEY: list(pairs)})

    def ends(self, end: int, *, process: int | None = None) -> None:
        by = self.reader if process is None else process
        self.history.ended(by, self.history.invoke_ends(by), {KEY: end})

    def final(self, *pairs: tuple[int, int]) -> CheckResult:
        process = self.history.new_process()
        self.history.note(FINAL_READ, [process])
        self.poll(*pairs, process=process)
        return check(read_history(self.lines))


def found(verdict: CheckResult) -> set[str]:
    return {name for name, anomaly in verdict.anomalies.items() if anomaly.count > 0}


def test_a_history_in_which_all_went_well_is_sound() -> None:
    run = Run()
    for value in range(3):
        run.send(value, value)
    run.poll((0, 0), (1, 1))
    run.poll((2, 2))
    verdict = run.final((0, 0), (1, 1), (2, 2))
    assert verdict.sound
    assert found(verdict) == set()
    assert (verdict.sent, verdict.acknowledged, verdict.read) == (3, 3, 3)


def test_a_record_of_unknown_outcome_may_be_there_or_not() -> None:
    for read in [((0, 0),), ((0, 0), (1, 1))]:
        run = Run()
        run.send(0, 0)
        run.send(1, outcome="info")
        verdict = run.final(*read)
        assert verdict.sound
        assert verdict.unknown == 1


def test_a_send_that_the_end_of_the_run_cut_off_is_of_unknown_outcome() -> None:
    run = Run()
    run.send(0, 0)
    run.send(1, outcome="open")
    verdict = run.final((0, 0), (1, 1))
    assert verdict.sound
    assert verdict.unknown == 1


def test_an_acknowledged_record_that_is_not_there_at_the_end_is_lost() -> None:
    run = Run()
    run.send(0, 0)
    run.send(1, 1)
    assert found(run.final((0, 0))) == {"lost"}


def test_a_lost_suffix_is_found_although_nothing_later_was_read() -> None:
    run = Run()
    for value in range(10):
        run.send(value, value)
    verdict = run.final(*((o, o) for o in range(7)))
    assert verdict.anomalies["lost"].count == 3


def test_a_value_at_two_offsets_is_duplicated() -> None:
    run = Run()
    run.send(0)
    assert found(run.final((0, 0), (1, 0))) == {"duplicated"}


def test_values_that_stand_in_another_order_than_they_were_sent_are_reordered() -> None:
    run = Run()
    run.send(0)
    run.send(1)
    assert found(run.final((0, 1), (1, 0))) == {"reordered"}


def test_no_order_is_claimed_between_two_clients() -> None:
    run = Run()
    run.send(0)
    run.writer = run.history.new_process()
    run.send(1)
    assert run.final((0, 1), (1, 0)).sound


def test_a_reader_that_goes_back_is_reordered_and_a_new_reader_may_start_again() -> None:
    run = Run()
    run.send(0, 0)
    run.send(1, 1)
    run.poll((0, 0), (1, 1))
    run.poll((0, 0), (1, 1), process=run.history.new_process())
    assert run.final((0, 0), (1, 1)).sound
    run.poll((1, 1))
    assert found(run.final((0, 0), (1, 1))) == {"reordered"}


def test_a_reader_that_passes_over_an_offset_has_skipped_it() -> None:
    run = Run()
    for value in range(3):
        run.send(value, value)
    run.poll((0, 0), (2, 2))
    assert found(run.final((0, 0), (1, 1), (2, 2))) == {"skipped"}


def test_a_value_that_nobody_sent_is_a_phantom() -> None:
    run = Run()
    run.send(0, 0)
    assert found(run.final((0, 0), (1, 77))) == {"phantom"}


def test_a_value_whose_send_promised_to_have_written_nothing_is_a_phantom() -> None:
    run = Run()
    run.send(0, 0)
    run.send(1, outcome="fail")
    assert found(run.final((0, 0), (1, 1))) == {"phantom"}


def test_an_offset_with_two_values_is_inconsistent() -> None:
    run = Run()
    run.send(0, 0)
    run.send(1, outcome="info")
    run.poll((0, 1))
    assert found(run.final((0, 0))) == {"inconsistent", "taken_back"}


def test_a_record_that_stands_elsewhere_than_the_acknowledgement_said_is_misplaced() -> None:
    run = Run()
    run.send(0, 5)
    assert found(run.final((0, 0))) == {"misplaced"}


def test_what_was_read_once_and_is_gone_is_taken_back_even_if_its_send_was_unknown() -> None:
    run = Run()
    run.send(0, 0)
    run.send(1, outcome="info")
    run.poll((0, 0), (1, 1))
    assert found(run.final((0, 0))) == {"taken_back"}


def test_bytes_that_are_not_what_was_sent_are_corrupt() -> None:
    run = Run()
    run.send(0, 0)
    run.history.note("corrupt", "key 0 offset 1: junk")
    assert found(run.final((0, 0))) == {"corrupt"}


def test_without_a_last_reading_there_is_no_verdict() -> None:
    run = Run()
    run.send(0, 0)
    verdict = check(read_history(run.lines))
    assert not verdict.sound
    assert verdict.document()["verdict"] == "incomplete"


def test_a_run_in_which_nothing_was_acknowledged_proves_nothing() -> None:
    run = Run()
    run.send(0, outcome="info")
    assert run.final((0, 0)).document()["verdict"] == "incomplete"


def test_the_longest_time_without_an_acknowledgement_is_told() -> None:
    run = Run()
    run.send(0, 0)
    run.send(1, 1)
    for _ in range(10):
        run.poll()
    run.send(2, 2)
    assert run.final((0, 0), (1, 1), (2, 2)).longest_gap_ms == 22


def test_a_verdict_counts_every_kind_of_anomaly_for_scripts() -> None:
    run = Run()
    run.send(0, 0)
    document = run.final((0, 0)).document()
    assert set(ANOMALIES) <= set(document)
    assert document["verdict"] == "sound"
    assert json.loads(json.dumps(document)) == document


def test_a_history_is_read_back_as_it_was_told_but_for_a_line_cut_off_at_the_end() -> None:
    run = Run()
    run.send(0, 0)
    run.send(1, outcome="fail")
    run.history.note("kill", "broker 2", node=2)
    events: list[Event] = run.history.events
    assert read_history(run.lines) == events
    assert read_history([*run.lines[:-1], run.lines[-1][:20]]) == events[:-1]
    with pytest.raises(ValueError, match="not JSON"):
        read_history([*run.lines[:1], "{", *run.lines[1:]])


def test_an_end_offset_that_falls_for_one_client_is_told() -> None:
    run = Run()
    run.send(0, 0)
    run.send(1, 1)
    run.ends(2)
    run.ends(1)
    assert found(run.final((0, 0), (1, 1))) == {"end_fell"}


def test_an_end_offset_below_what_the_client_has_read_has_fallen_too() -> None:
    run = Run()
    run.send(0, 0)
    run.send(1, 1)
    run.poll((0, 0), (1, 1))
    run.ends(1)
    assert found(run.final((0, 0), (1, 1))) == {"end_fell"}


def test_another_client_may_be_told_an_older_end() -> None:
    run = Run()
    run.send(0, 0)
    run.send(1, 1)
    run.ends(2)
    run.ends(1, process=run.history.new_process())
    assert found(run.final((0, 0), (1, 1))) == set()


def good() -> list[dict[str, Any]]:
    """Eight values over two writers, a reader that asks for ends, and the last reading."""
    run = Run()
    for value in range(8):
        run.writer = 1 if value % 2 == 0 else 7
        run.send(value, value, outcome="ok" if value != 5 else "info")
    run.send(8, outcome="fail")
    run.poll(*[(n, n) for n in range(4)])
    run.ends(4)
    run.poll(*[(n, n) for n in range(4, 8)])
    run.ends(8)
    run.final(*[(n, n) for n in range(8)])
    return [json.loads(line) for line in run.lines]


def verdict_of(events: list[dict[str, Any]]) -> CheckResult:
    return check(read_history(json.dumps(event) for event in events))


def polls(events: list[dict[str, Any]]) -> list[list[list[int]]]:
    """The records of each ok poll, to be changed in place; the last is the last reading."""
    return [e["value"][0][1][0][1] for e in events if e["f"] == "poll" and e["type"] == "ok"]


def drop(records: list[list[int]], at: int) -> None:
    del records[at]


def swap(records: list[list[int]], at: int) -> None:
    other = (at + 1) % len(records)
    records[at][1], records[other][1] = records[other][1], records[at][1]


def double(records: list[list[int]], at: int) -> None:
    records.append([records[-1][0] + 1, records[at][1]])


def shift(records: list[list[int]], at: int) -> None:
    records[at][0] += 100


def replace_by_a_failed_one(records: list[list[int]], at: int) -> None:
    records[at][1] = 8


def invent(records: list[list[int]], at: int) -> None:
    records[at][1] = 4711


def test_the_good_history_is_good() -> None:
    assert verdict_of(good()).sound


@pytest.mark.parametrize("poll", [0, 1, 2])
@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize(
    "mutate", [drop, swap, double, shift, replace_by_a_failed_one, invent], ids=lambda m: m.__name__
)
def test_a_good_history_that_is_changed_in_one_place_is_good_no_more(
    mutate: Callable[[list[list[int]], int], None], at: int, poll: int
) -> None:
    events = good()
    records = polls(events)[poll]
    at = at if poll < 2 else 2 * at
    mutate(records, at)
    silent = mutate is drop and (poll, at) in ((0, 0), (1, len(records)))
    assert verdict_of(events).sound is silent, (
        "only where a reader begins and ends is its own affair"
    )


@pytest.mark.parametrize("number", [0, 1])
def test_every_end_offset_of_a_good_history_matters(number: int) -> None:
    events = good()
    told = [e["value"][0][1][0] for e in events if e["f"] == "ends" and e["type"] == "ok"]
    told[number][1] -= 1
    assert found(verdict_of(events)) == {"end_fell"}


@pytest.mark.parametrize("value", range(8))
def test_every_acknowledged_offset_of_a_good_history_matters(value: int) -> None:
    events = good()
    for event in events:
        if (event["f"], event["type"]) == ("send", "ok") and event["value"][0][2][1] == value:
            event["value"][0][2][0] += 1
    assert verdict_of(events).sound is (value == 5), "that one was not acknowledged"


def test_what_was_deleted_on_purpose_may_be_gone_and_nothing_else() -> None:
    run = Run()
    for value in range(5):
        run.send(value, value)
    run.poll((0, 0))
    run.history.note(REMOVED, [KEY, 3])
    run.poll((3, 3))
    assert run.final((3, 3), (4, 4)).sound
    assert found(run.final((4, 4))) == {"lost", "taken_back"}


def test_a_reader_passes_over_what_is_deleted_already_only() -> None:
    run = Run()
    for value in range(3):
        run.send(value, value)
    run.poll((0, 0))
    run.poll((2, 2))
    run.history.note(REMOVED, [KEY, 2])
    assert found(run.final((2, 2))) == {"skipped"}
