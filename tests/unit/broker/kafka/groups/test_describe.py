"""ListGroups, DescribeGroups and DeleteGroups over Kafka's protocol, in each version."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from strandline_broker.core.groups.classic.commands import (
    GroupJoined,
    JoinGroup,
    JoinProtocol,
    MemberAssignment,
    SyncGroup,
)
from strandline_broker.hosts.serving.classic_groups import ClassicGroupsService
from strandline_broker.hosts.serving.groups import GroupsService
from strandline_broker.kafka.groups.describe import GroupAdminCalls
from strandline_proto.errors import (
    NONE,
    CoordinatorLoadInProgress,
    GroupIdNotFound,
    InvalidGroupId,
    NonEmptyGroup,
    NotCoordinator,
)
from support.group_broker import answered, group_broker
from support.kafka_calls import KafkaCalls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from support.group_broker import GroupBroker


@asynccontextmanager
async def with_groups(path: Path) -> AsyncIterator[tuple[GroupBroker, KafkaCalls]]:
    """A coordinator with group g, which has a member, and group h, which has offsets alone."""
    async with group_broker(path) as broker:
        await broker.lead(1, isr=(1,))
        await answered(broker.beat("m"))
        await answered(broker.commit(5, group_id="h"))
        yield broker, calls(broker)


def calls(broker: GroupBroker) -> KafkaCalls:
    return KafkaCalls(GroupAdminCalls(GroupsService(broker.shards)))


def listed(answer: Any) -> list[str]:
    assert answer.error_code == NONE
    return [group.group_id for group in answer.groups]


@pytest.mark.parametrize("version", range(6))
async def test_groups_of_both_protocols_are_listed(tmp_path: Path, version: int) -> None:
    async with with_groups(tmp_path) as (_, call):
        answer = await call("ListGroups", version)
    assert [(group.group_id, group.protocol_type) for group in answer.groups] == [
        ("g", "consumer"),
        ("h", ""),
    ]
    if version >= 1:
        assert answer.throttle_time_ms == 0
    if version >= 4:
        assert [group.group_state for group in answer.groups] == ["Stable", "Empty"]
    if version >= 5:
        assert [group.group_type for group in answer.groups] == ["Consumer", "Classic"]


@pytest.mark.parametrize("version", [4, 5])
async def test_groups_are_listed_by_their_states(tmp_path: Path, version: int) -> None:
    async with with_groups(tmp_path) as (_, call):
        found = [
            listed(await call("ListGroups", version, states_filter=states))
            for states in ([], ["empty"], ["EMPTY", "Stable"], ["Dead"])
        ]
    assert found == [["g", "h"], ["h"], ["g", "h"], []]


async def test_groups_are_listed_by_their_types(tmp_path: Path) -> None:
    async with with_groups(tmp_path) as (_, call):
        found = [
            listed(await call("ListGroups", 5, types_filter=types))
            for types in ([], ["consumer"], ["CLASSIC"], ["share"])
        ]
        both = await call("ListGroups", 5, states_filter=["Empty"], types_filter=["consumer"])
    assert found == [["g", "h"], ["g"], ["h"], []]
    assert listed(both) == []


@pytest.mark.parametrize("version", range(6))
async def test_a_shard_that_loads_is_named_as_the_reason_for_missing_groups(
    tmp_path: Path, version: int
) -> None:
    async with group_broker(tmp_path) as broker:
        await broker.lead(1)
        broker.commit(5)  # which broker 2, in the ISR, has not read
        await broker.lead(2)
        answer = await calls(broker)("ListGroups", version)
    assert answer.error_code == CoordinatorLoadInProgress.code
    assert answer.groups == []


@asynccontextmanager
async def with_classic_group(path: Path) -> AsyncIterator[tuple[GroupBroker, KafkaCalls, str]]:
    """A coordinator with the static member i of classic group c, and its member id."""
    async with group_broker(path, group_initial_rebalance_delay_ms="0") as broker:
        await broker.lead(1, isr=(1,))
        service = ClassicGroupsService(broker.shards)
        joined = await service.join(
            JoinGroup(
                group_id="c",
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                instance_id="i",
                protocol_type="connect",
                protocols=(JoinProtocol("sessioned", b"metadata"),),
                client_id="client",
                client_host="/::1",
            )
        )
        assert isinstance(joined, GroupJoined)
        await service.sync(
            SyncGroup(
                group_id="c",
                generation=1,
                member_id=joined.member_id,
                names_protocol=False,
                assignments=(MemberAssignment(joined.member_id, b"assignment"),),
            )
        )
        await answered(broker.beat("m"))
        yield broker, calls(broker), joined.member_id


@pytest.mark.parametrize("version", range(7))
async def test_a_classic_group_is_described_with_its_members(tmp_path: Path, version: int) -> None:
    async with with_classic_group(tmp_path) as (_, call, member_id):
        answer = await call("DescribeGroups", version, groups=["c"])
    (group,) = answer.groups
    assert (group.error_code, group.group_id, group.group_state) == (NONE, "c", "Stable")
    assert (group.protocol_type, group.protocol_data) == ("connect", "sessioned")
    (member,) = group.members
    assert (member.member_id, member.client_id, member.client_host) == (member_id, "client", "/::1")
    assert (member.member_metadata, member.member_assignment) == (b"metadata", b"assignment")
    if version >= 1:
        assert answer.throttle_time_ms == 0
    if version >= 3:
        assert group.authorized_operations is None
    if version >= 4:
        assert member.group_instance_id == "i"
    if version >= 6:
        assert group.error_message is None


@pytest.mark.parametrize("version", range(3, 7))
async def test_operations_on_a_group_are_named_if_the_client_asks(
    tmp_path: Path, version: int
) -> None:
    async with with_classic_group(tmp_path) as (_, call, _):
        answer = await call(
            "DescribeGroups", version, groups=["c"], include_authorized_operations=True
        )
    # Read, delete, describe, describe and alter configs.
    assert answer.groups[0].authorized_operations == {3, 6, 8, 10, 11}


@pytest.mark.parametrize("version", range(7))
async def test_a_group_without_classic_members_is_dead_or_from_version_6_on_not_found(
    tmp_path: Path, version: int
) -> None:
    async with with_classic_group(tmp_path) as (broker, call, _):
        answer = await call("DescribeGroups", version, groups=["none", "g", ""])
        await broker.follow(2)
        elsewhere = await call("DescribeGroups", version, groups=["c"])
    code = GroupIdNotFound.code if version >= 6 else NONE
    assert [(group.group_id, group.error_code, group.group_state) for group in answer.groups] == [
        ("none", code, "Dead"),
        ("g", code, "Dead"),
        ("", InvalidGroupId.code, ""),
    ]
    for group in answer.groups:
        assert (group.protocol_type, group.protocol_data, group.members) == ("", "", [])
    if version >= 6:
        assert "no group 'none'" in answer.groups[0].error_message
        assert "group 'g' is of type Consumer" in answer.groups[1].error_message
    (group,) = elsewhere.groups
    assert (group.error_code, group.group_state) == (NotCoordinator.code, "")


@pytest.mark.parametrize("version", range(3))
async def test_each_group_is_deleted_or_has_the_reason(tmp_path: Path, version: int) -> None:
    async with with_groups(tmp_path) as (_, call):
        answer = await call("DeleteGroups", version, groups_names=["g", "h", "none", "", "h"])
        left = listed(await call("ListGroups", 0))
    assert [(each.group_id, each.error_code) for each in answer.results] == [
        ("g", NonEmptyGroup.code),
        ("h", NONE),
        ("none", GroupIdNotFound.code),
        ("", InvalidGroupId.code),
        ("h", GroupIdNotFound.code),
    ]
    assert answer.throttle_time_ms == 0
    assert left == ["g"]
