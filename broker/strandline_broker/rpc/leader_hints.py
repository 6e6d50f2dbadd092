"""Who leads now, and where: what a refusal tells besides, so that a client need not ask for
metadata first (KIP-951).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_proto.hot_messages import CurrentLeader
from strandline_proto.ids import TopicId
from strandline_proto.v1 import common_pb2

if TYPE_CHECKING:
    from strandline_broker.core.metadata_cache import MetadataView
    from strandline_proto.ids import BrokerId


def hot_leader(view: MetadataView, key: tuple[bytes, int]) -> CurrentLeader | None:
    """None: the partition is not known, or has no leader."""
    leader = view.current_leader(TopicId(key[0]), key[1])
    return None if leader is None else CurrentLeader(leader.broker_id, leader.leader_epoch)


def leader_hint(view: MetadataView, key: tuple[bytes, int]) -> common_pb2.CurrentLeader | None:
    """The same for protobuf's messages."""
    leader = hot_leader(view, key)
    return None if leader is None else common_pb2.CurrentLeader(**leader._asdict())


def node_endpoint(
    view: MetadataView, broker_id: BrokerId, listener: str
) -> common_pb2.NodeEndpoint | None:
    """Where clients of that listener reach a broker."""
    endpoint = view.endpoint(broker_id, listener)
    if endpoint is None:
        return None
    rack = view.brokers[broker_id].rack
    return common_pb2.NodeEndpoint(
        node_id=broker_id, host=endpoint.host, port=endpoint.port, rack=rack
    )
