"""Commits of offsets in transactions: who may, and what becomes of them (I-144, KIP-447)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from strandline_broker.core.coordination.decision import Producer, Record
from strandline_broker.core.groups.classic.commands import JoinEnded, JoinGroup, JoinProtocol
from strandline_broker.core.groups.commands import (
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    DescribeGroup,
    ListGroups,
    PartitionCommit,
    TopicPartitionsRef,
    TopicRef,
    TopicsChanged,
    TxnOffsetCommit,
)
from strandline_broker.core.groups.settings import GroupSettings
from strandline_proto.errors import (
    FencedInstanceId,
    GroupSubscribedToTopic,
    IllegalGeneration,
    InvalidGroupId,
    OffsetMetadataTooLarge,
    UnknownMemberId,
    UnknownTopicId,
    UnknownTopicOrPartition,
    WireError,
)
from strandline_proto.ids import ProducerEpoch, ProducerId
from support.groups_rig import GroupsRig, classic_group, topic_id
from support.transactional_rig import TransactionalRig, durable_with_pending

if TYPE_CHECKING:
    from strandline_broker.core.groups.records.classic_records import GroupMetadataValue

PRODUCER = Producer(ProducerId(1), ProducerEpoch(0))


@pytest.fixture
def rig() -> TransactionalRig:
    rig = TransactionalRig()
    rig.topic("t", 4)
    return rig


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


MEMBER: dict[str, Any] = {"member_id": "m", "member_epoch": 1}


@pytest.mark.parametrize(
    ("group", "who", "error"),
    [
        ("none", {}, None),
        ("none", {"member_epoch": 3}, IllegalGeneration),
        ("none", {"group_id": ""}, InvalidGroupId),
        ("none", {"group_id": "a\nb"}, InvalidGroupId),
        ("simple", {}, None),
        ("classic empty", {}, None),
        ("classic empty", {"member_id": "a"}, None),
        ("classic empty", {"member_id": "a", "member_epoch": 3}, UnknownMemberId),
        ("classic", {}, None),
        ("classic", {"member_id": "a", "member_epoch": 3}, None),
        ("classic", {"member_id": "a", "member_epoch": 3, "instance_id": "i"}, None),
        ("classic", {"member_id": "a", "member_epoch": 2}, IllegalGeneration),
        ("classic", {"member_id": "a"}, IllegalGeneration),
        ("classic", {"member_epoch": 3}, UnknownMemberId),
        ("classic", {"member_id": "b", "member_epoch": 3}, UnknownMemberId),
        ("classic", {"member_id": "b", "member_epoch": 3, "instance_id": "i"}, FencedInstanceId),
        ("consumer empty", {}, None),
        ("consumer empty", MEMBER, UnknownMemberId),
        ("consumer", {}, None),
        ("consumer", {"member_id": "x", "member_epoch": 1}, UnknownMemberId),
        ("consumer", {"member_epoch": 1}, UnknownMemberId),
        ("consumer", {"member_id": "m"}, IllegalGeneration),
        ("consumer", MEMBER, None),
        ("consumer", {**MEMBER, "member_epoch": 0}, IllegalGeneration),
        ("consumer", {**MEMBER, "member_epoch": 2}, IllegalGeneration),
        ("consumer", {**MEMBER, "instance_id": "i"}, None),
        ("consumer", {"member_id": "x", "member_epoch": 1, "instance_id": "i"}, FencedInstanceId),
    ],
)
def test_who_may_commit(
    rig: TransactionalRig, group: str, who: dict[str, Any], error: type[WireError] | None
) -> None:
    make(rig, group)
    before = rig.fetch().offset
    written = len(rig.entries)
    if error is None:
        assert rig.txn_commit(5, **who) is None
        assert len(rig.entries) == written + 1
        assert rig.fetch().offset == before
        rig.mark()
        assert rig.fetch().offset == 5
        return
    try:
        refused = rig.txn_commit(5, **who)
    except WireError as whole:
        refused = whole
    assert type(refused) is error
    assert len(rig.entries) == written
    assert not rig.groups.table.pending


def test_partitions_that_a_member_has_kept_may_be_of_an_earlier_epoch(
    rig: TransactionalRig,
) -> None:
    """P-123, as for a commit; the error is that of KIP-447."""
    rig.join("m", "t")
    rig.join("n", "t")
    rig.beat("m", 1)
    assert rig.txn_commit(4, partition=3, **MEMBER) is None, "it is still to be given up"
    rig.beat("m", 1, rig.parts(t=(0, 1)))
    assert rig.txn_commit(5, partition=0, **MEMBER) is None
    assert isinstance(rig.txn_commit(5, partition=3, **MEMBER), IllegalGeneration)
    with pytest.raises(IllegalGeneration):
        rig.txn_commit(5, partition=0, member_id="m", member_epoch=9)
    rig.mark()
    assert [rig.fetch(partition=p).offset for p in (0, 3)] == [5, 4]


def test_a_group_that_waits_for_its_assignments_admits_a_commit(rig: TransactionalRig) -> None:
    """Java's producer may commit between JoinGroup and SyncGroup: the generation is its own."""
    join = JoinGroup(
        group_id="g",
        member_id="",
        session_timeout_ms=9000,
        rebalance_timeout_ms=9000,
        protocol_type="consumer",
        protocols=(JoinProtocol("range", b"\0\0\0\0\0\0\xff\xff\xff\xff"),),
        requires_known_member_id=False,
    )
    rig.run(join)
    rig.run(JoinEnded("g"))
    group = rig.groups.table.classic_group("g")
    assert group is not None
    assert group.state.value == "CompletingRebalance"
    (member_id,) = group.members
    me: dict[str, Any] = {"member_id": member_id, "member_epoch": group.generation}
    assert rig.txn_commit(5, **me) is None


def test_each_partition_has_its_own_error_and_leaves_nothing_pending(rig: TransactionalRig) -> None:
    rig.settings = GroupSettings(offset_metadata_max_bytes=4)
    rig.groups = rig.new_groups()
    wishes = (
        PartitionCommit(TopicRef(name="t"), 0, 1, metadata="12345"),
        PartitionCommit(TopicRef(name="t"), 1, 1, leader_epoch=7, metadata="1234"),
        PartitionCommit(TopicRef(name="t"), 4, 1),
        PartitionCommit(TopicRef(topic_id("x")), 0, 1),
    )
    command = TxnOffsetCommit(group_id="g", partitions=wishes, producer=PRODUCER)
    errors = rig.ask(command).errors
    assert [None if error is None else type(error) for error in errors] == [
        OffsetMetadataTooLarge,
        None,
        UnknownTopicOrPartition,
        UnknownTopicId,
    ]
    assert [rig.groups.table.pending.is_pending("g", "t", p) for p in range(2)] == [False, True]
    rig.mark()
    found = rig.fetch(partition=1)
    assert (found.offset, found.leader_epoch, found.metadata) == (1, 7, "1234")
    assert rig.fetch(partition=0).offset == -1


def test_only_a_commit_in_a_transaction_names_a_producer(rig: TransactionalRig) -> None:
    wishes = (PartitionCommit(TopicRef(name="t"), 0, 1),)
    command = TxnOffsetCommit(group_id="g", partitions=wishes, producer=PRODUCER)
    assert rig.groups.decide(command, rig.inputs()).producer == PRODUCER
    plain = CommitOffsets(group_id="g", partitions=wishes)
    assert rig.groups.decide(plain, rig.inputs()).producer is None


def test_a_group_is_known_by_a_pending_offset_alone(rig: TransactionalRig) -> None:
    rig.txn_commit(5)
    assert rig.groups.group_ids() == ("g",)
    assert [group.group_id for group in rig.ask(ListGroups()).groups] == ["g"]
    assert rig.ask(DescribeGroup("g")).state == "Empty"
    rig.mark(is_commit=False)
    assert rig.groups.group_ids() == ()


@pytest.mark.parametrize("also_committed", [True, False])
def test_a_deleted_group_loses_its_pending_offsets(
    rig: TransactionalRig, also_committed: bool
) -> None:
    if also_committed:
        rig.commit(3)
    rig.txn_commit(5)
    rig.txn_commit(6, partition=1, producer_id=2)
    rig.ask(DeleteGroup("g"))
    assert rig.groups.group_ids() == ()
    for producer in (1, 2):
        rig.mark(producer)
    assert rig.groups.group_ids() == rig.load().group_ids() == ()


@pytest.mark.parametrize("also_committed", [True, False])
def test_a_deleted_offset_takes_the_pending_one_along(
    rig: TransactionalRig, also_committed: bool
) -> None:
    if also_committed:
        rig.commit(3)
    rig.txn_commit(5)
    rig.txn_commit(6, partition=1)
    refs = (TopicPartitionsRef(TopicRef(name="t"), (0, 2)),)
    assert [each.error for each in rig.ask(DeleteOffsets("g", refs)).offsets] == [None, None]
    rig.mark()
    assert [rig.fetch(partition=p).offset for p in range(2)] == [-1, 6]
    assert durable_with_pending(rig.load()) == durable_with_pending(rig.groups)


def test_a_pending_offset_of_a_subscribed_topic_is_not_deleted(rig: TransactionalRig) -> None:
    rig.join("m", "t")
    rig.txn_commit(5)
    refs = (TopicPartitionsRef(TopicRef(name="t"), (0,)),)
    assert isinstance(rig.ask(DeleteOffsets("g", refs)).offsets[0].error, GroupSubscribedToTopic)
    rig.mark()
    assert rig.fetch().offset == 5


def test_a_deleted_topics_pending_offsets_go_by_its_id(rig: TransactionalRig) -> None:
    """I-149, in a group that is known by them alone."""
    rig.topic("u", 1)
    rig.txn_commit(5)
    rig.txn_commit(6, topic="u")
    rig.topic("t", 4, creation=1)
    rig.run(TopicsChanged("g"))
    assert [topic for topic, _, _ in rig.groups.table.pending.of_group("g")] == ["u"]
    rig.mark()
    assert [rig.fetch().offset, rig.fetch("u").offset] == [-1, 6]


def test_the_offset_of_a_deleted_topic_does_not_take_its_successors_along(
    rig: TransactionalRig,
) -> None:
    """The key of both is the name: the tombstone waits until nothing of it is alive."""
    rig.commit(3)
    rig.topic("t", 4, creation=1)
    rig.txn_commit(5)
    rig.run(TopicsChanged("g"))
    assert rig.fetch().offset == -1
    rig.mark()
    assert rig.fetch().offset == 5


def test_an_overtaken_offset_of_a_deleted_topic_does_not_take_its_successors_along(
    rig: TransactionalRig,
) -> None:
    rig.txn_commit(3)
    rig.topic("t", 4, creation=1)
    rig.commit(5)
    rig.run(TopicsChanged("g"))
    rig.mark()
    assert rig.fetch().offset == 5


def test_an_offset_of_a_topic_that_is_created_again_is_not_committed_for_it(
    rig: TransactionalRig,
) -> None:
    rig.txn_commit(5)
    rig.topic("t", 4, creation=1)
    rig.mark()
    assert rig.fetch().offset == -1
