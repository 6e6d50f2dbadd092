"""AllowTruncation: an operator's permission for a local replica that has refused to truncate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline_proto.errors import UnknownTopicOrPartition, WireError
from strandline_proto.v1 import truncations_pb2

if TYPE_CHECKING:
    from strandline_broker.hosts.member.replica_manager import ReplicaManager


class TruncationsRpc:
    def __init__(self, replicas: ReplicaManager) -> None:
        self._replicas = replicas

    async def AllowTruncation(
        self, request: truncations_pb2.AllowTruncationRequest, context: Any
    ) -> truncations_pb2.AllowTruncationResponse:
        replicas = self._replicas
        try:
            partition = replicas.find(request.topic_id, request.partition)
            if partition is None:
                raise UnknownTopicOrPartition(
                    f"broker {replicas.me} holds no replica of partition {request.partition}"
                )
            replicas.truncations.allow(partition, request.offset)
            replicas.fetchers.fetch(partition)
        except WireError as error:
            return truncations_pb2.AllowTruncationResponse(
                error_code=error.code, error_message=str(error)
            )
        return truncations_pb2.AllowTruncationResponse()
