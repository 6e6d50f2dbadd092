"""Identify: the process that answers at this address. The controller calls it when a heartbeat
stream breaks (P-81).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline_proto.v1 import push_pb2

if TYPE_CHECKING:
    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_proto.ids import BrokerId


class IdentifyRpc:
    def __init__(self, broker_id: BrokerId, incarnation_id: str, metadata: MetadataCache) -> None:
        self._broker_id = broker_id
        self._incarnation_id = incarnation_id
        self._metadata = metadata

    async def Identify(
        self, request: push_pb2.IdentifyRequest, context: Any
    ) -> push_pb2.IdentifyResponse:
        return push_pb2.IdentifyResponse(
            cluster_id=self._metadata.cluster_id,
            broker_id=self._broker_id,
            incarnation_id=self._incarnation_id,
        )
