"""Classic members that call the service of one broker with a real log."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from strandline_broker.core.groups.classic.commands import (
    ClassicHeartbeat,
    GroupJoined,
    GroupSynced,
    LeaveGroup,
    LeavingMember,
    MemberAssignment,
    MemberIdGiven,
    SyncGroup,
)
from strandline_broker.hosts.serving.classic_groups import ClassicGroupsService
from strandline_proto.errors import WireError
from support.classic_rig import join_command
from support.group_broker import ORDERS_ID, WAIT_S, group_broker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine
    from pathlib import Path

    from support.group_broker import GroupBroker


class ClassicBroker:
    def __init__(self, broker: GroupBroker) -> None:
        self.broker = broker
        self.service = ClassicGroupsService(broker.shards)

    async def id_of_new(self, **more: Any) -> str:
        given = await self.service.join(join_command(**more))
        assert isinstance(given, MemberIdGiven)
        return given.member_id

    def join(self, member_id: str = "", **more: Any) -> asyncio.Task[GroupJoined]:
        """A JoinGroup under way; its task stands for its connection."""
        return self._begun(self.service.join(join_command(member_id, **more)))

    def sync(
        self,
        member_id: str,
        generation: int,
        *,
        instance_id: str | None = None,
        parts: dict[str, bytes] | None = None,
    ) -> asyncio.Task[GroupSynced]:
        command = SyncGroup(
            group_id="g",
            generation=generation,
            member_id=member_id,
            instance_id=instance_id,
            protocol_type="consumer",
            protocol="range",
            assignments=tuple(MemberAssignment(*each) for each in (parts or {}).items()),
        )
        return self._begun(self.service.sync(command))

    def _begun(self, call: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        return asyncio.create_task(call)

    async def heartbeat(
        self, member_id: str, generation: int, instance_id: str | None = None
    ) -> int:
        """The error code of a heartbeat."""
        beat = ClassicHeartbeat(
            group_id="g", generation=generation, member_id=member_id, instance_id=instance_id
        )
        return await code_of(self.service.heartbeat(beat))

    async def leave(self, *members: str) -> None:
        await self.service.leave(LeaveGroup("g", tuple(map(LeavingMember, members))))

    async def stable(self, *members: str, instance_id: str | None = None) -> list[str]:
        """A stable group of new members, or of one static member; the leader first."""
        ids: list[str] = []
        if instance_id is None:
            ids = [await self.id_of_new() for _ in members]
        calls = [self.join(each) for each in ids] or [self.join(instance_id=instance_id)]
        answers = [await ended(call) for call in calls]
        return await self.settle([each.member_id for each in answers])

    async def settle(self, members: list[str]) -> list[str]:
        group = self.broker.host.groups.table.classic_group("g")
        assert group is not None
        members.sort(key=lambda member_id: member_id != group.leader)
        parts = {each: b"%d" % n for n, each in enumerate(members)}
        calls = [self.sync(each, group.generation, parts=parts) for each in reversed(members)]
        for call in calls:
            await ended(call)
        return members

    async def waits(self, call: asyncio.Task[Any]) -> bool:
        """Whether it has no answer after all that is ready has gone on."""
        await self.broker.turns()
        return not call.done()

    async def fail_over(self) -> None:
        await self.broker.follow(2)
        await self.broker.lead(3, isr=(1,))
        await self.broker.serves()


async def ended(call: asyncio.Task[Any]) -> Any:
    async with asyncio.timeout(WAIT_S):
        return await call


async def code_of(call: Coroutine[Any, Any, Any] | asyncio.Task[Any]) -> int:
    """The error code of a call's answer; 0 without error."""
    try:
        async with asyncio.timeout(WAIT_S):
            await call
    except WireError as error:
        return error.code
    return 0


@asynccontextmanager
async def classic_broker(path: Path, **settings: str) -> AsyncIterator[ClassicBroker]:
    """The coordinator of group g, which commits alone what it writes."""
    settings.setdefault("group_initial_rebalance_delay_ms", "10")
    async with group_broker(path, fs=None, **settings) as broker:
        await broker.set_topics({ORDERS_ID: ("orders", 2)})
        await broker.lead(1, isr=(1,))
        await broker.serves()
        yield ClassicBroker(broker)
