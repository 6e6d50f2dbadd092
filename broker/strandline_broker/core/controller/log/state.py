"""The controller's state: the fold of its log.

`replay` is the only mutation, so recovery, failover and tests share one code path. A decision reads
this state and returns records; it never changes anything. After every atomic batch these statements
hold:

- A leader is in its ISR. ISR and ELR are disjoint parts of the replicas. The ELR is empty if the
  ISR has the minimum (I-22).
- No fenced or stopping broker is in an ISR (I-23).
- No epoch has fallen, and no leader epoch has risen without its partition epoch (I-30).
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Final

import msgspec

from strandline_broker.core.addresses import Endpoint
from strandline_broker.core.controller.log.partition_index import Key, LaterIndex, PartitionIndex
from strandline_broker.core.controller.log.record_limits import must
from strandline_broker.core.controller.log.records import (
    RECOVERED,
    RECOVERING,
    AnyRecord,
    BrokerConfigRecord,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    ControllerEpochRecord,
    GroupConfigRecord,
    LossRecord,
    OfflineReplica,
    OfflineReplicasRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from strandline_broker.core.controller.partitions.losses import (
    LossReport,
    with_election,
    with_loss,
    without_topic,
)
from strandline_broker.core.replication.replica_condition import ReplicaCondition
from strandline_proto.ids import (
    NO_BROKER_EPOCH,
    NO_LEADER,
    UNKNOWN_EPOCH,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    MetadataOffset,
    PartitionEpoch,
    ProducerId,
    TopicId,
)

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"
NO_CONTROLLER_EPOCH: Final = ControllerEpoch(-1)
NOTHING_WRITTEN: Final = MetadataOffset(-1)
FIRST_PRODUCER_ID: Final = ProducerId(0)
EPOCH_STARTS_MAX: Final = 4096
"""Number of starts that are kept. A broker that missed more starts cannot be distinguished from one
with another history. It is accepted: it knows no more than other brokers of that time.
"""


@dataclass(frozen=True, slots=True)
class Broker:
    """One registered incarnation of a broker."""

    broker_id: BrokerId
    epoch: BrokerEpoch
    incarnation_id: str
    directory_id: str
    flush_policy: str
    pid: int
    version: str
    listeners: tuple[Endpoint, ...]
    inter_broker_listener: str
    rack: str
    features: tuple[str, ...]
    log_dirs: tuple[str, ...]
    fencing_offset: MetadataOffset
    """Offset of the record that fenced it last; it must have applied that before it serves again
    (I-83).
    """
    fenced: bool = True
    in_controlled_shutdown: bool = False
    shutdown_offset: MetadataOffset | None = None
    """Offset of the record that began its controlled shutdown; set once (P-65)."""
    decommissioning: bool = False
    """True if the broker is to leave the cluster; this outlasts its incarnations."""
    replicas_max: int = 0
    """Number of replicas for which its descriptors suffice; 0: unknown."""
    offline_replicas: frozenset[OfflineReplica] = frozenset()
    """Replicas that it cannot serve; each incarnation reports them again, before it is unfenced."""

    def condition_of(self, topic_id: TopicId, index: int) -> ReplicaCondition | None:
        """The reason why its replica of the partition does not count like others; None if
        it does.
        """
        if not self.offline_replicas:
            return None
        for condition in ReplicaCondition:
            if OfflineReplica(topic_id, index, condition) in self.offline_replicas:
                return condition
        return None

    def can_join(self, topic_id: TopicId, index: int) -> bool:
        """True if its replica may join the ISR of the partition."""
        return self.condition_of(topic_id, index) is None

    @property
    def eligible(self) -> bool:
        """True if it may be in an ISR (I-23)."""
        return not self.fenced and not self.in_controlled_shutdown

    @property
    def takes_replicas(self) -> bool:
        """True if it may get replicas that it does not hold."""
        return self.eligible and not self.decommissioning

    @property
    def inter_broker_endpoint(self) -> Endpoint:
        for endpoint in self.listeners:
            if endpoint.listener == self.inter_broker_listener:
                return endpoint
        raise AssertionError(f"broker {self.broker_id} has no {self.inter_broker_listener}")


@dataclass(frozen=True, slots=True)
class PartitionRegistration:
    topic_id: TopicId
    index: int
    replicas: tuple[BrokerId, ...]
    directories: tuple[str, ...]
    isr: tuple[BrokerId, ...]
    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    leader_recovery_state: int
    adding: tuple[BrokerId, ...]
    removing: tuple[BrokerId, ...]
    elr: tuple[BrokerId, ...]
    last_known_elr: tuple[BrokerId, ...]
    changed_at: MetadataOffset
    """Offset of the last record about the partition."""
    elected_at: MetadataOffset
    """Offset of the record that began its leader epoch."""
    original: tuple[BrokerId, ...] = ()
    """The replicas before the reassignment under way, in their order; empty without one."""
    unclean_epoch: LeaderEpoch = UNKNOWN_EPOCH
    """The leader epoch that the last unclean election began; -1 if there was none."""
    led_epoch: LeaderEpoch = UNKNOWN_EPOCH
    """The last leader epoch in which a broker led; -1 if unknown or none."""

    @property
    def target(self) -> tuple[BrokerId, ...]:
        """The target replicas of a reassignment under way; without one, the present replicas."""
        if self.removing == ():
            return self.replicas
        return tuple(b for b in self.replicas if b not in self.removing)

    def least_in_sync(self, minimum: int) -> int:
        """The effective min.insync.replicas, never above the number of replicas (I-91).

        During a reassignment the number of replicas before it counts. Copies that do not exist yet
        cannot be required, and fewer must not suffice before the move is done.
        """
        return min(minimum, len(self.original or self.replicas))

    def directory_of(self, broker_id: BrokerId) -> str:
        return self.directories[self.replicas.index(broker_id)]


_CHANGED: Final = {*PartitionChangeRecord.__struct_fields__} - {"topic_id", "partition", "log_end"}


def changed(
    partition: PartitionRegistration, change: PartitionChangeRecord, at: MetadataOffset
) -> PartitionRegistration:
    """The partition after `change`: the leader epoch rises if and only if a leader is named, the
    partition epoch always.
    """
    given = {name: getattr(change, name) for name in _CHANGED}
    leader_epoch = LeaderEpoch(partition.leader_epoch + (change.leader is not None))
    unclean = change.leader is not None and change.leader_recovery_state == RECOVERING
    new = replace(
        partition,
        **{name: value for name, value in given.items() if value is not None},
        leader_epoch=leader_epoch,
        unclean_epoch=leader_epoch if unclean else partition.unclean_epoch,
        led_epoch=partition.led_epoch if change.leader in (None, NO_LEADER) else leader_epoch,
        partition_epoch=PartitionEpoch(partition.partition_epoch + 1),
        changed_at=at,
        elected_at=partition.elected_at if change.leader is None else at,
    )
    _check(new)
    return new


def _check(p: PartitionRegistration) -> None:
    members = (*p.isr, *p.elr, *p.last_known_elr)
    must(set(members) <= set(p.replicas), (p, "I-22"))
    must(len(set(members)) == len(members), (p, "I-22: no replica is in two of them"))
    must(len(set(p.replicas)) == len(p.replicas) == len(p.directories), p)
    must(p.leader == NO_LEADER or p.leader in p.isr, (p, "I-22"))
    must(set(p.replicas) == {*p.original, *p.target} or p.original == (), (p, "I-85"))
    must((p.original == ()) == (p.adding == p.removing == ()), (p, "I-85"))


@dataclass(slots=True)
class Topic:
    name: str
    topic_id: TopicId
    configs: dict[str, str] = field(default_factory=dict)
    partitions: dict[int, PartitionRegistration] = field(default_factory=dict)


@dataclass(slots=True)
class ControllerState:
    controller_epoch: ControllerEpoch = NO_CONTROLLER_EPOCH
    brokers: dict[BrokerId, Broker] = field(default_factory=dict)
    topics: dict[TopicId, Topic] = field(default_factory=dict)
    topic_ids: dict[str, TopicId] = field(default_factory=dict)
    index: PartitionIndex = field(default_factory=PartitionIndex)
    """Index that follows from the partitions; `put` and `add_topic` update it."""
    defaults: dict[str, str] = field(default_factory=dict)
    """Cluster-wide defaults that affect safety; they are in the log, so that a restart cannot
    change them unnoticed (I-91).
    """
    dynamic_defaults: dict[str, str] = field(default_factory=dict)
    """Configuration altered at run time for all brokers."""
    broker_configs: dict[BrokerId, dict[str, str]] = field(default_factory=dict)
    """Configuration altered at run time for one broker; it stays while the broker is away."""
    group_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    """Configuration altered for one consumer group, by its id, even if the group does not exist."""
    next_producer_id: ProducerId = FIRST_PRODUCER_ID
    last_offset: MetadataOffset = NOTHING_WRITTEN
    losses: tuple[LossReport, ...] = ()
    """Loss reports of unclean elections, oldest first."""
    epoch_starts: list[tuple[MetadataOffset, ControllerEpoch]] = field(default_factory=list)
    """Offsets and epochs of the last starts, oldest first; a broker's stored record is compared
    with them (P-76).
    """
    former_stores: list[str] = field(default_factory=list)
    """Ids of the stores that this restored store replaced, oldest first."""

    # -- queries

    @property
    def next_offset(self) -> MetadataOffset:
        return MetadataOffset(self.last_offset + 1)

    def partitions(self) -> Iterator[PartitionRegistration]:
        for topic in self.topics.values():
            yield from topic.partitions.values()

    def those(self, keys: Iterable[Key]) -> Iterator[PartitionRegistration]:
        """The existing partitions, in the order of `keys`."""
        for topic_id, index in keys:
            yield self.topics[topic_id].partitions[index]

    def hosted_by(self, broker_id: BrokerId) -> Iterator[PartitionRegistration]:
        """Partitions of which the broker holds a replica, by the assignment."""
        return self.those(self.index.hosted.get(broker_id, ()))

    def partition(self, topic_id: TopicId, index: int) -> PartitionRegistration | None:
        topic = self.topics.get(topic_id)
        return None if topic is None else topic.partitions.get(index)

    def effective_min_isr(self, topic: Topic, partition: PartitionRegistration) -> int:
        """Number of in-sync replicas that the partition needs (I-91)."""
        text = topic.configs.get(MIN_INSYNC_REPLICAS, self.min_insync_default)
        return partition.least_in_sync(int(text))

    @property
    def min_insync_default(self) -> str:
        """The min.insync.replicas of a topic that sets none."""
        static = self.defaults.get(MIN_INSYNC_REPLICAS, "1")
        return self.dynamic_defaults.get(MIN_INSYNC_REPLICAS, static)

    def elects_uncleanly(self, topic: Topic) -> bool:
        """True if a partition of the topic gets any leader rather than none (I-48)."""
        defaults = {**self.defaults, **self.dynamic_defaults}
        text = topic.configs.get(UNCLEAN_ELECTION, defaults.get(UNCLEAN_ELECTION, "false"))
        return text.lower() == "true"

    def isr_with_epochs(
        self, partition: PartitionRegistration
    ) -> tuple[tuple[BrokerId, BrokerEpoch], ...]:
        """The ISR with the incarnation of each member that may be counted (P-73).

        A member that returned with another disk is listed without an incarnation: none of its
        fetches may count.
        """
        return tuple((b, self._counted_epoch(partition, b)) for b in partition.isr)

    def _counted_epoch(self, partition: PartitionRegistration, broker_id: BrokerId) -> BrokerEpoch:
        broker = self.brokers.get(broker_id)
        if broker is None or broker.directory_id != partition.directory_of(broker_id):
            return NO_BROKER_EPOCH
        return broker.epoch

    def epoch_at(self, offset: MetadataOffset) -> ControllerEpoch | None:
        """The controller epoch in which the record at `offset` was written; None if there is no
        such record, or its start is forgotten.
        """
        if not 0 <= offset <= self.last_offset:
            return None
        at = bisect_right(self.epoch_starts, offset, key=lambda start: start[0])
        return self.epoch_starts[at - 1][1] if at > 0 else None

    def has_forgotten(self, offset: MetadataOffset, epoch: ControllerEpoch) -> bool:
        """True if a record at `offset`, of `epoch`, would be older than the known starts."""
        if len(self.epoch_starts) < EPOCH_STARTS_MAX:
            return False  # no start was ever forgotten
        first, first_epoch = self.epoch_starts[0]
        return offset < first and epoch < first_epoch

    # -- a batch that is worked off in slices

    def staged(self, records: Iterable[AnyRecord]) -> "ControllerState":
        """A state for the replay of `records` while readers use this one; unchanged parts are
        shared.
        """
        topics = dict(self.topics)
        for topic_id in {getattr(record, "topic_id", None) for record in records}:
            if topic_id in topics:
                topic = topics[topic_id]
                topics[topic_id] = replace(
                    topic, configs=dict(topic.configs), partitions=dict(topic.partitions)
                )
        return replace(
            self,
            brokers=dict(self.brokers),
            topics=topics,
            topic_ids=dict(self.topic_ids),
            index=LaterIndex(self.index),
            defaults=dict(self.defaults),
            dynamic_defaults=dict(self.dynamic_defaults),
            broker_configs={b: dict(own) for b, own in self.broker_configs.items()},
            group_configs={g: dict(own) for g, own in self.group_configs.items()},
            epoch_starts=list(self.epoch_starts),
            former_stores=list(self.former_stores),
        )

    def become(self, staged: "ControllerState") -> None:
        """Take over everything from `staged`."""
        assert isinstance(staged.index, LaterIndex), staged.index
        index = staged.index.carry_out()
        for each in fields(self):
            setattr(self, each.name, getattr(staged, each.name))
        self.index = index

    # -- the fold

    def add_topic(self, topic: Topic) -> None:
        self.topics[topic.topic_id] = topic
        self.topic_ids[topic.name] = topic.topic_id
        for partition in topic.partitions.values():
            self.index.put(None, partition)

    def put(self, partition: PartitionRegistration) -> None:
        """Store the partition, replacing its previous value."""
        partitions = self.topics[partition.topic_id].partitions
        self.index.put(partitions.get(partition.index), partition)
        partitions[partition.index] = partition

    def replay(self, record: AnyRecord, offset: MetadataOffset) -> None:
        must(offset > self.last_offset, (offset, self.last_offset))
        match record:
            case ControllerEpochRecord():
                must(record.epoch > self.controller_epoch, (record, self.controller_epoch))
                self.controller_epoch = record.epoch
                self.epoch_starts.append((offset, record.epoch))
                del self.epoch_starts[:-EPOCH_STARTS_MAX]
            case TopicRecord():
                must(record.name not in self.topic_ids, record)
                self.add_topic(Topic(record.name, record.topic_id))
            case RemoveTopicRecord():
                topic = self.topics.pop(record.topic_id)
                del self.topic_ids[topic.name]
                for partition in topic.partitions.values():
                    self.index.remove(partition)
                self.losses = without_topic(self.losses, record.topic_id)
            case PartitionRecord():
                self._replay_partition(record, offset)
            case PartitionChangeRecord():
                old = self.topics[record.topic_id].partitions[record.partition]
                new = changed(old, record, offset)
                self.put(new)
                least = self.effective_min_isr(self.topics[record.topic_id], new)
                must(not new.elr or len(new.isr) < least, (new, least, "I-22, I-50"))
                name = self.topics[record.topic_id].name
                self.losses = with_election(self.losses, name, old, new, log_end=record.log_end)
            case ConfigRecord() | BrokerConfigRecord() | GroupConfigRecord():
                self._replay_config(record)
            case LossRecord():
                topic = self.topics[record.topic_id]
                leader = topic.partitions[record.partition].leader
                self.losses = with_loss(self.losses, record, topic=topic.name, leader=leader)
            case ProducerIdsRecord():
                must(record.next_producer_id > self.next_producer_id, (record, "I-59"))
                self.next_producer_id = record.next_producer_id
            case _:
                self._replay_broker(record, offset)
        self.last_offset = offset

    def _replay_partition(self, record: PartitionRecord, offset: MetadataOffset) -> None:
        must(record.leader_recovery_state == RECOVERED, record)
        fields = msgspec.structs.asdict(record)
        partition = PartitionRegistration(
            index=fields.pop("partition"),
            **fields,
            changed_at=offset,
            elected_at=offset,
            led_epoch=UNKNOWN_EPOCH if record.leader == NO_LEADER else record.leader_epoch,
        )
        _check(partition)
        topic = self.topics[record.topic_id]
        must(record.partition not in topic.partitions, record)
        self.put(partition)

    def _replay_config(self, record: ConfigRecord | BrokerConfigRecord | GroupConfigRecord) -> None:
        if isinstance(record, GroupConfigRecord):
            entries = self.group_configs.setdefault(record.group_id, {})
        elif isinstance(record, BrokerConfigRecord):
            if record.broker_id is None:
                entries = self.dynamic_defaults
            else:
                entries = self.broker_configs.setdefault(record.broker_id, {})
        elif record.topic_id is None:
            entries = self.defaults
        else:
            entries = self.topics[record.topic_id].configs
        if record.value is None:
            entries.pop(record.key, None)
        else:
            entries[record.key] = record.value
        if isinstance(record, GroupConfigRecord) and not entries:
            del self.group_configs[record.group_id]

    def _replay_broker(
        self,
        record: RegisterBrokerRecord
        | BrokerRegistrationChangeRecord
        | OfflineReplicasRecord
        | UnregisterBrokerRecord,
        offset: MetadataOffset,
    ) -> None:
        match record:
            case RegisterBrokerRecord():
                self._replay_registration(record, offset)
            case BrokerRegistrationChangeRecord():
                self._replay_broker_change(record, offset)
            case OfflineReplicasRecord():
                broker = self.brokers[record.broker_id]
                must(broker.epoch == record.broker_epoch, (broker, record))
                self.brokers[record.broker_id] = replace(
                    broker, offline_replicas=frozenset(record.replicas)
                )
            case UnregisterBrokerRecord():
                must(self.brokers[record.broker_id].epoch == record.broker_epoch, record)
                del self.brokers[record.broker_id]

    def _replay_registration(self, record: RegisterBrokerRecord, offset: MetadataOffset) -> None:
        before = self.brokers.get(record.broker_id)
        self.brokers[record.broker_id] = Broker(
            broker_id=record.broker_id,
            epoch=BrokerEpoch(offset),
            incarnation_id=record.incarnation_id,
            directory_id=record.directory_id,
            flush_policy=record.flush_policy,
            pid=record.pid,
            version=record.version,
            listeners=record.listeners,
            inter_broker_listener=record.inter_broker_listener,
            rack=record.rack,
            features=record.features,
            log_dirs=record.log_dirs,
            replicas_max=record.replicas_max,
            fencing_offset=offset,
            decommissioning=before is not None and before.decommissioning,
        )

    def _replay_broker_change(
        self, record: BrokerRegistrationChangeRecord, offset: MetadataOffset
    ) -> None:
        broker = self.brokers[record.broker_id]
        must(broker.epoch == record.broker_epoch, (broker, record))
        if record.fenced is not None:
            broker = replace(
                broker,
                fenced=record.fenced,
                fencing_offset=offset if record.fenced else broker.fencing_offset,
            )
        if record.in_controlled_shutdown is not None:
            broker = replace(
                broker,
                in_controlled_shutdown=record.in_controlled_shutdown,
                shutdown_offset=offset if record.in_controlled_shutdown else None,
            )
        if record.decommissioning is not None:
            broker = replace(broker, decommissioning=record.decommissioning)
        self.brokers[record.broker_id] = broker
