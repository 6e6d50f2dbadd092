"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup over Kafka's protocol, in each version."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from strandline_broker.hosts.serving.classic_groups import ClassicGroupsService
from strandline_broker.kafka.groups.classic import ClassicGroupCalls
from strandline_proto.errors import (
    NONE,
    FencedInstanceId,
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvalidGroupId,
    InvalidSessionTimeout,
    MemberIdRequired,
    NotCoordinator,
    RebalanceInProgress,
    UnknownMemberId,
)
from support.group_broker import WAIT_S, group_broker
from support.kafka_calls import KafkaCalls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from strandline_broker.core.groups.classic.commands import GroupJoined, JoinGroup, MemberIdGiven
    from support.group_broker import GroupBroker

JOINS = range(10)
SYNCS = range(6)
HEARTBEATS = range(5)
LEAVES = range(6)
MEMBER_IDS_SINCE = 4
INSTANCES_SINCE = 5
METADATA = b"metadata"


class Recorded(ClassicGroupsService):
    """The service, which keeps the commands."""

    def __init__(self, broker: GroupBroker) -> None:
        super().__init__(broker.shards)
        self.joins: list[JoinGroup] = []

    async def join(self, command: JoinGroup) -> GroupJoined | MemberIdGiven:
        self.joins.append(command)
        return await super().join(command)


class Clients:
    def __init__(self, broker: GroupBroker) -> None:
        self.broker = broker
        self.service = Recorded(broker)
        self.call = KafkaCalls(ClassicGroupCalls(self.service))

    async def join(self, version: int, member_id: str = "", **more: Any) -> Any:
        fields = {
            "group_id": "g",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "member_id": member_id,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": METADATA}],
        }
        if version < 1:
            del fields["rebalance_timeout_ms"]
        return await self.call("JoinGroup", version, **fields | more)

    async def joined(self, version: int, **more: Any) -> Any:
        """A new member's generation: from version 4 on it gets its id first."""
        answer = await self.join(version, **more)
        if answer.error_code == MemberIdRequired.code:
            answer = await self.join(version, answer.member_id, **more)
        assert answer.error_code == NONE, answer
        return answer

    async def sync(self, version: int, joined: Any, **more: Any) -> Any:
        fields: dict[str, Any] = {
            "group_id": "g",
            "generation_id": joined.generation_id,
            "member_id": joined.member_id,
            "assignments": [
                {"member_id": each.member_id, "assignment": each.member_id.encode()}
                for each in joined.members
            ],
        }
        if version >= 5:
            fields |= {"protocol_type": "consumer", "protocol_name": "range"}
        return await self.call("SyncGroup", version, **fields | more)

    async def heartbeat(self, version: int, member_id: str, generation: int, **more: Any) -> Any:
        fields = {"group_id": "g", "generation_id": generation, "member_id": member_id}
        return await self.call("Heartbeat", version, **fields | more)

    async def leave(self, version: int, *members: str, **more: Any) -> Any:
        fields: dict[str, Any] = {"group_id": "g"}
        if version < 3:
            (fields["member_id"],) = members
        else:
            fields["members"] = [{"member_id": each} for each in members]
        return await self.call("LeaveGroup", version, **fields | more)

    async def stable(self) -> Any:
        """A group of one member that has its assignment."""
        joined = await self.joined(5)
        assert (await self.sync(3, joined)).error_code == NONE
        return joined


@asynccontextmanager
async def clients(path: Path, **settings: Any) -> AsyncIterator[Clients]:
    settings = {"group_initial_rebalance_delay_ms": "0"} | settings
    async with group_broker(path, **settings) as broker, asyncio.timeout(WAIT_S):
        await broker.lead(1, isr=(1,))
        yield Clients(broker)


# JoinGroup


@pytest.mark.parametrize("version", JOINS)
async def test_the_leader_is_answered_with_all_members(tmp_path: Path, version: int) -> None:
    async with clients(tmp_path) as each:
        joined = await each.joined(version)
    assert (joined.generation_id, joined.protocol_name) == (1, "range")
    assert joined.leader == joined.member_id
    assert joined.member_id.startswith("client-")
    assert [(m.member_id, m.metadata) for m in joined.members] == [(joined.member_id, METADATA)]
    if version >= 2:
        assert joined.throttle_time_ms == 0
    if version >= INSTANCES_SINCE:
        assert joined.members[0].group_instance_id is None
    if version >= 7:
        assert joined.protocol_type == "consumer"
    if version >= 9:
        assert joined.skip_assignment is False


@pytest.mark.parametrize("version", JOINS)
async def test_a_new_member_gets_its_id_first_from_version_4_on(
    tmp_path: Path, version: int
) -> None:
    async with clients(tmp_path) as each:
        answer = await each.join(version)
    if version < MEMBER_IDS_SINCE:
        assert (answer.error_code, answer.generation_id) == (NONE, 1)
        return
    assert (answer.error_code, answer.generation_id) == (MemberIdRequired.code, -1)
    assert answer.member_id.startswith("client-")
    assert (answer.leader, answer.members) == ("", [])
    assert answer.protocol_name == (None if version >= 7 else "")


@pytest.mark.parametrize("version", JOINS)
async def test_every_field_of_a_join_is_heeded(tmp_path: Path, version: int) -> None:
    more: dict[str, Any] = {}
    if version >= INSTANCES_SINCE:
        more["group_instance_id"] = "i"
    if version >= 8:
        more["reason"] = "a test"
    async with clients(tmp_path) as each:
        joined = await each.joined(version, **more)
        command = each.service.joins[0]
    assert command.session_timeout_ms == 10_000
    assert command.rebalance_timeout_ms == (10_000 if version == 0 else 60_000)
    assert (command.client_id, command.client_host) == ("client", "/::1")
    assert command.requires_known_member_id is (version >= MEMBER_IDS_SINCE)
    assert command.skips_assignment is (version >= 9)
    assert command.reason == ("a test" if version >= 8 else "")
    assert command.instance_id == ("i" if version >= INSTANCES_SINCE else None)
    if version >= INSTANCES_SINCE:
        assert joined.member_id.startswith("i-")
        assert joined.members[0].group_instance_id == "i"


@pytest.mark.parametrize("version", JOINS)
async def test_a_refused_join_names_the_member_that_asked(tmp_path: Path, version: int) -> None:
    async with clients(tmp_path) as each:
        await each.stable()
        answers = [
            await each.join(version, "nobody"),
            await each.join(version, "m", session_timeout_ms=1),
            await each.join(version, "m", group_id=""),
            await each.join(version, "m", group_id="two\nlines"),
        ]
        await each.broker.follow(2)
        answers.append(await each.join(version, "m"))
    assert [answer.error_code for answer in answers] == [
        UnknownMemberId.code,
        InvalidSessionTimeout.code,
        InvalidGroupId.code,
        InvalidGroupId.code,
        NotCoordinator.code,
    ]
    assert [answer.member_id for answer in answers] == ["nobody", "m", "m", "m", "m"]
    for answer in answers:
        assert (answer.generation_id, answer.leader, answer.members) == (-1, "", [])
        assert answer.protocol_name == (None if version >= 7 else "")


@pytest.mark.parametrize("version", range(5, 10))
async def test_a_static_leader_that_returns_assigns_nothing(tmp_path: Path, version: int) -> None:
    async with clients(tmp_path) as each:
        first = await each.joined(version, group_instance_id="i")
        await each.sync(3, first, group_instance_id="i")
        again = await each.joined(version, group_instance_id="i")
        old = await each.heartbeat(3, first.member_id, 1, group_instance_id="i")
    assert (again.generation_id, again.protocol_name) == (1, "range")
    assert again.member_id != first.member_id
    if version >= 9:
        assert (again.leader, again.skip_assignment) == (again.member_id, True)
        assert [member.member_id for member in again.members] == [again.member_id]
    else:
        # A client that knows no skipping takes itself for a follower, and so assigns nothing.
        assert (again.leader, again.members) == (first.member_id, [])
    assert old.error_code == FencedInstanceId.code


async def test_a_join_waits_for_the_others_and_ends_with_its_connection(tmp_path: Path) -> None:
    async with clients(tmp_path) as each:
        first = await each.stable()
        given = (await each.join(5)).member_id
        waiting = asyncio.create_task(each.join(5, given))
        await each.broker.turns()
        assert not waiting.done()
        assert (await each.heartbeat(3, first.member_id, 1)).error_code == RebalanceInProgress.code
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        again = asyncio.create_task(each.join(5, given))
        await each.broker.turns()
        leader = await each.join(5, first.member_id)
        follower = await again
    assert (leader.generation_id, follower.generation_id) == (2, 2)
    assert (leader.leader, follower.leader) == (first.member_id, first.member_id)
    assert {member.member_id for member in leader.members} == {first.member_id, given}
    assert follower.members == []


# SyncGroup


@pytest.mark.parametrize("version", SYNCS)
async def test_members_get_the_leaders_assignment(tmp_path: Path, version: int) -> None:
    async with clients(tmp_path) as each:
        joined = await each.joined(5)
        answer = await each.sync(version, joined)
    assert (answer.error_code, answer.assignment) == (NONE, joined.member_id.encode())
    if version >= 1:
        assert answer.throttle_time_ms == 0
    if version >= 5:
        assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")


@pytest.mark.parametrize("version", SYNCS)
async def test_a_refused_sync_has_an_empty_assignment(tmp_path: Path, version: int) -> None:
    async with clients(tmp_path) as each:
        joined = await each.joined(5)
        answers = [
            await each.sync(version, joined, generation_id=7),
            await each.sync(version, joined, member_id="nobody"),
            await each.sync(version, joined, group_id=""),
        ]
    assert [answer.error_code for answer in answers] == [
        IllegalGeneration.code,
        UnknownMemberId.code,
        InvalidGroupId.code,
    ]
    for answer in answers:
        assert answer.assignment == b""
        if version >= 5:
            assert (answer.protocol_type, answer.protocol_name) == (None, None)


@pytest.mark.parametrize(
    "wrong",
    [
        {"protocol_type": "connect"},
        {"protocol_name": "sticky"},
        {"protocol_type": None},
        {"protocol_name": None},
    ],
)
async def test_version_5_of_a_sync_names_the_protocol(
    tmp_path: Path, wrong: dict[str, str | None]
) -> None:
    async with clients(tmp_path) as each:
        joined = await each.joined(5)
        answer = await each.sync(5, joined, **wrong)
        same = await each.sync(4, joined)
    assert answer.error_code == InconsistentGroupProtocol.code
    assert same.error_code == NONE


@pytest.mark.parametrize("version", range(3, 6))
async def test_a_sync_of_a_replaced_instance_is_fenced(tmp_path: Path, version: int) -> None:
    async with clients(tmp_path) as each:
        joined = await each.joined(5, group_instance_id="i")
        answer = await each.sync(version, joined, member_id="other", group_instance_id="i")
    assert answer.error_code == FencedInstanceId.code


async def test_a_large_assignment_is_handed_over_whole(tmp_path: Path) -> None:
    large = bytes(range(250)) * 4_000
    async with clients(tmp_path) as each:
        joined = await each.joined(5)
        assignments = [{"member_id": joined.member_id, "assignment": large}]
        answer = await each.sync(5, joined, assignments=assignments)
    assert (answer.error_code, answer.assignment) == (NONE, large)


# Heartbeat


@pytest.mark.parametrize("version", HEARTBEATS)
async def test_a_heartbeat_says_whether_its_member_is_current(tmp_path: Path, version: int) -> None:
    async with clients(tmp_path) as each:
        joined = await each.stable()
        answers = [
            await each.heartbeat(version, joined.member_id, 1),
            await each.heartbeat(version, joined.member_id, 2),
            await each.heartbeat(version, "nobody", 1),
        ]
        await each.broker.follow(2)
        answers.append(await each.heartbeat(version, joined.member_id, 1))
    assert [answer.error_code for answer in answers] == [
        NONE,
        IllegalGeneration.code,
        UnknownMemberId.code,
        NotCoordinator.code,
    ]
    if version >= 1:
        assert [answer.throttle_time_ms for answer in answers] == [0] * 4


# LeaveGroup


@pytest.mark.parametrize("version", LEAVES)
async def test_a_member_leaves(tmp_path: Path, version: int) -> None:
    async with clients(tmp_path) as each:
        joined = await each.stable()
        answer = await each.leave(version, joined.member_id)
        after = await each.heartbeat(0, joined.member_id, 1)
    assert answer.error_code == NONE
    if version >= 1:
        assert answer.throttle_time_ms == 0
    if version >= 3:
        assert [(m.member_id, m.group_instance_id, m.error_code) for m in answer.members] == [
            (joined.member_id, None, NONE)
        ]
    assert after.error_code == UnknownMemberId.code


@pytest.mark.parametrize("version", LEAVES)
async def test_a_leave_of_nobody_is_refused_where_the_version_has_a_place(
    tmp_path: Path, version: int
) -> None:
    async with clients(tmp_path) as each:
        await each.stable()
        answer = await each.leave(version, "nobody")
        invalid = await each.leave(version, "nobody", group_id="")
    if version < 3:
        assert answer.error_code == UnknownMemberId.code
    else:
        assert answer.error_code == NONE
        assert [m.error_code for m in answer.members] == [UnknownMemberId.code]
        assert invalid.members == []
    assert invalid.error_code == InvalidGroupId.code


@pytest.mark.parametrize("version", range(3, 6))
async def test_each_of_several_leaving_members_has_an_answer(tmp_path: Path, version: int) -> None:
    reason = {"reason": "scaled down"} if version >= 5 else {}
    async with clients(tmp_path) as each:
        joined = await each.joined(5, group_instance_id="i")
        await each.sync(3, joined, group_instance_id="i")
        answer = await each.leave(
            version,
            members=[
                {"member_id": "nobody", **reason},
                {"member_id": "other", "group_instance_id": "i"},
                {"member_id": "", "group_instance_id": "i", **reason},
            ],
        )
    assert [(m.member_id, m.group_instance_id, m.error_code) for m in answer.members] == [
        ("nobody", None, UnknownMemberId.code),
        ("other", "i", FencedInstanceId.code),
        ("", "i", NONE),
    ]
