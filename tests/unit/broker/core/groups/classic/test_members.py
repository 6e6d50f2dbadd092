"""The admission of commits by classic groups (§3.4 of the reference)."""

from __future__ import annotations

from typing import Any

import pytest

from strandline_broker.core.groups.classic import members as module
from strandline_proto.errors import WireError
from support.classic_rig import ClassicRig, joined_of


def commit(rig: ClassicRig, **fields: Any) -> int:
    rig.topic("t", 1)
    try:
        assert rig.commit(1, **fields) is None
    except WireError as error:
        return error.code
    return 0


def test_a_group_without_members_takes_commits_of_no_generation() -> None:
    rig = ClassicRig()
    assert commit(rig) == 0
    given = rig.new_id()
    assert commit(rig) == 0
    assert commit(rig, member_id=given, member_epoch=0) == 25
    assert commit(rig, member_id=given) == 0


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, 25),
        ({"member_id": "nobody"}, 25),
        ({"member_id": "nobody", "member_epoch": 1}, 25),
        ({"member_epoch": 1}, 25),
        ({"instance_id": "a"}, 82),
        ({"member_id": "a"}, 22),
        ({"member_id": "a", "member_epoch": 0}, 22),
        ({"member_id": "a", "member_epoch": 2}, 22),
        ({"member_id": "a", "member_epoch": 1}, 0),
        ({"member_id": "a", "member_epoch": 1, "instance_id": "a"}, 0),
        ({"member_id": "a", "member_epoch": 1, "instance_id": "b"}, 25),
        ({"member_id": "other", "member_epoch": 1, "instance_id": "a"}, 82),
        ({"member_id": "a", "member_epoch": 1, "knows_member_epochs": False}, 0),
    ],
)
def test_a_stable_group_takes_those_of_its_members(fields: dict[str, Any], code: int) -> None:
    rig = ClassicRig()
    call = rig.join_group(instance_id="a")
    rig.wait(200)
    (member_id,) = rig.settle([joined_of(call).member_id])
    if fields.get("member_id") == "a":
        fields = fields | {"member_id": member_id}
    assert commit(rig, **fields) == code


@pytest.mark.parametrize(
    ("state", "code"), [("PreparingRebalance", 0), ("CompletingRebalance", 27)]
)
def test_commits_during_a_rebalance(state: str, code: int) -> None:
    rig = ClassicRig()
    leader, other = rig.stable(2)
    rig.join_group(leader)
    if state == "CompletingRebalance":
        rig.join_group(other)
    assert rig.state == state
    generation = rig.group.generation
    assert commit(rig, member_id=other, member_epoch=generation) == code
    assert commit(rig, member_id=other, member_epoch=generation - 1) == 22
    assert module.admit_commit is not None
