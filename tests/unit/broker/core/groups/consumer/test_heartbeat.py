"""What a heartbeat is answered, row by row (I-135, I-136)."""

from __future__ import annotations

from typing import Any

import pytest

from strandline_broker.core.coordination.decision import Record
from strandline_broker.core.groups.commands import (
    BeatAnswer,
    ConsumerBeat,
    DeleteGroup,
    RemoveMembers,
    SessionEnded,
    TopicsChanged,
)
from strandline_broker.core.groups.consumer.consumer import ConsumerGroup
from strandline_broker.core.groups.effects import (
    Changed,
    Compute,
    RebalanceTimer,
    SessionTimer,
    StartTimer,
)
from strandline_broker.core.groups.records.classic_records import (
    GroupMetadataKey,
)
from strandline_broker.core.groups.records.consumer_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from strandline_broker.core.groups.settings import GroupSettings
from strandline_proto.errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InvalidGroupId,
    InvalidRegularExpression,
    InvalidRequest,
    UnknownMemberId,
    UnreleasedInstanceId,
    UnsupportedAssignor,
)
from support.groups_rig import SESSION_MS, GroupsRig, classic_group, joining


@pytest.fixture
def rig() -> GroupsRig:
    rig = GroupsRig()
    rig.topic("t", 2)
    return rig


@pytest.mark.parametrize(
    ("fields", "error", "says"),
    [
        ({"group_id": ""}, InvalidRequest, "group_id is empty"),
        ({"group_id": "x" * 40_000}, InvalidGroupId, "32767"),
        ({"group_id": "a\nb"}, InvalidGroupId, "cannot be printed"),
        ({"instance_id": ""}, InvalidRequest, "instance_id is empty"),
        ({"rack_id": ""}, InvalidRequest, "rack_id is empty"),
        ({"rebalance_timeout_ms": -1}, InvalidRequest, "rebalance_timeout_ms"),
        ({"rebalance_timeout_ms": 0}, InvalidRequest, "rebalance_timeout_ms is 0"),
        ({"subscribed_topic_names": None}, InvalidRequest, "subscribed_topic_names"),
        ({"owned": None}, InvalidRequest, "topic_partitions"),
        ({"owned": {b"t" * 16: (0,)}}, InvalidRequest, "topic_partitions"),
        ({"member_epoch": -3}, InvalidRequest, "member_epoch is -3"),
        ({"member_epoch": -2}, InvalidRequest, "instance_id"),
        ({"server_assignor": "sticky"}, UnsupportedAssignor, "'sticky'.*uniform, range"),
        ({"subscribed_topic_regex": "("}, InvalidRegularExpression, "does not compile"),
        ({"member_epoch": 1}, GroupIdNotFound, "no group 'g'"),
        ({"member_epoch": -1}, GroupIdNotFound, "no group 'g'"),
        ({"member_epoch": -2, "instance_id": "i"}, GroupIdNotFound, "no group 'g'"),
    ],
)
def test_what_is_wrong_whoever_says_it(
    rig: GroupsRig, fields: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        rig.ask(joining("m", "t", **fields))
    assert rig.log == []
    assert rig.timers == {}


@pytest.mark.parametrize("epoch", [0, 3, -1])
def test_a_heartbeat_names_its_member(rig: GroupsRig, epoch: int) -> None:
    with pytest.raises(InvalidRequest, match="member_id is empty"):
        rig.ask(joining("", "t", member_epoch=epoch))


def test_the_first_member_has_everything_at_once_in_kafkas_order(rig: GroupsRig) -> None:
    assert rig.join("m", "t") == BeatAnswer("m", 1, 5000, rig.parts(t=(0, 1)))
    assert [type(record.key) for record in rig.log] == [
        ConsumerGroupMemberMetadataKey,
        ConsumerGroupMetadataKey,
        ConsumerGroupTargetAssignmentMemberKey,
        ConsumerGroupTargetAssignmentMetadataKey,
        ConsumerGroupCurrentMemberAssignmentKey,
    ]


def test_a_member_that_leaves_is_removed_in_kafkas_order(rig: GroupsRig) -> None:
    rig.join("m", "t")
    rig.join("n", "t")
    written = len(rig.log)
    assert rig.beat("m", -1) == BeatAnswer("m", -1, 0, None)
    assert [(type(record.key), record.value is None) for record in rig.log[written:]] == [
        (ConsumerGroupCurrentMemberAssignmentKey, True),
        (ConsumerGroupTargetAssignmentMemberKey, True),
        (ConsumerGroupMemberMetadataKey, True),
        (ConsumerGroupMetadataKey, False),
        (ConsumerGroupTargetAssignmentMemberKey, False),
        (ConsumerGroupTargetAssignmentMetadataKey, False),
    ]
    assert rig.groups.table.consumer["g"].epoch == 3
    assert not {SessionTimer("g", "m"), RebalanceTimer("g", "m")} & set(rig.timers)


@pytest.mark.parametrize(
    ("member", "epoch", "owned", "error"),
    [
        ("m", 2, None, None),
        ("m", 3, None, FencedMemberEpoch),
        ("m", 1, None, FencedMemberEpoch),
        ("m", 1, (0,), None),
        ("m", 1, (), None),
        ("m", 1, (0, 1), FencedMemberEpoch),
        ("n", 1, (), FencedMemberEpoch),
        ("o", 2, None, UnknownMemberId),
        ("o", -1, None, UnknownMemberId),
    ],
)
def test_the_epoch_of_a_heartbeat(
    rig: GroupsRig,
    member: str,
    epoch: int,
    owned: tuple[int, ...] | None,
    error: type[Exception] | None,
) -> None:
    """m has come from epoch 1 to 2 with partition 0; n has joined in epoch 2."""
    rig.join("m", "t")
    rig.join("n", "t")
    rig.beat("m", 1)
    rig.beat("m", 1, rig.parts(t=(0,)))
    owns = None if owned is None else rig.parts(t=owned) if owned else {}
    written = len(rig.log)
    if error is None:
        assert rig.beat(member, epoch, owns).member_epoch == 2
    else:
        with pytest.raises(error):
            rig.beat(member, epoch, owns)
    assert len(rig.log) == written


def test_who_joins_again_is_told_all_that_it_has(rig: GroupsRig) -> None:
    rig.join("m", "t")
    written = len(rig.log)
    again = rig.join("m", "t")
    assert (again.member_epoch, again.assignment) == (1, rig.parts(t=(0, 1)))
    assert len(rig.log) == written


def test_the_assignment_is_told_when_it_is_asked_for_or_has_changed(rig: GroupsRig) -> None:
    rig.join("m", "t")
    assert rig.beat("m", 1).assignment is None
    assert rig.beat("m", 1, rig.parts(t=(0, 1))).assignment is None
    full = rig.beat(
        "m", 1, rig.parts(t=(0, 1)), rebalance_timeout_ms=1, subscribed_topic_names=("t",)
    )
    assert full.assignment == rig.parts(t=(0, 1))
    rig.join("n", "t")
    assert rig.beat("m", 1).assignment == rig.parts(t=(0,))
    assert rig.beat("m", 1).assignment is None


def test_every_heartbeat_renews_the_session_and_a_refused_one_does_not(rig: GroupsRig) -> None:
    rig.group_configs["g"] = {"consumer.session.timeout.ms": "50000"}
    expected = StartTimer(SessionTimer("g", "m"), 50_000)
    assert expected in rig.run(joining("m", "t")).effects
    assert expected in rig.run(ConsumerBeat(group_id="g", member_id="m", member_epoch=1)).effects
    refused = rig.run(ConsumerBeat(group_id="g", member_id="m", member_epoch=7))
    assert refused.effects == ()
    rig.group_configs.clear()
    renewed = rig.run(ConsumerBeat(group_id="g", member_id="m", member_epoch=1)).effects
    assert renewed == (StartTimer(SessionTimer("g", "m"), SESSION_MS),)


def test_a_full_group_takes_nobody_else() -> None:
    rig = GroupsRig(GroupSettings(consumer_max_size=2))
    rig.join("m")
    rig.join("n")
    with pytest.raises(GroupMaxSizeReached, match="2 members"):
        rig.join("o")
    rig.join("n")
    rig.beat("m", -1)
    rig.join("o")


def test_a_subscription_that_changes_is_a_new_epoch_and_one_that_does_not_is_not(
    rig: GroupsRig,
) -> None:
    u = rig.topic("u", 1)
    rig.join("m", "t")
    same = rig.beat("m", 1, subscribed_topic_names=("t",), rebalance_timeout_ms=5)
    assert same.member_epoch == 1
    more = rig.beat("m", 1, subscribed_topic_names=("u", "t"))
    assert (more.member_epoch, more.assignment) == (2, {**rig.parts(t=(0, 1)), u: (0,)})
    less = rig.beat("m", 2, subscribed_topic_names=("u",))
    assert (less.member_epoch, less.assignment) == (2, {u: (0,)})
    done = rig.beat("m", 2, {u: (0,)})
    assert (done.member_epoch, done.assignment) == (3, None)


def test_the_assignor_that_most_members_wish_for_divides(rig: GroupsRig) -> None:
    rig.topic("t", 3)
    rig.topic("u", 3)
    rig.join("m", "t", "u", server_assignor="range")
    rig.join("n", "t", "u", server_assignor="range")
    targets = rig.groups.table.consumer["g"].targets
    assert dict(targets)["m"] == rig.parts(t=(0, 1), u=(0, 1))
    rig.beat("m", 1, server_assignor="uniform")
    assert rig.groups.table.consumer["g"].epoch == 3
    assert sum(map(len, targets["m"].values())) == 3


def test_topics_by_a_regular_expression_are_the_servers_to_find(rig: GroupsRig) -> None:
    rig.topic("tt", 1)
    rig.topic("u", 1)
    joined = rig.join("m", subscribed_topic_names=None, subscribed_topic_regex="t+")
    assert joined.assignment == rig.parts(t=(0, 1), tt=(0,))
    both = rig.beat("m", 1, subscribed_topic_names=("u",))
    assert both.assignment == rig.parts(t=(0, 1), tt=(0,), u=(0,))
    ended = rig.beat("m", 2, subscribed_topic_regex="")
    assert ended.assignment == rig.parts(u=(0,))
    assert dict(rig.groups.table.consumer["g"].regexes) == {}


def test_topics_that_come_to_match_are_in_the_next_target(rig: GroupsRig) -> None:
    rig.join("m", subscribed_topic_names=None, subscribed_topic_regex="t+")
    rig.topic("tt", 1)
    rig.run(TopicsChanged("g"))
    assert rig.beat("m", 1).assignment == rig.parts(t=(0, 1), tt=(0,))
    written = len(rig.log)
    rig.topic("u", 1)
    rig.run(TopicsChanged("g"))
    assert len(rig.log) == written


def test_a_classic_group_with_members_takes_none_of_the_consumer_protocol(rig: GroupsRig) -> None:
    rig.take([classic_group("a")])
    with pytest.raises(GroupIdNotFound, match=r"classic protocol.*consumer protocol"):
        rig.join("m", "t")
    rig.run(SessionEnded("g", "a"))
    assert rig.join("m", "t").member_epoch == 1
    assert rig.groups.table.classic == {}
    assert rig.log[2] == Record(GroupMetadataKey("g"), None)


def test_an_instance_is_one_members(rig: GroupsRig) -> None:
    rig.join("m", "t", instance_id="i")
    with pytest.raises(UnreleasedInstanceId, match=r"'i'.*'m'"):
        rig.join("n", "t", instance_id="i")
    with pytest.raises(FencedInstanceId, match=r"'i'.*'m'.*'n'"):
        rig.beat("n", 1, instance_id="i")
    with pytest.raises(UnknownMemberId, match="instance 'j'"):
        rig.beat("m", 1, instance_id="j")
    assert rig.beat("m", 1, instance_id="i").member_epoch == 1


def test_a_large_groups_target_is_asked_for_and_comes_later() -> None:
    rig = GroupsRig(GroupSettings(assign_at_once_max=5))
    rig.topic("t", 4)
    rig.join("m", "t")
    second = rig.run(joining("n", "t"))
    assert Compute("g") in second.effects
    assert rig.beat("n", 1).member_epoch == 1
    assert rig.assigned("n") == {}
    wanted = rig.groups.to_assign("g", rig.inputs())
    assert wanted is not None
    late = wanted.compute()
    rig.join("o", "t")
    assert rig.run(late).answer is False
    newer = rig.groups.to_assign("g", rig.inputs())
    assert newer is not None
    taken = rig.run(newer.compute())
    assert taken.answer is True
    assert taken.effects == (Changed("g", ("m", "n", "o")),)
    assert rig.run(newer.compute()).answer is False
    assert rig.groups.to_assign("g", rig.inputs()) is None
    assert isinstance(rig.groups.table.consumer["g"], ConsumerGroup)


def test_a_target_for_another_group_of_the_same_name_and_epoch_is_dropped() -> None:
    rig = GroupsRig(GroupSettings(assign_at_once_max=0))
    rig.topic("t", 4)
    rig.join("m", "t")
    rig.join("n", "t")
    wanted = rig.groups.to_assign("g", rig.inputs())
    assert wanted is not None
    rig.run(RemoveMembers("g", None))
    rig.ask(DeleteGroup("g"))
    rig.join("m", "t")
    rig.join("o", "t")
    assert rig.run(wanted.compute()).answer is False


@pytest.mark.parametrize(
    "fields",
    [
        {"rebalance_timeout_ms": 0},
        {"rebalance_timeout_ms": -7},
        {"server_assignor": "sticky"},
        {"subscribed_topic_regex": "("},
        {"subscribed_topic_names": ()},
    ],
)
def test_the_other_fields_of_a_member_that_leaves_mean_nothing(
    rig: GroupsRig, fields: dict[str, Any]
) -> None:
    """One client sends zero, others what they subscribed last."""
    rig.join("m", "t")
    assert rig.beat("m", -1, **fields) == BeatAnswer("m", -1, 0, None)
    assert rig.join("n", "t").member_epoch == 3
    assert rig.assigned("n") == rig.parts(t=(0, 1))
