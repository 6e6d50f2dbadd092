"""Conversions from the administrator's messages to the library's values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline.errors import StrandlineError, from_code
from strandline.types import (
    BrokerInfo,
    ControllerInfo,
    FollowerInfo,
    LossInfo,
    NewTopic,
    PartitionInfo,
    RefusedTruncation,
    ReplicaInfo,
    TopicDescription,
)
from strandline_proto.conditions import condition_name
from strandline_proto.errors import NONE
from strandline_runtime.build_id import version_of

if TYPE_CHECKING:
    from strandline_proto.v1 import metadata_pb2


def add_topic(request: metadata_pb2.CreateTopicsRequest, topic: NewTopic) -> None:
    """Adds a topic to the request."""
    added = request.topics.add(
        name=topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
    )
    for partition, brokers in enumerate(topic.replica_assignment or ()):
        added.assignments.add(partition=partition, broker_ids=list(brokers))
    for name, value in topic.config.items():
        added.configs.add(name=name, value=value)


def description(topic: metadata_pb2.TopicMetadata) -> TopicDescription:
    """The library's value of one topic."""
    partitions = sorted(topic.partitions, key=lambda p: p.index)
    return TopicDescription(
        topic.name,
        topic.topic_id,
        topic.is_internal,
        tuple(
            PartitionInfo(
                p.index,
                p.leader,
                p.leader_epoch,
                tuple(p.replicas),
                tuple(p.isr),
                tuple(p.offline_replicas),
                tuple(p.elr),
                p.partition_epoch,
                tuple(map(condition_name, p.offline_conditions)),
            )
            for p in partitions
        ),
    )


def controller_info(controller: metadata_pb2.ControllerDescription) -> ControllerInfo:
    """The library's value of the controller."""
    return ControllerInfo(
        id=controller.id,
        pid=controller.pid,
        host=controller.host,
        port=controller.port,
        state=controller.state,
        controller_epoch=controller.controller_epoch,
        metadata_offset=controller.metadata_offset,
        store_id=controller.store_id,
        version=version_of(controller.version),
        build=controller.version,
    )


def broker_info(broker: metadata_pb2.BrokerDescription) -> BrokerInfo:
    """The library's value of one registered broker."""
    return BrokerInfo(
        id=broker.id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.broker_epoch,
        state=broker.state,
        pid=broker.pid,
        listeners=tuple((at.listener, at.host, at.port) for at in broker.listeners),
        kafka_listeners=frozenset(broker.kafka_listeners),
        rack=broker.rack,
        version=version_of(broker.version),
        last_heard_ms=broker.last_heard_ms,
        decommissioning=broker.decommissioning,
        refused_truncations=tuple(
            RefusedTruncation(
                topic_id=r.topic_id,
                partition=r.partition_index,
                leader=r.leader_id,
                leader_epoch=r.leader_epoch,
                offset=r.offset,
                high_watermark=r.high_watermark,
                log_end_offset=r.log_end_offset,
            )
            for r in broker.refused_truncations
        ),
        full_log_dirs=tuple(broker.full_log_dirs),
        lacks_descriptors=broker.lacks_descriptors,
        build=broker.version,
    )


def loss_info(loss: metadata_pb2.LossDescription) -> LossInfo:
    """The library's value of one reported loss."""
    return LossInfo(
        topic=loss.topic,
        topic_id=loss.topic_id,
        partition=loss.partition,
        leader_epoch=loss.leader_epoch,
        leader=loss.leader,
        elected_uncleanly=loss.elected_uncleanly,
        start=loss.start_offset,
        end=loss.end_offset,
        acknowledged=loss.acknowledged,
        brokers=tuple(loss.brokers),
        possibly_from=loss.possibly_from if loss.HasField("possibly_from") else None,
    )


def replica(replica: metadata_pb2.ReplicaDescription, broker_id: int) -> ReplicaInfo:
    """The library's value of one replica of a broker."""
    error: StrandlineError | None = None
    if replica.error_code != NONE:
        error = from_code(replica.error_code, replica.error_message)
    return ReplicaInfo(
        topic=replica.topic,
        topic_id=replica.topic_id,
        partition=replica.partition,
        broker=broker_id,
        role=replica.role,
        leader_epoch=replica.leader_epoch,
        log_start_offset=replica.log_start_offset,
        log_end_offset=replica.log_end_offset,
        high_watermark=replica.high_watermark,
        durable_offset=replica.durable_offset,
        maximal_isr=tuple(replica.maximal_isr),
        followers=tuple(
            FollowerInfo(
                f.broker_id,
                f.log_end_offset,
                f.last_caught_up_ms,
                f.in_maximal_isr,
                f.broker_epoch,
            )
            for f in replica.followers
        ),
        size_bytes=replica.size_bytes,
        error=error,
    )
