"""The broker's view of the cluster: a prefix of the controller's log, one envelope at a time
(I-81).

`MetadataCache.check` is the acceptance rule of pushes (I-34). `prepare` folds an accepted envelope
into a new view, and `publish` makes that view current. A published view never changes, so two
values read from one view belong to the same moment (I-24, P-8). Between prepare and publish the
host applies the envelope to its replicas: clients learn of a leader only after the leader knows of
its election.

After every step, the controller epoch and the applied offset have not decreased (I-30). Within a
topic id, a partition's leader epoch and partition epoch have not decreased either.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from strandline_broker.core.push_envelope import DynamicConfigs
from strandline_proto.errors import (
    InconsistentClusterId,
    InvalidUpdateVersion,
    StaleBrokerEpoch,
    StaleControllerEpoch,
    WireError,
)
from strandline_proto.ids import NO_LEADER, ControllerEpoch, MetadataOffset, TopicId

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strandline_broker.core.addresses import Endpoint
    from strandline_broker.core.push_envelope import (
        Envelope,
        LiveBroker,
        PartitionMetadata,
        TopicMetadata,
    )
    from strandline_proto.ids import BrokerEpoch, BrokerId, LeaderEpoch

K = TypeVar("K")
V = TypeVar("V")

NOTHING_APPLIED: Final = MetadataOffset(-1)
NO_CONTROLLER_EPOCH: Final = ControllerEpoch(-1)
NOTHING_ALTERED: Final = DynamicConfigs()


class CurrentLeader(NamedTuple):
    broker_id: BrokerId
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True)
class CachedTopic:
    name: str
    topic_id: TopicId
    partitions: Mapping[int, PartitionMetadata]
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class MetadataView:
    """The cluster as of one metadata offset; immutable."""

    metadata_offset: MetadataOffset = NOTHING_APPLIED
    controller_epoch: ControllerEpoch = NO_CONTROLLER_EPOCH
    controller_id: int = -1
    brokers: Mapping[BrokerId, LiveBroker] = field(default_factory=dict)
    topics_by_id: Mapping[TopicId, CachedTopic] = field(default_factory=dict)
    ids_by_name: Mapping[str, TopicId] = field(default_factory=dict)
    topics_generation: int = 0
    """Number that rises when topics are added or removed, or their partitions change."""
    eligible: Mapping[BrokerId, BrokerEpoch] = field(default_factory=dict)
    """Brokers that may be in an ISR (unfenced, not shutting down), with their current epochs."""
    dynamic_configs: DynamicConfigs = NOTHING_ALTERED

    def topic(self, topic_id: TopicId) -> CachedTopic | None:
        return self.topics_by_id.get(topic_id)

    def topic_named(self, name: str) -> CachedTopic | None:
        topic_id = self.ids_by_name.get(name)
        return None if topic_id is None else self.topics_by_id[topic_id]

    def partition(self, topic_id: TopicId, partition: int) -> PartitionMetadata | None:
        topic = self.topics_by_id.get(topic_id)
        return None if topic is None else topic.partitions.get(partition)

    def current_leader(self, topic_id: TopicId, partition: int) -> CurrentLeader | None:
        """The leader of the partition; None if the partition is unknown or has no leader."""
        known = self.partition(topic_id, partition)
        if known is None or known.leader == NO_LEADER:
            return None
        return CurrentLeader(known.leader, known.leader_epoch)

    def endpoint(self, broker_id: BrokerId, listener: str) -> Endpoint | None:
        """The address of that listener of a registered broker, fenced or not."""
        broker = self.brokers.get(broker_id)
        return None if broker is None else broker.endpoint(listener)


class MetadataCache:
    """The current view, and the broker's knowledge of the controller from before its start.

    `store_id`, `known_controller_epoch` and `known_offset` come from the data directory (P-76). If
    a controller's log ends before an offset that this broker has already applied, the controller
    was restored from an older copy. It is refused.
    """

    def __init__(
        self,
        *,
        cluster_id: str = "",
        store_id: str = "",
        known_controller_epoch: ControllerEpoch = NO_CONTROLLER_EPOCH,
        known_offset: MetadataOffset = NOTHING_APPLIED,
    ) -> None:
        self.cluster_id = cluster_id
        self.store_id = store_id
        self.view = MetadataView()
        self._known_controller_epoch = known_controller_epoch
        self._known_offset = known_offset

    @property
    def applied_offset(self) -> MetadataOffset:
        """The last envelope in the current view; -1 before the first snapshot of this process."""
        return self.view.metadata_offset

    @property
    def highest_offset(self) -> MetadataOffset:
        """The last controller record applied, in this process or before it (P-76)."""
        return max(self._known_offset, self.view.metadata_offset)

    @property
    def controller_epoch(self) -> ControllerEpoch:
        """The highest controller epoch received, in this process or before it."""
        return max(self._known_controller_epoch, self.view.controller_epoch)

    @property
    def has_snapshot(self) -> bool:
        return self.view.metadata_offset != NOTHING_APPLIED

    def eligible_after(self, envelope: Envelope) -> Mapping[BrokerId, BrokerEpoch]:
        """Brokers that may be in an ISR once `envelope` is applied."""
        return _eligible(_brokers_after(self.view, envelope))

    def check(self, envelope: Envelope, *, broker_epoch: BrokerEpoch) -> WireError | None:
        """The reason why the envelope must not be applied; None if it must be.

        InvalidUpdateVersion means that envelopes are missing in between; a full snapshot is the
        remedy. Other errors mean that the sender is not the controller of this incarnation of this
        broker.
        """
        if envelope.cluster_id != self.cluster_id and envelope.cluster_id and self.cluster_id:
            return InconsistentClusterId(
                f"the push is from cluster {envelope.cluster_id!r}, this broker is in "
                f"{self.cluster_id!r}"
            )
        if self.store_id and envelope.store_id != self.store_id:
            return InconsistentClusterId(
                f"the controller's store is {envelope.store_id!r}; this broker's data directory "
                "has applied the log of "
                f"store {self.store_id!r}: start the controller on its original directory"
            )
        if envelope.controller_epoch < self.controller_epoch:
            return StaleControllerEpoch(
                f"controller epoch {envelope.controller_epoch} has ended; {self.controller_epoch} "
                "is known here"
            )
        if envelope.broker_epoch != broker_epoch:
            return StaleBrokerEpoch(
                f"the push is for broker epoch {envelope.broker_epoch}, this incarnation has "
                f"{broker_epoch}"
            )
        applied = self.applied_offset
        if envelope.full:
            return self._check_full(envelope)
        if applied == NOTHING_APPLIED or envelope.prev_metadata_offset != applied:
            return InvalidUpdateVersion(
                f"the push follows metadata offset {envelope.prev_metadata_offset}, applied is "
                f"{applied}"
            )
        if envelope.metadata_offset <= applied:
            return InvalidUpdateVersion(
                f"the push ends at metadata offset {envelope.metadata_offset}, applied is {applied}"
            )
        return None

    def _check_full(self, envelope: Envelope) -> WireError | None:
        if envelope.metadata_offset < self.applied_offset:
            return InvalidUpdateVersion(
                f"the snapshot is of metadata offset {envelope.metadata_offset}, applied is "
                f"{self.applied_offset}"
            )
        if envelope.metadata_offset < self._known_offset:
            return StaleControllerEpoch(
                f"the controller's log ends at {envelope.metadata_offset}, but this broker has "
                "applied it up to "
                f"{self._known_offset}: the controller's store is an older copy"
            )
        return self._check_history(envelope)

    def _check_history(self, envelope: Envelope) -> WireError | None:
        """Refuse a log that continued from an older copy, past the offset that this broker has
        applied: its record at the remembered offset has another epoch (P-76, I-92).
        """
        known, starts = self.highest_offset, envelope.epoch_starts
        if known == NOTHING_APPLIED or not starts or not self.store_id:
            return None
        at = bisect_right(starts, known, key=lambda start: start[0])
        forgotten = at == 0 and self.controller_epoch < starts[0][1]
        if forgotten or (at > 0 and starts[at - 1][1] == self.controller_epoch):
            return None
        return StaleControllerEpoch(
            f"this broker has applied record {known} of controller epoch {self.controller_epoch}, "
            "which is another one in the controller's log: the controller's store is a copy that "
            "went on by itself"
        )

    def prepare(self, envelope: Envelope) -> MetadataView:
        """The view after an envelope that `check` accepted; it is not published yet."""
        before = self.view
        brokers = _brokers_after(before, envelope)
        topics, ids = _topics_after(before, envelope)
        return MetadataView(
            metadata_offset=envelope.metadata_offset,
            controller_epoch=envelope.controller_epoch,
            controller_id=envelope.controller_id,
            brokers=MappingProxyType(brokers),
            topics_by_id=MappingProxyType(topics),
            ids_by_name=MappingProxyType(ids),
            topics_generation=before.topics_generation + _are_others(before, topics, envelope),
            eligible=_eligible(brokers),
            dynamic_configs=(
                before.dynamic_configs
                if envelope.dynamic_configs is None
                else envelope.dynamic_configs
            ),
        )

    def publish(self, view: MetadataView, *, store_id: str) -> None:
        """Make a prepared view the current one."""
        assert view.metadata_offset >= self.view.metadata_offset, (view, self.view.metadata_offset)
        assert view.controller_epoch >= self.controller_epoch, (view, self.controller_epoch)
        self.store_id = store_id
        self.view = view


def _eligible(brokers: Mapping[BrokerId, LiveBroker]) -> Mapping[BrokerId, BrokerEpoch]:
    return MappingProxyType(
        {
            b.broker_id: b.broker_epoch
            for b in brokers.values()
            if not b.fenced and not b.in_controlled_shutdown
        }
    )


def _brokers_after(view: MetadataView, envelope: Envelope) -> dict[BrokerId, LiveBroker]:
    brokers: dict[BrokerId, LiveBroker] = {} if envelope.full else dict(view.brokers)
    for broker_id in envelope.removed_brokers:
        brokers.pop(broker_id, None)
    for broker in envelope.live_brokers:
        brokers[broker.broker_id] = broker
    return dict(sorted(brokers.items()))


def _topics_after(
    view: MetadataView, envelope: Envelope
) -> tuple[dict[TopicId, CachedTopic], dict[str, TopicId]]:
    """(topics by id, ids by name) after the envelope. Topics that it does not name are not read."""
    topics: dict[TopicId, CachedTopic] = {} if envelope.full else _copied(view.topics_by_id)
    ids: dict[str, TopicId] = {} if envelope.full else _copied(view.ids_by_name)
    for topic_id in envelope.deleted_topic_ids:
        gone = topics.pop(topic_id, None)
        if gone is not None:
            del ids[gone.name]
    for pushed in envelope.topics:
        # A topic created again under the same name shares nothing with the old one (I-36), even if
        # the envelope does not name its deletion.
        stale = ids.pop(pushed.name, None)
        if stale is not None and stale != pushed.topic_id:
            topics.pop(stale, None)
        topics[pushed.topic_id] = _merged(view.topics_by_id.get(pushed.topic_id), pushed, envelope)
        ids[pushed.name] = pushed.topic_id
    return topics, ids


def _are_others(
    before: MetadataView, now: Mapping[TopicId, CachedTopic], envelope: Envelope
) -> bool:
    """True if the envelope adds or removes topics, or changes their partitions."""
    known = before.topics_by_id
    return len(now) != len(known) or any(
        topic.topic_id not in known
        or len(known[topic.topic_id].partitions) != len(now[topic.topic_id].partitions)
        for topic in envelope.topics
        if topic.topic_id in now
    )


def _copied(mapping: Mapping[K, V]) -> dict[K, V]:
    """A copy of the mapping. A proxy's own `copy` copies the dict behind it, in a twentieth of the
    time.
    """
    return mapping.copy() if isinstance(mapping, MappingProxyType) else dict(mapping)


def _merged(known: CachedTopic | None, pushed: TopicMetadata, envelope: Envelope) -> CachedTopic:
    old: Mapping[int, PartitionMetadata] = {} if known is None else known.partitions
    partitions: dict[int, PartitionMetadata] = {} if envelope.full else _copied(old)
    for partition in pushed.partitions:
        before = old.get(partition.partition)
        if before is not None:
            # The controller's log orders envelopes, so the old value is chosen only if the log
            # itself went back. The values that clients have received must not go back (I-30, P-72).
            partition = _newer(before, partition)
        partitions[partition.partition] = partition
    if partitions.keys() != old.keys():
        partitions = dict(sorted(partitions.items()))
    return CachedTopic(
        name=pushed.name,
        topic_id=pushed.topic_id,
        partitions=MappingProxyType(partitions),
        configs=MappingProxyType(dict(pushed.configs)),
    )


def _newer(before: PartitionMetadata, pushed: PartitionMetadata) -> PartitionMetadata:
    if (pushed.leader_epoch, pushed.partition_epoch) >= (
        before.leader_epoch,
        before.partition_epoch,
    ):
        return pushed
    # The list of offline replicas follows the brokers' sessions, not the partition's epochs.
    return replace(
        before,
        offline_replicas=pushed.offline_replicas,
        offline_conditions=pushed.offline_conditions,
    )
