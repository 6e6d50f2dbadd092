"""Metadata: topics, their leaders and the brokers' addresses, as this broker knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from strandline_broker.hosts.serving.replicas import TOPIC_ID_BYTES, Node, node_on
from strandline_proto.errors import (
    NONE,
    InvalidRequest,
    LeaderNotAvailable,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from strandline_proto.ids import NO_LEADER, TopicId

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


def live_brokers(view: MetadataView, listener: str) -> Iterator[Node]:
    """Yields the brokers to which a client may be sent: a fenced one is left out."""
    for broker in view.brokers.values():
        node = node_on(view, broker.broker_id, listener)
        if node is not None and not broker.fenced:
            yield node


def all_topics(view: MetadataView) -> list[CachedTopic]:
    """Returns every topic, by name."""
    return sorted(view.topics_by_id.values(), key=lambda topic: topic.name)


def named_topics(
    view: MetadataView, refs: Iterable[TopicRef]
) -> Iterator[CachedTopic | UnknownTopic]:
    """Yields each named topic once, however often the request names it: the answer needs a
    bound.
    """
    for ref in dict.fromkeys(refs):
        if ref.topic_id:
            topic = view.topic(TopicId(ref.topic_id))
            has_id = len(ref.topic_id) == TOPIC_ID_BYTES
            code = UnknownTopicId.code if has_id else InvalidRequest.code
        else:
            topic = view.topic_named(ref.name)
            code = UnknownTopicOrPartition.code
        yield UnknownTopic(ref, code) if topic is None else topic


def partition_error(partition: PartitionMetadata) -> int:
    """Returns the error code that a client sees beside the partition."""
    return LeaderNotAvailable.code if partition.leader == NO_LEADER else NONE
