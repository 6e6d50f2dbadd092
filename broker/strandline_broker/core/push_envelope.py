"""One push of the controller, as plain data: the effect of one atomic batch of its log on one
broker.

An envelope is applied whole or not at all, in the order stop_replicas, leader_and_isr,
update_metadata. Clients are therefore never sent to a leader that does not know of its election.
`rpc/cluster/push_codec.py` translates it from the wire.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from strandline_proto.ids import NO_LEADER, UNKNOWN_EPOCH, LeaderEpoch, PartitionEpoch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strandline_broker.core.addresses import Endpoint
    from strandline_broker.core.replication.partition_state import PartitionState
    from strandline_broker.core.replication.replica_condition import ReplicaCondition
    from strandline_proto.ids import (
        BrokerEpoch,
        BrokerId,
        ControllerEpoch,
        MetadataOffset,
        TopicId,
    )

NO_EPOCH_CHECK: Final = LeaderEpoch(-1)
"""Value in a StopReplica: stop the replica, whatever its leader epoch is."""
NO_PARTITION_EPOCH: Final = PartitionEpoch(-1)
TOPIC_DELETED: Final = LeaderEpoch(-2)
"""Value in a StopReplica: the topic is deleted, so no later epoch can exist."""


@dataclass(frozen=True, slots=True)
class LiveBroker:
    """A registered broker, fenced or not."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    endpoints: tuple[Endpoint, ...]
    rack: str = ""
    fenced: bool = False
    in_controlled_shutdown: bool = False

    def endpoint(self, listener: str) -> Endpoint | None:
        """The broker's address on that listener; None if it has no such listener.

        A broker whose only listener is PLAINTEXT speaks gRPC there, and has this address for every
        listener. Brokers can therefore get further listeners one after the other.
        """
        for endpoint in self.endpoints:
            if endpoint.listener == listener:
                return endpoint
        is_grpc_alone = len(self.endpoints) == 1 and self.endpoints[0].listener == "PLAINTEXT"
        return self.endpoints[0] if is_grpc_alone else None


@dataclass(frozen=True, slots=True)
class HostedTopic:
    """Name and own configuration of a topic with partitions in `leader_and_isr`."""

    name: str
    topic_id: TopicId
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """A partition as clients see it."""

    partition: int
    leader: BrokerId = NO_LEADER
    leader_epoch: LeaderEpoch = UNKNOWN_EPOCH
    partition_epoch: PartitionEpoch = NO_PARTITION_EPOCH
    replicas: tuple[BrokerId, ...] = ()
    isr: tuple[BrokerId, ...] = ()
    offline_replicas: tuple[BrokerId, ...] = ()
    offline_conditions: tuple[ReplicaCondition | None, ...] = ()
    """Conditions in the order of `offline_replicas`; None: the broker is fenced, or not
    registered.
    """
    elr: tuple[BrokerId, ...] = ()
    last_known_elr: tuple[BrokerId, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """A topic with its whole configuration and those of its partitions that changed (all of them if
    `full`).
    """

    name: str
    topic_id: TopicId
    partitions: tuple[PartitionMetadata, ...]
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class StopReplica:
    topic_id: TopicId
    partition: int
    leader_epoch: LeaderEpoch
    """The epoch of the removal, TOPIC_DELETED or NO_EPOCH_CHECK; a removal with an epoch older than
    the replica's is ignored (P-18).
    """
    delete: bool


@dataclass(frozen=True, slots=True)
class DynamicConfigs:
    """The whole configuration from outside the receiver's own file, environment or flags."""

    broker: Mapping[str, str] = field(default_factory=dict)
    """Altered at run time for this broker; stronger than `cluster`."""
    cluster: Mapping[str, str] = field(default_factory=dict)
    """Altered at run time for all brokers."""
    controller: Mapping[str, str] = field(default_factory=dict)
    """Defaults of topic keys that the controller's configuration decides, for information."""
    groups: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Altered at run time for consumer groups, by group id."""

    @property
    def altered(self) -> Mapping[str, str]:
        """The effective values that were altered at run time."""
        return {**self.cluster, **self.broker}


@dataclass(frozen=True, slots=True)
class Envelope:
    cluster_id: str
    controller_id: BrokerId
    store_id: str
    controller_epoch: ControllerEpoch
    broker_epoch: BrokerEpoch
    """Broker epoch of the receiver: a push to an earlier incarnation is refused (P-17)."""
    metadata_offset: MetadataOffset
    prev_metadata_offset: MetadataOffset
    full: bool
    """True for a snapshot of everything: an object that it does not name does not exist."""
    stop_replicas: tuple[StopReplica, ...] = ()
    leader_and_isr: tuple[PartitionState, ...] = ()
    """States of partitions of which the receiver is a replica."""
    hosted_topics: tuple[HostedTopic, ...] = ()
    """One for each topic id in `leader_and_isr`."""
    topics: tuple[TopicMetadata, ...] = ()
    live_brokers: tuple[LiveBroker, ...] = ()
    deleted_topic_ids: tuple[TopicId, ...] = ()
    removed_brokers: tuple[BrokerId, ...] = ()
    dynamic_configs: DynamicConfigs | None = None
    """The dynamic configuration; None: unchanged. A snapshot always has it."""
    epoch_starts: tuple[tuple[MetadataOffset, ControllerEpoch], ...] = ()
    """Starts of the controller epochs in the log, as far as known; only in a snapshot."""
