"""One push of the controller, as plain data: what one atomic batch of its log means for one broker.

An envelope is applied whole or not at all, in the order stop_replicas, leader_and_isr,
update_metadata, so that clients are never sent to a leader that does not know of its election.
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
"""In a StopReplica: stop whatever the replica's leader epoch is."""
NO_PARTITION_EPOCH: Final = PartitionEpoch(-1)
TOPIC_DELETED: Final = LeaderEpoch(-2)
"""In a StopReplica: the topic is gone, so no later epoch can exist."""


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
        """Its address on that listener; None if it has no such listener."""
        for endpoint in self.endpoints:
            if endpoint.listener == listener:
                return endpoint
        return None


@dataclass(frozen=True, slots=True)
class HostedTopic:
    """Name and own configuration of a topic of which `leader_and_isr` names partitions."""

    name: str
    topic_id: TopicId
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """What clients are told of a partition."""

    partition: int
    leader: BrokerId = NO_LEADER
    leader_epoch: LeaderEpoch = UNKNOWN_EPOCH
    partition_epoch: PartitionEpoch = NO_PARTITION_EPOCH
    replicas: tuple[BrokerId, ...] = ()
    isr: tuple[BrokerId, ...] = ()
    offline_replicas: tuple[BrokerId, ...] = ()
    offline_conditions: tuple[ReplicaCondition | None, ...] = ()
    """Beside `offline_replicas`; None: the broker is fenced, or not registered."""
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
    """The epoch of the removal, TOPIC_DELETED or NO_EPOCH_CHECK; one that is older than the
    replica's is ignored (P-18).
    """
    delete: bool


@dataclass(frozen=True, slots=True)
class DynamicConfigs:
    """Configuration that is not from the receiver's own file, environment or flags; whole."""

    broker: Mapping[str, str] = field(default_factory=dict)
    """Altered at run time for this broker; stronger than `cluster`."""
    cluster: Mapping[str, str] = field(default_factory=dict)
    """Altered at run time for all brokers."""
    controller: Mapping[str, str] = field(default_factory=dict)
    """Defaults of topic keys that the controller's configuration decides, for information."""
    groups: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Of consumer groups, by id."""

    @property
    def altered(self) -> Mapping[str, str]:
        """What counts of what was altered at run time."""
        return {**self.cluster, **self.broker}


@dataclass(frozen=True, slots=True)
class Envelope:
    cluster_id: str
    controller_id: BrokerId
    store_id: str
    controller_epoch: ControllerEpoch
    broker_epoch: BrokerEpoch
    """Of the receiver: a push to an earlier incarnation is refused (P-17)."""
    metadata_offset: MetadataOffset
    prev_metadata_offset: MetadataOffset
    full: bool
    """A snapshot of everything: what it does not name does not exist."""
    stop_replicas: tuple[StopReplica, ...] = ()
    leader_and_isr: tuple[PartitionState, ...] = ()
    """Only partitions of which the receiver is a replica."""
    hosted_topics: tuple[HostedTopic, ...] = ()
    """One for each topic id in `leader_and_isr`."""
    topics: tuple[TopicMetadata, ...] = ()
    live_brokers: tuple[LiveBroker, ...] = ()
    deleted_topic_ids: tuple[TopicId, ...] = ()
    removed_brokers: tuple[BrokerId, ...] = ()
    dynamic_configs: DynamicConfigs | None = None
    """None: as before. A snapshot always has it."""
    epoch_starts: tuple[tuple[MetadataOffset, ControllerEpoch], ...] = ()
    """Of a snapshot: where each controller epoch begins in the log, as far as it is known."""
