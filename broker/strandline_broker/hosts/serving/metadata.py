"""Metadata: topics, their leaders and the brokers' addresses, as this broker knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from strandline_broker.core.controller.topics.topics import check_topic_name
from strandline_broker.core.internal_topics import INTERNAL_TOPICS
from strandline_broker.hosts.serving.replicas import TOPIC_ID_BYTES, Node, node_on
from strandline_proto.errors import (
    NONE,
    InvalidRequest,
    InvalidTopic,
    LeaderNotAvailable,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from strandline_proto.ids import NO_LEADER, BrokerId, TopicId

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from strandline_broker.core.metadata_cache import CachedTopic, MetadataView
    from strandline_broker.core.push_envelope import PartitionMetadata


class TopicRef(NamedTuple):
    """A topic by its id or, where that is empty, by its name."""

    topic_id: bytes
    name: str


class UnknownTopic(NamedTuple):
    """A topic that was named and is not known here."""

    ref: TopicRef
    error_code: int


class Reach:
    """The brokers that the clients of one listener can reach."""

    __slots__ = ("_brokers", "_reachable")

    def __init__(self, view: MetadataView, listener: str) -> None:
        self._brokers = view.brokers
        self._reachable = frozenset(node.broker_id for node in live_brokers(view, listener))

    def holds_for(self, view: MetadataView) -> bool:
        """True if the brokers of `view` are the same."""
        return view.brokers is self._brokers or view.brokers == self._brokers

    def leader(self, partition: PartitionMetadata) -> BrokerId:
        """Returns the leader; NO_LEADER if clients cannot be sent to it."""
        return partition.leader if partition.leader in self._reachable else NO_LEADER

    def lacks_listener(self, broker_id: BrokerId) -> bool:
        """True if the broker is live, and has no listener of that name."""
        broker = self._brokers.get(broker_id)
        return broker is not None and not broker.fenced and broker_id not in self._reachable

    def reachable(self, brokers: Iterable[BrokerId]) -> list[BrokerId]:
        return [each for each in brokers if each in self._reachable]

    def offline(self, partition: PartitionMetadata) -> list[BrokerId]:
        """Returns the replicas that serve no client of the listener."""
        known = partition.offline_replicas
        return [each for each in partition.replicas if each in known or each not in self._reachable]

    def any_broker(self, preferred: BrokerId) -> BrokerId:
        """Returns a broker that takes requests for the controller: `preferred` if it is reachable,
        NO_LEADER if none is.
        """
        if preferred in self._reachable:
            return preferred
        return min(self._reachable, default=NO_LEADER)


def live_brokers(view: MetadataView, listener: str) -> Iterator[Node]:
    """Yields the brokers to which a client may be sent: a fenced one is left out."""
    for broker in view.brokers.values():
        node = node_on(view, broker.broker_id, listener)
        if node is not None and not broker.fenced:
            yield node


def registered_brokers(view: MetadataView, listener: str) -> Iterator[tuple[Node, bool]]:
    """Yields each broker with the listener; True if it is fenced."""
    for broker in view.brokers.values():
        node = node_on(view, broker.broker_id, listener)
        if node is not None:
            yield node, broker.fenced


class Page(NamedTuple):
    """Topics by name with some of their partitions."""

    topics: list[tuple[str, CachedTopic | None, list[PartitionMetadata]]]
    """None: no topic has the name."""
    next: tuple[str, int] | None
    """The topic and partition with which the next page begins."""


def page_of_topics(
    view: MetadataView, names: list[str], start: tuple[str, int] | None, room: int
) -> Page:
    """Returns at most `room` partitions of the named topics, from `start` on, by name.

    Without names, all topics are meant. Raises InvalidRequest for a start that is none of them.
    """
    first_name, first_index = ("", 0) if start is None else start
    if first_index < 0 or (start is not None and names and first_name not in names):
        raise InvalidRequest(
            f"the cursor names partition {first_index} of topic {first_name!r}, which the request"
            " does not ask for"
        )
    page = Page([], None)
    for name in sorted(names or view.ids_by_name):
        if name < first_name:
            continue
        if room <= 0:
            return page._replace(next=(name, 0))
        topic = view.topic_named(name)
        begin = first_index if name == first_name else 0
        indices = [] if topic is None else [i for i in topic.partitions if i >= begin]
        taken = [] if topic is None else [topic.partitions[i] for i in indices[:room]]
        page.topics.append((name, topic, taken))
        if len(indices) > room:
            return page._replace(next=(name, indices[room]))
        room -= len(taken)
    return page


def all_topics(view: MetadataView) -> list[CachedTopic]:
    """Returns every topic, by name."""
    return sorted(view.topics_by_id.values(), key=lambda topic: topic.name)


def named_topics(
    view: MetadataView, refs: Iterable[TopicRef]
) -> Iterator[CachedTopic | UnknownTopic]:
    """Returns each named topic once, however often the request names it: the answer needs a
    bound.
    """
    return (named_topic(view, ref) for ref in dict.fromkeys(refs))


def named_topic(view: MetadataView, ref: TopicRef) -> CachedTopic | UnknownTopic:
    if ref.topic_id:
        topic = view.topic(TopicId(ref.topic_id))
        has_id = len(ref.topic_id) == TOPIC_ID_BYTES
        code = UnknownTopicId.code if has_id else InvalidRequest.code
    else:
        topic = view.topic_named(ref.name)
        code = UnknownTopicOrPartition.code
    return UnknownTopic(ref, code) if topic is None else topic


def partition_error(partition: PartitionMetadata) -> int:
    """Returns the error code that a client sees beside the partition."""
    return LeaderNotAvailable.code if partition.leader == NO_LEADER else NONE


def unknown_name_error(name: str) -> int:
    """Returns the error code for a name that no topic has."""
    try:
        check_topic_name(name)
    except InvalidTopic:
        return UnknownTopicOrPartition.code if name in INTERNAL_TOPICS else InvalidTopic.code
    return UnknownTopicOrPartition.code


def may_be_created(name: str) -> bool:
    """True for a legal name that does not belong to the cluster itself."""
    return name not in INTERNAL_TOPICS and unknown_name_error(name) != InvalidTopic.code
