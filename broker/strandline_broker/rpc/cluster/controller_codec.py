"""A broker's requests to its controller, on the wire; a registration in both directions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_broker.core.addresses import Endpoint
from strandline_broker.core.registration import Registration
from strandline_broker.core.replication.partition_state import IsrAnswer, IsrMember
from strandline_broker.hosts.common.controller_calls import (
    AlterPartitionAnswer,
    HeartbeatAnswer,
    ProducerIdBlock,
    Registered,
)
from strandline_broker.rpc.cluster.replica_conditions import condition_to_wire, refusal_to_wire
from strandline_proto import errors
from strandline_proto.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    MetadataOffset,
    PartitionEpoch,
    TopicId,
)
from strandline_proto.v1 import common_pb2, controller_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Protocol

    from strandline_broker.core.replication.isr_proposal import ProposeIsr
    from strandline_broker.hosts.common.controller_calls import Heartbeat, Key, ReplicaLoss
    from strandline_proto.errors import WireError

    class MayRefuse(Protocol):
        @property
        def error_code(self) -> int: ...

        @property
        def error_message(self) -> str: ...


RECOVERED: Final = 0


def registration_to_wire(registration: Registration) -> controller_pb2.BrokerRegistrationRequest:
    return controller_pb2.BrokerRegistrationRequest(
        broker_id=registration.broker_id,
        cluster_id=registration.cluster_id,
        incarnation_id=registration.incarnation_id,
        directory_id=registration.directory_id,
        flush_policy=registration.flush_policy,
        pid=registration.pid,
        version=registration.version,
        store_id=registration.store_id,
        controller_epoch=registration.controller_epoch,
        metadata_offset=registration.metadata_offset,
        listeners=[
            common_pb2.Endpoint(listener=e.listener, host=e.host, port=e.port)
            for e in registration.listeners
        ],
        rack=registration.rack,
        features=registration.features,
        log_dirs=registration.log_dirs,
        previous_broker_epoch=registration.previous_broker_epoch,
        inter_broker_listener=registration.inter_broker_listener,
        replicas_max=registration.replicas_max,
    )


def registration_from_wire(request: controller_pb2.BrokerRegistrationRequest) -> Registration:
    """A registration. If it names no listener for brokers, its first listener is used."""
    listeners = tuple(Endpoint(e.listener, e.host, e.port) for e in request.listeners)
    between_brokers = request.inter_broker_listener
    if between_brokers == "" and listeners:
        between_brokers = listeners[0].listener
    return Registration(
        broker_id=BrokerId(request.broker_id),
        cluster_id=request.cluster_id,
        incarnation_id=request.incarnation_id,
        directory_id=request.directory_id,
        flush_policy=request.flush_policy,
        pid=request.pid,
        version=request.version,
        store_id=request.store_id,
        controller_epoch=ControllerEpoch(request.controller_epoch),
        metadata_offset=MetadataOffset(request.metadata_offset),
        listeners=listeners,
        inter_broker_listener=between_brokers,
        rack=request.rack,
        log_dirs=tuple(request.log_dirs),
        previous_broker_epoch=BrokerEpoch(request.previous_broker_epoch),
        features=tuple(request.features),
        replicas_max=request.replicas_max,
    )


def registered_from_wire(answer: controller_pb2.BrokerRegistrationResponse) -> Registered:
    return Registered(
        BrokerEpoch(answer.broker_epoch),
        answer.cluster_id,
        answer.store_id,
        _refusal(answer),
        session_s=answer.session_timeout_ms / 1000,
        version=answer.version,
        features=tuple(answer.features),
    )


def heartbeat_to_wire(heartbeat: Heartbeat) -> controller_pb2.BrokerHeartbeatRequest:
    return controller_pb2.BrokerHeartbeatRequest(
        number=heartbeat.number,
        broker_id=heartbeat.broker_id,
        broker_epoch=heartbeat.broker_epoch,
        current_metadata_offset=heartbeat.current_metadata_offset,
        want_fence=heartbeat.want_fence,
        want_shut_down=heartbeat.want_shut_down,
        offline_log_dirs=heartbeat.offline_log_dirs,
        full_log_dirs=heartbeat.full_log_dirs,
        lacks_descriptors=heartbeat.lacks_descriptors,
        losses=map(_loss_to_wire, heartbeat.losses),
        stray_dirs=heartbeat.stray_dirs,
        refused_truncations=map(refusal_to_wire, heartbeat.refused_truncations),
        applied_partitions=heartbeat.applied_partitions,
        offline_replicas=[
            controller_pb2.OfflineReplica(
                topic_id=topic_id,
                partition_index=partition,
                condition=condition_to_wire(condition),
            )
            for (topic_id, partition), condition in heartbeat.offline_replicas.items()
        ],
    )


def _loss_to_wire(loss: ReplicaLoss) -> controller_pb2.LossReport:
    return controller_pb2.LossReport(
        topic_id=loss.topic_id,
        partition_index=loss.partition,
        leader_epoch=loss.leader_epoch,
        start_offset=loss.start,
        end_offset=loss.end,
        committed_offset=loss.committed,
    )


def heartbeat_answer_from_wire(answer: controller_pb2.BrokerHeartbeatResponse) -> HeartbeatAnswer:
    return HeartbeatAnswer(
        is_fenced=answer.is_fenced,
        should_shut_down=answer.should_shut_down,
        metadata_end_offset=answer.metadata_end_offset,
        error=_refusal(answer),
    )


def proposals_to_wire(
    broker_id: BrokerId, broker_epoch: BrokerEpoch, proposals: Mapping[Key, ProposeIsr]
) -> controller_pb2.AlterPartitionRequest:
    request = controller_pb2.AlterPartitionRequest(broker_id=broker_id, broker_epoch=broker_epoch)
    topics: dict[TopicId, controller_pb2.AlterPartitionTopic] = {}
    for (topic_id, partition), proposal in proposals.items():
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = request.topics.add(topic_id=topic_id)
        topic.partitions.add(
            partition_index=partition,
            leader_epoch=proposal.leader_epoch,
            partition_epoch=proposal.partition_epoch,
            leader_recovery_state=RECOVERED,
            new_isr_with_epochs=[
                common_pb2.BrokerAndEpoch(broker_id=m.broker_id, broker_epoch=m.broker_epoch)
                for m in proposal.isr
            ],
        )
    return request


def alterations_from_wire(answer: controller_pb2.AlterPartitionResponse) -> AlterPartitionAnswer:
    return AlterPartitionAnswer(dict(_isr_answers(answer)), _refusal(answer))


def _isr_answers(
    answer: controller_pb2.AlterPartitionResponse,
) -> Iterable[tuple[Key, IsrAnswer | WireError]]:
    for topic in answer.topics:
        for result in topic.partitions:
            yield (TopicId(topic.topic_id), result.partition_index), _isr_answer(result)


def _isr_answer(result: controller_pb2.AlterPartitionPartitionResult) -> IsrAnswer | WireError:
    if result.error_code != errors.NONE:
        return errors.from_code(result.error_code)
    return IsrAnswer(
        leader=BrokerId(result.leader_id),
        leader_epoch=LeaderEpoch(result.leader_epoch),
        isr=tuple(
            IsrMember(BrokerId(m.broker_id), BrokerEpoch(m.broker_epoch))
            for m in result.isr_with_epochs
        ),
        partition_epoch=PartitionEpoch(result.partition_epoch),
        eff_min_insync=result.eff_min_insync_replicas,
        recovering=result.leader_recovery_state != RECOVERED,
        elr=tuple(BrokerId(b) for b in result.elr),
    )


def block_from_wire(answer: controller_pb2.AllocateProducerIdsResponse) -> ProducerIdBlock:
    return ProducerIdBlock(answer.producer_id_start, answer.producer_id_len, _refusal(answer))


def _refusal(answer: MayRefuse) -> WireError | None:
    if answer.error_code == errors.NONE:
        return None
    return errors.from_code(answer.error_code, answer.error_message)
