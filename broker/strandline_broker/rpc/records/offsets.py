"""ListOffsets and OffsetsForLeaderEpoch on the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline_broker.core.replication.isolation import isolation
from strandline_broker.hosts.serving.turns import Turns
from strandline_broker.rpc.records.leader_hints import leader_hint
from strandline_proto.errors import WireError
from strandline_proto.ids import UNKNOWN_EPOCH, UNKNOWN_OFFSET
from strandline_proto.v1 import fetch_pb2

if TYPE_CHECKING:
    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.serving.offsets import OffsetsService


class OffsetsRpc:
    def __init__(self, offsets: OffsetsService, metadata: MetadataCache) -> None:
        self._offsets = offsets
        self._metadata = metadata

    async def ListOffsets(
        self, request: fetch_pb2.ListOffsetsRequest, context: Any
    ) -> fetch_pb2.ListOffsetsResponse:
        response = fetch_pb2.ListOffsetsResponse()
        turns = Turns()
        for topic in request.topics:
            results = response.topics.add(topic_id=topic.topic_id)
            await turns.took()
            for asked in topic.partitions:
                await turns.took()
                result = results.partitions.add(
                    partition=asked.partition, offset=-1, timestamp=-1, leader_epoch=-1
                )
                key = (topic.topic_id, asked.partition)
                try:
                    found = await self._offsets.find(
                        key,
                        asked.timestamp,
                        current_leader_epoch=asked.current_leader_epoch,
                        isolation=isolation(request.isolation_level),
                    )
                    result.timestamp, result.offset, result.leader_epoch = found
                except WireError as error:
                    result.error_code, result.error_message = error.code, str(error)
                    leader = leader_hint(self._metadata.view, key)
                    if leader is not None:
                        result.current_leader.CopyFrom(leader)
        return response

    async def OffsetsForLeaderEpoch(
        self, request: fetch_pb2.OffsetsForLeaderEpochRequest, context: Any
    ) -> fetch_pb2.OffsetsForLeaderEpochResponse:
        response = fetch_pb2.OffsetsForLeaderEpochResponse()
        turns = Turns()
        for topic in request.topics:
            results = response.topics.add(topic_id=topic.topic_id)
            await turns.took()
            for asked in topic.partitions:
                await turns.took()
                result = results.partitions.add(
                    partition=asked.partition,
                    leader_epoch=UNKNOWN_EPOCH,
                    end_offset=UNKNOWN_OFFSET,
                )
                try:
                    result.leader_epoch, result.end_offset = self._offsets.end_of_epoch(
                        (topic.topic_id, asked.partition),
                        asked.leader_epoch,
                        current_leader_epoch=asked.current_leader_epoch,
                    )
                except WireError as error:
                    result.error_code = error.code
        return response
