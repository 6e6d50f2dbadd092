"""FindCoordinator on the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline_broker.hosts.serving.coordinators import find_coordinator
from strandline_broker.hosts.serving.turns import in_turns
from strandline_proto.errors import WireError
from strandline_proto.v1 import groups_pb2

if TYPE_CHECKING:
    from strandline_broker.core.metadata_cache import MetadataCache


class FindCoordinatorRpc:
    """FindCoordinator on one listener. The answer names the coordinator's address on the listener
    of that name.
    """

    def __init__(self, metadata: MetadataCache, listener: str) -> None:
        self._metadata = metadata
        self._listener = listener

    async def FindCoordinator(
        self, request: groups_pb2.FindCoordinatorRequest, context: Any
    ) -> groups_pb2.FindCoordinatorResponse:
        response = groups_pb2.FindCoordinatorResponse()
        view = self._metadata.view  # read once: the answer is of one moment
        async for key in in_turns(request.coordinator_keys):
            found = response.coordinators.add(key=key, node_id=-1, port=-1)
            try:
                node = find_coordinator(view, request.key_type, key, self._listener)
            except WireError as error:
                found.error_code, found.error_message = error.code, str(error)
            else:
                found.node_id, found.host, found.port = node.broker_id, node.host, node.port
        return response
