"""Members that go: LeaveGroup, sessions, connections, administrators."""

from __future__ import annotations

import pytest

from strandline_broker.core.groups.classic import leave as module
from strandline_broker.core.groups.commands import MemberToRemove, RemoveMembers
from strandline_broker.core.groups.effects import SessionTimer
from strandline_proto.errors import FencedInstanceId, UnknownMemberId
from support.classic_rig import REBALANCE_MS, SESSION_MS, ClassicRig, joined_of
from support.groups_rig import WALL_MS


def test_the_last_member_leaves_an_empty_group_in_the_log() -> None:
    rig = ClassicRig()
    (member_id,) = rig.stable()
    assert rig.leave_group(member_id) == [0]
    value = rig.record
    assert (value.protocol_type, value.generation, value.protocol, value.leader) == (
        *("consumer", 2),
        *(None, None),
    )
    assert (value.members, value.current_state_timestamp_ms) == ((), WALL_MS + rig.now_ms)
    assert (rig.state, rig.timers, rig.groups.table.live) == ("Empty", {}, {})


@pytest.mark.parametrize("state", ["CompletingRebalance", "Stable"])
def test_a_member_that_leaves_begins_a_rebalance(state: str) -> None:
    rig = ClassicRig()
    leader, other = rig.stable(2)
    waiting = None
    if state == "CompletingRebalance":
        rig.join_group(leader), rig.join_group(other)
        waiting = rig.sync_group(other, 2)
    assert rig.state == state
    assert rig.leave_group(leader) == [0]
    assert rig.state == "PreparingRebalance"
    if waiting is not None:
        assert waiting.code == 27
    assert rig.heartbeat(other, rig.group.generation) == 27
    answer = joined_of(rig.join_group(other))
    assert (answer.leader, len(answer.members)) == (other, 1)


def test_a_member_that_leaves_while_others_wait_ends_their_wait() -> None:
    rig = ClassicRig()
    leader, other = rig.stable(2)
    call = rig.join_group(leader)
    assert call.waits
    rig.leave_group(other)
    assert joined_of(call).generation == 2


def test_the_calls_of_a_member_that_leaves_are_answered() -> None:
    rig = ClassicRig()
    leader, other = rig.stable(2)
    waiting = rig.join_group(leader)
    rig.leave_group(leader)
    assert waiting.code == UnknownMemberId.code
    rig.join_group(other)
    third, call = rig.enter()
    again = rig.join_group(other)
    assert {again.waits, call.waits} == {False}
    syncing = rig.sync_group(third, rig.group.generation)
    rig.leave_group(third)
    assert syncing.code == UnknownMemberId.code


def test_each_of_several_members_gets_its_own_answer() -> None:
    """KIP-345."""
    rig = ClassicRig()
    static = [rig.join_group(instance_id=i) for i in ("a", "b", "c")]
    rig.wait(200)
    ids = [joined_of(call).member_id for call in static]
    rig.settle(list(ids))
    unused = rig.new_id()
    answers = rig.leave_group(
        ("", "a"), ("", "nobody"), ("", None), "nobody", (ids[1], "b"), ("x", "c"), unused
    )
    assert answers == [0, 25, 25, 25, 0, FencedInstanceId.code, 0]
    assert list(rig.group.members) == [ids[2]]
    assert rig.heartbeat(ids[2], 1, "c") == 27


def test_who_is_no_member_disturbs_no_group() -> None:
    rig = ClassicRig()
    rig.stable()
    unused = rig.new_id()
    assert rig.leave_group("nobody", unused) == [25, 0]
    assert (rig.state, list(rig.group.pending)) == ("Stable", [])
    assert SessionTimer("g", unused) not in rig.timers


def test_an_unknown_group_has_unknown_members() -> None:
    rig = ClassicRig()
    assert rig.leave_group("a", "b") == [25, 25]


def test_a_member_that_waits_outlives_its_session() -> None:
    rig = ClassicRig()
    leader, other = rig.stable(2)
    call = rig.join_group(leader)
    for _ in range(5):
        rig.wait(SESSION_MS - 1)
        rig.heartbeat(other, 1)
    assert call.waits
    assert rig.leave_group(other) == [0]
    assert joined_of(call).generation == 2
    rig.wait(SESSION_MS - 1)
    assert rig.heartbeat(leader, 2) == 0, "its session is full when it is answered"


def test_a_new_member_waits_five_minutes_at_most() -> None:
    """I-121."""
    rig = ClassicRig()
    leader, *_ = rig.stable(1, rebalance_timeout_ms=1_000_000)
    new_id, call = rig.enter()
    for _ in range(60):
        rig.wait(5_000)
        rig.heartbeat(leader, 1)
    assert call.code == UnknownMemberId.code
    assert new_id not in rig.group.members


@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_a_new_member_that_joins_again_waits_as_long(kind: str) -> None:
    rig = ClassicRig()
    leader, *_ = rig.stable(1, rebalance_timeout_ms=1_000_000)
    if kind == "dynamic":
        new_id, _ = rig.enter()
        call = rig.join_group(new_id)
    else:
        rig.join_group(instance_id="i")
        call = rig.join_group(instance_id="i")
    for _ in range(59):
        rig.wait(5_000)
        rig.heartbeat(leader, 1)
    assert call.waits
    rig.join_group(leader)
    assert joined_of(call).generation == 2


# Connections that end


def test_a_dropped_join_counts_as_joined_for_a_session() -> None:
    rig = ClassicRig()
    leader, other = rig.stable(2)
    dropped = rig.join_group(leader)
    rig.drop(dropped)
    call = rig.join_group(other)
    assert joined_of(call).leader == other, "a leader that is here leads"
    rig.sync_group(other, 2)
    again = joined_of(rig.join_group(leader))
    assert (again.generation, again.leader) == (2, other)


def test_a_dropped_member_that_does_not_come_back_is_removed() -> None:
    rig = ClassicRig()
    leader, other = rig.stable(2)
    rig.drop(rig.join_group(leader))
    for _ in range(2):
        rig.wait(SESSION_MS // 2)
        rig.heartbeat(other, 1)
    assert list(rig.group.members) == [other]


def test_a_dropped_new_member_has_a_session_like_any_other() -> None:
    rig = ClassicRig()
    leader, *_ = rig.stable(1, rebalance_timeout_ms=1_000_000)
    new_id, call = rig.enter()
    rig.wait(SESSION_MS - 1)
    rig.heartbeat(leader, 1)
    rig.drop(call)
    rig.wait(SESSION_MS - 1)
    rig.heartbeat(leader, 1)
    assert new_id in rig.group.members
    rig.wait(1)
    assert list(rig.group.members) == [leader]


def test_a_dropped_member_that_knows_its_id_by_now_stays() -> None:
    rig = ClassicRig()
    call = rig.join_group(requires_known_member_id=False)
    rig.enter()
    rig.wait(200)
    member_id = joined_of(call).member_id
    again = rig.join_group(member_id, "range", "sticky")
    assert again.waits
    rig.drop(again)
    assert member_id in rig.group.members


def test_a_handed_out_id_that_leaves_does_not_hold_up_the_group() -> None:
    rig = ClassicRig()
    (leader,) = rig.stable()
    given = rig.new_id()
    call = rig.join_group(leader)
    assert rig.leave_group(given) == [0]
    assert joined_of(call).generation == 2


def test_a_dropped_member_joins_again_with_its_id() -> None:
    rig = ClassicRig()
    member_id, call = rig.enter()
    rig.drop(call)
    again = rig.join_group(member_id)
    rig.wait(200)
    assert joined_of(again).leader == member_id


def test_a_dropped_member_that_never_knew_its_id_is_removed() -> None:
    rig = ClassicRig()
    (leader,) = rig.stable()
    call = rig.join_group(requires_known_member_id=False)
    rig.drop(call)
    rig.wait(0)
    assert list(rig.group.members) == [leader]


def test_a_dropped_sync_is_not_missed() -> None:
    rig = ClassicRig()
    (leader, _), (other, _) = rig.enter(), rig.enter()
    rig.wait(200)
    rig.drop(rig.sync_group(other, 1))
    rig.sync_group(leader, 1, parts={other: b"o"})
    assert rig.sync_group(other, 1).answer.assignment == b"o"


def test_a_call_that_was_answered_can_not_be_dropped() -> None:
    from strandline_broker.core.groups.classic.commands import CallDropped

    rig = ClassicRig()
    rig.stable()
    assert rig.run(CallDropped("g", 2)).effects == ()
    assert rig.run(CallDropped("other", 2)).effects == ()
    assert module.call_dropped is not None


# Administrators


def test_an_administrator_removes_members() -> None:
    rig = ClassicRig()
    leader, other = rig.stable(2)
    wishes = (MemberToRemove(leader), MemberToRemove("nobody"))
    removed = rig.ask(RemoveMembers("g", wishes)).members
    assert [None if m.error is None else m.error.code for m in removed] == [None, 25]
    assert rig.heartbeat(other, 1) == 27
    assert [m.member_id for m in rig.ask(RemoveMembers("g", None)).members] == [other]
    assert rig.state == "Empty"


def test_the_rebalance_timeout_is_the_longest_of_all() -> None:
    rig = ClassicRig()
    leader, other, silent = rig.stable(3)
    rig.join_group(other, rebalance_timeout_ms=REBALANCE_MS + 5_000)
    waiting = rig.join_group(leader)
    while waiting.waits:
        rig.wait(1_000)
        rig.heartbeat(silent, 1)
        assert rig.now_ms < 2 * REBALANCE_MS
    assert silent not in rig.group.members
