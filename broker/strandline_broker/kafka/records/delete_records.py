"""DeleteRecords: each partition has its own result, and its own wait within the limit."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from strandline_broker.hosts.serving.delete_records import AT_ONCE, DeleteRecordsService
from strandline_broker.hosts.serving.turns import Turns
from strandline_broker.kafka.codec import answer_of
from strandline_broker.kafka.records.partitions import NamedPartitions
from strandline_proto.errors import WireError

if TYPE_CHECKING:
    from strandline_broker.kafka.request import Request
    from strandline_broker.kafka.services import Services

NO_WATERMARK: Final = -1


class DeleteRecordsCalls:
    def __init__(self, services: Services) -> None:
        self._records = DeleteRecordsService(services.replicas)
        self._partitions = NamedPartitions(services)

    async def DeleteRecords(self, request: Request, message: Any) -> Any:
        answer, turns = answer_of("DeleteRecords"), Turns(AT_ONCE)
        new_topic = answer.DeleteRecordsTopicResult
        topics = []
        async with asyncio.TaskGroup() as group:
            for topic in message.topics:
                results = []
                await turns.took()
                for each in topic.partitions:
                    await turns.took()
                    result = new_topic.DeleteRecordsPartitionResult(
                        partition_index=each.partition_index, low_watermark=NO_WATERMARK
                    )
                    results.append(result)
                    group.create_task(
                        self._delete(topic.name, each.offset, message.timeout_ms, result)
                    )
                topics.append(new_topic(name=topic.name, partitions=results))
        return answer(throttle_time_ms=0, topics=topics)

    async def _delete(self, topic: str, offset: int, timeout_ms: int, result: Any) -> None:
        key = b"", result.partition_index
        try:
            key = self._partitions.key(topic, result.partition_index)
            result.low_watermark = await self._records.delete_before(key, offset, timeout_ms)
        except WireError as error:
            result.error_code = self._partitions.code(key, error)
