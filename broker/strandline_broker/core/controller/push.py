"""The pushes to the brokers: one delta for each atomic batch, the same for all brokers (P-79).

`begin` reads a batch before it is replayed, when a removed topic can still be described; `delta`
describes it after. Every batch makes a delta, even an empty one, because their offsets follow each
other without a gap. Each broker gets its part as an `Envelope`.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from strandline_broker.core.controller.log.records import (
    AnyRecord,
    BrokerConfigRecord,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    GroupConfigRecord,
    OfflineReplicasRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    UnregisterBrokerRecord,
)
from strandline_broker.core.controller.log.state import (
    Broker,
    ControllerState,
    PartitionRegistration,
    Topic,
)
from strandline_broker.core.replication.replica_condition import ReplicaCondition
from strandline_proto.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    MetadataOffset,
    TopicId,
)

SLICE: Final = 200
"""Number of partitions that take a few milliseconds to replay, or to describe."""


@dataclass(frozen=True, slots=True)
class PushedPartition:
    partition: PartitionRegistration
    isr_with_epochs: tuple[tuple[BrokerId, BrokerEpoch], ...]
    effective_min_isr: int
    offline_replicas: tuple[tuple[BrokerId, ReplicaCondition | None], ...]
    """Offline replicas with their conditions; None: the broker is fenced, or not registered."""
    is_new: bool
    moved: bool
    """True if replicas are concerned; otherwise only the metadata for clients has changed."""


@dataclass(frozen=True, slots=True)
class PushedTopic:
    name: str
    topic_id: TopicId
    configs: tuple[tuple[str, str], ...]
    partitions: tuple[PushedPartition, ...]


@dataclass(frozen=True, slots=True)
class RemovedTopic:
    topic_id: TopicId
    replicas: tuple[tuple[int, tuple[BrokerId, ...]], ...]
    """The brokers that must delete each partition."""


@dataclass(frozen=True, slots=True)
class RemovedReplicas:
    """Brokers that no longer hold a partition, since `leader_epoch` began. An older assignment must
    not delete a replica that returned later (P-18).
    """

    topic_id: TopicId
    partition: int
    leader_epoch: LeaderEpoch
    brokers: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class ClusterConfigs:
    """The whole configuration of brokers and groups that the controller decides."""

    brokers: Mapping[BrokerId, Mapping[str, str]]
    cluster: Mapping[str, str]
    controller: Mapping[str, str]
    """Defaults of topic keys from the controller's own configuration."""
    groups: Mapping[str, Mapping[str, str]]
    """Configuration of consumer groups, by id."""


@dataclass(frozen=True, slots=True)
class MetadataDelta:
    """The changes of one atomic batch; in a snapshot (`full`), the whole state."""

    controller_epoch: ControllerEpoch
    metadata_offset: MetadataOffset
    prev_metadata_offset: MetadataOffset
    full: bool
    topics: tuple[PushedTopic, ...] = ()
    removed_topics: tuple[RemovedTopic, ...] = ()
    removed_replicas: tuple[RemovedReplicas, ...] = ()
    brokers: tuple[Broker, ...] = ()
    removed_brokers: tuple[BrokerId, ...] = ()
    dynamic: ClusterConfigs | None = None
    """The altered configuration; None: unchanged."""
    epoch_starts: tuple[tuple[MetadataOffset, ControllerEpoch], ...] = ()
    """Starts of the controller epochs, in a snapshot; with these a broker distinguishes its known
    log from another one (P-76).
    """


@dataclass(slots=True)
class Changes:
    """The objects that one batch touches. Dicts replace sets: their order is the batch's, in every
    process.
    """

    prev_metadata_offset: MetadataOffset
    partitions: dict[tuple[TopicId, int], bool] = field(default_factory=dict)
    """Touched partitions; the value is True for a new one."""
    configs: dict[TopicId, None] = field(default_factory=dict)
    dynamic: bool = False
    brokers: dict[BrokerId, None] = field(default_factory=dict)
    served: dict[tuple[TopicId, int], None] = field(default_factory=dict)
    """Partitions of which a replica went offline or returned without another change."""
    replicas_before: dict[tuple[TopicId, int], tuple[BrokerId, ...]] = field(default_factory=dict)
    """Replicas, before the batch, of partitions whose replicas change."""
    removed_topics: list[RemovedTopic] = field(default_factory=list)
    removed_brokers: list[BrokerId] = field(default_factory=list)


def begin(state: ControllerState, records: Iterable[AnyRecord]) -> Changes:
    """The objects that the batch touches; call before it is replayed."""
    changes = Changes(state.last_offset)
    for record in records:
        match record:
            case PartitionRecord():
                changes.partitions[(record.topic_id, record.partition)] = True
            case PartitionChangeRecord():
                _begin_change(state, record, changes)
            case ConfigRecord(topic_id=topic_id) if topic_id is not None:
                changes.configs[topic_id] = None
            case ConfigRecord() | BrokerConfigRecord() | GroupConfigRecord():
                changes.dynamic = True
            case RegisterBrokerRecord() | BrokerRegistrationChangeRecord():
                changes.brokers[record.broker_id] = None
            case OfflineReplicasRecord():
                changes.served |= dict.fromkeys(_served_otherwise(state, record))
            case UnregisterBrokerRecord():
                changes.removed_brokers.append(record.broker_id)
            case RemoveTopicRecord():
                topic = state.topics[record.topic_id]
                replicas = tuple((p.index, p.replicas) for p in topic.partitions.values())
                changes.removed_topics.append(RemovedTopic(record.topic_id, replicas))
            case _:
                pass  # epochs are in the header; producer ids concern no other broker
    return changes


def _begin_change(state: ControllerState, record: PartitionChangeRecord, changes: Changes) -> None:
    key = (record.topic_id, record.partition)
    changes.partitions.setdefault(key, False)
    before = state.partition(*key)
    if record.replicas is not None and before is not None:
        changes.replicas_before[key] = before.replicas


def _served_otherwise(
    state: ControllerState, record: OfflineReplicasRecord
) -> list[tuple[TopicId, int]]:
    before = state.brokers[record.broker_id].offline_replicas
    changed = before.symmetric_difference(record.replicas)
    return sorted({(replica.topic_id, replica.partition) for replica in changed})


def partitions_concerned(state: ControllerState, changes: Changes) -> int:
    """Number of partitions to describe, which measures the work of the batch."""
    touched = (*changes.brokers, *changes.removed_brokers)
    hosted = sum(len(state.index.hosted.get(broker_id, ())) for broker_id in touched)
    return len(changes.partitions) + len(changes.served) + hosted


def delta(state: ControllerState, changes: Changes) -> MetadataDelta:
    """The delta of the batch; call after it was replayed."""
    slices = delta_in_slices(state, changes)
    while True:
        try:
            next(slices)
        except StopIteration as end:
            made: MetadataDelta = end.value
            return made


def delta_in_slices(
    state: ControllerState, changes: Changes
) -> Generator[None, None, MetadataDelta]:
    """The delta of the batch, in slices: where it yields, other tasks may run."""
    changed = yield from _changed_partitions(state, changes)
    topics = [
        _topic(topic, changed.get(topic_id, ()))
        for topic_id in {**changed, **changes.configs}
        if (topic := state.topics.get(topic_id)) is not None
    ]
    return MetadataDelta(
        controller_epoch=state.controller_epoch,
        metadata_offset=state.last_offset,
        prev_metadata_offset=changes.prev_metadata_offset,
        full=False,
        topics=tuple(topics),
        removed_topics=tuple(changes.removed_topics),
        removed_replicas=tuple(_removed_replicas(state, changes)),
        brokers=tuple(state.brokers[b] for b in changes.brokers if b in state.brokers),
        removed_brokers=tuple(changes.removed_brokers),
        dynamic=_dynamic(state) if changes.dynamic else None,
    )


def _removed_replicas(state: ControllerState, changes: Changes) -> Iterable[RemovedReplicas]:
    for (topic_id, index), before in changes.replicas_before.items():
        partition = state.partition(topic_id, index)
        if partition is not None:  # or its topic was deleted in the same batch
            gone = tuple(b for b in before if b not in partition.replicas)
            if gone:
                yield RemovedReplicas(topic_id, index, partition.leader_epoch, gone)


def snapshot(state: ControllerState) -> MetadataDelta:
    """The whole state. An object that it does not name does not exist."""
    return MetadataDelta(
        controller_epoch=state.controller_epoch,
        metadata_offset=state.last_offset,
        prev_metadata_offset=state.last_offset,
        full=True,
        topics=tuple(
            _topic(
                topic,
                [
                    _pushed(state, topic, p, is_new=False, moved=True)
                    for p in topic.partitions.values()
                ],
            )
            for topic in state.topics.values()
        ),
        brokers=tuple(state.brokers.values()),
        dynamic=_dynamic(state),
        epoch_starts=tuple(state.epoch_starts),
    )


def _dynamic(state: ControllerState) -> ClusterConfigs:
    """Copies of the configuration: an envelope may wait in a queue while the state changes."""
    return ClusterConfigs(
        brokers={broker_id: dict(own) for broker_id, own in state.broker_configs.items()},
        cluster=dict(state.dynamic_defaults),
        controller=dict(state.defaults),
        groups={group_id: dict(own) for group_id, own in state.group_configs.items()},
    )


def _changed_partitions(
    state: ControllerState, changes: Changes
) -> Generator[None, None, dict[TopicId, list[PushedPartition]]]:
    found: dict[TopicId, list[PushedPartition]] = {}
    for number, (topic_id, index) in enumerate(_concerned(state, changes), start=1):
        if number % SLICE == 0:
            yield
        partition = state.partition(topic_id, index)
        if partition is None:
            continue  # its topic was deleted in the same batch
        is_new = changes.partitions.get((topic_id, index))
        # Otherwise a replica went offline or returned: the metadata for clients has changed.
        moved = is_new is not None
        pushed = _pushed(
            state, state.topics[topic_id], partition, is_new=is_new is True, moved=moved
        )
        found.setdefault(topic_id, []).append(pushed)
    return found


def _concerned(state: ControllerState, changes: Changes) -> dict[tuple[TopicId, int], None]:
    """The batch's own partitions, and for a changed broker those with a replica on it."""
    concerned = {**dict.fromkeys(changes.partitions), **changes.served}
    touched = {*changes.brokers, *changes.removed_brokers}
    for broker_id in sorted(touched):
        concerned |= state.index.hosted.get(broker_id, {})
    return concerned


def _topic(topic: Topic, partitions: Sequence[PushedPartition]) -> PushedTopic:
    return PushedTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        configs=tuple(topic.configs.items()),
        partitions=tuple(partitions),
    )


def _pushed(
    state: ControllerState,
    topic: Topic,
    partition: PartitionRegistration,
    *,
    is_new: bool,
    moved: bool,
) -> PushedPartition:
    return PushedPartition(
        partition=partition,
        isr_with_epochs=state.isr_with_epochs(partition),
        effective_min_isr=state.effective_min_isr(topic, partition),
        offline_replicas=tuple(_offline(state, partition)),
        is_new=is_new,
        moved=moved,
    )


def _offline(
    state: ControllerState, partition: PartitionRegistration
) -> Iterator[tuple[BrokerId, ReplicaCondition | None]]:
    for broker_id in partition.replicas:
        broker = state.brokers.get(broker_id)
        if broker is None or broker.fenced:
            yield broker_id, None
        elif condition := broker.condition_of(partition.topic_id, partition.index):
            yield broker_id, condition
