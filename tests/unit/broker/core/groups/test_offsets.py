"""Committed offsets: who may do what with them (I-144), and what is kept."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from strandline_broker.core.coordination.decision import Record
from strandline_broker.core.groups.commands import (
    CommitOffsets,
    DeletedOffset,
    DeleteGroup,
    DeleteOffsets,
    FetchOffsets,
    PartitionCommit,
    TopicPartitionsRef,
    TopicRef,
    TopicsChanged,
)
from strandline_broker.core.groups.records.offset_records import OffsetCommitKey, OffsetCommitValue
from strandline_broker.core.groups.settings import GroupSettings
from strandline_proto.errors import (
    FencedInstanceId,
    GroupIdNotFound,
    GroupSubscribedToTopic,
    IllegalGeneration,
    InvalidGroupId,
    InvalidRequest,
    NonEmptyGroup,
    OffsetMetadataTooLarge,
    StaleMemberEpoch,
    UnknownMemberId,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedVersion,
    WireError,
)
from strandline_proto.ids import LeaderEpoch, Offset
from support.groups_rig import WALL_MS, GroupsRig, classic_group, topic_id

if TYPE_CHECKING:
    from strandline_broker.core.groups.records.classic_records import GroupMetadataValue


@pytest.fixture
def rig() -> GroupsRig:
    rig = GroupsRig()
    rig.topic("t", 4)
    return rig


def refs(*partitions: int, topic: str = "t") -> tuple[TopicPartitionsRef, ...]:
    return (TopicPartitionsRef(TopicRef(name=topic), partitions),)


def test_a_commit_is_read_as_it_was_committed(rig: GroupsRig) -> None:
    wishes = (
        PartitionCommit(TopicRef(rig.id_of("t")), 1, 7, leader_epoch=3, metadata="né"),
        PartitionCommit(TopicRef(name="t"), 0, 0),
    )
    assert rig.ask(CommitOffsets(group_id="g", partitions=wishes)).errors == (None, None)
    found = rig.fetch(partition=1)
    assert (found.offset, found.leader_epoch, found.metadata) == (7, 3, "né")
    assert (found.topic, found.topic_id, found.error) == ("t", rig.id_of("t"), None)
    assert rig.fetch(partition=0).offset == 0
    assert rig.fetch(partition=2).offset == -1
    assert rig.log[0].value == OffsetCommitValue(
        offset=Offset(7),
        leader_epoch=LeaderEpoch(3),
        metadata="né",
        commit_timestamp_ms=WALL_MS,
        topic_id=rig.id_of("t"),
    )
    everything = rig.ask(FetchOffsets(group_id="g")).offsets
    assert [(found.partition, found.offset) for found in everything] == [(0, 0), (1, 7)]


def test_each_partition_has_its_own_error_and_the_others_are_committed() -> None:
    rig = GroupsRig(GroupSettings(offset_metadata_max_bytes=4))
    rig.topic("t", 2)
    nobody = TopicRef(topic_id("x"))
    wishes = (
        PartitionCommit(TopicRef(name="t"), 0, 1, metadata="12345"),
        PartitionCommit(TopicRef(name="t"), 1, 1, metadata="1234"),
        PartitionCommit(TopicRef(name="t"), 2, 1),
        PartitionCommit(TopicRef(name="u"), 0, 1),
        PartitionCommit(nobody, 0, 1),
        PartitionCommit(TopicRef(name="t"), 0, -1),
    )
    errors = rig.ask(CommitOffsets(group_id="g", partitions=wishes)).errors
    assert [None if error is None else type(error) for error in errors] == [
        OffsetMetadataTooLarge,
        None,
        UnknownTopicOrPartition,
        UnknownTopicOrPartition,
        UnknownTopicId,
        InvalidRequest,
    ]
    assert [record.key for record in rig.log] == [OffsetCommitKey("g", "t", 1)]


def test_a_commit_one_partition_named_twice_is_one_record_the_last(rig: GroupsRig) -> None:
    wishes = tuple(PartitionCommit(TopicRef(name="t"), 0, n) for n in (5, 6))
    rig.ask(CommitOffsets(group_id="g", partitions=wishes))
    assert len(rig.log) == 1
    assert rig.fetch().offset == 6


MEMBER = {"member_id": "m", "member_epoch": 1}


@pytest.mark.parametrize(
    ("group", "who", "error"),
    [
        ("none", {}, None),
        ("none", {"member_epoch": 3}, GroupIdNotFound),
        ("none", {"member_epoch": 3, "knows_member_epochs": False}, IllegalGeneration),
        ("none", {"group_id": ""}, InvalidGroupId),
        ("simple", {}, None),
        ("classic empty", {}, None),
        ("classic empty", {"member_id": "a", "member_epoch": 3}, UnknownMemberId),
        ("classic", {}, UnknownMemberId),
        ("classic", {"member_id": "a", "member_epoch": 3}, None),
        ("classic", {"member_id": "a", "member_epoch": 2}, IllegalGeneration),
        ("classic", {"member_id": "a", "member_epoch": 4}, IllegalGeneration),
        ("classic", {"member_id": "b", "member_epoch": 3}, UnknownMemberId),
        ("classic", {"member_id": "b", "member_epoch": 3, "instance_id": "i"}, FencedInstanceId),
        ("consumer empty", {}, None),
        ("consumer empty", MEMBER, UnknownMemberId),
        ("consumer", {}, UnknownMemberId),
        ("consumer", {"member_id": "x", "member_epoch": 1}, UnknownMemberId),
        ("consumer", {"member_id": "m", "member_epoch": -1}, StaleMemberEpoch),
        ("consumer", MEMBER, None),
        ("consumer", {**MEMBER, "knows_member_epochs": False}, UnsupportedVersion),
        ("consumer", {"member_id": "m", "member_epoch": 2}, StaleMemberEpoch),
        ("consumer", {**MEMBER, "instance_id": "i"}, None),
        ("consumer", {"member_id": "x", "instance_id": "i"}, FencedInstanceId),
    ],
)
def test_who_may_commit(
    rig: GroupsRig, group: str, who: dict[str, Any], error: type[WireError] | None
) -> None:
    make(rig, group)
    written = len(rig.log)
    if error is None:
        assert rig.commit(5, **who) is None
        assert len(rig.log) == written + 1
        assert rig.fetch().offset == 5
        return
    try:
        refused = rig.commit(5, **who)
    except WireError as whole:
        refused = whole
    assert type(refused) is error
    assert len(rig.log) == written


def make(rig: GroupsRig, group: str) -> None:
    if group == "simple":
        rig.commit(1)
    elif group == "classic empty":
        rig.take([classic_group()])
    elif group == "classic":
        key, value = classic_group("a").key, classic_group("a").value
        stored: GroupMetadataValue = value
        members = tuple(replace(member, group_instance_id="i") for member in stored.members)
        rig.take([Record(key, replace(stored, members=members))])
    elif group.startswith("consumer"):
        rig.join("m", "t", instance_id="i")
        if group == "consumer empty":
            rig.beat("m", -1)


def test_what_must_be_given_up_may_still_be_committed(rig: GroupsRig) -> None:
    rig.join("m", "t")
    rig.join("n", "t")
    rig.beat("m", 1)
    assert rig.assigned("m") == rig.parts(t=(0, 1))
    assert rig.commit(4, partition=3, member_id="m", member_epoch=1) is None
    rig.beat("m", 1, rig.parts(t=(0, 1)))
    late = rig.commit(5, partition=3, member_id="m", member_epoch=1)
    assert isinstance(late, StaleMemberEpoch)


@pytest.mark.parametrize(
    ("who", "error"),
    [
        ({}, None),
        (MEMBER, None),
        ({"member_id": "x", "member_epoch": 1}, UnknownMemberId),
        ({"member_id": "m", "member_epoch": 0}, StaleMemberEpoch),
        ({"member_id": "m", "member_epoch": 2}, StaleMemberEpoch),
    ],
)
def test_who_may_read(rig: GroupsRig, who: dict[str, Any], error: type[WireError] | None) -> None:
    rig.join("m", "t")
    if error is None:
        assert rig.fetch(**who).offset == -1
    else:
        with pytest.raises(error):
            rig.fetch(**who)


def test_of_a_group_that_is_not_there_nothing_is_committed_and_that_is_no_error(
    rig: GroupsRig,
) -> None:
    found = rig.fetch(group_id="nobody", require_stable=True)
    assert (found.offset, found.error) == (-1, None)
    assert rig.ask(FetchOffsets(group_id="nobody")).offsets == ()
    by_id = TopicPartitionsRef(TopicRef(topic_id("x")), (0,))
    unknown = rig.ask(FetchOffsets(group_id="g", topics=(by_id,))).offsets[0]
    assert isinstance(unknown.error, UnknownTopicId)


def test_a_deleted_topics_offsets_go_by_its_id(rig: GroupsRig) -> None:
    rig.topic("u", 1)
    rig.commit(5)
    rig.commit(6, topic="u")
    old = OffsetCommitValue(offset=Offset(1), commit_timestamp_ms=WALL_MS)
    rig.take([Record(OffsetCommitKey("g", "v", 0), old)])
    rig.topic("t", 4, creation=1)
    rig.run(TopicsChanged("g"))
    assert set(rig.groups.table.offsets["g"]) == {"u", "v"}
    rig.no_topic("u")
    rig.join("m", "t")
    rig.run(TopicsChanged("g"))
    assert set(rig.groups.table.offsets["g"]) == {"v"}


def test_offsets_ride_on_a_grant(rig: GroupsRig) -> None:
    rig.commit(5, partition=1)
    granted = rig.groups.granted_offsets("g", rig.parts(t=(0, 1)), rig.inputs())
    assert [(found.partition, found.offset) for found in granted] == [(0, -1), (1, 5)]


@pytest.mark.parametrize(
    ("group", "error"),
    [("consumer", GroupSubscribedToTopic), ("classic", GroupSubscribedToTopic), ("simple", None)],
)
def test_offsets_of_subscribed_topics_are_not_deleted(
    rig: GroupsRig, group: str, error: type[WireError] | None
) -> None:
    rig.topic("u", 1)
    rig.commit(5)
    rig.commit(5, topic="u")
    make(rig, group)
    command = DeleteOffsets("g", (*refs(0, 1), *refs(0, topic="u")))
    first, _, third = rig.ask(command).offsets
    assert (None if first.error is None else type(first.error)) is error
    assert third == DeletedOffset(rig.id_of("u"), "u", 0, None)
    assert (rig.fetch().offset == 5) is (error is not None)
    assert rig.fetch("u").offset == -1


def test_offsets_are_deleted_of_groups_that_there_are(rig: GroupsRig) -> None:
    with pytest.raises(GroupIdNotFound):
        rig.ask(DeleteOffsets("g", refs(0)))
    value: Any = classic_group("a").value
    rig.take([Record(classic_group().key, replace(value, protocol_type="connect"))])
    with pytest.raises(NonEmptyGroup, match="connect"):
        rig.ask(DeleteOffsets("g", refs(0)))


@pytest.mark.parametrize("group", ["simple", "classic empty", "consumer empty"])
def test_an_empty_group_is_deleted_with_all_that_it_has(rig: GroupsRig, group: str) -> None:
    make(rig, group)
    rig.commit(5)
    rig.ask(DeleteGroup("g"))
    assert rig.groups.group_ids() == rig.load().group_ids() == ()
    with pytest.raises(GroupIdNotFound):
        rig.ask(DeleteGroup("g"))


@pytest.mark.parametrize("group", ["classic", "consumer"])
def test_a_group_with_members_is_not_deleted(rig: GroupsRig, group: str) -> None:
    make(rig, group)
    with pytest.raises(NonEmptyGroup, match="1 members"):
        rig.ask(DeleteGroup("g"))
