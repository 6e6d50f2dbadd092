"""DescribeReplicas: offsets, epochs and roles of the replicas on this broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline_broker.hosts.member.replica_info import ReplicaInfo, describe_replicas
from strandline_broker.hosts.serving.turns import in_turns
from strandline_proto import errors
from strandline_proto.ids import TopicId
from strandline_proto.v1 import metadata_pb2
from strandline_runtime.milliseconds import monotonic_ms

if TYPE_CHECKING:
    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.member.replica_manager import ReplicaManager
    from strandline_runtime.runtime import Clock


class ReplicasInfoRpc:
    def __init__(self, clock: Clock, replicas: ReplicaManager, metadata: MetadataCache) -> None:
        self._clock = clock
        self._replicas = replicas
        self._metadata = metadata

    async def DescribeReplicas(
        self, request: metadata_pb2.DescribeReplicasRequest, context: Any
    ) -> metadata_pb2.DescribeReplicasResponse:
        replicas = self._replicas
        found = describe_replicas(
            replicas,
            self._metadata,
            [(TopicId(topic.topic_id), topic.partitions) for topic in request.topics],
            now_ms=monotonic_ms(self._clock),
        )
        infos = [info async for info in in_turns(found)]
        infos.sort(key=lambda info: (info.topic, info.partition))
        response = metadata_pb2.DescribeReplicasResponse(broker_id=replicas.me)
        async for info in in_turns(infos):
            response.replicas.append(_to_wire(info))
        return response


def _to_wire(info: ReplicaInfo) -> metadata_pb2.ReplicaDescription:
    return metadata_pb2.ReplicaDescription(
        topic=info.topic,
        topic_id=info.topic_id,
        partition=info.partition,
        error_code=errors.NONE if info.error is None else info.error.code,
        error_message="" if info.error is None else str(info.error),
        role=info.role,
        leader_epoch=info.leader_epoch,
        log_start_offset=info.log_start_offset,
        log_end_offset=info.log_end_offset,
        high_watermark=info.high_watermark,
        durable_offset=info.durable_offset,
        size_bytes=info.size_bytes,
        maximal_isr=info.maximal_isr,
        followers=[
            metadata_pb2.FollowerDescription(
                broker_id=f.broker_id,
                broker_epoch=f.broker_epoch,
                log_end_offset=f.log_end_offset,
                last_caught_up_ms=f.last_caught_up_ms,
                in_maximal_isr=f.in_maximal_isr,
            )
            for f in info.followers
        ],
    )
