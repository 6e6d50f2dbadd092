"""What a member is told again: that it owes an acknowledgement, where it cannot know, or where the
one that it sent does not count.
"""

from __future__ import annotations

import pytest

from strandline_broker.core.groups.commands import BeatAnswer, ConsumerBeat, Reconcile
from strandline_broker.core.groups.consumer.stream_view import as_seen
from support.groups_rig import GroupsRig


@pytest.fixture
def rig() -> GroupsRig:
    made = GroupsRig()
    made.topic("t", 2)
    return made


def test_a_grant_that_was_taken_back_untold_is_acknowledged_all_the_same(rig: GroupsRig) -> None:
    """m1 was granted partition 1 between two pushes, and is to give it up again. What it may own is
    what it was told last; it is told so once more, as it is waited for.
    """
    rig.join("m1", "t")
    rig.join("m2", "t")
    rig.beat("m1", 1, rig.parts(t=(0,)))
    rig.beat("m2", -1)
    rig.run(Reconcile("g", ("m1",)))
    rig.join("m3", "t")
    rig.run(Reconcile("g", ("m1",)))
    told = rig.render("g", "m1")
    assert isinstance(told, BeatAnswer)
    assert told.assignment == rig.parts(t=(0,))
    rig.beat("m1", told.member_epoch, told.assignment)
    rig.run(Reconcile("g", ("m3",)))
    assert rig.assigned("m3") == rig.parts(t=(1,))
    assert rig.render("g", "m1") == BeatAnswer("m1", 4, told.heartbeat_interval_ms, None)


def test_who_acknowledged_in_a_message_that_crossed_is_asked_again(rig: GroupsRig) -> None:
    """Else it would think that it has said so, and the coordinator that it has not."""
    rig.join("m1", "t")
    rig.join("m2", "t")
    rig.run(Reconcile("g", ("m1",)))
    assert rig.render("g", "m1") == BeatAnswer("m1", 1, 5000, rig.parts(t=(0,)))
    assert rig.render("g", "m1") == BeatAnswer("m1", 1, 5000, None)
    said = ConsumerBeat(group_id="g", member_id="m1", member_epoch=1, owned=rig.parts(t=(0,)))
    rig.run(as_seen(said, seen_push=1, last_push=2))
    assert rig.assigned("m2") == {}
    assert rig.render("g", "m1") == BeatAnswer("m1", 1, 5000, rig.parts(t=(0,)))
    rig.run(as_seen(said, seen_push=3, last_push=3))
    assert rig.assigned("m2") == rig.parts(t=(1,))


def test_who_is_asked_for_the_same_once_more_is_told_so(rig: GroupsRig) -> None:
    """m1 gave partition 1 up; before it was told anything else it got that back and is to give it
    up again. What it was told last is word for word the same, and yet it has answered that.
    """
    rig.join("m1", "t")
    rig.join("m2", "t")
    rig.run(Reconcile("g", ("m1",)))
    assert rig.render("g", "m1") == BeatAnswer("m1", 1, 5000, rig.parts(t=(0,)))
    said = ConsumerBeat(group_id="g", member_id="m1", member_epoch=1, owned=rig.parts(t=(0,)))
    rig.run(said)
    rig.beat("m2", -1)
    rig.run(Reconcile("g", ("m1",)))
    rig.join("m3", "t")
    rig.run(Reconcile("g", ("m1",)))
    told = rig.render("g", "m1")
    assert isinstance(told, BeatAnswer)
    assert told.assignment == rig.parts(t=(0,))
    rig.beat("m1", told.member_epoch, told.assignment)
    rig.run(Reconcile("g", ("m3",)))
    assert rig.assigned("m3") == rig.parts(t=(1,))
