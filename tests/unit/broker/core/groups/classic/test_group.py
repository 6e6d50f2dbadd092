"""The volatile part of a classic group: what comes of a record, and what does not."""

from __future__ import annotations

from dataclasses import replace

from strandline_broker.core.groups.classic.group import GroupState, from_value, renamed
from strandline_broker.core.groups.effects import SessionTimer, StartTimer
from support.classic_rig import ClassicRig, joined_of
from support.groups_rig import classic_group, durable


def test_a_loaded_group_is_stable_with_its_members() -> None:
    value = classic_group("a", "b").value
    group = from_value("g", value)
    assert (group.state, group.generation, group.leader) == (GroupState.STABLE, 3, "a")
    assert group.value() == value
    assert not group.is_void


def test_a_loaded_group_without_members_is_empty() -> None:
    value = replace(classic_group().value, protocol=None, leader=None)
    group = from_value("g", value)
    assert (group.state, group.is_void) == (GroupState.EMPTY, True)
    assert group.value() == value


def test_only_the_protocol_of_the_generation_is_known_after_a_load() -> None:
    rig = ClassicRig()
    (first, _), (second, _) = rig.enter("range", "sticky"), rig.enter("range", "sticky")
    rig.wait(200)
    rig.settle([first, second])
    rig.fail_over()
    assert rig.join_group("", "sticky").code == 23
    assert rig.heartbeat(second, 1) == 0
    assert rig.join_group(second, "range", "sticky").waits, "more than the record has is a change"


def test_members_go_on_after_a_failover() -> None:
    rig = ClassicRig()
    leader, other = rig.stable(2)
    rig.fail_over()
    assert set(rig.timers.values()) == {
        StartTimer(SessionTimer("g", leader), 10_000),
        StartTimer(SessionTimer("g", other), 10_000),
    }
    assert rig.sync_group(other, 1).answer.assignment == b"1"
    assert joined_of(rig.join_group(other)).generation == 1


def test_a_failover_in_the_middle_of_a_rebalance_loses_nothing_written() -> None:
    """History 18."""
    rig = ClassicRig()
    leader, other = rig.stable(2)
    rig.join_group(leader), rig.join_group(other)
    assert (rig.state, rig.group.generation) == ("CompletingRebalance", 2)
    rig.fail_over()
    assert (rig.state, rig.group.generation) == ("Stable", 1)
    assert rig.heartbeat(leader, 2) == 22
    calls = rig.join_group(leader), rig.join_group(other)
    assert {joined_of(call).generation for call in calls} == {2}
    rig.settle([leader, other])
    assert rig.record.generation == 2


def test_handed_out_ids_and_calls_leave_no_record() -> None:
    rig = ClassicRig()
    rig.new_id()
    rig.enter()
    assert durable(rig.groups) == durable(rig.load([]))


def test_a_record_with_an_instance_twice_is_read() -> None:
    value = classic_group("a", "b").value
    members = tuple(replace(m, group_instance_id="i") for m in value.members)
    group = from_value("g", replace(value, members=members))
    assert group.instances == {"i": "b"}
    group.remove("a")
    assert group.instances == {"i": "b"}


def test_a_record_is_renamed_for_a_static_member_alone() -> None:
    value = classic_group("a", "b").value
    static = replace(
        value, members=(replace(value.members[0], group_instance_id="i"), value.members[1])
    )
    after = renamed(static, "i", "new")
    assert after is not None
    assert (after.leader, [m.member_id for m in after.members]) == ("new", ["new", "b"])
    assert renamed(static, "i", "a") is None
    assert renamed(value, "i", "new") is None
    assert renamed(None, "i", "new") is None
