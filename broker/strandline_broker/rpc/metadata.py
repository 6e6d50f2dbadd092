"""Metadata: topics, their leaders and the brokers' addresses, as this broker knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc

from strandline_broker.core.internal_topics import INTERNAL_TOPICS
from strandline_broker.rpc.replica_conditions import condition_to_wire
from strandline_broker.rpc.turns import Turns
from strandline_proto.errors import (
    NONE,
    InvalidRequest,
    LeaderNotAvailable,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from strandline_proto.ids import NO_LEADER, TopicId
from strandline_proto.v1 import common_pb2, metadata_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_broker.core.metadata_cache import CachedTopic, MetadataCache, MetadataView


class MetadataRpc:
    """On one listener: brokers are named by their addresses on the listener of that name."""

    def __init__(self, metadata: MetadataCache, listener: str) -> None:
        self._metadata = metadata
        self._listener = listener
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
            brokers=self._brokers(view),
            metadata_offset=view.metadata_offset,
        )
        self._forget_deleted(view)
        turns = Turns()
        if request.only_named:
            # A topic that is named many times is described once, as in Kafka: else the answer to a
            # small request has no bound.
            once = {(wanted.topic_id, wanted.name): wanted for wanted in request.topics}
            for wanted in once.values():
                named = self._named(view, wanted)
                response.topics.append(named)
                await turns.took(1 + len(named.partitions))
        else:
            for topic in sorted(view.topics_by_id.values(), key=lambda topic: topic.name):
                response.topics.append(self._description(topic))
                await turns.took(1 + len(topic.partitions))
        return response

    def _brokers(self, view: MetadataView) -> Iterable[common_pb2.NodeEndpoint]:
        """Live brokers: a client is not sent to a fenced one."""
        for broker in view.brokers.values():
            endpoint = broker.endpoint(self._listener)
            if endpoint is not None and not broker.fenced:
                yield common_pb2.NodeEndpoint(
                    node_id=broker.broker_id,
                    host=endpoint.host,
                    port=endpoint.port,
                    rack=broker.rack,
                )

    def _named(
        self, view: MetadataView, wanted: metadata_pb2.TopicRef
    ) -> metadata_pb2.TopicMetadata:
        if wanted.topic_id:
            topic = view.topic(TopicId(wanted.topic_id))
            code = UnknownTopicId.code if len(wanted.topic_id) == 16 else InvalidRequest.code
        else:
            topic = view.topic_named(wanted.name)
            code = UnknownTopicOrPartition.code
        if topic is None:
            return metadata_pb2.TopicMetadata(
                error_code=code, name=wanted.name, topic_id=wanted.topic_id
            )
        return self._description(topic)

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
                error_code=LeaderNotAvailable.code if p.leader == NO_LEADER else NONE,
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
