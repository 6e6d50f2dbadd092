"""What people are shown of consumer groups."""

import pytest

from strandline_broker.core.groups.commands import (
    DescribedMember,
    DescribeGroup,
    ListedGroup,
    ListGroups,
)
from strandline_broker.core.groups.describe import CONSUMER
from strandline_broker.core.groups.settings import GroupSettings
from strandline_proto.errors import GroupIdNotFound
from support.groups_rig import GroupsRig


def state(rig: GroupsRig) -> str:
    listed = rig.ask(ListGroups()).groups
    assert listed[0].group_type == CONSUMER
    assert listed[0] == ListedGroup("g", "consumer", listed[0].state, "Consumer")
    return str(listed[0].state)


def test_a_groups_state_follows_its_members() -> None:
    rig = GroupsRig(GroupSettings(assign_at_once_max=0))
    rig.topic("t", 2)
    rig.join("m", "t")
    assert state(rig) == "Stable"
    rig.join("n", "t")
    assert state(rig) == "Assigning"
    wanted = rig.groups.to_assign("g", rig.inputs())
    assert wanted is not None
    rig.run(wanted.compute())
    assert state(rig) == "Reconciling"
    rig.beat("m", 1, rig.parts(t=(0,)))
    assert state(rig) == "Reconciling"
    rig.beat("n", 1)
    assert state(rig) == "Stable"
    rig.beat("m", -1)
    rig.beat("n", -1)
    assert state(rig) in ("Empty",)


def test_a_group_is_described_with_what_each_member_has_and_is_to_have() -> None:
    rig = GroupsRig()
    rig.topic("t", 2)
    rig.join("m", "t", instance_id="i", rack_id="r")
    rig.join("n", "t")
    shown = rig.ask(DescribeGroup("g"))
    assert (shown.state, shown.group_epoch, shown.assignment_epoch) == ("Reconciling", 2, 2)
    assert (shown.assignor, shown.protocol_type) == ("uniform", "consumer")
    assert shown.members[0] == DescribedMember(
        member_id="m",
        instance_id="i",
        rack_id="r",
        member_epoch=1,
        client_id="c",
        client_host="/127.0.0.1",
        subscribed_topic_names=("t",),
        subscribed_topic_regex=None,
        assignment=rig.parts(t=(0, 1)),
        target=rig.parts(t=(0,)),
    )
    with pytest.raises(GroupIdNotFound, match="no group 'x'"):
        rig.ask(DescribeGroup("x"))
