"""FindCoordinator: the leader of the partition that a group's id hashes to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_broker.core.internal_topics import CONSUMER_OFFSETS
from strandline_broker.rpc.group_codec import check_group_id
from strandline_broker.rpc.leader_hints import node_endpoint
from strandline_broker.rpc.turns import in_turns
from strandline_proto.errors import (
    CoordinatorNotAvailable,
    InvalidRequest,
    UnsupportedVersion,
    WireError,
)
from strandline_proto.java_hash import partition_for
from strandline_proto.v1 import groups_pb2

if TYPE_CHECKING:
    from strandline_broker.core.metadata_cache import MetadataCache, MetadataView

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2
"""Kafka's key types."""


class FindCoordinatorRpc:
    """On one listener: brokers are named by their addresses on the listener of that name."""

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
                self._find(view, request.key_type, found)
            except WireError as error:
                found.error_code, found.error_message = error.code, str(error)
        return response

    def _find(self, view: MetadataView, key_type: int, found: groups_pb2.Coordinator) -> None:
        _check_key_type(key_type)
        check_group_id(found.key)
        topic = view.topic_named(CONSUMER_OFFSETS)
        if topic is None:
            raise CoordinatorNotAvailable(f"{CONSUMER_OFFSETS} is not made yet; try again soon")
        index = partition_for(found.key, len(topic.partitions))
        leader = view.current_leader(topic.topic_id, index)
        if leader is None:
            raise CoordinatorNotAvailable(
                f"{CONSUMER_OFFSETS}-{index} has no leader at the moment; try again soon"
            )
        endpoint = node_endpoint(view, leader.broker_id, self._listener)
        if endpoint is None:
            raise CoordinatorNotAvailable(
                f"broker {leader.broker_id}, which coordinates the group, has no listener"
                f" {self._listener}"
            )
        found.node_id, found.host, found.port = endpoint.node_id, endpoint.host, endpoint.port


def _check_key_type(key_type: int) -> None:
    if key_type in (TRANSACTION, SHARE):
        kind = "transactions" if key_type == TRANSACTION else "share groups"
        raise UnsupportedVersion(f"{kind} are not supported yet")
    if key_type != GROUP:
        raise InvalidRequest(f"key_type is {key_type}; it must be {GROUP} (group)")
