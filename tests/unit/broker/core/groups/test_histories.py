"""Histories that have broken coordinators, each by its name."""

from __future__ import annotations

import pytest

from strandline_broker.core.coordination.shard import Load, Release, Shard
from strandline_broker.core.groups.commands import (
    BeatAnswer,
    ConsumerBeat,
    RebalanceEnded,
    Reconcile,
)
from strandline_broker.core.groups.effects import Changed, RebalanceTimer
from strandline_broker.core.groups.stream_view import as_seen
from strandline_proto.errors import FencedMemberEpoch, UnknownMemberId
from strandline_proto.ids import LeaderEpoch, Offset
from support.groups_rig import GroupsRig, joining


@pytest.fixture
def rig() -> GroupsRig:
    rig = GroupsRig()
    rig.topic("t", 2)
    return rig


def test_first_member_fast(rig: GroupsRig) -> None:
    """One decision with one target, and everything in the first answer."""
    decision = rig.run(joining("m1", "t"))
    assert len(decision.records) == 5
    assert rig.assigned("m1") == rig.parts(t=(0, 1))
    assert rig.groups.table.consumer["g"].assignment_epoch == 1


def test_join_with_revocation(rig: GroupsRig) -> None:
    """m1 commits what it gives up before m2 begins there."""
    rig.join("m1", "t")
    joined = rig.join("m2", "t")
    assert (joined.member_epoch, joined.assignment) == (2, {})
    asked = rig.beat("m1", 1)
    assert (asked.member_epoch, asked.assignment) == (1, rig.parts(t=(0,)))
    assert rig.timers[RebalanceTimer("g", "m1")].member_epoch == 1
    assert rig.commit(7, partition=1, member_id="m1", member_epoch=1) is None
    given = rig.run(
        ConsumerBeat(group_id="g", member_id="m1", member_epoch=1, owned=rig.parts(t=(0,)))
    )
    assert given.effects[-1] == Changed("g", ("m2",))
    assert RebalanceTimer("g", "m1") not in rig.timers
    granted = rig.beat("m2", 2)
    assert (granted.member_epoch, granted.assignment) == (2, rig.parts(t=(1,)))
    offsets = rig.groups.granted_offsets("g", rig.parts(t=(1,)), rig.inputs())
    assert offsets[0].offset == 7
    assert rig.fetch(partition=1, member_id="m2", member_epoch=2).offset == 7


def test_crossed_acknowledgement(rig: GroupsRig) -> None:
    """m1's "I own partition 0" is under way when it is granted both; then 1 is wanted for m3, and
    the old message arrives: 1 stays m1's until a newer one says so (P-143).
    """
    rig.join("m1", "t")
    rig.join("m2", "t")
    rig.beat("m1", 1, rig.parts(t=(0,)))
    rig.beat("m2", 2, rig.parts(t=(1,)))
    old = ConsumerBeat(group_id="g", member_id="m1", member_epoch=2, owned=rig.parts(t=(0,)))
    rig.beat("m2", -1)
    rig.run(Reconcile("g", ("m1",)))
    assert rig.assigned("m1") == rig.parts(t=(0, 1))
    rig.join("m3", "t")
    rig.run(Reconcile("g", ("m1",)))
    assert rig.assigned("m1") == rig.parts(t=(0,))
    rig.run(as_seen(old, seen_push=1, last_push=2))
    assert rig.groups.table.consumer["g"].current("m1").pending == {rig.id_of("t"): {1: 3}}
    assert rig.assigned("m3") == {}
    newer = ConsumerBeat(group_id="g", member_id="m1", member_epoch=3, owned=rig.parts(t=(0,)))
    rig.run(as_seen(newer, seen_push=2, last_push=2))
    assert rig.assigned("m3") == rig.parts(t=(1,))


def test_nobody_joins_by_a_message_that_crossed(rig: GroupsRig) -> None:
    rig.join("m1", "t")
    join = joining("m1", "t")
    rig.beat("m1", -1)
    with pytest.raises(UnknownMemberId):
        rig.ask(as_seen(join, seen_push=0, last_push=1))
    assert rig.ask(as_seen(join, seen_push=1, last_push=1)).member_epoch == 3


def test_parked_grant_overtaken(rig: GroupsRig) -> None:
    """The grant of partition 1 waits for the high watermark; by the time that comes the partition
    has moved on, and m1 never hears of it (P-144).
    """
    shard: Shard[str] = Shard()
    load = next(e for e in shard.elected(LeaderEpoch(1), Offset(0)) if isinstance(e, Load))
    shard.loaded(load)

    def append(member_ids: tuple[str, ...]) -> None:
        shard.appended([("g", member_id) for member_id in member_ids], Offset(len(rig.log)))

    rig.join("m1", "t")
    rig.join("m2", "t")
    rig.beat("m1", 1, rig.parts(t=(0,)))
    append(("m1", "m2"))
    shard.committed(Offset(len(rig.log)))
    rig.beat("m2", -1)
    rig.run(Reconcile("g", ("m1",)))
    append(("m1", "m2"))
    granting = Offset(len(rig.log))
    assert rig.assigned("m1") == rig.parts(t=(0, 1))
    assert not shard.park("to m1", ("g", "m1"))
    rig.join("m3", "t")
    rig.run(Reconcile("g", ("m1",)))
    append(("m1", "m3"))
    assert shard.committed(granting) == []
    assert shard.committed(Offset(len(rig.log))) == [Release(("to m1",))]
    told = rig.render("g", "m1", full=True)
    assert isinstance(told, BeatAnswer)
    assert told.assignment == rig.parts(t=(0,))


def test_revocation_timeout(rig: GroupsRig) -> None:
    """m1's callback hangs: it is fenced, its work moves, and its late commit is refused."""
    rig.join("m1", "t")
    rig.join("m2", "t")
    rig.beat("m1", 1)
    rig.run(RebalanceEnded("g", "m1", 0))
    assert "m1" in rig.groups.table.consumer["g"].members
    rig.run(RebalanceEnded("g", "m1", 1))
    assert rig.beat("m2", 2).assignment == rig.parts(t=(0, 1))
    with pytest.raises(UnknownMemberId):
        rig.commit(7, partition=1, member_id="m1", member_epoch=1)
    assert not any(key.member_id == "m1" for key in rig.timers)


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
    assert rig.timers[RebalanceTimer("g", "m1")].member_epoch == 3
    rig.run(RebalanceEnded("g", "m1", 1))
    assert "m1" in rig.groups.table.consumer["g"].members


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


def test_half_open_stream(rig: GroupsRig) -> None:
    """Two pushes are lost on the way to m1, which opens its stream anew: nobody moves."""
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
