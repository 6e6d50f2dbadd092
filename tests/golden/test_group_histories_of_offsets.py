"""Histories that have broken coordinators of groups, by number and name: what becomes of committed
offsets.
"""

from __future__ import annotations

from strandline_broker.core.groups.commands import (
    Expire,
    FetchOffsets,
    TopicPartitionsRef,
    TopicRef,
)
from strandline_broker.core.groups.settings import GroupSettings
from support.groups_rig import GroupsRig, final_values

RETENTION_MS = 1000


def expired_at(rig: GroupsRig, now_ms: int) -> int:
    rig.now_ms = now_ms
    answer = rig.ask(Expire("g"))
    assert isinstance(answer, int)
    return answer


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
