"""FindCoordinator: the leader of the partition that a group's or a transactional id hashes to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_broker.core.groups.group_ids import check_group_id
from strandline_broker.core.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from strandline_broker.core.transactions.transactional_ids import check_transactional_id
from strandline_broker.hosts.serving.replicas import node_on
from strandline_proto.errors import CoordinatorNotAvailable, InvalidRequest, UnsupportedVersion
from strandline_proto.java_hash import partition_for

if TYPE_CHECKING:
    from strandline_broker.core.metadata_cache import MetadataView
    from strandline_broker.hosts.serving.replicas import Node

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2
"""Kafka's key types."""


def find_coordinator(view: MetadataView, key_type: int, key: str, listener: str) -> Node:
    """Returns the coordinator's address on the listener of that name. Raises WireError."""
    name = _topic_for(key_type, key)
    topic = view.topic_named(name)
    if topic is None:
        raise CoordinatorNotAvailable(f"{name} is not made yet; try again soon")
    index = partition_for(key, len(topic.partitions))
    leader = view.current_leader(topic.topic_id, index)
    if leader is None:
        raise CoordinatorNotAvailable(f"{name}:{index} has no leader at the moment; try again soon")
    node = node_on(view, leader.broker_id, listener)
    if node is None:
        raise CoordinatorNotAvailable(
            f"broker {leader.broker_id}, which coordinates it, has no listener {listener}"
        )
    return node


def _topic_for(key_type: int, key: str) -> str:
    """The topic whose partitions coordinate keys of that type."""
    if key_type == GROUP:
        check_group_id(key)
        return CONSUMER_OFFSETS
    if key_type == TRANSACTION:
        check_transactional_id(key)
        return TRANSACTION_STATE
    if key_type == SHARE:
        raise UnsupportedVersion("share groups are not supported yet")
    raise InvalidRequest(
        f"key_type is {key_type}; it must be {GROUP} (group) or {TRANSACTION} (transaction)"
    )
