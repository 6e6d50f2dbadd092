"""The calls of classic groups' members: they join, take their assignment, stay alive and leave.

A join or a sync may wait for minutes; it ends with its group's timers. An error that no client of
these calls understands is replaced by one that makes the client try again: the wait for a commit
ends as COORDINATOR_NOT_AVAILABLE, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.groups.classic.commands import (
    GroupJoined,
    GroupLeft,
    GroupSynced,
    MemberIdGiven,
)
from strandline_proto.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    RebalanceInProgress,
    RequestTimedOut,
    WireError,
)

if TYPE_CHECKING:
    from strandline_broker.core.groups.classic.commands import (
        ClassicHeartbeat,
        JoinGroup,
        LeaveGroup,
        SyncGroup,
    )
    from strandline_broker.core.groups.commands import Reply
    from strandline_broker.hosts.coordination.registry import Shards
    from strandline_broker.hosts.groups.group_shard import GroupShard


class ClassicGroupsService:
    def __init__(self, shards: Shards[GroupShard]) -> None:
        self._shards = shards

    async def join(self, command: JoinGroup) -> GroupJoined | MemberIdGiven:
        """Returns the generation that the member has joined, or the id with which it joins. Raises
        WireError. The caller is cancelled when its connection ends.
        """
        reply = _answer(await self._shards.of(command.group_id).calls.ask(command))
        assert isinstance(reply, GroupJoined | MemberIdGiven), reply
        return reply

    async def sync(self, command: SyncGroup) -> GroupSynced:
        """Returns the member's assignment. Raises WireError. The caller is cancelled when its
        connection ends.

        A coordinator that loads its log has lost the rebalance, so the member joins again.
        """
        try:
            reply = _answer(await self._shards.of(command.group_id).calls.ask(command))
        except CoordinatorLoadInProgress as error:
            raise RebalanceInProgress(str(error)) from error
        assert isinstance(reply, GroupSynced), reply
        return reply

    async def heartbeat(self, command: ClassicHeartbeat) -> None:
        """Renews the member's session. Raises WireError.

        A coordinator that loads its log will begin with full sessions, so the member goes on.
        """
        try:
            _answer(await self._shards.of(command.group_id).ask(command).answered())
        except CoordinatorLoadInProgress:
            return

    async def leave(self, command: LeaveGroup) -> GroupLeft:
        """Returns what became of each member. Raises WireError."""
        reply = _answer(await self._shards.of(command.group_id).ask(command).answered())
        assert isinstance(reply, GroupLeft), reply
        return reply


def _answer(reply: Reply) -> Reply:
    if isinstance(reply, RequestTimedOut):
        raise CoordinatorNotAvailable(str(reply)) from reply
    if isinstance(reply, WireError):
        raise reply
    return reply
