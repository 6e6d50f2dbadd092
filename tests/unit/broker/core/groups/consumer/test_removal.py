"""Members that are removed without having left."""

import pytest

from strandline_broker.core.groups.commands import (
    MemberToRemove,
    RemovedMember,
    RemoveMembers,
    SessionEnded,
)
from strandline_broker.core.groups.effects import Changed
from strandline_proto.errors import (
    FencedInstanceId,
    GroupIdNotFound,
    InvalidRequest,
    UnknownMemberId,
)
from support.groups_rig import GroupsRig


@pytest.fixture
def rig() -> GroupsRig:
    rig = GroupsRig()
    rig.topic("t", 3)
    rig.join("m", "t", instance_id="i")
    rig.join("n", "t")
    rig.join("o", "t")
    return rig


def test_a_session_that_ends_removes_its_member_once(rig: GroupsRig) -> None:
    ended = rig.run(SessionEnded("g", "m"))
    assert ended.effects[-1] == Changed("g", ("m", "n", "o"))
    assert rig.groups.table.consumer["g"].epoch == 4
    assert rig.run(SessionEnded("g", "m")).records == ()
    assert rig.run(SessionEnded("x", "m")).records == ()
    with pytest.raises(UnknownMemberId):
        rig.beat("m", 1)


def test_an_administrator_removes_members_by_either_id_in_one_step(rig: GroupsRig) -> None:
    wishes = (
        MemberToRemove(instance_id="i"),
        MemberToRemove("n"),
        MemberToRemove("x"),
        MemberToRemove("o", "i"),
        MemberToRemove(instance_id="j"),
        MemberToRemove(),
    )
    answer = rig.ask(RemoveMembers("g", wishes)).members
    assert answer[:2] == (RemovedMember("m", "i", None), RemovedMember("n", None, None))
    assert [type(member.error) for member in answer[2:]] == [
        UnknownMemberId,
        FencedInstanceId,
        UnknownMemberId,
        InvalidRequest,
    ]
    group = rig.groups.table.consumer["g"]
    assert (list(group.members), group.epoch) == (["o"], 4)


def test_all_are_removed_where_none_is_named(rig: GroupsRig) -> None:
    assert len(rig.ask(RemoveMembers("g", None)).members) == 3
    assert rig.groups.table.consumer["g"].state == "Empty"
    assert rig.ask(RemoveMembers("g", None)).members == ()
    with pytest.raises(GroupIdNotFound):
        rig.ask(RemoveMembers("x", None))
