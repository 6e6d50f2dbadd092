"""Envelope to LeaderAndIsrRequest, what one broker is told of one atomic batch; and its answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strandline_broker.hosts.controller.broker_calls import (
    FailedPartition,
    PushAnswer,
    ToldLogEnd,
)
from strandline_broker.rpc.replica_conditions import condition_to_wire
from strandline_proto.ids import (
    UNKNOWN_EPOCH,
    ControllerEpoch,
    LeaderEpoch,
    MetadataOffset,
    TopicId,
)
from strandline_proto.v1 import common_pb2, push_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from strandline_broker.core.controller.push import (
        DynamicConfigs,
        Envelope,
        PushedPartition,
        PushedTopic,
        RemovedReplicas,
        RemovedTopic,
    )
    from strandline_broker.core.controller.state import Broker
    from strandline_broker.hosts.controller.settings import Identity
    from strandline_proto.ids import BrokerId

TOPIC_DELETED: Final = -2
"""Leader epoch of a StopReplica that deletes the topic: no later epoch can exist (P-18)."""


@dataclass(frozen=True, slots=True)
class PushTranslator:
    identity: Identity

    def __call__(self, envelope: Envelope, receiver: Broker) -> push_pb2.LeaderAndIsrRequest:
        me = receiver.broker_id
        return push_pb2.LeaderAndIsrRequest(
            controller_id=self.identity.node_id,
            cluster_id=self.identity.cluster_id,
            store_id=self.identity.store_id,
            controller_epoch=envelope.controller_epoch,
            broker_epoch=receiver.epoch,
            metadata_offset=envelope.metadata_offset,
            prev_metadata_offset=envelope.prev_metadata_offset,
            full=envelope.full,
            stop_replica=[
                *_stopped(envelope.removed_topics, me),
                *_removed(envelope.removed_replicas, me),
            ],
            leader_and_isr=_hosted(envelope.topics, me),
            update_metadata=push_pb2.UpdateMetadata(
                topics=[_topic_metadata(topic) for topic in envelope.topics],
                live_brokers=[_live_broker(broker) for broker in envelope.brokers],
                deleted_topic_ids=[topic.topic_id for topic in envelope.removed_topics],
                removed_brokers=envelope.removed_brokers,
            ),
            dynamic_configs=_dynamic(envelope.dynamic, me),
            controller_epoch_starts=[
                push_pb2.ControllerEpochStart(metadata_offset=offset, controller_epoch=epoch)
                for offset, epoch in envelope.epoch_starts
            ],
        )


def _stopped(removed: Iterable[RemovedTopic], me: BrokerId) -> Iterable[push_pb2.StopReplicaTopic]:
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


def _removed(
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


def _hosted(topics: Iterable[PushedTopic], me: BrokerId) -> Iterable[push_pb2.LeaderAndIsrTopic]:
    for topic in topics:
        mine = [p for p in topic.partitions if p.moved and me in p.partition.replicas]
        if mine:
            yield push_pb2.LeaderAndIsrTopic(
                topic_name=topic.name,
                topic_id=topic.topic_id,
                partitions=[_leader_and_isr(pushed) for pushed in mine],
                configs=_configs(topic),
            )


def _leader_and_isr(pushed: PushedPartition) -> push_pb2.LeaderAndIsrPartition:
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


def _topic_metadata(topic: PushedTopic) -> push_pb2.UpdateMetadataTopic:
    return push_pb2.UpdateMetadataTopic(
        topic_name=topic.name,
        topic_id=topic.topic_id,
        configs=_configs(topic),
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


def _configs(topic: PushedTopic) -> list[common_pb2.ConfigEntry]:
    return [common_pb2.ConfigEntry(name=key, value=value) for key, value in topic.configs]


def _dynamic(dynamic: DynamicConfigs | None, me: BrokerId) -> push_pb2.DynamicConfigs | None:
    if dynamic is None:
        return None
    return push_pb2.DynamicConfigs(
        broker=_entries(dynamic.brokers.get(me, {})),
        cluster=_entries(dynamic.cluster),
        controller=_entries(dynamic.controller),
    )


def _entries(entries: Mapping[str, str]) -> list[common_pb2.ConfigEntry]:
    return [common_pb2.ConfigEntry(name=key, value=value) for key, value in entries.items()]


def _live_broker(broker: Broker) -> push_pb2.LiveBroker:
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


def answer_from_wire(answer: push_pb2.LeaderAndIsrResponse) -> PushAnswer:
    return PushAnswer(
        metadata_offset=MetadataOffset(answer.metadata_offset),
        applied_offset=MetadataOffset(answer.applied_metadata_offset),
        controller_epoch=ControllerEpoch(answer.controller_epoch),
        store_id=answer.store_id,
        want_full=answer.want_full,
        error_code=answer.error_code,
        error_message=answer.error_message,
        failed=tuple(
            FailedPartition(
                TopicId(topic.topic_id), p.partition_index, p.error_code, p.error_message
            )
            for topic in answer.topics
            for p in topic.partitions
        ),
        log_ends=tuple(
            ToldLogEnd(
                TopicId(end.topic_id),
                end.partition_index,
                LeaderEpoch(end.leader_epoch),
                end.last_epoch,
                end.log_end_offset,
            )
            for end in answer.log_ends
        ),
    )
