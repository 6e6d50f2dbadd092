"""The hints of a refusal on the wire: the current leader and its address (KIP-951)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.hosts.serving.replicas import current_leader
from strandline_proto.v1 import common_pb2

if TYPE_CHECKING:
    from strandline_broker.core.metadata_cache import MetadataView
    from strandline_broker.hosts.serving.replicas import Node


def leader_hint(view: MetadataView, key: tuple[bytes, int]) -> common_pb2.CurrentLeader | None:
    """The partition's leader and epoch; None if it is unknown or has none."""
    leader = current_leader(view, key)
    return None if leader is None else common_pb2.CurrentLeader(**leader._asdict())


def node_to_wire(node: Node) -> common_pb2.NodeEndpoint:
    """A broker's address."""
    return common_pb2.NodeEndpoint(
        node_id=node.broker_id, host=node.host, port=node.port, rack=node.rack
    )
