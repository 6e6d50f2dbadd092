"""ListOffsets and OffsetForLeaderEpoch: the ends of a log, and offsets of times and epochs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from strandline_broker.core.replication.isolation import isolation
from strandline_broker.hosts.serving.offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    NOT_FOUND,
    FoundOffset,
    OffsetsService,
)
from strandline_broker.hosts.serving.turns import Turns
from strandline_broker.kafka.codec import answer_of
from strandline_broker.kafka.records.partitions import NamedPartitions
from strandline_proto.errors import (
    NONE,
    InvalidRequest,
    LeaderNotAvailable,
    OffsetNotAvailable,
    UnsupportedVersion,
    WireError,
)
from strandline_proto.ids import UNKNOWN_EPOCH, UNKNOWN_OFFSET

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strandline_broker.kafka.request import Request
    from strandline_broker.kafka.services import Services

ISOLATION: Final = 2
OFFSET_NOT_AVAILABLE: Final = 5
"""First version whose clients know OffsetNotAvailable."""
CLUSTER_AUTHORIZATION_FAILED: Final = 31
FIRST_VERSIONS: Final[Mapping[int, int]] = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
}
"""The first version of each timestamp that means no time."""
_NOTHING: Final = FoundOffset(NOT_FOUND, NOT_FOUND, NOT_FOUND)


class OffsetsCalls:
    def __init__(self, services: Services) -> None:
        self._offsets = OffsetsService(services.replicas)
        self._partitions = NamedPartitions(services)

    async def ListOffsets(self, request: Request, message: Any) -> Any:
        """The timeout of version 10 limits reads of a remote storage, which there is none of."""
        answer, turns = answer_of("ListOffsets"), Turns()
        asked: Counter[tuple[str, int]] = Counter()
        for topic in message.topics:
            await turns.took(1 + len(topic.partitions))
            asked.update((topic.name, each.partition_index) for each in topic.partitions)
        topics = []
        for topic in message.topics:
            found = []
            await turns.took()
            for each in topic.partitions:
                await turns.took()
                is_repeated = asked[topic.name, each.partition_index] > 1
                code, offset = await self._find(
                    request.version, message, topic.name, each, is_repeated=is_repeated
                )
                found.append(
                    answer.ListOffsetsTopicResponse.ListOffsetsPartitionResponse(
                        partition_index=each.partition_index,
                        error_code=code,
                        timestamp=offset.timestamp,
                        offset=offset.offset,
                        leader_epoch=offset.leader_epoch,
                    )
                )
            topics.append(answer.ListOffsetsTopicResponse(name=topic.name, partitions=found))
        return answer(throttle_time_ms=0, topics=topics)

    async def _find(
        self, version: int, message: Any, topic: str, each: Any, *, is_repeated: bool
    ) -> tuple[int, FoundOffset]:
        """Returns the error code and what was found."""
        if message.replica_id >= 0:
            return CLUSTER_AUTHORIZATION_FAILED, _NOTHING
        if is_repeated:
            return InvalidRequest.code, _NOTHING
        if each.timestamp < 0 and version < FIRST_VERSIONS.get(each.timestamp, version + 1):
            return UnsupportedVersion.code, _NOTHING
        key = b"", each.partition_index
        try:
            key = self._partitions.key(topic, each.partition_index)
            found = await self._offsets.find(
                key,
                each.timestamp,
                current_leader_epoch=each.current_leader_epoch,
                isolation=isolation(message.isolation_level if version >= ISOLATION else 0),
            )
        except OffsetNotAvailable as error:
            is_known = version >= OFFSET_NOT_AVAILABLE
            return error.code if is_known else LeaderNotAvailable.code, _NOTHING
        except WireError as error:
            return self._partitions.code(key, error), _NOTHING
        return NONE, found

    async def OffsetForLeaderEpoch(self, request: Request, message: Any) -> Any:
        answer, turns = answer_of("OffsetForLeaderEpoch"), Turns()
        topics = []
        for topic in message.topics:
            found = []
            await turns.took()
            for each in topic.partitions:
                await turns.took()
                code, epoch, end_offset = self._end_of_epoch(topic.topic, each)
                found.append(
                    answer.OffsetForLeaderTopicResult.EpochEndOffset(
                        error_code=code,
                        partition=each.partition,
                        leader_epoch=epoch,
                        end_offset=end_offset,
                    )
                )
            topics.append(answer.OffsetForLeaderTopicResult(topic=topic.topic, partitions=found))
        return answer(throttle_time_ms=0, topics=topics)

    def _end_of_epoch(self, topic: str, each: Any) -> tuple[int, int, int]:
        """Returns the error code, the epoch found and its end."""
        key = b"", each.partition
        try:
            key = self._partitions.key(topic, each.partition)
            epoch, end_offset = self._offsets.end_of_epoch(
                key, each.leader_epoch, current_leader_epoch=each.current_leader_epoch
            )
        except WireError as error:
            return self._partitions.code(key, error), UNKNOWN_EPOCH, UNKNOWN_OFFSET
        return NONE, epoch, end_offset
