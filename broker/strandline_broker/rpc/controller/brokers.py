"""Calls of brokers to the controller, on the wire: registration, heartbeats, ISRs, producer ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline_broker.core.controller.brokers.heartbeat import Heartbeat
from strandline_broker.core.controller.log.records import LossRecord, OfflineReplica
from strandline_broker.core.controller.partitions.alter_partition import Proposal, ProposalResult
from strandline_broker.core.controller.producer_ids import BLOCK_LEN
from strandline_broker.core.replication.replica_condition import ReplicaCondition
from strandline_broker.hosts.serving.turns import in_turns
from strandline_broker.rpc.cluster.controller_codec import registration_from_wire
from strandline_broker.rpc.cluster.replica_conditions import condition_from_wire, refusal_from_wire
from strandline_proto.errors import NONE, WireError
from strandline_proto.ids import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    MetadataOffset,
    PartitionEpoch,
    TopicId,
)
from strandline_proto.v1 import common_pb2, controller_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from strandline_broker.hosts.controller.controller import Controller


class BrokersRpc:
    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def BrokerRegistration(
        self, request: controller_pb2.BrokerRegistrationRequest, context: Any
    ) -> controller_pb2.BrokerRegistrationResponse:
        identity = self._controller.identity
        response = controller_pb2.BrokerRegistrationResponse(
            broker_epoch=-1,
            cluster_id=identity.cluster_id,
            store_id=identity.store_id,
            session_timeout_ms=self._controller.sessions.session_ms,
            version=self._controller.here.build,
            features=self._controller.here.levels.features,
        )
        try:
            response.broker_epoch = await self._controller.register(registration_from_wire(request))
        except WireError as error:
            response.error_code, response.error_message = error.code, str(error)
        return response

    async def BrokerHeartbeat(
        self, requests: AsyncIterator[controller_pb2.BrokerHeartbeatRequest], context: Any
    ) -> None:
        """Serves the stream as a coroutine that writes, not as a generator: when the stream breaks,
        its `finally` runs at once.
        """
        ended: Callable[[], None] | None = None
        try:
            async for request in requests:
                heartbeat = await _heartbeat(request)
                self._controller.on_heartbeat(heartbeat)
                if ended is None:
                    ended = self._controller.on_heartbeat_stream(heartbeat)
                await context.write(await self._answer(heartbeat))
        finally:
            if ended is not None:
                ended()

    async def _answer(self, heartbeat: Heartbeat) -> controller_pb2.BrokerHeartbeatResponse:
        state = self._controller.state
        try:
            answer = await self._controller.heartbeat(heartbeat)
        except WireError as error:
            return controller_pb2.BrokerHeartbeatResponse(
                error_code=error.code,
                error_message=str(error),
                is_fenced=True,
                controller_epoch=state.controller_epoch,
                metadata_end_offset=state.next_offset,
            )
        return controller_pb2.BrokerHeartbeatResponse(
            is_caught_up=answer.is_caught_up,
            is_fenced=answer.is_fenced,
            should_shut_down=answer.should_shut_down,
            controller_epoch=state.controller_epoch,
            metadata_end_offset=state.next_offset,
        )

    async def AlterPartition(
        self, request: controller_pb2.AlterPartitionRequest, context: Any
    ) -> controller_pb2.AlterPartitionResponse:
        try:
            results = await self._controller.alter_partition(
                BrokerId(request.broker_id),
                BrokerEpoch(request.broker_epoch),
                list(_proposals(request)),
            )
        except WireError as error:
            return controller_pb2.AlterPartitionResponse(
                error_code=error.code, error_message=str(error)
            )
        response = controller_pb2.AlterPartitionResponse()
        async for result in in_turns(results):
            topic_id = result.proposal.topic_id
            if not response.topics or response.topics[-1].topic_id != topic_id:
                response.topics.add(topic_id=topic_id)
            response.topics[-1].partitions.append(_proposal_result(result))
        return response

    async def AllocateProducerIds(
        self, request: controller_pb2.AllocateProducerIdsRequest, context: Any
    ) -> controller_pb2.AllocateProducerIdsResponse:
        try:
            start = await self._controller.allocate_producer_ids(
                BrokerId(request.broker_id), BrokerEpoch(request.broker_epoch)
            )
        except WireError as error:
            return controller_pb2.AllocateProducerIdsResponse(
                error_code=error.code, error_message=str(error)
            )
        return controller_pb2.AllocateProducerIdsResponse(
            producer_id_start=start, producer_id_len=BLOCK_LEN
        )


async def _heartbeat(request: controller_pb2.BrokerHeartbeatRequest) -> Heartbeat:
    return Heartbeat(
        broker_id=BrokerId(request.broker_id),
        broker_epoch=BrokerEpoch(request.broker_epoch),
        current_metadata_offset=MetadataOffset(request.current_metadata_offset),
        want_fence=request.want_fence,
        want_shut_down=request.want_shut_down,
        number=request.number,
        offline_log_dirs=tuple(request.offline_log_dirs),
        stray_dirs=tuple(request.stray_dirs),
        full_log_dirs=tuple(request.full_log_dirs),
        lacks_descriptors=request.lacks_descriptors,
        applied_partitions=request.applied_partitions,
        refused=tuple([refusal_from_wire(r) async for r in in_turns(request.refused_truncations)]),
        offline_replicas=frozenset(
            [
                OfflineReplica(TopicId(r.topic_id), r.partition_index, _condition(r))
                async for r in in_turns(request.offline_replicas)
            ]
        ),
        losses=tuple(
            [
                LossRecord(
                    broker_id=BrokerId(request.broker_id),
                    topic_id=TopicId(loss.topic_id),
                    partition=loss.partition_index,
                    leader_epoch=LeaderEpoch(loss.leader_epoch),
                    start=loss.start_offset,
                    end=loss.end_offset,
                    committed=loss.committed_offset,
                )
                async for loss in in_turns(request.losses)
            ]
        ),
    )


def _condition(replica: controller_pb2.OfflineReplica) -> ReplicaCondition:
    return condition_from_wire(replica.condition) or ReplicaCondition.OUT_OF_SERVICE


def _proposals(request: controller_pb2.AlterPartitionRequest) -> Iterable[Proposal]:
    for topic in request.topics:
        for partition in topic.partitions:
            yield Proposal(
                topic_id=TopicId(topic.topic_id),
                partition=partition.partition_index,
                leader_epoch=LeaderEpoch(partition.leader_epoch),
                partition_epoch=PartitionEpoch(partition.partition_epoch),
                isr=tuple(
                    (BrokerId(m.broker_id), BrokerEpoch(m.broker_epoch))
                    for m in partition.new_isr_with_epochs
                ),
                leader_recovery_state=partition.leader_recovery_state,
            )


def _proposal_result(decided: ProposalResult) -> controller_pb2.AlterPartitionPartitionResult:
    committed, error = decided.committed, decided.error
    result = controller_pb2.AlterPartitionPartitionResult(
        partition_index=decided.proposal.partition,
        error_code=NONE if error is None else error.code,
    )
    if committed is None:
        result.leader_id = result.leader_epoch = result.partition_epoch = -1
        return result
    partition = committed.partition
    result.leader_id = partition.leader
    result.leader_epoch = partition.leader_epoch
    result.isr_with_epochs.extend(
        common_pb2.BrokerAndEpoch(broker_id=broker_id, broker_epoch=epoch)
        for broker_id, epoch in committed.isr_with_epochs
    )
    result.leader_recovery_state = partition.leader_recovery_state
    result.partition_epoch = partition.partition_epoch
    result.elr.extend(partition.elr)
    result.eff_min_insync_replicas = committed.effective_min_isr
    return result
