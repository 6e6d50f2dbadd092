"""Metadata: topics, their leaders and the brokers' addresses, as this broker knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc

from strandline_broker.core.internal_topics import INTERNAL_TOPICS
from strandline_broker.hosts.serving.metadata import (
    TopicRef,
    UnknownTopic,
    all_topics,
    live_brokers,
    named_topics,
    partition_error,
)
from strandline_broker.hosts.serving.turns import Turns
from strandline_broker.rpc.cluster.replica_conditions import condition_to_wire
from strandline_broker.rpc.records.leader_hints import node_to_wire
from strandline_proto.v1 import metadata_pb2

if TYPE_CHECKING:
    from strandline_broker.core.metadata_cache import CachedTopic, MetadataCache, MetadataView
    from strandline_proto.ids import TopicId


class MetadataRpc:
    """Metadata on one listener. The answer names each broker's address on the listener of that
    name.
    """

    def __init__(
        self, metadata: MetadataCache, listener: str, range_listener: str | None = None
    ) -> None:
        """`range_listener`: the Kafka listener that serves ranges to the clients of `listener`."""
        self._metadata = metadata
        self._listener = listener
        self._range_listener = range_listener
        self._described: dict[TopicId, tuple[CachedTopic, metadata_pb2.TopicMetadata]] = {}
        self._described_of: MetadataView | None = None
        """The view that topics were last described of; those it has no more are forgotten."""

    async def Metadata(
        self, request: metadata_pb2.MetadataRequest, context: Any
    ) -> metadata_pb2.MetadataResponse:
        if not self._metadata.has_snapshot:
            # An empty answer would read as "there are no topics".
            await context.abort(
                grpc.StatusCode.UNAVAILABLE,
                "this broker has not heard from the controller yet; try again, or ask another "
                "broker",
            )
        view = self._metadata.view  # read once: the answer is of one moment
        response = metadata_pb2.MetadataResponse(
            cluster_id=self._metadata.cluster_id,
            controller_id=view.controller_id,
            brokers=map(node_to_wire, live_brokers(view, self._listener)),
            metadata_offset=view.metadata_offset,
        )
        if self._range_listener is not None:
            brokers = live_brokers(view, self._range_listener)
            response.range_brokers.extend(map(node_to_wire, brokers))
        self._forget_deleted(view)
        turns = Turns()
        if request.only_named:
            refs = (TopicRef(each.topic_id, each.name) for each in request.topics)
            for found in named_topics(view, refs):
                named = self._named(found)
                response.topics.append(named)
                await turns.took(1 + len(named.partitions))
        else:
            for topic in all_topics(view):
                response.topics.append(self._description(topic))
                await turns.took(1 + len(topic.partitions))
        return response

    def _named(self, found: CachedTopic | UnknownTopic) -> metadata_pb2.TopicMetadata:
        if isinstance(found, UnknownTopic):
            return metadata_pb2.TopicMetadata(error_code=found.error_code, **found.ref._asdict())
        return self._description(found)

    def _forget_deleted(self, view: MetadataView) -> None:
        if view is not self._described_of:
            known = view.topics_by_id
            self._described = {
                topic_id: made
                for topic_id, made in self._described.items()
                if known.get(topic_id) is made[0]
            }
            self._described_of = view

    def _description(self, topic: CachedTopic) -> metadata_pb2.TopicMetadata:
        """Made once for each state of a topic: clients ask again and again for the same."""
        made = self._described.get(topic.topic_id)
        if made is None or made[0] is not topic:
            made = self._described[topic.topic_id] = topic, _described(topic)
        return made[1]


def _described(topic: CachedTopic) -> metadata_pb2.TopicMetadata:
    return metadata_pb2.TopicMetadata(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            metadata_pb2.PartitionMetadata(
                error_code=partition_error(p),
                index=p.partition,
                leader=p.leader,
                leader_epoch=p.leader_epoch,
                partition_epoch=p.partition_epoch,
                replicas=p.replicas,
                isr=p.isr,
                offline_replicas=p.offline_replicas,
                offline_conditions=map(condition_to_wire, p.offline_conditions),
                elr=p.elr,
                last_known_elr=p.last_known_elr,
            )
            for p in topic.partitions.values()
        ],
    )
