"""The codec of pushes and their answers, in both directions.

The controller writes the part of a `MetadataDelta` that one broker needs. The broker reads it as an
`Envelope`. The answer returns the same way.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from strandline_broker.core.addresses import Endpoint
from strandline_broker.core.push_answer import (
    UNKNOWN,
    FailedPartition,
    LogEnd,
    PushAnswer,
    ReplicaLogEnd,
)
from strandline_broker.core.push_envelope import (
    TOPIC_DELETED,
    DynamicConfigs,
    Envelope,
    HostedTopic,
    LiveBroker,
    PartitionMetadata,
    StopReplica,
    TopicMetadata,
)
from strandline_broker.core.replication.partition_state import IsrMember, PartitionState
from strandline_broker.rpc.cluster.replica_conditions import condition_from_wire, condition_to_wire
from strandline_proto import errors
from strandline_proto.ids import (
    UNKNOWN_EPOCH,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    MetadataOffset,
    PartitionEpoch,
    TopicId,
)
from strandline_proto.v1 import common_pb2, push_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from strandline_broker.core.controller.log.state import Broker
    from strandline_broker.core.controller.push import (
        ClusterConfigs,
        MetadataDelta,
        PushedPartition,
        PushedTopic,
        RemovedReplicas,
        RemovedTopic,
    )
    from strandline_broker.hosts.controller.settings import Identity
    from strandline_proto.errors import WireError


@dataclass(frozen=True, slots=True)
class PushTranslator:
    identity: Identity
    controller_values: Mapping[str, str] = field(default_factory=dict)
    """The controller's own configuration, as far as brokers describe it."""

    def __call__(self, delta: MetadataDelta, receiver: Broker) -> push_pb2.LeaderAndIsrRequest:
        me = receiver.broker_id
        return push_pb2.LeaderAndIsrRequest(
            controller_id=self.identity.node_id,
            cluster_id=self.identity.cluster_id,
            store_id=self.identity.store_id,
            controller_epoch=delta.controller_epoch,
            broker_epoch=receiver.epoch,
            metadata_offset=delta.metadata_offset,
            prev_metadata_offset=delta.prev_metadata_offset,
            full=delta.full,
            stop_replica=[
                *_deleted_to_wire(delta.removed_topics, me),
                *_removed_to_wire(delta.removed_replicas, me),
            ],
            leader_and_isr=_hosted_to_wire(delta.topics, me),
            update_metadata=push_pb2.UpdateMetadata(
                topics=[_topic_to_wire(topic) for topic in delta.topics],
                live_brokers=[_broker_to_wire(broker) for broker in delta.brokers],
                deleted_topic_ids=[topic.topic_id for topic in delta.removed_topics],
                removed_brokers=delta.removed_brokers,
            ),
            dynamic_configs=_dynamic_to_wire(delta.dynamic, me, self.controller_values),
            controller_epoch_starts=[
                push_pb2.ControllerEpochStart(metadata_offset=offset, controller_epoch=epoch)
                for offset, epoch in delta.epoch_starts
            ],
        )


def _deleted_to_wire(
    removed: Iterable[RemovedTopic], me: BrokerId
) -> Iterable[push_pb2.StopReplicaTopic]:
    for topic in removed:
        mine = [index for index, replicas in topic.replicas if me in replicas]
        if mine:
            yield push_pb2.StopReplicaTopic(
                topic_id=topic.topic_id,
                partitions=[
                    push_pb2.StopReplicaPartition(
                        partition_index=index, leader_epoch=TOPIC_DELETED, delete_partition=True
                    )
                    for index in mine
                ],
            )


def _removed_to_wire(
    removed: Iterable[RemovedReplicas], me: BrokerId
) -> Iterable[push_pb2.StopReplicaTopic]:
    for replicas in removed:
        if me in replicas.brokers:
            yield push_pb2.StopReplicaTopic(
                topic_id=replicas.topic_id,
                partitions=[
                    push_pb2.StopReplicaPartition(
                        partition_index=replicas.partition,
                        leader_epoch=replicas.leader_epoch,
                        delete_partition=True,
                    )
                ],
            )


def _hosted_to_wire(
    topics: Iterable[PushedTopic], me: BrokerId
) -> Iterable[push_pb2.LeaderAndIsrTopic]:
    for topic in topics:
        mine = [p for p in topic.partitions if p.moved and me in p.partition.replicas]
        if mine:
            yield push_pb2.LeaderAndIsrTopic(
                topic_name=topic.name,
                topic_id=topic.topic_id,
                partitions=[_state_to_wire(pushed) for pushed in mine],
                configs=_topic_entries(topic),
            )


def _state_to_wire(pushed: PushedPartition) -> push_pb2.LeaderAndIsrPartition:
    partition = pushed.partition
    return push_pb2.LeaderAndIsrPartition(
        partition_index=partition.index,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr_with_epochs=[
            common_pb2.BrokerAndEpoch(broker_id=broker_id, broker_epoch=epoch)
            for broker_id, epoch in pushed.isr_with_epochs
        ],
        partition_epoch=partition.partition_epoch,
        replicas=partition.replicas,
        adding_replicas=partition.adding,
        removing_replicas=partition.removing,
        is_new=pushed.is_new,
        leader_recovery_state=partition.leader_recovery_state,
        unclean_leader_epoch=(
            None if partition.unclean_epoch == UNKNOWN_EPOCH else partition.unclean_epoch
        ),
        elr=partition.elr,
        eff_min_insync_replicas=pushed.effective_min_isr,
    )


def _topic_to_wire(topic: PushedTopic) -> push_pb2.UpdateMetadataTopic:
    return push_pb2.UpdateMetadataTopic(
        topic_name=topic.name,
        topic_id=topic.topic_id,
        configs=_topic_entries(topic),
        partitions=[
            push_pb2.UpdateMetadataPartition(
                index=pushed.partition.index,
                leader=pushed.partition.leader,
                leader_epoch=pushed.partition.leader_epoch,
                isr=pushed.partition.isr,
                partition_epoch=pushed.partition.partition_epoch,
                replicas=pushed.partition.replicas,
                offline_replicas=[b for b, _ in pushed.offline_replicas],
                offline_conditions=[condition_to_wire(c) for _, c in pushed.offline_replicas],
                elr=pushed.partition.elr,
                last_known_elr=pushed.partition.last_known_elr,
            )
            for pushed in topic.partitions
        ],
    )


def _topic_entries(topic: PushedTopic) -> list[common_pb2.ConfigEntry]:
    return [common_pb2.ConfigEntry(name=key, value=value) for key, value in topic.configs]


def _dynamic_to_wire(
    dynamic: ClusterConfigs | None, me: BrokerId, controller_values: Mapping[str, str]
) -> push_pb2.DynamicConfigs | None:
    if dynamic is None:
        return None
    return push_pb2.DynamicConfigs(
        broker=_entries(dynamic.brokers.get(me, {})),
        cluster=_entries(dynamic.cluster),
        controller=_entries({**controller_values, **dynamic.controller}),
        groups=[
            push_pb2.GroupConfigs(group_id=group_id, configs=_entries(own))
            for group_id, own in dynamic.groups.items()
        ],
    )


def _entries(entries: Mapping[str, str]) -> list[common_pb2.ConfigEntry]:
    return [common_pb2.ConfigEntry(name=key, value=value) for key, value in entries.items()]


def _broker_to_wire(broker: Broker) -> push_pb2.LiveBroker:
    return push_pb2.LiveBroker(
        broker_id=broker.broker_id,
        endpoints=[
            common_pb2.Endpoint(listener=e.listener, host=e.host, port=e.port)
            for e in broker.listeners
        ],
        rack=broker.rack,
        broker_epoch=broker.epoch,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
    )


def envelope_from_wire(request: push_pb2.LeaderAndIsrRequest) -> Envelope:
    update = request.update_metadata
    return Envelope(
        cluster_id=request.cluster_id,
        controller_id=BrokerId(request.controller_id),
        store_id=request.store_id,
        controller_epoch=ControllerEpoch(request.controller_epoch),
        broker_epoch=BrokerEpoch(request.broker_epoch),
        metadata_offset=MetadataOffset(request.metadata_offset),
        prev_metadata_offset=MetadataOffset(request.prev_metadata_offset),
        full=request.full,
        stop_replicas=tuple(_stops_from_wire(request.stop_replica)),
        leader_and_isr=tuple(
            _state_from_wire(topic, partition)
            for topic in request.leader_and_isr
            for partition in topic.partitions
        ),
        hosted_topics=tuple(
            HostedTopic(t.topic_name, TopicId(t.topic_id), _configs(t.configs))
            for t in request.leader_and_isr
        ),
        topics=tuple(_topic_from_wire(topic) for topic in update.topics),
        live_brokers=tuple(_broker_from_wire(broker) for broker in update.live_brokers),
        deleted_topic_ids=tuple(TopicId(t) for t in update.deleted_topic_ids),
        removed_brokers=tuple(BrokerId(b) for b in update.removed_brokers),
        dynamic_configs=_dynamic_from_wire(request),
        epoch_starts=tuple(
            (MetadataOffset(start.metadata_offset), ControllerEpoch(start.controller_epoch))
            for start in request.controller_epoch_starts
        ),
    )


def _dynamic_from_wire(request: push_pb2.LeaderAndIsrRequest) -> DynamicConfigs | None:
    if not request.HasField("dynamic_configs"):
        return None
    dynamic = request.dynamic_configs
    return DynamicConfigs(
        _configs(dynamic.broker),
        _configs(dynamic.cluster),
        _configs(dynamic.controller),
        {each.group_id: _configs(each.configs) for each in dynamic.groups},
    )


def _stops_from_wire(topics: Iterable[push_pb2.StopReplicaTopic]) -> Iterable[StopReplica]:
    for topic in topics:
        for partition in topic.partitions:
            yield StopReplica(
                topic_id=TopicId(topic.topic_id),
                partition=partition.partition_index,
                leader_epoch=LeaderEpoch(partition.leader_epoch),
                delete=partition.delete_partition,
            )


def _state_from_wire(
    topic: push_pb2.LeaderAndIsrTopic, partition: push_pb2.LeaderAndIsrPartition
) -> PartitionState:
    return PartitionState(
        topic=topic.topic_name,
        topic_id=TopicId(topic.topic_id),
        partition=partition.partition_index,
        leader=BrokerId(partition.leader),
        leader_epoch=LeaderEpoch(partition.leader_epoch),
        isr=tuple(
            IsrMember(BrokerId(m.broker_id), BrokerEpoch(m.broker_epoch))
            for m in partition.isr_with_epochs
        ),
        partition_epoch=PartitionEpoch(partition.partition_epoch),
        replicas=_brokers(partition.replicas),
        adding=_brokers(partition.adding_replicas),
        elr=_brokers(partition.elr),
        eff_min_insync=partition.eff_min_insync_replicas,
        is_new=partition.is_new,
        recovering=partition.leader_recovery_state != 0,
        unclean_epoch=(
            LeaderEpoch(partition.unclean_leader_epoch)
            if partition.HasField("unclean_leader_epoch")
            else UNKNOWN_EPOCH
        ),
    )


def _topic_from_wire(topic: push_pb2.UpdateMetadataTopic) -> TopicMetadata:
    return TopicMetadata(
        name=topic.topic_name,
        topic_id=TopicId(topic.topic_id),
        partitions=tuple(
            PartitionMetadata(
                partition=p.index,
                leader=BrokerId(p.leader),
                leader_epoch=LeaderEpoch(p.leader_epoch),
                partition_epoch=PartitionEpoch(p.partition_epoch),
                replicas=_brokers(p.replicas),
                isr=_brokers(p.isr),
                offline_replicas=_brokers(p.offline_replicas),
                offline_conditions=tuple(map(condition_from_wire, p.offline_conditions)),
                elr=_brokers(p.elr),
                last_known_elr=_brokers(p.last_known_elr),
            )
            for p in topic.partitions
        ),
        configs=_configs(topic.configs),
    )


def _broker_from_wire(broker: push_pb2.LiveBroker) -> LiveBroker:
    return LiveBroker(
        broker_id=BrokerId(broker.broker_id),
        broker_epoch=BrokerEpoch(broker.broker_epoch),
        endpoints=tuple(Endpoint(e.listener, e.host, e.port) for e in broker.endpoints),
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
    )


def _brokers(ids: Iterable[int]) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(broker_id) for broker_id in ids)


def _configs(entries: Iterable[common_pb2.ConfigEntry]) -> dict[str, str]:
    return {entry.name: entry.value for entry in entries}


def answer_to_wire(answer: PushAnswer) -> push_pb2.LeaderAndIsrResponse:
    response = push_pb2.LeaderAndIsrResponse(
        store_id=answer.store_id,
        controller_epoch=answer.controller_epoch,
        metadata_offset=answer.metadata_offset,
        applied_metadata_offset=answer.applied_offset,
        want_full=answer.want_full,
        error_code=errors.NONE if answer.error is None else answer.error.code,
        error_message="" if answer.error is None else str(answer.error),
    )
    topics: dict[bytes, push_pb2.LeaderAndIsrTopicResult] = {}
    for topic_id, partition, error in answer.failed:
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = response.topics.add(topic_id=topic_id)
        topic.partitions.add(
            partition_index=partition, error_code=error.code, error_message=str(error)
        )
    for end in answer.log_ends:
        response.log_ends.add(
            topic_id=end.topic_id,
            partition_index=end.partition,
            leader_epoch=end.leader_epoch,
            last_epoch=end.end.last_epoch,
            log_end_offset=end.end.offset,
            high_watermark=end.end.high_watermark,
            known_epoch=None if end.end.known_epoch == UNKNOWN else end.end.known_epoch,
            parts_at=end.end.parts_at,
        )
    return response


def _error_from_wire(answer: push_pb2.LeaderAndIsrResponse) -> WireError | None:
    if answer.error_code == errors.NONE:
        return None
    return errors.from_code(answer.error_code, answer.error_message)


def answer_from_wire(answer: push_pb2.LeaderAndIsrResponse) -> PushAnswer:
    return PushAnswer(
        metadata_offset=MetadataOffset(answer.metadata_offset),
        applied_offset=MetadataOffset(answer.applied_metadata_offset),
        controller_epoch=ControllerEpoch(answer.controller_epoch),
        store_id=answer.store_id,
        want_full=answer.want_full,
        error=_error_from_wire(answer),
        failed=tuple(
            FailedPartition(
                TopicId(topic.topic_id),
                p.partition_index,
                errors.from_code(p.error_code, p.error_message),
            )
            for topic in answer.topics
            for p in topic.partitions
        ),
        log_ends=tuple(
            ReplicaLogEnd(
                TopicId(end.topic_id),
                end.partition_index,
                LeaderEpoch(end.leader_epoch),
                LogEnd(
                    end.last_epoch,
                    end.log_end_offset,
                    end.high_watermark,
                    known_epoch=end.known_epoch if end.HasField("known_epoch") else UNKNOWN,
                    parts_at=end.parts_at,
                ),
            )
            for end in answer.log_ends
        ),
    )
