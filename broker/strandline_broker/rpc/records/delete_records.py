"""DeleteRecords on the wire."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from strandline_broker.hosts.serving.delete_records import AT_ONCE
from strandline_broker.hosts.serving.turns import Turns
from strandline_broker.rpc.records.leader_hints import leader_hint
from strandline_proto.errors import WireError
from strandline_proto.v1 import delete_records_pb2

if TYPE_CHECKING:
    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.serving.delete_records import DeleteRecordsService


class DeleteRecordsRpc:
    def __init__(self, records: DeleteRecordsService, metadata: MetadataCache) -> None:
        self._records = records
        self._metadata = metadata

    async def DeleteRecords(
        self, request: delete_records_pb2.DeleteRecordsRequest, context: Any
    ) -> delete_records_pb2.DeleteRecordsResponse:
        """Each partition has its own answer, and its own wait within the limit."""
        response = delete_records_pb2.DeleteRecordsResponse()
        turns = Turns(AT_ONCE)
        async with asyncio.TaskGroup() as group:
            for topic in request.topics:
                results = response.topics.add(topic_id=topic.topic_id)
                await turns.took()
                for asked in topic.partitions:
                    await turns.took()
                    result = results.partitions.add(partition=asked.partition, low_watermark=-1)
                    group.create_task(
                        self._delete(topic.topic_id, asked, result, request.timeout_ms)
                    )
        return response

    async def _delete(
        self,
        topic_id: bytes,
        asked: delete_records_pb2.DeleteRecordsPartition,
        result: delete_records_pb2.DeleteRecordsPartitionResult,
        timeout_ms: int,
    ) -> None:
        key = (topic_id, asked.partition)
        try:
            result.low_watermark = await self._records.delete_before(key, asked.offset, timeout_ms)
        except WireError as error:
            result.error_code, result.error_message = error.code, str(error)
            leader = leader_hint(self._metadata.view, key)
            if leader is not None:
                result.current_leader.CopyFrom(leader)
