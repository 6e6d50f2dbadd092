"""The controller's push stream on the wire: LeaderAndIsrRequest to Envelope and back."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import grpc

from strandline_broker.core.partition_state import IsrMember, PartitionState
from strandline_broker.core.push_envelope import (
    DynamicConfigs,
    Endpoint,
    Envelope,
    HostedTopic,
    LiveBroker,
    PartitionMetadata,
    StopReplica,
    TopicMetadata,
)
from strandline_broker.rpc.replica_conditions import condition_from_wire
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
from strandline_proto.v1 import push_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from concurrent.futures import Executor

    from strandline_broker.hosts.push import PushAnswer, PushReceiver
    from strandline_broker.hosts.push_streams import PushStream
    from strandline_proto.v1 import common_pb2


LARGE: Final = 500
"""So many partitions take about 10 ms to decode: an envelope of more is decoded on a thread."""


class PushRpc:
    def __init__(self, receiver: PushReceiver, thread: Executor) -> None:
        """`thread` is for what would keep the loop waiting."""
        self._receiver = receiver
        self._thread = thread

    async def LeaderAndIsr(
        self, requests: AsyncIterator[push_pb2.LeaderAndIsrRequest], context: Any
    ) -> None:
        # A handler that is cancelled in its very first write would leave the call without a status:
        # grpc.aio then sends the headers twice, and fails to.
        await context.send_initial_metadata(())
        stream = self._receiver.streams.open()
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(self._serve(stream, requests, context))
            replaced = group.create_task(stream.replaced.wait())
            await asyncio.wait((serving, replaced), return_when=asyncio.FIRST_COMPLETED)
            serving.cancel()
            replaced.cancel()
        if stream.replaced.is_set():
            await context.abort(
                grpc.StatusCode.ABORTED, "this push stream has been given up for a newer one"
            )

    async def _serve(
        self,
        stream: PushStream,
        requests: AsyncIterator[push_pb2.LeaderAndIsrRequest],
        context: Any,
    ) -> None:
        async for request in requests:
            answer = await self._receiver.apply(stream, await self._decoded(request))
            if answer is None:
                return
            await context.write(answer_to_wire(answer))

    async def _decoded(self, request: push_pb2.LeaderAndIsrRequest) -> Envelope:
        if sum(len(topic.partitions) for topic in request.update_metadata.topics) <= LARGE:
            return envelope_from_wire(request)
        decode = partial(envelope_from_wire, request)
        return await asyncio.get_running_loop().run_in_executor(self._thread, decode)


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
        stop_replicas=tuple(_stop_replicas(request.stop_replica)),
        leader_and_isr=tuple(
            _partition_state(topic, partition)
            for topic in request.leader_and_isr
            for partition in topic.partitions
        ),
        hosted_topics=tuple(
            HostedTopic(t.topic_name, TopicId(t.topic_id), _configs(t.configs))
            for t in request.leader_and_isr
        ),
        topics=tuple(_topic_metadata(topic) for topic in update.topics),
        live_brokers=tuple(_live_broker(broker) for broker in update.live_brokers),
        deleted_topic_ids=tuple(TopicId(t) for t in update.deleted_topic_ids),
        removed_brokers=tuple(BrokerId(b) for b in update.removed_brokers),
        dynamic_configs=_dynamic(request),
        epoch_starts=tuple(
            (MetadataOffset(start.metadata_offset), ControllerEpoch(start.controller_epoch))
            for start in request.controller_epoch_starts
        ),
    )


def _dynamic(request: push_pb2.LeaderAndIsrRequest) -> DynamicConfigs | None:
    if not request.HasField("dynamic_configs"):
        return None
    dynamic = request.dynamic_configs
    return DynamicConfigs(
        _configs(dynamic.broker), _configs(dynamic.cluster), _configs(dynamic.controller)
    )


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
    for topic_id, partition, error in answer.partition_errors:
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = response.topics.add(topic_id=topic_id)
        topic.partitions.add(
            partition_index=partition, error_code=error.code, error_message=str(error)
        )
    for end in answer.log_ends:
        response.log_ends.add(
            topic_id=end.state.topic_id,
            partition_index=end.state.partition,
            leader_epoch=end.state.leader_epoch,
            last_epoch=end.last_epoch,
            log_end_offset=end.log_end_offset,
        )
    return response


def _stop_replicas(topics: Iterable[push_pb2.StopReplicaTopic]) -> Iterable[StopReplica]:
    for topic in topics:
        for partition in topic.partitions:
            yield StopReplica(
                topic_id=TopicId(topic.topic_id),
                partition=partition.partition_index,
                leader_epoch=LeaderEpoch(partition.leader_epoch),
                delete=partition.delete_partition,
            )


def _partition_state(
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


def _topic_metadata(topic: push_pb2.UpdateMetadataTopic) -> TopicMetadata:
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


def _live_broker(broker: push_pb2.LiveBroker) -> LiveBroker:
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
