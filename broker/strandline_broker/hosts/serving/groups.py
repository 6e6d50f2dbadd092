"""Group requests of clients and administrators: heartbeats, commits, lists, descriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_broker.core.coordination.shard import ShardState
from strandline_broker.core.groups.commands import (
    DeleteGroup,
    DescribeGroup,
    GroupDescription,
    GroupsListed,
    ListGroups,
    OffsetsFetched,
)
from strandline_broker.hosts.groups.txn_commits import TxnCommits
from strandline_broker.hosts.serving.turns import ANSWERED_MAX, Turns, in_turns
from strandline_proto.errors import GroupIdNotFound, InvalidRequest, WireError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from strandline_broker.core.groups.commands import (
        Command,
        ConsumerBeat,
        FetchOffsets,
        ListedGroup,
        Reply,
    )
    from strandline_broker.hosts.common.verifier import Verifier
    from strandline_broker.hosts.coordination.registry import Shards
    from strandline_broker.hosts.coordination.waiting import Asked
    from strandline_broker.hosts.groups.group_shard import GroupShard

GROUPS_AT_ONCE: Final = 100
"""Groups or members between two turns of other calls."""
PER_GROUP: Final = 50
"""Number of offsets that cost as much as the request for those of one group."""
_TOO_MANY_OFFSETS: Final = InvalidRequest(
    f"the groups before this one have {ANSWERED_MAX} offsets or more: ask for fewer groups at a"
    " time"
)
_TOO_MANY_MEMBERS: Final = InvalidRequest(
    f"the groups of this request have more than {ANSWERED_MAX} members: ask for fewer groups at a"
    " time"
)


class GroupsService:
    """`verifier` asks the coordinators of transactions; None: transactions are refused."""

    def __init__(self, shards: Shards[GroupShard], verifier: Verifier | None = None) -> None:
        self._shards = shards
        self.txn_commits = TxnCommits(shards, verifier)

    async def ask(self, command: Command, group_id: str) -> Reply:
        """Returns the coordinator's answer; raises WireError."""
        reply = await self._shards.of(group_id).ask(command).answered()
        if isinstance(reply, WireError):
            raise reply
        return reply

    async def beat(self, command: ConsumerBeat) -> Reply:
        """Answers a heartbeat outside a stream, which ends the member's stream. Raises
        WireError.
        """
        host = self._shards.of(command.group_id)
        host.sessions.close_member(command.group_id, command.member_id)
        return await host.ask(command).answered()

    async def fetch_offsets(
        self, commands: Sequence[FetchOffsets | WireError]
    ) -> AsyncIterator[OffsetsFetched | WireError]:
        """Yields an answer for each command, in order; an error stands for itself.

        All shards are asked before the first answer is awaited: they may wait for the same event.
        """
        turns, room = Turns(), ANSWERED_MAX
        asked: list[Asked[Reply] | WireError] = []
        for command in commands:
            answer = self._asked(command) if room > 0 else _TOO_MANY_OFFSETS
            asked.append(answer)
            offsets = 0 if isinstance(answer, WireError) else _offsets_in(answer)
            room -= offsets
            await turns.took(PER_GROUP + offsets)
        for each in asked:
            reply = each if isinstance(each, WireError) else await each.answered()
            assert isinstance(reply, OffsetsFetched | WireError), reply
            yield reply

    def _asked(self, command: FetchOffsets | WireError) -> Asked[Reply] | WireError:
        if isinstance(command, WireError):
            return command
        try:
            return self._shards.of(command.group_id).ask(command)
        except WireError as error:
            return error

    async def list_groups(
        self, states: Iterable[str], types: Iterable[str]
    ) -> tuple[list[ListedGroup], WireError | None]:
        """Returns the groups by id, in any state and of any type if none is named.

        The error is that of a shard that cannot be asked now; its groups are missing.
        """
        in_states = {state.lower() for state in states}
        of_types = {kind.lower() for kind in types}
        found: list[ListedGroup] = []
        failed: WireError | None = None
        async for reply in self._listed():
            if isinstance(reply, WireError):
                failed = reply
                continue
            assert isinstance(reply, GroupsListed), reply
            found += reply.groups
        found.sort(key=lambda group: group.group_id)
        chosen = [
            group
            async for group in in_turns(found)
            if (not in_states or group.state.lower() in in_states)
            and (not of_types or group.group_type.lower() in of_types)
        ]
        return chosen, failed

    async def _listed(self) -> AsyncIterator[Reply]:
        """The groups of each shard that is not idle; all shards are asked before the first answer
        is awaited.
        """
        shards = self._shards.applications()
        hosts = [h for h in shards if h.machine.state is not ShardState.INACTIVE]
        asked = [host.ask(ListGroups()) async for host in in_turns(hosts, every=1)]
        for answer in asked:
            yield await answer.answered()

    async def describe(
        self, group_ids: Iterable[str], *, of_type: str | None = None
    ) -> AsyncIterator[tuple[str, GroupDescription | WireError]]:
        """Yields each group's description, or the reason for its absence. A group of another type
        than `of_type` is not found.
        """
        turns, room = Turns(GROUPS_AT_ONCE), ANSWERED_MAX
        for group_id in group_ids:
            await turns.took()
            try:
                reply = await self.ask(DescribeGroup(group_id), group_id)
            except WireError as error:
                yield group_id, error
                continue
            assert isinstance(reply, GroupDescription), reply
            if of_type not in (None, reply.group_type):
                yield group_id, _of_another_type(reply, of_type)
                continue
            room -= len(reply.members)
            yield group_id, reply if room >= 0 else _TOO_MANY_MEMBERS

    async def delete(self, group_ids: Iterable[str]) -> AsyncIterator[tuple[str, WireError | None]]:
        """Yields each group with the error that prevented its deletion."""
        async for group_id in in_turns(group_ids, GROUPS_AT_ONCE):
            try:
                await self.ask(DeleteGroup(group_id), group_id)
            except WireError as error:
                yield group_id, error
            else:
                yield group_id, None


def _of_another_type(group: GroupDescription, of_type: str | None) -> GroupIdNotFound:
    return GroupIdNotFound(
        f"group {group.group_id!r} is of type {group.group_type}; the request describes groups of"
        f" type {of_type}"
    )


def _offsets_in(answer: Asked[Reply]) -> int:
    """The number of offsets in an answer that has arrived."""
    reply = answer.reply if answer.is_answered else None
    return len(reply.offsets) if isinstance(reply, OffsetsFetched) else 0
