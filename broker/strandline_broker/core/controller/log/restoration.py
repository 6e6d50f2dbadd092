"""A controller's state rebuilt from the brokers' data directories (P-76), for `controller restore`.

The rest of the old store may be older than the brokers' state, or may be missing. Every number that
names something once is therefore raised far above all values in the directories: controller epoch,
metadata offset (and with it broker epochs), leader epochs, partition epochs and producer ids. The
steps are larger than the old controller can have advanced unseen.

Each controller epoch also has its own leader epochs and producer ids. Two restorations of one copy
therefore share no number, even if the second one lacks the directories with the highest values.

A topic that brokers hold is kept, known or not. A known topic that none of its brokers hold was
deleted since. No partition has a leader at first: each gets one by balanced recovery, which waits
for all its holders (I-53).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from strandline_broker.core.controller.log.records import RECOVERED
from strandline_broker.core.controller.log.state import (
    MIN_INSYNC_REPLICAS,
    UNCLEAN_ELECTION,
    ControllerState,
    PartitionRegistration,
    Topic,
)
from strandline_proto.ids import (
    NO_LEADER,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    MetadataOffset,
    PartitionEpoch,
    ProducerId,
    TopicId,
    topic_id_text,
)

CONTROLLER_EPOCH_STEP: Final = 100
OFFSET_STEP: Final = 1 << 20
LEADER_EPOCH_STEP: Final = 1_000
PARTITION_EPOCH_STEP: Final = 100_000
PRODUCER_ID_STEP: Final = 1 << 40

KEEP_ALL: Final = {"retention.ms": "-1", "retention.bytes": "-1"}
"""Configuration of a topic whose own is lost: no record is removed before an operator has
looked.
"""


class CannotRestore(Exception):
    """The directories contradict each other or are incomplete; the message gives the remedy."""


@dataclass(frozen=True, slots=True)
class FoundReplica:
    topic: str
    topic_id: TopicId
    partition: int
    leader_epoch: int
    """The greatest leader epoch in its log or its epoch checkpoint; -1 if there is none."""
    producer_id: int
    """The greatest producer id in its log or its producer snapshots; -1 if there is none."""


@dataclass(frozen=True, slots=True)
class FoundBroker:
    """The content of one broker's data directories."""

    broker_id: BrokerId
    cluster_id: str | None
    directory_id: str
    store_id: str | None
    controller_epoch: int
    metadata_offset: int
    replicas: tuple[FoundReplica, ...]


@dataclass(slots=True)
class Restored:
    """The state to begin with, and one line for each conclusion."""

    state: ControllerState
    lines: list[str] = field(default_factory=list)


def restored_state(
    old: ControllerState | None,
    old_store_id: str | None,
    brokers: Sequence[FoundBroker],
    *,
    recreate_missing: bool,
    defaults: Mapping[str, str] | None = None,
) -> Restored:
    """Rebuild the state. `defaults` is the controller's configuration for topics without their own,
    if known. Raises CannotRestore if partitions are missing between those found.
    """
    known = old if old is not None else ControllerState()
    epoch = max(known.controller_epoch, 0, *(b.controller_epoch for b in brokers))
    seen = max(known.last_offset, 0, *(b.metadata_offset for b in brokers))
    end = MetadataOffset((seen // OFFSET_STEP + 2) * OFFSET_STEP)
    ids = [known.next_producer_id, *(r.producer_id + 1 for b in brokers for r in b.replicas)]
    stores = [*known.former_stores, old_store_id, *(b.store_id for b in brokers)]
    own = (epoch + CONTROLLER_EPOCH_STEP) * PRODUCER_ID_STEP
    state = ControllerState(
        controller_epoch=ControllerEpoch(epoch + CONTROLLER_EPOCH_STEP),
        defaults=dict(known.defaults),
        dynamic_defaults=dict(known.dynamic_defaults),
        broker_configs={b: dict(own) for b, own in known.broker_configs.items()},
        group_configs={g: dict(own) for g, own in known.group_configs.items()},
        next_producer_id=ProducerId(max(max(ids) + PRODUCER_ID_STEP, own)),
        last_offset=MetadataOffset(end - 1),
        former_stores=list(dict.fromkeys(store for store in stores if store is not None)),
    )
    state.epoch_starts.append((state.last_offset, state.controller_epoch))
    made = Restored(state)
    made.lines += [
        f"controller epoch {known.controller_epoch} in the store, {epoch} at the most anywhere:"
        f" now {state.controller_epoch}",
        f"metadata offset {known.last_offset} in the store, {seen} at the most anywhere: now"
        f" {state.last_offset}",
        f"producer ids go on from {state.next_producer_id}",
    ]
    topics = _Topics(known, brokers, made, recreate_missing=recreate_missing)
    topics.restore()
    if topics.unconfigured:
        made.lines.append(_what_holds(topics.unconfigured, state.dynamic_defaults, defaults or {}))
    return made


def _what_holds(
    topics: Sequence[str], dynamic: Mapping[str, str], static: Mapping[str, str]
) -> str:
    """The report on topics whose configuration is lost: their treatment now, and how to set it
    again.
    """
    holds = [f"{key}={value}" for key, value in KEEP_ALL.items()]
    for key in (MIN_INSYNC_REPLICAS, UNCLEAN_ELECTION):
        value = dynamic.get(key, static.get(key))
        holds.append(
            f"{key} as the controller's configuration says" if value is None else f"{key}={value}"
        )
    name = topics[0] if len(topics) == 1 else "TOPIC"
    return (
        f"the configuration of {', '.join(topics)} is lost; what holds now: {', '.join(holds)},"
        " and of all other keys the brokers' defaults (cleanup.policy, for one); to set what a"
        f" topic had: strandline config alter topic {name} --set {MIN_INSYNC_REPLICAS}=N"
        f" --set {UNCLEAN_ELECTION}=BOOL --set retention.ms=MS"
    )


Hosts = dict[BrokerId, FoundReplica]


class _Topics:
    def __init__(
        self,
        known: ControllerState,
        brokers: Sequence[FoundBroker],
        made: Restored,
        *,
        recreate_missing: bool,
    ) -> None:
        self._known = known
        self._made = made
        self._recreate_missing = recreate_missing
        self._directories = {b.broker_id: b.directory_id for b in brokers}
        self._found: dict[TopicId, dict[int, Hosts]] = {}
        self._names: dict[TopicId, str] = {}
        self.unconfigured: list[str] = []
        """Names of the topics whose configuration is lost."""
        for broker in sorted(brokers, key=lambda b: b.broker_id):
            for found in broker.replicas:
                partitions = self._found.setdefault(found.topic_id, {})
                partitions.setdefault(found.partition, {})[broker.broker_id] = found
                self._names[found.topic_id] = found.topic

    def restore(self) -> None:
        for topic in self._known.topics.values():
            self._known_topic(topic)
        unknown = [t for t in self._found if t not in self._known.topics]
        for topic_id in sorted(unknown, key=self._weight, reverse=True):
            self._unknown_topic(topic_id)

    def _weight(self, topic_id: TopicId) -> tuple[int, int, bytes]:
        """Sort key for two topics of one name: the one with more remaining data is kept."""
        hosts = [found for h in self._found[topic_id].values() for found in h.values()]
        return len(hosts), max(found.leader_epoch for found in hosts), topic_id

    def _known_topic(self, topic: Topic) -> None:
        found = self._found.get(topic.topic_id, {})
        absent = {b for p in topic.partitions.values() for b in p.replicas} - set(self._directories)
        if not found and not absent:
            self._made.lines.append(
                f"topic {topic.name}: none of its brokers holds it, so it was deleted after the"
                " store was copied; it is not restored"
            )
            return
        new = Topic(topic.name, topic.topic_id, dict(topic.configs))
        for index in range(max([*topic.partitions, *found]) + 1):
            hosts = found.get(index, {})
            old = topic.partitions.get(index)
            new.partitions[index] = self._partition(new, index, old, hosts)
        self._add(new, "known")

    def _unknown_topic(self, topic_id: TopicId) -> None:
        name, found = self._names[topic_id], self._found[topic_id]
        text = topic_id_text(topic_id)
        if name in self._made.state.topic_ids:
            self._made.lines.append(
                f"topic {name} of id {text}: another topic has that name; it is left out, and its"
                " brokers set its records aside as strays, which nothing deletes"
            )
            return
        new = Topic(name, topic_id, dict(KEEP_ALL))
        for index in range(max(found) + 1):
            new.partitions[index] = self._partition(new, index, None, found.get(index, {}))
        self._add(
            new,
            f"not known to the store; kept under its id {text}, with all its records, but its"
            " configuration is lost",
        )
        self.unconfigured.append(name)

    def _add(self, topic: Topic, what: str) -> None:
        self._made.state.add_topic(topic)
        self._made.lines.append(f"topic {topic.name}: {len(topic.partitions)} partitions, {what}")

    def _partition(
        self, topic: Topic, index: int, old: PartitionRegistration | None, hosts: Hosts
    ) -> PartitionRegistration:
        """The partition's replicas: the brokers that hold it, and its former brokers whose
        directories were not given.
        """
        away = [] if old is None else [b for b in old.replicas if b not in self._directories]
        order = [] if old is None else [b for b in old.replicas if b in hosts or b in away]
        replicas = (*order, *(b for b in sorted(hosts) if b not in order))
        if not hosts:
            replicas = self._instead(topic, index, old)
        holders = tuple(b for b in replicas if b in hosts) or replicas
        found = max((replica.leader_epoch for replica in hosts.values()), default=-1)
        if old is not None:
            found = max(found, old.leader_epoch)
        own = self._made.state.controller_epoch * LEADER_EPOCH_STEP
        if away:
            names = ", ".join(map(str, away))
            self._made.lines.append(
                f"{topic.name}:{index}: the directories of broker {names} were not"
                " given; it is not waited for, and has to come back empty"
            )
        return PartitionRegistration(
            topic_id=topic.topic_id,
            index=index,
            replicas=replicas,
            directories=self._directories_of(replicas, old),
            isr=(),
            leader=NO_LEADER,
            leader_epoch=LeaderEpoch(max(found + LEADER_EPOCH_STEP, own)),
            partition_epoch=PartitionEpoch(
                (0 if old is None else old.partition_epoch) + PARTITION_EPOCH_STEP
            ),
            leader_recovery_state=RECOVERED,
            adding=(),
            removing=(),
            elr=(),
            last_known_elr=holders,
            changed_at=self._made.state.last_offset,
            elected_at=self._made.state.last_offset,
        )

    def _directories_of(
        self, replicas: Sequence[BrokerId], old: PartitionRegistration | None
    ) -> tuple[str, ...]:
        before: Mapping[BrokerId, str] = (
            {} if old is None else dict(zip(old.replicas, old.directories, strict=True))
        )
        return tuple(self._directories.get(b, before.get(b, "")) for b in replicas)

    def _instead(
        self, topic: Topic, index: int, old: PartitionRegistration | None
    ) -> tuple[BrokerId, ...]:
        """Brokers for a partition that no broker holds: its former ones, or those of another
        partition.
        """
        where = f"{topic.name}:{index}"
        if not self._recreate_missing:
            raise CannotRestore(
                f"{where}: no data directory that was given holds it; give those of all brokers, or"
                " --recreate-missing to start it empty"
            )
        self._made.lines.append(f"{where}: no directory holds it; it starts EMPTY")
        if old is not None and (given := [b for b in old.replicas if b in self._directories]):
            return tuple(given)
        others = self._found.get(topic.topic_id, {}).values()
        return tuple(sorted({b for hosts in others for b in hosts} or self._directories))
