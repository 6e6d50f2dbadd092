"""The calls of consumer groups. The first such call imports them, because most brokers never serve
one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.coordination.registry import Shards
    from strandline_broker.hosts.groups.group_shard import GroupShard

    Call = Callable[[Any, Any], Awaitable[Any]]


def _imported(name: str) -> Callable[[GroupCalls, Any, Any], Awaitable[Any]]:
    async def call(self: GroupCalls, request: Any, context: Any) -> Any:
        return await self.calls()[name](request, context)

    return call


class GroupCalls:
    """The group calls on one listener."""

    FindCoordinator = _imported("FindCoordinator")
    ConsumerGroupHeartbeat = _imported("ConsumerGroupHeartbeat")
    GroupSession = _imported("GroupSession")
    OffsetCommit = _imported("OffsetCommit")
    OffsetFetch = _imported("OffsetFetch")
    OffsetDelete = _imported("OffsetDelete")
    ListGroups = _imported("ListGroups")
    ConsumerGroupDescribe = _imported("ConsumerGroupDescribe")
    DeleteGroups = _imported("DeleteGroups")
    RemoveMembers = _imported("RemoveMembers")

    def __init__(self, shards: Shards[GroupShard], metadata: MetadataCache, listener: str) -> None:
        self._shards = shards
        self._metadata = metadata
        self._listener = listener
        self._calls: dict[str, Call] = {}

    def calls(self) -> dict[str, Call]:
        if not self._calls:
            from strandline_broker.hosts.serving.groups import GroupsService
            from strandline_broker.rpc.groups.admin import GroupAdminRpc
            from strandline_broker.rpc.groups.find_coordinator import FindCoordinatorRpc
            from strandline_broker.rpc.groups.heartbeats import GroupsRpc
            from strandline_broker.rpc.groups.offset_commits import OffsetCommitsRpc
            from strandline_broker.rpc.groups.session import GroupSessionRpc

            groups = GroupsService(self._shards)
            for part in (
                FindCoordinatorRpc(self._metadata, self._listener),
                GroupsRpc(groups),
                GroupSessionRpc(self._shards),
                OffsetCommitsRpc(groups),
                GroupAdminRpc(groups, self._metadata),
            ):
                names = (name for name in vars(type(part)) if name[0].isupper())
                self._calls.update((name, getattr(part, name)) for name in names)
        return self._calls
