"""What becomes of a member whose messages cross others, come late, or are lost (I-134, I-135)."""

from __future__ import annotations

import pytest

from strandline_broker.core.groups.commands import (
    ConsumerBeat,
    RebalanceEnded,
    Reconcile,
    TopicsChanged,
)
from strandline_broker.core.groups.consumer.stream_view import as_seen
from strandline_broker.core.groups.effects import RebalanceTimer
from strandline_proto.errors import FencedMemberEpoch, UnknownMemberId
from support.groups_rig import GroupsRig, joining


@pytest.fixture
def rig() -> GroupsRig:
    rig = GroupsRig()
    rig.topic("t", 2)
    return rig


def test_nobody_joins_by_a_message_that_crossed(rig: GroupsRig) -> None:
    rig.join("m1", "t")
    join = joining("m1", "t")
    rig.beat("m1", -1)
    with pytest.raises(UnknownMemberId):
        rig.ask(as_seen(join, seen_push=0, last_push=1))
    assert rig.ask(as_seen(join, seen_push=1, last_push=1)).member_epoch == 3


def test_a_revocation_in_time_outlives_its_timer(rig: GroupsRig) -> None:
    """The timer of epoch 1 fires late, when the member has come to epoch 2 and is asked anew."""
    rig.join("m1", "t")
    rig.join("m2", "t")
    rig.beat("m1", 1)
    rig.beat("m1", 1, rig.parts(t=(0,)))
    rig.beat("m2", -1)
    rig.beat("m1", 2)
    rig.join("m3", "t")
    rig.beat("m1", 3)
    assert rig.timers[RebalanceTimer("g", "m1")].epoch == 3
    rig.run(RebalanceEnded("g", "m1", 1))
    assert "m1" in rig.groups.table.consumer["g"].members


def test_who_was_told_of_no_newer_epoch_is_not_fenced_for_its_own(rig: GroupsRig) -> None:
    """What others have brought about waits to be committed, and m1 goes on as it was told."""
    rig.join("m1", "t")
    rig.topic("t", 3)
    rig.run(TopicsChanged("g"))
    rig.run(Reconcile("g", ("m1",)))
    assert rig.groups.table.consumer["g"].current("m1").epoch == 2
    try:
        told = rig.ask(ConsumerBeat(group_id="g", member_id="m1", member_epoch=1))
    except FencedMemberEpoch as error:
        raise AssertionError(f"m1 knows of no other epoch: {error}") from error
    assert (told.member_epoch, told.assignment) == (2, rig.parts(t=(0, 1, 2)))
    with pytest.raises(FencedMemberEpoch):
        rig.ask(ConsumerBeat(group_id="g", member_id="m1", member_epoch=1))


def test_after_a_failover_who_must_give_up_has_its_time_anew(rig: GroupsRig) -> None:
    rig.join("m1", "t")
    rig.join("m2", "t")
    rig.beat("m1", 1)
    before = dict(rig.timers)
    rig.fail_over()
    assert rig.timers == before
    again = rig.beat("m1", 1, rig.parts(t=(0, 1)))
    assert again.assignment == rig.parts(t=(0,))
    assert rig.beat("m1", 1, rig.parts(t=(0,))).member_epoch == 2


def test_a_member_that_missed_two_pushes_is_not_fenced_for_it(rig: GroupsRig) -> None:
    """Two pushes are lost on the way to m1, which speaks again of what it knew."""
    rig.join("m1", "t")
    rig.beat("m1", 1, rig.parts(t=(0, 1)))
    u = rig.topic("u", 1)
    for epoch, names in ((2, ("t", "u")), (3, ("t",))):
        beat = ConsumerBeat(
            group_id="g",
            member_id="m1",
            member_epoch=1,
            crossed=True,
            subscribed_topic_names=names,
        )
        rig.run(beat)
        rig.run(Reconcile("g", ("m1",)))
        rig.render("g", "m1")
        assert rig.groups.table.consumer["g"].epoch == epoch
    assert rig.groups.table.consumer["g"].current("m1").epoch == 2
    rig.run(RebalanceEnded("g", "m1", 1))
    full = {"rebalance_timeout_ms": 1000, "subscribed_topic_names": ("t",)}
    with pytest.raises(FencedMemberEpoch):
        rig.beat("m1", 1, {**rig.parts(t=(0, 1)), u: (1,)}, **full)
    again = rig.beat("m1", 1, rig.parts(t=(0, 1)), **full)
    assert (again.member_epoch, again.assignment) == (3, rig.parts(t=(0, 1)))


def test_every_epoch_that_a_member_was_told_since_it_spoke_last_may_be_its_own(
    rig: GroupsRig,
) -> None:
    rig.join("m1", "t")
    rig.join("m2", "t")
    rig.beat("m1", 1, rig.parts(t=(0,)))
    for other in ("m2", "m3", "m4"):
        rig.beat(other, -1)
        rig.run(Reconcile("g", ("m1",)))
        rig.render("g", "m1")
        rig.join(f"m{int(other[1:]) + 1}")
        rig.run(Reconcile("g", ("m1",)))
        rig.render("g", "m1")
    assert rig.groups.table.consumer["g"].current("m1").epoch == 8
    assert rig.beat("m1", 2, rig.parts(t=(0,))).member_epoch == 8
    assert rig.beat("m1", 6, rig.parts(t=(0,))).member_epoch == 8
    with pytest.raises(FencedMemberEpoch):
        rig.beat("m1", 2, rig.parts(t=(0,)))
