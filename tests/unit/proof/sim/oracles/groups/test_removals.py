"""Members go by their word, by command or by their time, and by nothing else."""

from __future__ import annotations

import pytest

from strandline_proof.sim.oracles.groups.removals import Removals, Word
from strandline_proof.sim.oracles.violation import Violation
from support.group_log import (
    ASKED,
    JOINED,
    SECOND,
    ScriptedLog,
    current,
    group_epoch,
    member,
    removed,
    target_epoch,
)

SESSION_S = 2.0
GONE = (*removed("m1"), group_epoch(9), target_epoch(9))
M1 = ("g", "m1")


class Scene:
    def __init__(self, *decisions: tuple[object, ...]) -> None:
        self.log = ScriptedLog()
        self.now_s = 10.0
        self.generations: dict[tuple[str, str], int] = {}
        self.serve_anew()
        for records in decisions:
            self.decide(*records)

    def serve_anew(self) -> None:
        self.removals = Removals("broker-1", SESSION_S, self.now_s, self.generations)

    def decide(self, *records: object) -> None:
        self.removals.on_decided(self.log.write(*records))  # type: ignore[arg-type]

    def work(self, for_s: float, *, is_able: bool = True) -> None:
        for _ in range(round(for_s * 10)):
            self.now_s += 0.1
            self.removals.on_time(self.now_s, is_able=is_able)
            self.removals.check_silence(self.log.standing().written)

    def stand_still(self, for_s: float) -> None:
        self.now_s += for_s
        self.removals.on_time(self.now_s, is_able=True)

    def is_removed(self) -> None:
        self.decide(*GONE)


def named(rule: str) -> pytest.RaisesExc[Violation]:
    return pytest.raises(Violation, match=rule)


def test_nothing_else_removes_a_member() -> None:
    scene = Scene(JOINED)
    scene.work(1.5)
    scene.removals.on_heard(Word(M1, 1))
    scene.work(0.5)
    with named("I-179"):
        scene.is_removed()


def test_silence_does() -> None:
    scene = Scene(JOINED)
    scene.removals.on_heard(Word(M1, 1))
    scene.work(SESSION_S)
    scene.is_removed()


def test_the_silence_of_a_coordinator_that_stands_still_does_not() -> None:
    scene = Scene(JOINED)
    scene.removals.on_heard(Word(M1, 1))
    scene.work(0.4)
    scene.stand_still(50.0)
    with named("I-179"):
        scene.is_removed()


def test_its_own_word_does() -> None:
    scene = Scene(JOINED)
    scene.removals.on_heard(Word(M1, -1, 3))
    scene.is_removed()


def test_the_word_of_an_older_stream_does_not() -> None:
    scene = Scene(JOINED)
    scene.removals.on_heard(Word(M1, 1, 4))
    scene.removals.on_heard(Word(M1, -1, 3))
    with named("I-179"):
        scene.is_removed()


def test_nor_does_it_count_where_the_coordinator_serves_anew() -> None:
    scene = Scene(JOINED)
    scene.removals.on_heard(Word(M1, 1, 4))
    scene.serve_anew()
    scene.work(SESSION_S)
    scene.removals.on_heard(Word(M1, 1, 3))
    scene.is_removed()


def test_the_session_of_who_is_fenced_ends_in_its_time() -> None:
    """A heartbeat that was long on its way, from an epoch in which nobody knows the member."""
    scene = Scene(JOINED)
    scene.removals.on_heard(Word(M1, 1))
    scene.work(SESSION_S)
    scene.removals.on_heard(Word(M1, 7, is_refused=True))
    scene.is_removed()


def test_who_was_fenced_and_joined_anew_is_a_member_like_any_other() -> None:
    scene = Scene(JOINED)
    scene.removals.on_heard(Word(M1, 7, is_refused=True))
    scene.removals.on_heard(Word(M1, 0))
    with named("I-179"):
        scene.is_removed()


def test_an_administrators_does() -> None:
    scene = Scene(JOINED)
    scene.removals.on_removal_asked("g")
    scene.is_removed()


@pytest.mark.parametrize(("waited_s", "is_late"), [(0.5, False), (5.0, True)])
def test_who_does_not_give_up_in_time_goes(waited_s: float, is_late: bool) -> None:
    scene = Scene(JOINED, SECOND, ASKED)
    for _ in range(round(waited_s * 10)):
        scene.work(0.1)
        scene.removals.on_heard(Word(M1, 1))
        scene.removals.on_heard(Word(("g", "m2"), 2))
    if is_late:
        scene.is_removed()
        return
    with named("I-179"):
        scene.is_removed()


@pytest.mark.parametrize(("waited_s", "is_late"), [(0.5, False), (5.0, True)])
def test_a_coordinator_gives_who_was_asked_before_it_that_time_anew(
    waited_s: float, is_late: bool
) -> None:
    """What it decides of others meanwhile does not begin it once more."""
    scene = Scene(JOINED, SECOND, ASKED)
    scene.work(4.0)
    scene.serve_anew()
    scene.work(waited_s)
    scene.removals.on_heard(Word(M1, 1))
    scene.decide(group_epoch(3))
    if is_late:
        scene.is_removed()
        return
    with named("I-179"):
        scene.is_removed()


def test_who_is_asked_a_second_time_has_that_time_anew() -> None:
    scene = Scene(JOINED, SECOND, ASKED)
    scene.work(4.0)
    scene.removals.on_heard(Word(M1, 1))
    scene.decide(current("m1", 2))
    scene.decide(*ASKED)
    with named("I-179"):
        scene.is_removed()


def test_who_has_its_place_may_end_an_absent_one() -> None:
    scene = Scene(
        (member("m1", instance_id="i"), group_epoch(1), target_epoch(1), current("m1", 1)),
        (current("m1", -2, previous=1),),
    )
    scene.decide(*removed("m1"), member("s2", instance_id="i"), current("s2", 1))


def test_who_is_silent_for_long_is_no_member() -> None:
    scene = Scene(JOINED)
    with named("I-137"):
        scene.work(7.0)


def test_who_cannot_decide_anything_may_keep_it() -> None:
    Scene(JOINED).work(60.0, is_able=False)
