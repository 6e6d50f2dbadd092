"""A client's view of the cluster: brokers, topics and leaders.

Brokers lag behind the controller by different amounts. The view never goes back. For one topic id,
a leader of an older epoch is ignored (P-72, P-82). The topic id of a name comes from the answer
whose broker had applied the most of the controller's log (P-83).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from strandline.types import Broker
from strandline_proto.errors import (
    NONE,
    InconsistentClusterId,
    UnknownTopicId,
    UnknownTopicOrPartition,
)

if TYPE_CHECKING:
    from strandline_proto.v1 import metadata_pb2

PartitionKey = tuple[bytes, int]
"""Topic id and partition: the key of positions and sequences."""


@dataclass(slots=True)
class PartitionView:
    """Leader and replicas of one partition."""

    index: int
    leader: int = -1
    leader_epoch: int = -1
    metadata_offset: int = -1


@dataclass(slots=True)
class TopicView:
    """The id and partitions of one topic."""

    name: str
    topic_id: bytes
    metadata_offset: int
    partitions: dict[int, PartitionView] = field(default_factory=dict)

    def has(self, partition: int | None) -> bool:
        """True if this partition is known; None, or any value that is no int, stands for any."""
        return partition in self.partitions if type(partition) is int else bool(self.partitions)


@dataclass(slots=True)
class Changes:
    """The news of one answer: moved leaders, and new, deleted or recreated topics."""

    moved: list[PartitionKey] = field(default_factory=list)
    gone: list[bytes] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """Topics requested by name that do not exist, as far as this client can tell."""
    errors: dict[str, int] = field(default_factory=dict)
    """Other error codes, by topic name."""


FORMER_MAX = 1_000


class ClusterView:
    """The newest state in the answers of all brokers."""

    def __init__(self) -> None:
        self.cluster_id = ""
        self.metadata_offset = -1
        self.brokers: dict[int, Broker] = {}
        self.topics: dict[str, TopicView] = {}
        self.by_id: dict[bytes, TopicView] = {}
        self.former_names: dict[bytes, str] = {}
        """Names of topics that are gone, for messages about them: the last FORMER_MAX of them."""
        self._min_epochs: dict[PartitionKey, int] = {}
        """Epochs that a reader has seen: older leaders are not asked (P-82).

        A partition may be in no answer yet: the coordinator may know more than this client.
        """

    def apply(self, answer: metadata_pb2.MetadataResponse) -> Changes:
        """Applies newer facts. Raises InconsistentClusterId for another cluster's answer."""
        self._check_cluster(answer.cluster_id)
        self._apply_brokers(answer)
        changes = Changes()
        for topic in answer.topics:
            if topic.error_code in (UnknownTopicOrPartition.code, UnknownTopicId.code):
                self._apply_unknown(topic.name, topic.topic_id, answer.metadata_offset, changes)
            elif topic.error_code != NONE:
                changes.errors[topic.name] = topic.error_code
            else:
                self._apply_topic(topic, answer.metadata_offset, changes)
        return changes

    def _check_cluster(self, cluster_id: str) -> None:
        if not self.cluster_id:
            self.cluster_id = cluster_id
        elif cluster_id and cluster_id != self.cluster_id:
            raise InconsistentClusterId(
                f"a broker of cluster {cluster_id} answered a client of cluster {self.cluster_id}"
            )

    def _apply_brokers(self, answer: metadata_pb2.MetadataResponse) -> None:
        newer = answer.metadata_offset >= self.metadata_offset
        found = {b.node_id: Broker(b.node_id, b.host, b.port, b.rack) for b in answer.brokers}
        if newer and found:
            self.metadata_offset = answer.metadata_offset
            self.brokers = found
        else:
            for broker_id, broker in found.items():
                self.brokers.setdefault(broker_id, broker)

    def _apply_unknown(
        self, name: str, topic_id: bytes, metadata_offset: int, changes: Changes
    ) -> None:
        known = self.topics.get(name) if name else self.by_id.get(topic_id)
        if known is None:
            changes.unknown.append(name)
        elif metadata_offset > known.metadata_offset:
            self._forget(known, changes)
            changes.unknown.append(known.name)

    def _forget(self, topic: TopicView, changes: Changes) -> None:
        self.by_id.pop(topic.topic_id, None)
        self.former_names[topic.topic_id] = topic.name
        if len(self.former_names) > FORMER_MAX:
            del self.former_names[next(iter(self.former_names))]
        for key in [key for key in self._min_epochs if key[0] == topic.topic_id]:
            del self._min_epochs[key]
        if self.topics.get(topic.name) is topic:
            del self.topics[topic.name]
        changes.gone.append(topic.topic_id)

    def _apply_topic(
        self, topic: metadata_pb2.TopicMetadata, metadata_offset: int, changes: Changes
    ) -> None:
        known = self.topics.get(topic.name)
        if known is not None and known.topic_id != topic.topic_id:
            if metadata_offset <= known.metadata_offset:
                return
            self._forget(known, changes)
            known = None
        if known is None:
            known = TopicView(topic.name, topic.topic_id, metadata_offset)
            self.topics[topic.name] = known
            self.by_id[topic.topic_id] = known
        known.metadata_offset = max(known.metadata_offset, metadata_offset)
        for p in topic.partitions:
            view = known.partitions.get(p.index)
            if view is None:
                view = known.partitions[p.index] = PartitionView(p.index)
            if self._move(view, p.leader, p.leader_epoch, metadata_offset):
                changes.moved.append((topic.topic_id, p.index))

    @staticmethod
    def _move(view: PartitionView, leader: int, epoch: int, metadata_offset: int) -> bool:
        if epoch < view.leader_epoch:
            return False
        if epoch == view.leader_epoch and metadata_offset < view.metadata_offset:
            return False
        changed = (leader, epoch) != (view.leader, view.leader_epoch)
        view.leader, view.leader_epoch = leader, epoch
        view.metadata_offset = max(view.metadata_offset, metadata_offset)
        return changed

    def hint(self, topic_id: bytes, partition: int, *, leader: int, leader_epoch: int) -> bool:
        """Applies the leader named in a refusal (KIP-951). True if the leader is new."""
        topic = self.by_id.get(topic_id)
        view = topic.partitions.get(partition) if topic is not None else None
        if view is None or leader_epoch <= view.leader_epoch or leader not in self.brokers:
            return False
        view.leader, view.leader_epoch = leader, leader_epoch
        return True

    def add_broker(self, broker: Broker) -> None:
        """Adds the address of a broker that may be new."""
        self.brokers.setdefault(broker.id, broker)

    def partition(self, topic_id: bytes, partition: int) -> PartitionView | None:
        topic = self.by_id.get(topic_id)
        return None if topic is None else topic.partitions.get(partition)

    def leader(self, topic_id: bytes, partition: int) -> tuple[int, int] | None:
        """(leader, leader epoch); None if there is none, or if a reader has seen a newer epoch."""
        view = self.partition(topic_id, partition)
        if view is None or view.leader < 0 or view.leader not in self.brokers:
            return None
        if view.leader_epoch < self._min_epochs.get((topic_id, partition), -1):
            return None
        return view.leader, view.leader_epoch

    def require_epoch(self, topic_id: bytes, partition: int, leader_epoch: int) -> None:
        """Notes that a record of this epoch was read: leaders of older epochs are not asked."""
        key = topic_id, partition
        self._min_epochs[key] = max(self._min_epochs.get(key, -1), leader_epoch)
