"""What is left of a history in which a loss was permitted, and how much of a sweep that may be."""

from __future__ import annotations

from collections import Counter
from itertools import count
from typing import Any

from strandline_chaos.checkers import FINAL_READ
from strandline_chaos.excused import Excuse, without
from strandline_chaos.history import Event
from strandline_proof.sim.plan.plan import Plan
from strandline_proof.sim.run.report import RunSummary
from strandline_proof.sim.run.share import OPEN, PERMITTED, Share, counted
from strandline_proof.sim.topology.topology import Topology

OVER = Excuse(over=4, judged_from=10)


class Told:
    """A history, by hand."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._ops = count(1)

    def add(self, kind: Any, f: str, value: Any, op: int, *, by: int = 1) -> None:
        self.events.append(Event(len(self.events), 0, by, kind, f, value, op))

    def begins(self, value: int) -> int:
        op = next(self._ops)
        self.add("invoke", "send", [["send", 0, value]], op)
        return op

    def acknowledged(self, op: int, value: int, offset: int) -> None:
        self.add("ok", "send", [["send", 0, [offset, value]]], op)

    def reads(self, *pairs: tuple[int, int], by: int = 1) -> None:
        runs = [[0, [list(pair) for pair in pairs]]]
        self.add("ok", "poll", [["poll", runs]], next(self._ops), by=by)

    def left(self, excuse: Excuse) -> list[tuple[str, str, Any]]:
        return [(e.type, e.f, e.value[0][1:]) for e in without(self.events, {0: excuse})]


def told() -> Told:
    found = Told()
    early = found.begins(1)
    found.acknowledged(early, 1, 8)
    found.reads((8, 1))
    late = found.begins(2)
    found.acknowledged(late, 2, 10)  # the fifth event: the excuse is over, the send began before
    after = found.begins(3)
    found.acknowledged(after, 3, 11)
    found.reads((8, 9), (10, 2), (11, 3))
    return found


def test_without_an_end_nothing_is_left_of_the_partition() -> None:
    assert told().left(Excuse()) == [("ok", "poll", [[]]), ("ok", "poll", [[]])]


def test_what_was_sent_before_may_be_there_or_not_and_what_came_after_counts() -> None:
    assert told().left(OVER) == [
        ("invoke", "send", [0, 1]),
        ("info", "send", [0, 1]),
        ("ok", "poll", [[]]),
        ("invoke", "send", [0, 2]),
        ("info", "send", [0, 2]),
        ("invoke", "send", [0, 3]),
        ("ok", "send", [0, [11, 3]]),
        ("ok", "poll", [[[0, [[10, 2], [11, 3]]]]]),
    ]


def test_the_last_reading_has_what_was_sent_since_then_wherever_it_is() -> None:
    """Offsets are used again: value 4 stands where another one was lost, and is looked for."""
    history = told()
    history.acknowledged(history.begins(4), 4, 3)
    history.reads((3, 4), (10, 2), (11, 3))
    history.add("info", FINAL_READ, [2], -1)
    history.reads((3, 4), (10, 2), (11, 3), by=2)
    found = without(history.events, {0: OVER})
    assert found[-4].value == [["send", 0, [3, 4]]]
    assert found[-3].value == [["poll", [[0, [[10, 2], [11, 3]]]]]]
    assert found[-1].value == [["poll", [[0, [[3, 4], [10, 2], [11, 3]]]]]]


def test_other_partitions_are_left_alone() -> None:
    history = told()
    assert without(history.events, {1: Excuse()}) == history.events
    assert without(history.events, {}) == history.events


def share(excused: int, of: int) -> Share:
    found = Share(PERMITTED)
    for number in range(of):
        plan = Plan(1, Topology(partitions=2), ())
        found.add(RunSummary(plan, sometimes=Counter({PERMITTED: 1} if number < excused else {})))
    return found


def test_a_sweep_that_looks_away_too_often() -> None:
    assert share(240, 300).is_too_great
    assert not share(30, 300).is_too_great
    assert str(share(30, 300)).startswith("loss permitted: 10.0 % of the schedules")
    assert str(share(30, 300)).endswith("5.0 % of the partitions")


def test_a_short_sweep_says_nothing_of_a_share() -> None:
    assert not share(299, 299).is_too_great


def test_what_was_judged_again_is_counted_apart() -> None:
    assert counted([Excuse(), OVER]) == {PERMITTED: 2, OPEN: 1}
