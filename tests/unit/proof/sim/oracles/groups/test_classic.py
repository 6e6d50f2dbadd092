"""What an oracle says of classic groups that contradict their log, their timers or their calls."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from strandline_broker.core.groups.classic.group import GroupState
from strandline_broker.core.groups.records import codec
from strandline_proof.sim.oracles.groups.classic import check_classic
from strandline_proof.sim.oracles.groups.fold import NOTHING, Fold, apply, read_decision
from strandline_proof.sim.oracles.groups.shards import classic_groups
from strandline_proof.sim.oracles.violation import Violation
from strandline_proto.batch import build_batch
from support.classic_rig import ClassicRig
from support.groups_rig import WALL_MS

if TYPE_CHECKING:
    from collections.abc import Collection


def folded(rig: ClassicRig) -> Fold:
    batch = build_batch(map(codec.encode, rig.log), timestamp_ms=WALL_MS)
    return apply(NOTHING, read_decision(batch))


def check(rig: ClassicRig, *, waiting: Collection[int] = ()) -> None:
    table = rig.groups.table
    groups = classic_groups(table)
    check_classic("here", folded(rig).classic, table.classic, groups, waiting=waiting)


def test_a_sound_group_is_sound_in_every_state() -> None:
    rig = ClassicRig()
    given = rig.new_id()
    check(rig)
    call = rig.join_group(given)
    check(rig, waiting=[call.number])
    rig.wait(200)
    check(rig)
    rig.settle([given])
    check(rig)
    rig.leave_group(given)
    check(rig)


def test_a_record_that_differs_is_named() -> None:
    rig = ClassicRig()
    rig.stable()
    table = rig.groups.table
    table.classic["g"] = replace(rig.record, generation=7)
    with pytest.raises(Violation, match="I-102"):
        check(rig)


def test_a_stable_group_without_its_record_is_named() -> None:
    rig = ClassicRig()
    (member_id,) = rig.stable()
    rig.group.members[member_id].assignment = b"other"
    with pytest.raises(Violation, match="I-119"):
        check(rig)
    rig = ClassicRig()
    rig.enter()
    rig.wait(200)
    rig.group.state = GroupState.STABLE
    with pytest.raises(Violation, match="I-119"):
        check(rig)


def test_a_leader_that_is_no_member_is_named() -> None:
    rig = ClassicRig()
    rig.stable()
    rig.group.leader = "nobody"
    with pytest.raises(Violation, match="I-115"):
        check(rig)


def test_an_id_that_is_handed_out_to_a_member_is_named() -> None:
    rig = ClassicRig()
    (member_id,) = rig.stable()
    rig.group.pending[member_id] = None
    with pytest.raises(Violation, match="I-120"):
        check(rig)


def test_calls_that_nobody_waits_for_are_named() -> None:
    rig = ClassicRig()
    _, call = rig.enter()
    for waiting in ([], [call.number, 99]):
        with pytest.raises(Violation, match="I-122"):
            check(rig, waiting=waiting)
