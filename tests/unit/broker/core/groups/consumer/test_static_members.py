"""Static members: places that outlive processes (I-124, I-126)."""

from __future__ import annotations

import pytest

from strandline_broker.core.groups.commands import Reconcile, SessionEnded
from strandline_broker.core.groups.consumer.static_members import check_instance
from strandline_proto.errors import (
    FencedMemberEpoch,
    StaleMemberEpoch,
    UnreleasedInstanceId,
)
from support.groups_rig import GroupsRig


@pytest.fixture
def rig() -> GroupsRig:
    """m is instance i with partitions 0 and 1 of t, n has 2 and 3; both are at epoch 2."""
    rig = GroupsRig()
    rig.topic("t", 4)
    rig.join("m", "t", instance_id="i")
    rig.join("n", "t")
    rig.beat("m", 1, rig.parts(t=(0, 1)))
    assert rig.assigned("n") == rig.parts(t=(2, 3))
    return rig


def test_what_an_absent_member_has_is_nobody_elses_until_its_session_ends(rig: GroupsRig) -> None:
    rig.beat("m", -2, instance_id="i")
    absent = rig.groups.table.consumer["g"].current("m")
    rig.join("o", "t")
    rig.run(Reconcile("g", ("m", "n", "o")))
    assert rig.groups.table.consumer["g"].current("m") == absent
    assert rig.beat("n", 2, rig.parts(t=(2,))).member_epoch == 3
    moved = set(rig.groups.table.consumer["g"].target("o")[rig.id_of("t")])
    held = set(absent.assigned[rig.id_of("t")])
    assert moved & held
    assert not set(rig.assigned("o").get(rig.id_of("t"), ())) & held
    rig.run(SessionEnded("g", "m"))
    rig.run(Reconcile("g", ("n", "o")))
    assert sum(len(p) for m in ("n", "o") for p in rig.assigned(m).values()) == 4


def test_past_its_session_an_absent_members_work_moves(rig: GroupsRig) -> None:
    rig.beat("m", -2, instance_id="i")
    rig.run(SessionEnded("g", "m"))
    assert rig.beat("n", 2).assignment == rig.parts(t=(0, 1, 2, 3))
    assert rig.join("m2", "t", instance_id="i").member_epoch == 4


def test_the_same_process_may_come_back_too(rig: GroupsRig) -> None:
    rig.beat("m", -2, instance_id="i")
    with pytest.raises(FencedMemberEpoch):
        rig.beat("m", 2, instance_id="i")
    back = rig.join("m", "t", instance_id="i")
    assert (back.member_epoch, back.assignment) == (2, rig.parts(t=(0, 1)))


def test_a_present_members_place_is_not_given_away(rig: GroupsRig) -> None:
    with pytest.raises(UnreleasedInstanceId):
        rig.join("m2", "t", instance_id="i")
    rig.run(SessionEnded("g", "m"))
    assert rig.join("m2", "t", instance_id="i").member_epoch == 4


def test_leaving_for_good_moves_the_work_at_once(rig: GroupsRig) -> None:
    rig.beat("m", -1, instance_id="i")
    assert rig.beat("n", 2).assignment == rig.parts(t=(0, 1, 2, 3))


def test_what_an_absent_member_was_to_give_up_is_free(rig: GroupsRig) -> None:
    rig.join("o", "t")
    rig.beat("m", 2)
    given = rig.groups.table.consumer["g"].current("m").pending
    rig.beat("m", -2, instance_id="i")
    assert given
    assert rig.groups.table.consumer["g"].current("m").pending == {}
    assert {t: set(p) for t, p in given.items()} == {
        t: set(p) for t, p in rig.assigned("o").items()
    }


def test_who_takes_a_place_with_another_subscription_is_a_change_for_all(rig: GroupsRig) -> None:
    rig.topic("u", 1)
    rig.beat("m", -2, instance_id="i")
    back = rig.join("m2", "t", "u", instance_id="i")
    assert back.member_epoch == 3
    assert rig.groups.table.consumer["g"].epoch == 3


def test_an_absent_member_does_not_commit(rig: GroupsRig) -> None:
    rig.beat("m", -2, instance_id="i")
    with pytest.raises(StaleMemberEpoch):
        rig.commit(5, member_id="m", member_epoch=2)
    check_instance(rig.groups.table.consumer["g"], "i", "m")
