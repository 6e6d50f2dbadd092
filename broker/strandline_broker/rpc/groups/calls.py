"""The calls of consumer groups. The first such call imports them, because most brokers never serve
one. The import takes 0.2 s of the processor, so it runs off the event loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline_broker.rpc.lazy_calls import LazyCalls
from strandline_broker.rpc.lazy_calls import imported as _imported

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.common.verifier import Verifier
    from strandline_broker.hosts.coordination.registry import Shards
    from strandline_broker.hosts.groups.group_shard import GroupShard
    from strandline_runtime.runtime import Runtime


class GroupCalls(LazyCalls):
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
        super().__init__(runtime, "group-calls-loading", self._handlers)
        self._shards = shards
        self._metadata = metadata
        self._listener = listener
        self._verifier = verifier

    def _handlers(self) -> Iterable[Any]:
        from strandline_broker.hosts.serving.groups import GroupsService
        from strandline_broker.rpc.groups.admin import GroupAdminRpc
        from strandline_broker.rpc.groups.find_coordinator import FindCoordinatorRpc
        from strandline_broker.rpc.groups.heartbeats import GroupsRpc
        from strandline_broker.rpc.groups.offset_commits import OffsetCommitsRpc
        from strandline_broker.rpc.groups.session import GroupSessionRpc

        groups = GroupsService(self._shards, self._verifier)
        return (
            FindCoordinatorRpc(self._metadata, self._listener),
            GroupsRpc(groups),
            GroupSessionRpc(self._shards),
            OffsetCommitsRpc(groups),
            GroupAdminRpc(groups, self._metadata),
        )
