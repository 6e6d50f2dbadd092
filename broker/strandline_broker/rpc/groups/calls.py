"""The calls of consumer groups. The first such call imports them, because most brokers never serve
one. The import takes 0.2 s of the processor, so it runs off the event loop.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.common.verifier import Verifier
    from strandline_broker.hosts.coordination.registry import Shards
    from strandline_broker.hosts.groups.group_shard import GroupShard
    from strandline_runtime.runtime import Runtime

    Call = Callable[[Any, Any], Awaitable[Any]]


def _imported(name: str) -> Callable[[GroupCalls, Any, Any], Awaitable[Any]]:
    async def call(self: GroupCalls, request: Any, context: Any) -> Any:
        calls = self._calls if self._calls is not None else await self._first()
        return await calls[name](request, context)

    return call


class GroupCalls:
    """The group calls on one listener."""

    FindCoordinator = _imported("FindCoordinator")
    ConsumerGroupHeartbeat = _imported("ConsumerGroupHeartbeat")
    GroupSession = _imported("GroupSession")
    OffsetCommit = _imported("OffsetCommit")
    OffsetFetch = _imported("OffsetFetch")
    OffsetDelete = _imported("OffsetDelete")
    TxnOffsetCommit = _imported("TxnOffsetCommit")
    ListGroups = _imported("ListGroups")
    ConsumerGroupDescribe = _imported("ConsumerGroupDescribe")
    DeleteGroups = _imported("DeleteGroups")
    RemoveMembers = _imported("RemoveMembers")

    def __init__(
        self,
        runtime: Runtime,
        shards: Shards[GroupShard],
        metadata: MetadataCache,
        listener: str,
        verifier: Verifier | None = None,
    ) -> None:
        """`verifier` asks the coordinators of transactions; None: transactions are refused."""
        self._runtime = runtime
        self._shards = shards
        self._metadata = metadata
        self._listener = listener
        self._verifier = verifier
        self._calls: dict[str, Call] | None = None
        self._loading = asyncio.Lock()

    async def _first(self) -> dict[str, Call]:
        async with self._loading:
            if self._calls is None:
                thread = self._runtime.serial_executor("group-calls-loading")
                loop = asyncio.get_running_loop()
                self._calls = await loop.run_in_executor(thread, self._load)
        return self._calls

    def _load(self) -> dict[str, Call]:
        from strandline_broker.hosts.serving.groups import GroupsService
        from strandline_broker.rpc.groups.admin import GroupAdminRpc
        from strandline_broker.rpc.groups.find_coordinator import FindCoordinatorRpc
        from strandline_broker.rpc.groups.heartbeats import GroupsRpc
        from strandline_broker.rpc.groups.offset_commits import OffsetCommitsRpc
        from strandline_broker.rpc.groups.session import GroupSessionRpc

        groups = GroupsService(self._shards, self._verifier)
        parts = (
            FindCoordinatorRpc(self._metadata, self._listener),
            GroupsRpc(groups),
            GroupSessionRpc(self._shards),
            OffsetCommitsRpc(groups),
            GroupAdminRpc(groups, self._metadata),
        )
        return {
            name: getattr(part, name)
            for part in parts
            for name in vars(type(part))
            if name[0].isupper()
        }
