"""JoinGroup: who is admitted, who waits, and who gets the present generation again."""

from __future__ import annotations

from typing import Any

import pytest

from strandline_broker.core.groups.classic import join as module
from strandline_broker.core.groups.classic.commands import JoinProtocol, MemberIdGiven
from strandline_broker.core.groups.classic.group import GroupState
from strandline_broker.core.groups.effects import SyncTimer
from strandline_broker.core.groups.settings import GroupSettings
from strandline_proto.errors import (
    FencedInstanceId,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    RebalanceInProgress,
    UnknownMemberId,
    WireError,
)
from support.classic_rig import (
    REBALANCE_MS,
    SESSION_MS,
    SUBSCRIPTION,
    ClassicRig,
    code_of,
    join_command,
    joined_of,
)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": ""}, 24),
        ({"session_timeout_ms": 5_999}, 26),
        ({"session_timeout_ms": 1_800_001}, 26),
        ({"session_timeout_ms": 6_000}, 0),
        ({"session_timeout_ms": 1_800_000}, 0),
        ({"member_id": "nobody"}, 25),
        ({"protocols": ()}, 23),
        ({"protocol_type": ""}, 23),
        ({"client_id": "c" * 32_767}, 42),
        ({"instance_id": "i" * 32_731}, 42),
        ({"client_id": "c" * (32_767 - 37)}, 0),
        ({"protocols": (JoinProtocol("p" * 32_768, b""),)}, 42),
        ({"protocol_type": "é" * 16_384}, 42),
    ],
)
def test_what_no_group_accepts_is_refused(fields: dict[str, Any], code: int) -> None:
    rig = ClassicRig()
    call = rig.join_group(**fields)
    assert (call.code, rig.log) == (code, [])
    assert ("g" in rig.groups.group_ids()) == (code == 0)


def test_a_new_member_first_gets_an_id_and_then_joins_with_it() -> None:
    rig = ClassicRig()
    given = rig.join_group(client_id="kafka-python").answer
    assert isinstance(given, MemberIdGiven)
    assert given.member_id.startswith("kafka-python-")
    assert len(given.member_id) == len("kafka-python-") + 36
    assert (rig.state, list(rig.group.pending)) == ("Empty", [given.member_id])
    call = rig.join_group(given.member_id)
    assert call.waits
    rig.wait(100)
    answer = joined_of(call)
    assert (answer.generation, answer.leader, answer.member_id) == (
        1,
        given.member_id,
        given.member_id,
    )
    assert (answer.protocol_type, answer.protocol) == ("consumer", "range")
    assert [(m.member_id, m.instance_id, m.metadata) for m in answer.members] == [
        (given.member_id, None, SUBSCRIPTION)
    ]
    assert rig.log == [], "a generation is written with its assignment"


def test_an_old_client_joins_without_an_id() -> None:
    rig = ClassicRig()
    call = rig.join_group(requires_known_member_id=False)
    assert call.waits
    rig.wait(100)
    assert joined_of(call).member_id == joined_of(call).leader


def test_a_follower_gets_no_members() -> None:
    rig = ClassicRig()
    (_, first), (second_id, second) = rig.enter(), rig.enter()
    rig.wait(200)
    assert len(joined_of(first).members) == 2
    assert (joined_of(second).members, joined_of(second).member_id) == ((), second_id)
    assert joined_of(second).leader == joined_of(first).member_id


def test_an_id_that_is_not_used_ends_with_its_session() -> None:
    rig = ClassicRig()
    unused = rig.new_id()
    rig.wait(SESSION_MS - 1)
    assert unused in rig.group.pending
    rig.wait(1)
    assert "g" not in rig.groups.group_ids()
    assert rig.join_group(unused).code == UnknownMemberId.code


def test_the_join_phase_waits_for_handed_out_ids() -> None:
    """I-117."""
    rig = ClassicRig()
    (leader,) = rig.stable()
    late = rig.new_id()
    call = rig.join_group(leader)
    assert call.waits
    rig.wait(SESSION_MS - 1)
    assert call.waits, "the session of a member that waits goes on"
    rig.join_group(late)
    assert joined_of(call).generation == 2


def test_a_handed_out_id_that_dies_does_not_hold_up_the_group() -> None:
    """I-120."""
    rig = ClassicRig()
    (leader,) = rig.stable()
    rig.new_id()
    call = rig.join_group(leader)
    rig.wait(SESSION_MS)
    assert joined_of(call).generation == 2


def test_a_handed_out_id_is_no_static_members() -> None:
    rig = ClassicRig()
    given = rig.new_id()
    assert rig.join_group(given, instance_id="i").code == 42


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance", "Stable"])
@pytest.mark.parametrize("who", ["leader", "follower"])
@pytest.mark.parametrize("change", [False, True])
def test_a_known_member_joins_again(state: str, who: str, change: bool) -> None:
    """§3.1 of the reference, row by row."""
    rig = ClassicRig()
    members = rig.stable(2)
    if state != "Stable":
        first, second = rig.join_group(members[0]), rig.join_group(members[1])
        assert joined_of(first).generation == joined_of(second).generation == 2
    if state == "PreparingRebalance":
        rig.settle(members)
        rig.join_group(members[0])
    assert rig.state == state
    written, generation = len(rig.log), rig.group.generation
    member_id = members[who == "follower"]
    call = rig.join_group(member_id, *(("range", "roundrobin") if change else ("range",)))
    assert len(rig.log) == written
    if state == "PreparingRebalance":
        if who == "follower":
            assert joined_of(call).generation == generation + 1
        else:
            assert call.waits
    elif not change and (state == "CompletingRebalance" or who == "follower"):
        assert joined_of(call).generation == generation
        assert len(joined_of(call).members) == (2 if who == "leader" else 0)
        assert rig.state == state
    else:
        assert call.waits
        assert rig.state == "PreparingRebalance"


def test_a_join_that_is_sent_again_ends_the_one_that_waits() -> None:
    rig = ClassicRig()
    member_id, call = rig.enter()
    again = rig.join_group(member_id)
    assert (call.code, again.waits) == (RebalanceInProgress.code, True)
    rig.wait(200)
    assert joined_of(again).generation == 1


def test_protocols_must_be_shared_by_all() -> None:
    rig = ClassicRig()
    rig.enter("range", "roundrobin")
    rig.enter("sticky", "roundrobin")
    assert rig.join_group("", "range").code == InconsistentGroupProtocol.code
    assert rig.join_group("", "roundrobin", protocol_type="connect").code == 23
    rig.wait(200)
    assert rig.group.protocol == "roundrobin"


def test_the_same_protocol_twice_counts_once() -> None:
    rig = ClassicRig()
    protocols = (JoinProtocol("range", b"1"), JoinProtocol("range", b"2"))
    rig.join_group(rig.new_id(), protocols=protocols)
    assert rig.join_group("", "range").code == 0
    rig.wait(200)
    assert next(iter(rig.group.members.values())).metadata("range") == b"1"


@pytest.mark.parametrize(
    ("preferences", "chosen"),
    [
        (("ab", "ba", "ba"), "b"),
        (("ba", "ab", "ab"), "a"),
        (("ba", "ab"), "a"),
        (("ab", "ba"), "a"),
    ],
)
def test_the_protocol_with_most_votes_is_chosen(preferences: tuple[str, ...], chosen: str) -> None:
    """A tie goes to the smaller name."""
    rig = ClassicRig()
    for preference in preferences:
        rig.enter(*preference)
    rig.wait(300)
    assert rig.group.protocol == chosen


# Limits of the size


def test_handed_out_ids_count_for_the_size() -> None:
    """I-120."""
    rig = ClassicRig(GroupSettings(classic_max_size=2))
    one, two = rig.new_id(), rig.new_id()
    assert rig.join_group().code == GroupMaxSizeReached.code
    assert rig.join_group(one).waits
    assert rig.join_group(two).waits
    assert rig.join_group().code == 81
    rig.wait(200)
    assert rig.join_group().code == 81
    rig.settle([one, two])
    assert rig.join_group().code == 81
    rig.leave_group(two)
    assert rig.join_group().code == 0


def test_a_smaller_limit_refuses_the_members_that_join_last() -> None:
    rig = ClassicRig()
    members = rig.stable(3)
    rig.settings = GroupSettings(classic_max_size=2)
    rig.fail_over()
    calls = [rig.join_group(member_id) for member_id in members]
    assert [call.waits for call in calls[:2]] == [False, False]
    assert [joined_of(call).generation for call in calls[:2]] == [2, 2]
    assert (calls[2].code, len(rig.group.members)) == (81, 2)


def test_a_static_member_finds_its_place_in_a_full_group() -> None:
    rig = ClassicRig(GroupSettings(classic_max_size=1))
    call = rig.join_group(instance_id="i")
    rig.wait(200)
    rig.settle([joined_of(call).member_id])
    assert rig.join_group(instance_id="i").code == 0
    assert rig.join_group(instance_id="j").code == 81


# Static members


def static_group(rig: ClassicRig, *instances: str) -> list[str]:
    calls = [rig.join_group(instance_id=instance) for instance in instances]
    rig.wait(200)
    members = [joined_of(call).member_id for call in calls]
    rig.settle(list(members))
    return members


def test_a_static_member_joins_at_once_under_an_id_of_its_instance() -> None:
    rig = ClassicRig()
    (member_id,) = static_group(rig, "worker-1")
    assert member_id.startswith("worker-1-")
    assert rig.record.members[0].group_instance_id == "worker-1"


@pytest.mark.parametrize("who", [0, 1])
@pytest.mark.parametrize("skips", [False, True])
def test_a_static_member_comes_back_to_a_stable_group(who: int, skips: bool) -> None:
    """Its part and the generation stay; a leader is told to assign nothing (I-125)."""
    rig = ClassicRig()
    members = static_group(rig, "a", "b")
    part = rig.record.members[who].assignment
    call = rig.join_group(
        instance_id="ab"[who], skips_assignment=skips, session_timeout_ms=SESSION_MS + 1
    )
    answer = joined_of(call)
    assert (rig.state, answer.generation) == ("Stable", 1)
    assert answer.member_id != members[who]
    is_leader = who == 0
    assert answer.skip_assignment == (skips and is_leader)
    assert len(answer.members) == (2 if skips and is_leader else 0)
    assert (answer.leader == answer.member_id) == (skips and is_leader)
    written = rig.record.members[who]
    assert (written.member_id, written.assignment) == (answer.member_id, part)
    assert written.session_timeout_ms == SESSION_MS + 1
    assert rig.record.leader == (answer.member_id if is_leader else members[0])
    assert rig.sync_group(answer.member_id, 1).answer.assignment == part
    for code in (
        rig.heartbeat(members[who], 1, "ab"[who]),
        rig.sync_group(members[who], 1, instance_id="ab"[who]).code,
        rig.join_group(members[who], instance_id="ab"[who]).code,
        code_of(_commit(rig, members[who], "ab"[who])),
    ):
        assert code == FencedInstanceId.code


def _commit(rig: ClassicRig, member_id: str, instance_id: str) -> object:
    rig.topic("t", 1)
    try:
        return rig.commit(1, member_id=member_id, member_epoch=1, instance_id=instance_id)
    except WireError as error:
        return error


def test_a_static_member_that_returns_before_its_sync_still_has_to_sync() -> None:
    rig = ClassicRig()
    calls = [rig.join_group(instance_id=instance) for instance in ("a", "b")]
    rig.wait(200)
    leader, other = (joined_of(call).member_id for call in calls)
    rig.sync_group(leader, 1, parts={leader: b"l", other: b"o"})
    new = joined_of(rig.join_group(instance_id="b")).member_id
    assert rig.sync_group(new, 1).answer.assignment == b"o"
    assert SyncTimer("g") not in rig.timers
    assert rig.state == "Stable"


def test_a_static_member_with_another_choice_of_protocol_rebalances() -> None:
    rig = ClassicRig()
    call = rig.join_group("", "range", "roundrobin", instance_id="a")
    rig.wait(200)
    rig.settle([joined_of(call).member_id])
    assert rig.join_group("", "roundrobin", "range", instance_id="a").answer.generation == 2


@pytest.mark.parametrize("state", [GroupState.PREPARING, GroupState.COMPLETING])
def test_the_fence_of_a_static_member_is_durable_in_every_state(state: GroupState) -> None:
    """The record of the last generation gets the new id before any answer has it (I-124)."""
    rig = ClassicRig()
    members = static_group(rig, "a", "b")
    rig.join_group(members[0], instance_id="a")
    old = rig.join_group(members[1], instance_id="b")
    assert rig.state == "CompletingRebalance"
    if state is GroupState.PREPARING:
        rig.settle(members)
        old = rig.join_group(members[0], "range", "sticky", instance_id="a")
    assert rig.group.state is state
    who = 0 if state is GroupState.PREPARING else 1
    generation, part = rig.record.generation, rig.record.members[who].assignment
    call = rig.join_group(instance_id="ab"[who])
    assert call.waits
    assert rig.state == "PreparingRebalance"
    if state is GroupState.PREPARING:
        assert old.code == FencedInstanceId.code
    new = rig.group.instances["ab"[who]]
    assert new != members[who]
    assert (rig.record.generation, rig.record.members[who].member_id) == (generation, new)
    assert rig.record.members[who].assignment == part
    rig.fail_over()
    assert rig.heartbeat(members[who], generation, "ab"[who]) == FencedInstanceId.code
    assert rig.heartbeat(new, generation, "ab"[who]) == 0


@pytest.mark.parametrize("goes", ["leaves", "session ends"])
def test_a_static_member_that_comes_back_after_its_removal_is_not_fenced(goes: str) -> None:
    """The removal is in no record before the next assignment, but the new id is (I-124)."""
    rig = ClassicRig()
    members = static_group(rig, "a", "b")
    part = rig.record.members[0].assignment
    if goes == "leaves":
        assert rig.leave_group(members[0]) == [0]
    else:
        rig.wait(SESSION_MS // 2)
        rig.heartbeat(members[1], 1, "b")
        rig.wait(SESSION_MS // 2)
    assert list(rig.group.members) == [members[1]]
    call = rig.join_group(instance_id="a")
    rig.join_group(members[1], instance_id="b")
    new = joined_of(call).member_id
    assert rig.state == "CompletingRebalance"
    rig.fail_over()
    assert [m.member_id for m in rig.record.members] == [new, members[1]]
    assert (rig.record.leader, rig.record.members[0].assignment) == (new, part)
    assert rig.heartbeat(new, 1, "a") == 0
    assert rig.heartbeat(members[0], 1, "a") == FencedInstanceId.code
    assert rig.join_group(new, instance_id="a").waits


def test_a_static_member_that_is_new_since_the_record_changes_no_record() -> None:
    rig = ClassicRig()
    rig.join_group(instance_id="a")
    assert rig.join_group(instance_id="a").waits
    assert (rig.log, len(rig.group.members)) == ([], 1)


def test_an_absent_static_member_stays_over_the_rebalance_timeout() -> None:
    """I-117."""
    rig = ClassicRig()
    first, absent = static_group(rig, "a", "b")
    call = rig.join_group(first, instance_id="a", session_timeout_ms=1_000_000)
    rig.group.members[absent].session_timeout_ms = 1_000_000
    rig.deadlines = {key: at for key, at in rig.deadlines.items() if absent not in str(key)}
    rig.wait(REBALANCE_MS)
    assert {m.member_id for m in joined_of(call).members} == {first, absent}


def test_metadata_that_no_batch_holds_is_refused_without_a_trace() -> None:
    rig = ClassicRig()
    members = static_group(rig, "a")
    rig.batch_bytes_max = 2_000
    big = (JoinProtocol("range", bytes(2_000)),)
    assert rig.join_group(instance_id="a", protocols=big).code == -1
    assert list(rig.group.members) == members


def test_texts_are_checked_before_a_group_is_made() -> None:
    module.check_join(join_command(), GroupSettings())
