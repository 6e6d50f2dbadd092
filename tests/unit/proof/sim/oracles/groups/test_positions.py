"""What members saw: who owns what, where they begin, and what they commit."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

from strandline_proof.sim.oracles.groups.positions import Positions
from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.workload.group_history import (
    AdminAsked,
    Assigned,
    CommitAsked,
    Committed,
    CommitUnknown,
    Crashed,
    Delivered,
    GroupEvent,
    Joined,
    Lost,
    OffsetsTold,
    Revoked,
    Told,
)
from support.group_log import (
    ASKED,
    HANDED_OVER,
    JOINED,
    SECOND,
    ScriptedLog,
    T,
    commit,
    group_epoch,
    removed,
    target,
    target_epoch,
)

if TYPE_CHECKING:
    from strandline_proof.sim.oracles.groups.fold import Group, Place
    from strandline_proof.sim.workload.group_history import Partition

T0 = ("t", 0)
T1 = ("t", 1)
M1_GONE = (*removed("m1"), group_epoch(3), target("m2", 0, 1), target_epoch(3))


class Scene:
    """`Known`, from a log of which everything is committed."""

    def __init__(self, *decisions: tuple[object, ...]) -> None:
        self.log = ScriptedLog(*decisions)  # type: ignore[arg-type]
        self.begins = 0
        self.judged = True
        self.positions = Positions(self)

    def group(self, group_id: str) -> Group:
        return self.log.standing().committed.group(group_id)

    def is_judged(self, group_id: str) -> bool:
        return self.judged

    def place(self, partition: Partition) -> Place:
        return T, partition[1]

    def offset(self, group_id: str, partition: Partition) -> int | None:
        for key, value in self.log.standing().committed.offsets.items():
            if (key.group, key.partition) == (group_id, partition[1]):
                return value.offset
        return None

    def may_skip(self, partition: Partition, begin: int, end: int) -> bool:
        return end <= self.begins

    def tell(self, who: str, *events: GroupEvent) -> None:
        for event in events:
            self.positions.on_told(Told(0.0, who, event))

    def write(self, *records: object) -> None:
        self.positions.check_step(self.log.write(*records))  # type: ignore[arg-type]


def assigned(*partitions: Partition, epoch: int = 1) -> Assigned:
    return Assigned(frozenset(partitions), epoch)


def delivered(*offsets: int, partition: Partition = T0) -> list[Delivered]:
    return [Delivered(partition, offset) for offset in offsets]


def joined(member_id: str) -> Joined:
    return Joined("g", member_id, 1)


def test_a_sound_handover_passes() -> None:
    scene = Scene(JOINED)
    scene.tell("a", joined("m1"), assigned(T0, T1), *delivered(0, 1, 2, partition=T1))
    scene.write(*SECOND)
    scene.write(*ASKED)
    scene.positions.check_commit("m1", T1, 3)
    scene.write(commit(3, partition=1))
    scene.tell("a", Revoked(frozenset({T1}), 1))
    scene.write(*HANDED_OVER)
    scene.tell("b", joined("m2"), assigned(T1), *delivered(3, 4, partition=T1))
    scene.tell("a", *delivered(0, 1))


def test_two_owners_are_named() -> None:
    scene = Scene(JOINED, SECOND, ASKED, HANDED_OVER)
    scene.tell("a", joined("m1"), assigned(T0, T1))
    scene.tell("b", joined("m2"))
    with pytest.raises(Violation, match="I-132"):
        scene.tell("b", assigned(T1))


def test_who_is_no_member_any_more_does_not_own() -> None:
    scene = Scene(JOINED, SECOND, ASKED)
    scene.tell("a", joined("m1"), assigned(T0, T1))
    scene.write(*M1_GONE)
    scene.tell("b", joined("m2"), assigned(T0, T1))


def test_who_is_told_that_it_is_none_does_not_own() -> None:
    """It may join again before its application has heard of it."""
    scene = Scene(JOINED, SECOND, ASKED, HANDED_OVER)
    scene.tell("a", joined("m1"), assigned(T0, T1))
    scene.positions.on_over("m1")
    scene.tell("b", joined("m2"), assigned(T1))


def asleep_with_a_grant() -> Scene:
    """`a`, or m1, was granted partition 1 and has not told its application; m2 has it by now."""
    scene = Scene(JOINED, SECOND)
    scene.tell("a", joined("m1"))
    scene.write(*M1_GONE)
    scene.tell("b", joined("m2"), assigned(T0, T1, epoch=3))
    return scene


def test_who_acts_upon_a_grant_of_before_does_not_own() -> None:
    scene = asleep_with_a_grant()
    scene.tell("a", assigned(T1), *delivered(0, partition=T1))
    scene.tell("b", Revoked(frozenset({T1}), 3))
    scene.tell("c", joined("m3"), assigned(T1, epoch=4))


@pytest.mark.parametrize("epoch", [3, -1], ids=["a member again", "knows that it is none"])
def test_that_excuses_no_grant_but_those_of_before(epoch: int) -> None:
    scene = asleep_with_a_grant()
    with pytest.raises(Violation, match="I-132"):
        scene.tell("a", assigned(T1, epoch=epoch))


@pytest.mark.parametrize("end", [Revoked(frozenset({T0}), 1), Lost(frozenset({T0}), 1), Crashed()])
def test_nothing_is_handed_over_of_what_is_not_owned(end: GroupEvent) -> None:
    scene = Scene(JOINED)
    scene.tell("a", joined("m1"), assigned(T0), *delivered(0), end)
    with pytest.raises(Violation, match="I-132"):
        scene.tell("a", *delivered(1))


@pytest.mark.parametrize("first", [4, 6, 0])
def test_who_takes_up_begins_where_the_group_had_committed(first: int) -> None:
    scene = Scene(JOINED, (commit(5),))
    scene.tell("a", joined("m1"), assigned(T0, T1))
    with pytest.raises(Violation, match="I-106"):
        scene.tell("a", *delivered(first))
    scene.tell("a", *delivered(5, 6, 7))


@pytest.mark.parametrize("next_one", [1, 2, 4])
def test_records_come_one_after_the_other(next_one: int) -> None:
    scene = Scene(JOINED)
    scene.tell("a", joined("m1"), assigned(T0), *delivered(0, 1, 2))
    with pytest.raises(Violation, match="I-106"):
        scene.tell("a", *delivered(next_one))


def test_what_is_deleted_is_passed_over() -> None:
    scene = Scene(JOINED)
    scene.begins = 9
    scene.tell("a", joined("m1"), assigned(T0), *delivered(9, 10))


def test_nobody_commits_what_it_was_not_handed() -> None:
    scene = Scene(JOINED)
    scene.tell("a", joined("m1"), assigned(T0), *delivered(0, 1, 2))
    scene.positions.check_commit("m1", T0, 3)
    with pytest.raises(Violation, match="I-106"):
        scene.positions.check_commit("m1", T0, 4)
    scene.begins = 4
    scene.positions.check_commit("m1", T0, 4)  # offset 3 is deleted: it begins behind it


def test_a_deposed_coordinator_may_read_late_what_an_earlier_ownership_had_said() -> None:
    scene = Scene(JOINED, (commit(5),))
    scene.tell("a", joined("m1"), assigned(T0), *delivered(5, 6, 7))
    scene.tell("a", Lost(frozenset({T0}), -1), assigned(T0))
    scene.positions.check_commit("m1", T0, 8, is_deposed=True)
    with pytest.raises(Violation, match="I-106"):
        scene.positions.check_commit("m1", T0, 9, is_deposed=True)
    with pytest.raises(Violation, match="I-106"):
        scene.positions.check_commit("m1", T0, 8)
    scene.tell("a", Lost(frozenset({T0}), -1), assigned(T0))
    scene.positions.check_commit("m1", T0, 8, is_deposed=True)


def test_what_it_had_to_begin_at_counts_as_handed_there_too() -> None:
    scene = Scene(JOINED, (commit(5),))
    scene.tell("a", joined("m1"), assigned(T0), Lost(frozenset({T0}), -1))
    scene.tell("x", AdminAsked(1, "alter_group_offsets", "g", {T0: Committed(2, -1, "order 1")}))
    scene.write(commit(2, metadata="order 1"))
    scene.tell("a", assigned(T0))
    scene.positions.check_commit("m1", T0, 5, is_deposed=True)
    with pytest.raises(Violation, match="I-106"):
        scene.positions.check_commit("m1", T0, 5)


def test_no_committed_offset_goes_back_but_by_an_administrator() -> None:
    scene = Scene(JOINED, (commit(5),))
    scene.tell("x", AdminAsked(1, "alter_group_offsets", "g", {T0: Committed(2, -1, "order 1")}))
    scene.write(commit(2, metadata="order 1"))
    scene.write(commit(3))
    with pytest.raises(Violation, match="I-106"):
        scene.write(commit(2))


@pytest.mark.parametrize("member_id", ["", "m1"])
def test_or_by_a_late_commit_that_who_is_no_member_has_given_up(member_id: str) -> None:
    scene = Scene(JOINED, (commit(5),))
    given_up = CommitAsked(1, {T0: Committed(4, -1, "1")}, member_id, -1)
    scene.tell("x", given_up, CommitUnknown(1, "OperationTimedOut"))
    with nullcontext() if not member_id else pytest.raises(Violation, match="I-106"):
        scene.write(commit(4, metadata="1"))
    with pytest.raises(Violation, match="back from 4 to 3"):
        scene.write(commit(3, metadata="2"))


def late_forward(*before: object) -> Scene:
    """What "x" has given up stands, ahead of what was committed `before`."""
    scene = Scene(JOINED, *([before] if before else []))
    given_up = CommitAsked(1, {T0: Committed(9, -1, "1")}, "", -1)
    scene.tell("x", given_up, CommitUnknown(1, "OperationTimedOut"))
    scene.write(commit(9, metadata="1"))
    return scene


def test_who_has_not_heard_of_a_late_commit_goes_on_from_what_was_before_it() -> None:
    late_forward().write(commit(1, metadata="2"))
    late_forward(commit(5)).write(commit(5, metadata="2"))
    scene = late_forward(commit(5))
    scene.tell("admin", OffsetsTold(3, {T0: Committed(9, -1, "1")}))
    scene.write(commit(6, metadata="2"))
    with pytest.raises(Violation, match="back from 6 to 5"):
        scene.write(commit(5, metadata="4"))


def test_and_never_behind_that_nor_once_it_was_told() -> None:
    with pytest.raises(Violation, match="back from 5 to 4"):
        late_forward(commit(5)).write(commit(4, metadata="2"))
    scene = late_forward(commit(5))
    scene.tell("x", OffsetsTold(3, {T0: Committed(9, -1, "1")}))
    with pytest.raises(Violation, match="back from 9 to 8"):
        scene.write(commit(8, metadata="2"))


def test_where_records_may_be_missing_nothing_is_asked() -> None:
    scene = Scene(JOINED, SECOND, ASKED, HANDED_OVER)
    scene.judged = False
    scene.tell("a", joined("m1"), assigned(T0, T1))
    scene.tell("b", joined("m2"), assigned(T1), *delivered(17, partition=T1))
