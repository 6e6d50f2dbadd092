"""Groups of the classic protocol: kept, shown, and ended with their members' sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.groups import classic
from strandline_broker.core.groups.commands import (
    DescribeGroup,
    ListedGroup,
    ListGroups,
    SessionEnded,
)
from strandline_broker.core.groups.effects import SessionTimer, StartTimer
from support.groups_rig import WALL_MS, GroupsRig, classic_group

if TYPE_CHECKING:
    from strandline_broker.core.coordination.decision import Record
    from strandline_broker.core.groups.records.classic_records import GroupMetadataValue


def value_of(record: Record) -> GroupMetadataValue:
    value: GroupMetadataValue = record.value
    return value


def test_what_a_member_subscribes_to_is_read_from_its_own_words() -> None:
    group = value_of(classic_group("a"))
    assert classic.subscribes_to(group, "t")
    assert not classic.subscribes_to(group, "u")
    assert not classic.subscribes_to(value_of(classic_group()), "t")


def test_words_that_cannot_be_understood_may_mean_any_topic() -> None:
    from dataclasses import replace

    group = value_of(classic_group("a"))
    mute = replace(group, members=(replace(group.members[0], subscription=b"\0"),))
    assert classic.subscribes_to(mute, "u")


def test_members_end_with_their_sessions_and_the_last_leaves_it_empty() -> None:
    rig = GroupsRig(now_ms=7)
    rig.take([classic_group("a", "b")])
    assert rig.groups.timers(rig.inputs()) == (
        StartTimer(SessionTimer("g", "a"), 9000),
        StartTimer(SessionTimer("g", "b"), 9000),
    )
    rig.run(SessionEnded("g", "a"))
    assert [member.member_id for member in rig.groups.table.classic["g"].members] == ["b"]
    rig.run(SessionEnded("g", "a"))
    assert len(rig.log) == 2
    rig.run(SessionEnded("g", "b"))
    empty = rig.groups.table.classic["g"]
    assert (empty.generation, empty.protocol, empty.leader, empty.members) == (4, None, None, ())
    assert empty.current_state_timestamp_ms == WALL_MS + 7


def test_it_is_shown() -> None:
    rig = GroupsRig()
    rig.topic("t", 1)
    rig.take([classic_group("a")])
    rig.commit(1, group_id="simple")
    assert rig.ask(ListGroups()).groups == (
        ListedGroup("g", "consumer", "Stable", "Classic"),
        ListedGroup("simple", "", "Empty", "Classic"),
    )
    shown = rig.ask(DescribeGroup("g"))
    assert (shown.group_type, shown.state, shown.assignor) == ("Classic", "Stable", "range")
    assert shown.members[0].subscribed_topic_names == ("t",)
    assert rig.ask(DescribeGroup("simple")).members == ()
