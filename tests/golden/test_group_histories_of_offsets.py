"""Histories that have broken coordinators of groups, by number and name: what becomes of committed
offsets.
"""

from __future__ import annotations

import pytest

from strandline_broker.core.groups.commands import (
    Expire,
    FetchOffsets,
    TopicPartitionsRef,
    TopicRef,
)
from strandline_broker.core.groups.settings import GroupSettings
from strandline_proto.errors import UnstableOffsetCommit
from support.groups_rig import GroupsRig, final_values
from support.transactional_rig import TransactionalRig, durable_with_pending

RETENTION_MS = 1000


def expired_at(rig: GroupsRig, now_ms: int) -> int:
    rig.now_ms = now_ms
    answer = rig.ask(Expire("g"))
    assert isinstance(answer, int)
    return answer


@pytest.mark.parametrize("fails_over", [False, True])
def test_22_txn_offset_order(fails_over: bool) -> None:
    """The later record wins, whenever the marker comes (P-103): a commit at 110 over one staged at
    100, and one staged at 110 over a commit at 100.
    """
    rig = transactional_rig()
    rig.end = 100
    rig.txn_commit(1)
    rig.end = 110
    rig.commit(2)
    rig.end = 120
    if fails_over:
        rig.fail_over()
    rig.mark()
    assert rig.fetch().offset == 2
    rig.commit(3)
    rig.txn_commit(4)
    assert rig.fetch().offset == 3
    if fails_over:
        rig.fail_over()
    rig.mark()
    assert rig.fetch().offset == 4
    assert durable_with_pending(rig.load()) == durable_with_pending(rig.groups)


def test_22_markers_in_another_order_than_their_records() -> None:
    rig = transactional_rig()
    rig.txn_commit(1, producer_id=1)
    rig.txn_commit(2, producer_id=2)
    rig.mark(2)
    assert rig.fetch().offset == 2
    rig.mark(1)
    assert rig.fetch().offset == 2
    assert durable_with_pending(rig.load()) == durable_with_pending(rig.groups)


@pytest.mark.parametrize("is_commit", [True, False])
def test_23_stable_fetch(is_commit: bool) -> None:
    """A staged offset makes its partition unstable: no answer has the old value or the new one
    (I-147). After a commit the new one is read, after an abort the old one.
    """
    rig = transactional_rig()
    rig.commit(5)
    rig.txn_commit(9)
    every = rig.ask(FetchOffsets(group_id="g", require_stable=True)).offsets
    for found in (rig.fetch(require_stable=True), *every):
        assert isinstance(found.error, UnstableOffsetCommit)
        assert (found.topic, found.partition, found.offset) == ("t", 0, -1)
    assert rig.fetch().offset == 5
    granted = rig.groups.granted_offsets("g", rig.parts(t=(0,)), rig.inputs())
    assert [(each.offset, type(each.error)) for each in granted] == [(-1, UnstableOffsetCommit)]
    rig.mark(is_commit=is_commit)
    now = 9 if is_commit else 5
    assert rig.fetch(require_stable=True).offset == now
    assert rig.ask(FetchOffsets(group_id="g", require_stable=True)).offsets[0].offset == now
    granted = rig.groups.granted_offsets("g", rig.parts(t=(0,)), rig.inputs())
    assert [(each.offset, each.error) for each in granted] == [(now, None)]


def test_23_a_partition_without_a_committed_offset_is_unstable_too() -> None:
    rig = transactional_rig()
    rig.txn_commit(9)
    every = rig.ask(FetchOffsets(group_id="g", require_stable=True)).offsets
    assert [type(found.error) for found in every] == [UnstableOffsetCommit]
    assert isinstance(rig.fetch(require_stable=True).error, UnstableOffsetCommit)
    assert rig.ask(FetchOffsets(group_id="g")).offsets == ()
    rig.mark(is_commit=False)
    assert rig.ask(FetchOffsets(group_id="g", require_stable=True)).offsets == ()
    assert rig.groups.group_ids() == ()


def test_24_every_commit_of_a_transaction_is_read_after_its_marker() -> None:
    rig = transactional_rig()
    rig.txn_commit(5, partition=0)
    rig.txn_commit(6, partition=1)
    rig.txn_commit(7, partition=0)
    rig.mark()
    assert [rig.fetch(partition=p).offset for p in (0, 1)] == [7, 6]


def test_25_expiry_spares_what_a_transaction_may_change() -> None:
    rig = TransactionalRig(GroupSettings(offsets_retention_ms=RETENTION_MS))
    rig.topic("t", 2)
    rig.commit(5, partition=0)
    rig.commit(5, partition=1)
    rig.txn_commit(9, partition=0)
    assert expired_at(rig, RETENTION_MS) == 1
    assert [rig.fetch(partition=p).offset for p in (0, 1)] == [5, -1]
    rig.fail_over()
    assert expired_at(rig, 2 * RETENTION_MS) == 0
    rig.mark(is_commit=False)
    assert expired_at(rig, 2 * RETENTION_MS) == 1
    assert rig.groups.group_ids() == ()


def test_25_an_empty_group_lives_while_a_transaction_may_give_it_an_offset() -> None:
    rig = TransactionalRig(GroupSettings(offsets_retention_ms=RETENTION_MS))
    rig.topic("t", 1)
    rig.join("m", "t")
    rig.txn_commit(9)
    rig.beat("m", -1)
    assert expired_at(rig, 10 * RETENTION_MS) == 0
    assert "g" in rig.groups.table.consumer
    rig.mark()
    assert rig.fetch().offset == 9
    assert expired_at(rig, 10 * RETENTION_MS) == 1
    assert rig.groups.group_ids() == rig.load().group_ids() == ()


def transactional_rig() -> TransactionalRig:
    rig = TransactionalRig()
    rig.topic("t", 4)
    return rig


def test_25_expiry_spares_the_living() -> None:
    """Subscribed, in a rebalance, just loaded, or empty only since a moment ago."""
    rig = GroupsRig(GroupSettings(offsets_retention_ms=RETENTION_MS))
    rig.topic("t", 1)
    rig.topic("u", 1)
    rig.join("m", "t")
    rig.commit(5, member_id="m", member_epoch=1)
    rig.commit(5, topic="u", member_id="m", member_epoch=1)
    assert expired_at(rig, RETENTION_MS - 1) == 0
    assert expired_at(rig, RETENTION_MS) == 1
    assert (rig.fetch().offset, rig.fetch("u").offset) == (5, -1)
    rig.join("n", "t")
    assert rig.groups.table.consumer["g"].state == "Reconciling"
    assert expired_at(rig, 10 * RETENTION_MS) == 0
    rig.fail_over()
    assert expired_at(rig, 20 * RETENTION_MS) == 0
    rig.beat("n", -1)
    rig.beat("m", -1)
    rig.fail_over()
    assert expired_at(rig, 21 * RETENTION_MS - 1) == 0
    assert rig.fetch().offset == 5
    assert expired_at(rig, 21 * RETENTION_MS) == 1
    assert rig.groups.group_ids() == ()
    assert final_values(rig.log) == {}


def test_26_recreated_topic_offsets() -> None:
    """For the topic that has the name now nothing was committed (I-145)."""
    rig = GroupsRig()
    rig.topic("t", 4)
    rig.commit(5)
    rig.topic("t", 4, creation=1)
    assert rig.fetch().offset == -1
    by_id = TopicPartitionsRef(TopicRef(rig.id_of("t")), (0,))
    assert rig.ask(FetchOffsets(group_id="g", topics=(by_id,))).offsets[0].offset == -1
    assert rig.ask(FetchOffsets(group_id="g")).offsets == ()
    granted = rig.groups.granted_offsets("g", rig.parts(t=(0,)), rig.inputs())
    assert [offset.offset for offset in granted] == [-1]
    rig.commit(2)
    assert rig.fetch().offset == 2
