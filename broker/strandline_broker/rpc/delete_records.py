"""DeleteRecords: the log start of partitions led here rises, on every replica in sync."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from strandline_broker.hosts.leading import check_leader
from strandline_broker.rpc.leader_hints import leader_hint
from strandline_broker.rpc.turns import Turns
from strandline_proto.errors import RequestTimedOut, UnknownTopicId, WireError
from strandline_proto.v1 import delete_records_pb2

if TYPE_CHECKING:
    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.replica_manager import ReplicaManager

TIMEOUT_MS_MAX: Final = 300_000
AT_ONCE: Final = 100
"""Partitions whose deletion begins between two turns of other calls."""


class DeleteRecordsRpc:
    def __init__(self, replicas: ReplicaManager, metadata: MetadataCache) -> None:
        self._replicas = replicas
        self._metadata = metadata

    async def DeleteRecords(
        self, request: delete_records_pb2.DeleteRecordsRequest, context: Any
    ) -> delete_records_pb2.DeleteRecordsResponse:
        """Each partition has its own answer, and its own wait within the limit."""
        response = delete_records_pb2.DeleteRecordsResponse()
        timeout_ms = min(max(request.timeout_ms, 0), TIMEOUT_MS_MAX)
        turns = Turns(AT_ONCE)
        async with asyncio.TaskGroup() as group:
            for topic in request.topics:
                results = response.topics.add(topic_id=topic.topic_id)
                await turns.took()
                for asked in topic.partitions:
                    await turns.took()
                    result = results.partitions.add(partition=asked.partition, low_watermark=-1)
                    group.create_task(self._delete(topic.topic_id, asked, result, timeout_ms))
        return response

    async def _delete(
        self,
        topic_id: bytes,
        asked: delete_records_pb2.DeleteRecordsPartition,
        result: delete_records_pb2.DeleteRecordsPartitionResult,
        timeout_ms: int,
    ) -> None:
        try:
            partition = self._replicas.find(topic_id, asked.partition)
            if partition is None:
                raise UnknownTopicId(f"broker {self._replicas.me} holds no such replica")
            leading = check_leader(partition, None)
            try:
                async with asyncio.timeout(timeout_ms / 1000):
                    result.low_watermark = await leading.deletions.delete_before(asked.offset)
            except TimeoutError:
                raise RequestTimedOut(
                    f"{partition.name}: not every replica in sync had deleted the records within"
                    f" {timeout_ms} ms; they are deleted at the leader and follow elsewhere:"
                    f" {leading.describe_isr()}"
                ) from None
        except WireError as error:
            result.error_code, result.error_message = error.code, str(error)
            leader = leader_hint(self._metadata.view, (topic_id, asked.partition))
            if leader is not None:
                result.current_leader.CopyFrom(leader)
