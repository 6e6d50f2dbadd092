"""When offsets are forgotten (I-148)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from strandline_broker.core.coordination.decision import Record
from strandline_broker.core.groups.commands import EXPIRED_AT_ONCE_MAX, Expire
from strandline_broker.core.groups.records.offset_records import OffsetCommitKey, OffsetCommitValue
from strandline_broker.core.groups.settings import GroupSettings
from strandline_proto.ids import Offset
from support.groups_rig import WALL_MS, GroupsRig, classic_group, final_values

RETENTION_MS = 1000


def rig_with(*topics: str) -> GroupsRig:
    rig = GroupsRig(GroupSettings(offsets_retention_ms=RETENTION_MS))
    for name in topics:
        rig.topic(name, 1)
    return rig


def expired_at(rig: GroupsRig, now_ms: int) -> int:
    rig.now_ms = now_ms
    answer = rig.ask(Expire("g"))
    assert isinstance(answer, int)
    return answer


def test_a_simple_groups_offset_lives_from_its_commit() -> None:
    rig = rig_with("t")
    rig.commit(5)
    assert expired_at(rig, RETENTION_MS - 1) == 0
    rig.commit(6)
    assert expired_at(rig, 2 * RETENTION_MS - 2) == 0
    assert expired_at(rig, 2 * RETENTION_MS - 1) == 1
    assert final_values(rig.log) == {}


def test_a_classic_groups_offset_lives_from_when_the_group_became_empty() -> None:
    rig = rig_with("t")
    value: Any = classic_group().value
    rig.commit(5)
    rig.take(
        [Record(classic_group().key, replace(value, current_state_timestamp_ms=WALL_MS + 500))]
    )
    assert expired_at(rig, RETENTION_MS + 499) == 0
    assert expired_at(rig, RETENTION_MS + 500) == 1
    assert final_values(rig.log) == {}


def test_of_a_classic_group_with_members_what_they_do_not_read_expires() -> None:
    rig = rig_with("t", "u")
    rig.commit(5)
    rig.commit(5, topic="u")
    rig.take([classic_group("a")])
    assert expired_at(rig, RETENTION_MS) == 1
    assert (rig.fetch().offset, rig.fetch("u").offset) == (5, -1)
    value: Any = classic_group("a").value
    rig.take([Record(classic_group().key, replace(value, protocol_type="connect"))])
    assert expired_at(rig, 100 * RETENTION_MS) == 0


def test_a_value_with_an_expiry_of_its_own_ends_by_that() -> None:
    rig = rig_with("t")
    value = OffsetCommitValue(
        offset=Offset(5), commit_timestamp_ms=WALL_MS, expire_timestamp_ms=WALL_MS + 5000
    )
    rig.take([Record(OffsetCommitKey("g", "t", 0), value)])
    assert expired_at(rig, 4999) == 0
    assert expired_at(rig, 5000) == 1


def test_much_goes_in_parts() -> None:
    rig = rig_with("t")
    value = OffsetCommitValue(offset=Offset(5), commit_timestamp_ms=WALL_MS)
    count = EXPIRED_AT_ONCE_MAX + 1
    rig.take([Record(OffsetCommitKey("g", "t", n), value) for n in range(count)])
    assert expired_at(rig, RETENTION_MS) == EXPIRED_AT_ONCE_MAX
    assert expired_at(rig, RETENTION_MS) == 1
    assert expired_at(rig, RETENTION_MS) == 0


def test_an_empty_group_without_offsets_goes() -> None:
    rig = rig_with("t")
    rig.join("m", "t")
    assert expired_at(rig, 0) == 0
    assert rig.groups.group_ids() == ("g",)
    rig.beat("m", -1)
    expired_at(rig, 0)
    assert rig.groups.group_ids() == ()
