"""SyncGroup and Heartbeat, state by state."""

from __future__ import annotations

import pytest

from strandline_broker.core.groups.classic import sync as module
from strandline_broker.core.groups.classic.commands import GroupSynced, SyncEnded
from strandline_broker.core.groups.effects import SyncTimer
from strandline_proto.errors import (
    IllegalGeneration,
    InconsistentGroupProtocol,
    RebalanceInProgress,
    UnknownMemberId,
)
from support.classic_rig import REBALANCE_MS, SESSION_MS, SUBSCRIPTION, ClassicRig, joined_of
from support.groups_rig import WALL_MS


def completing(rig: ClassicRig, count: int = 2) -> list[str]:
    entered = [rig.enter() for _ in range(count)]
    rig.wait(200)
    assert rig.state == "CompletingRebalance"
    return [member_id for member_id, _ in entered]


def test_the_leaders_sync_writes_the_generation_and_answers_all() -> None:
    rig = ClassicRig()
    leader, other, third = completing(rig, 3)
    began = rig.now_ms
    waiting = rig.sync_group(other, 1)
    assert waiting.waits
    rig.wait(50)
    led = rig.sync_group(leader, 1, parts={leader: b"one", other: b"two", "nobody": b"x"})
    assert led.answer == GroupSynced("consumer", "range", b"one")
    assert waiting.answer == GroupSynced("consumer", "range", b"two")
    assert rig.sync_group(third, 1).answer.assignment == b"", "I-118"
    value = rig.record
    assert (value.protocol_type, value.generation, value.protocol, value.leader) == (
        *("consumer", 1, "range"),
        leader,
    )
    assert value.current_state_timestamp_ms == WALL_MS + began, "of the state before, as Kafka's"
    assert [(m.member_id, m.subscription, m.assignment) for m in value.members] == [
        (leader, SUBSCRIPTION, b"one"),
        (other, SUBSCRIPTION, b"two"),
        (third, SUBSCRIPTION, b""),
    ]
    assert {(m.client_id, m.client_host) for m in value.members} == {("c", "/127.0.0.1")}
    assert {(m.session_timeout_ms, m.rebalance_timeout_ms) for m in value.members} == {
        (SESSION_MS, REBALANCE_MS)
    }
    assert (rig.state, len(rig.log)) == ("Stable", 1)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": ""}, 24),
        ({"group_id": "other"}, UnknownMemberId.code),
        ({"member_id": "nobody"}, UnknownMemberId.code),
        ({"instance_id": "i"}, UnknownMemberId.code),
        ({"generation": 0}, IllegalGeneration.code),
        ({"generation": 2}, IllegalGeneration.code),
        ({"protocol_type": "connect"}, InconsistentGroupProtocol.code),
        ({"protocol": "sticky"}, InconsistentGroupProtocol.code),
        ({"protocol": None}, InconsistentGroupProtocol.code),
        ({"protocol_type": None}, InconsistentGroupProtocol.code),
        ({"protocol": None, "protocol_type": None, "names_protocol": False}, 0),
    ],
)
@pytest.mark.parametrize("is_stable", [False, True])
def test_what_a_sync_says_is_checked(fields: dict[str, object], code: int, is_stable: bool) -> None:
    rig = ClassicRig()
    members = completing(rig)
    if is_stable:
        rig.settle(members)
    call = rig.sync_group(**({"member_id": members[1], "generation": 1} | fields))  # type: ignore[arg-type]
    if code == 0 and not is_stable:
        assert call.waits
    else:
        assert call.code == code


def test_a_rebalance_ends_the_syncs_that_wait() -> None:
    rig = ClassicRig()
    leader, other = completing(rig)
    waiting = rig.sync_group(other, 1)
    rig.join_group(leader, "range", "sticky")
    assert waiting.code == RebalanceInProgress.code
    assert rig.sync_group(other, 1).code == RebalanceInProgress.code
    assert rig.state == "PreparingRebalance"


def test_a_sync_that_is_sent_again_ends_the_one_that_waits() -> None:
    rig = ClassicRig()
    _, other = completing(rig)
    first = rig.sync_group(other, 1)
    second = rig.sync_group(other, 1)
    assert (first.code, second.waits) == (27, True)


def test_members_that_do_not_sync_are_removed() -> None:
    """I-121, history 19."""
    rig = ClassicRig()
    leader, other = completing(rig)
    waiting = rig.sync_group(other, 1)
    for _ in range(10):
        rig.wait(REBALANCE_MS // 10 - 1)
        assert rig.heartbeat(leader, 1) == 0, "its heartbeats do not keep it"
    rig.wait(100)
    assert waiting.code == RebalanceInProgress.code
    assert list(rig.group.members) == [other]
    assert joined_of(rig.join_group(other)).leader == other


def test_a_follower_that_does_not_sync_leaves_a_stable_group() -> None:
    rig = ClassicRig()
    leader, other = completing(rig)
    rig.sync_group(leader, 1, parts={leader: b"l", other: b"o"})
    for _ in range(10):
        rig.wait(REBALANCE_MS // 10)
        rig.heartbeat(leader, 1), rig.heartbeat(other, 1)
    assert list(rig.group.members) == [leader]
    assert rig.heartbeat(leader, 1) == 27


def test_the_wait_for_syncs_ends_with_the_last() -> None:
    rig = ClassicRig()
    rig.stable(2)
    assert SyncTimer("g") not in rig.timers


def test_a_sync_timer_that_is_late_does_nothing() -> None:
    rig = ClassicRig()
    members = completing(rig)
    rig.run(SyncEnded("g", 0))
    assert list(rig.group.members) == members
    rig.settle(members)
    rig.run(SyncEnded("g", 1))
    assert rig.state == "Stable"


def test_a_sync_that_a_rebalance_ends_leaves_a_full_session() -> None:
    rig = ClassicRig()
    leader, other = completing(rig)
    waiting = rig.sync_group(other, 1)
    rig.wait(SESSION_MS - 1)
    rig.join_group(leader, "range", "sticky")
    assert waiting.code == 27
    rig.wait(SESSION_MS - 1)
    assert rig.heartbeat(other, 1) == 27


def test_every_call_renews_the_session() -> None:
    """I-121."""
    rig = ClassicRig()
    leader, other = rig.stable(2)
    for call in (rig.sync_group, rig.heartbeat, rig.sync_group, lambda m, _: rig.join_group(m)):
        rig.wait(SESSION_MS - 1)
        call(other, 1)
        rig.heartbeat(leader, 1)
    rig.wait(SESSION_MS - 1)
    assert rig.heartbeat(other, 1) == 0


def test_assignments_that_no_batch_holds_begin_the_rebalance_again() -> None:
    rig = ClassicRig()
    leader, other = completing(rig)
    waiting = rig.sync_group(other, 1)
    rig.batch_bytes_max = 1_000
    led = rig.sync_group(leader, 1, parts={other: bytes(1_000)})
    assert (led.code, waiting.code) == (-1, RebalanceInProgress.code)
    assert "1000" in str(led.answer)
    assert (rig.state, rig.log) == ("PreparingRebalance", [])


@pytest.mark.parametrize(
    ("state", "code"),
    [("PreparingRebalance", 27), ("CompletingRebalance", 0), ("Stable", 0)],
)
def test_a_heartbeat_keeps_the_session_in_every_state(state: str, code: int) -> None:
    rig = ClassicRig()
    members = completing(rig)
    generation = 1
    if state != "CompletingRebalance":
        rig.settle(members)
    if state == "PreparingRebalance":
        rig.join_group(members[0])
    for _ in range(4):
        rig.wait(SESSION_MS - 1)
        assert rig.heartbeat(members[1], generation) == code
        if state != "PreparingRebalance":
            rig.heartbeat(members[0], generation)
    assert members[1] in rig.group.members


def test_what_a_heartbeat_says_is_checked() -> None:
    rig = ClassicRig()
    assert rig.heartbeat("a", 1) == UnknownMemberId.code
    (leader,) = rig.stable()
    assert rig.heartbeat("nobody", 1) == UnknownMemberId.code
    assert rig.heartbeat(leader, 2) == IllegalGeneration.code
    assert rig.heartbeat(leader, 1, "i") == UnknownMemberId.code
    rig.leave_group(leader)
    assert rig.heartbeat(leader, 1) == UnknownMemberId.code


def test_a_silent_member_is_removed() -> None:
    rig = ClassicRig()
    leader, other = rig.stable(2)
    rig.wait(SESSION_MS - 1)
    rig.heartbeat(leader, 1)
    rig.wait(1)
    assert list(rig.group.members) == [leader]
    assert rig.heartbeat(leader, 1) == 27
    assert other not in rig.group.members


def test_a_commit_keeps_the_session() -> None:
    """I-121."""
    rig = ClassicRig()
    rig.topic("t", 1)
    (member_id,) = rig.stable()
    for _ in range(3):
        rig.wait(SESSION_MS - 1)
        assert rig.commit(1, member_id=member_id, member_epoch=1) is None
    assert module.heartbeat is not None
