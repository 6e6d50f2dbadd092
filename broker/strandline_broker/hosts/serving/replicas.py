"""The replica that a client's request names, and the hints that a refusal carries.

Every service of this folder takes and returns plain data, so that each wire protocol translates
the same decisions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from strandline_proto.errors import (
    InvalidRequest,
    NotLeaderOrFollower,
    UnknownTopicId,
    UnknownTopicOrPartition,
    WireError,
)
from strandline_proto.hot_messages import CurrentLeader
from strandline_proto.ids import TopicId

if TYPE_CHECKING:
    from strandline_broker.core.metadata_cache import MetadataCache, MetadataView
    from strandline_broker.hosts.member.replica_manager import ReplicaManager
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_proto.ids import BrokerId

TOPIC_ID_BYTES = 16


class Node(NamedTuple):
    """A broker's address on one listener."""

    broker_id: BrokerId
    host: str
    port: int
    rack: str


def replica_of(replicas: ReplicaManager, topic_id: bytes, index: int) -> Partition:
    """Returns the replica; raises UnknownTopicId, or KafkaStorageError for one out of service."""
    partition = replicas.find(topic_id, index)
    if partition is None:
        raise UnknownTopicId(f"broker {replicas.me} holds no such replica")
    return partition


def why_unknown(
    replicas: ReplicaManager, metadata: MetadataCache, topic_id: bytes, index: int
) -> WireError:
    """Returns the error for a partition without a replica here, by what the cluster knows of it."""
    if len(topic_id) != TOPIC_ID_BYTES:
        return InvalidRequest(f"a topic id has 16 bytes, this one {len(topic_id)}")
    topic = metadata.view.topic(TopicId(topic_id))
    if topic is None:
        return UnknownTopicId("no topic of this id; it may have been deleted or created again")
    if index in topic.partitions:
        return NotLeaderOrFollower(f"broker {replicas.me} holds no replica of partition {index}")
    return UnknownTopicOrPartition(f"the topic has no partition {index}")


def current_leader(view: MetadataView, key: tuple[bytes, int]) -> CurrentLeader | None:
    """Returns the partition's leader and epoch (KIP-951); None if it is unknown or has none."""
    leader = view.current_leader(TopicId(key[0]), key[1])
    return None if leader is None else CurrentLeader(leader.broker_id, leader.leader_epoch)


def node_on(view: MetadataView, broker_id: BrokerId, listener: str) -> Node | None:
    """Returns the broker's address for clients of that listener; None without such a listener."""
    endpoint = view.endpoint(broker_id, listener)
    if endpoint is None:
        return None
    return Node(broker_id, endpoint.host, endpoint.port, view.brokers[broker_id].rack)
