"""The phases of a rebalance and their timers."""

from __future__ import annotations

import pytest

from strandline_broker.core.groups.classic import rebalance as module
from strandline_broker.core.groups.classic.commands import JoinEnded
from strandline_broker.core.groups.effects import JoinTimer
from strandline_broker.core.groups.settings import GroupSettings
from support.classic_rig import REBALANCE_MS, ClassicRig, joined_of


def test_the_first_rebalance_waits_for_more_members() -> None:
    rig = ClassicRig()
    (_, call) = rig.enter()
    rig.wait(99)
    assert call.waits
    rig.wait(1)
    assert joined_of(call).generation == 1


def test_members_that_come_prolong_it() -> None:
    rig = ClassicRig()
    calls = [rig.enter()[1]]
    for _ in range(3):
        rig.wait(99)
        calls.append(rig.enter()[1])
        rig.wait(1)
    assert all(call.waits for call in calls)
    rig.wait(99)
    assert all(call.waits for call in calls)
    rig.wait(1)
    assert {joined_of(call).generation for call in calls} == {1}


@pytest.mark.parametrize(("timeout_ms", "ends_ms"), [(1_000, 1_000), (250, 250), (60, 100)])
def test_it_is_prolonged_up_to_the_rebalance_timeout(timeout_ms: int, ends_ms: int) -> None:
    rig = ClassicRig()
    (_, first) = rig.enter(rebalance_timeout_ms=timeout_ms)
    while first.waits:
        rig.wait(10)
        if first.waits:
            rig.enter(rebalance_timeout_ms=timeout_ms)
        assert rig.now_ms <= ends_ms
    assert rig.now_ms == ends_ms


def test_without_a_delay_it_ends_at_once() -> None:
    rig = ClassicRig(GroupSettings(classic_initial_rebalance_delay_ms=0))
    (_, call) = rig.enter()
    rig.wait(0)
    assert joined_of(call).generation == 1


def test_a_handed_out_id_does_not_hold_up_the_first_rebalance() -> None:
    rig = ClassicRig()
    rig.new_id()
    (_, call) = rig.enter()
    rig.wait(100)
    assert joined_of(call).generation == 1


def test_a_first_rebalance_whose_member_leaves_ends_empty() -> None:
    rig = ClassicRig()
    member_id, call = rig.enter()
    rig.leave_group(member_id)
    assert call.code == 25
    assert (rig.state, rig.record.generation, rig.timers) == ("Empty", 1, {})


def test_a_later_rebalance_ends_with_the_last_join() -> None:
    rig = ClassicRig()
    leader, other = rig.stable(2)
    first = rig.join_group(leader)
    assert JoinTimer("g") in rig.timers
    second = rig.join_group(other)
    assert (joined_of(first).generation, joined_of(second).generation) == (2, 2)
    assert JoinTimer("g") not in rig.timers


def test_who_does_not_join_in_time_is_removed_and_a_leader_replaced() -> None:
    rig = ClassicRig()
    leader, other = rig.stable(2)
    _, call = rig.enter()
    rejoined = rig.join_group(other)
    for _ in range(10):
        rig.wait(REBALANCE_MS // 10)
        rig.heartbeat(leader, 1)
    assert joined_of(rejoined).leader == other
    assert len(joined_of(rejoined).members) == 2
    assert joined_of(call).members == ()
    assert leader not in rig.group.members


def test_a_group_whose_static_members_are_all_absent_waits_on() -> None:
    rig = ClassicRig()
    entered = rig.join_group(instance_id="a", session_timeout_ms=1_000_000)
    rig.wait(200)
    (static,) = rig.settle([joined_of(entered).member_id])
    dynamic, _ = rig.enter()
    rig.leave_group(dynamic)
    assert rig.state == "PreparingRebalance"
    rig.wait(REBALANCE_MS)
    assert (rig.state, rig.group.generation) == ("PreparingRebalance", 1)
    assert JoinTimer("g") in rig.timers
    back = rig.join_group(static, instance_id="a")
    assert joined_of(back).generation == 2


def test_a_short_rebalance_timeout_keeps_no_broker_busy() -> None:
    """The only member is static and absent, so no join phase can end."""
    rig = ClassicRig()
    entered = rig.join_group(instance_id="a", session_timeout_ms=1_000_000, rebalance_timeout_ms=1)
    rig.wait(100)
    rig.sync_group(joined_of(entered).member_id, 1)
    rig.leave_group(rig.enter(rebalance_timeout_ms=1)[0])
    began = rig.count
    rig.wait(10_000)
    assert rig.state == "PreparingRebalance"
    assert rig.count - began <= 11


def test_a_timer_that_is_late_changes_nothing() -> None:
    rig = ClassicRig()
    rig.stable()
    written = len(rig.log)
    rig.run(JoinEnded("g"))
    rig.run(JoinEnded("other"))
    assert (rig.state, len(rig.log)) == ("Stable", written)


def test_the_generation_rises_over_empty_times() -> None:
    rig = ClassicRig()
    (member_id,) = rig.stable()
    rig.leave_group(member_id)
    rig.stable()
    assert rig.record.generation == 3
    assert module.BATCH_OVERHEAD_BYTES > 61


def test_the_bound_of_a_records_size_holds() -> None:
    from strandline_broker.core.coordination.decision import Record
    from strandline_broker.core.groups.records import codec
    from strandline_broker.core.groups.records.classic_records import GroupMetadataKey
    from strandline_proto.batch import build_batch

    rig = ClassicRig()
    rig.stable(50)
    record = codec.encode(Record(GroupMetadataKey("g"), rig.record))
    batch = build_batch([record], timestamp_ms=1)
    bound = module.record_bytes("g", rig.record)
    assert len(batch) <= bound <= len(batch) + 128
