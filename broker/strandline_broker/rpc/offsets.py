"""ListOffsets and OffsetsForLeaderEpoch: where the log ends, where a time or an epoch lies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_broker.core.replication.isolation import isolation
from strandline_broker.hosts.leading import check_leader
from strandline_broker.rpc.leader_hints import leader_hint
from strandline_broker.rpc.turns import Turns
from strandline_proto.errors import (
    InvalidRequest,
    UnknownTopicId,
    WireError,
)
from strandline_proto.ids import UNKNOWN_EPOCH, UNKNOWN_OFFSET
from strandline_proto.v1 import fetch_pb2

if TYPE_CHECKING:
    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.partition import Partition
    from strandline_broker.hosts.replica_manager import ReplicaManager

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3


class OffsetsRpc:
    def __init__(self, replicas: ReplicaManager, metadata: MetadataCache) -> None:
        self._replicas = replicas
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
                try:
                    if asked.timestamp in (LATEST, EARLIEST):
                        self._end(topic.topic_id, asked, result, request.isolation_level)
                    else:
                        await self._look_up(topic.topic_id, asked, result, request.isolation_level)
                except WireError as error:
                    result.error_code, result.error_message = error.code, str(error)
                    view = self._metadata.view
                    leader = leader_hint(view, (topic.topic_id, asked.partition))
                    if leader is not None:
                        result.current_leader.CopyFrom(leader)
        return response

    def _end(
        self,
        topic_id: bytes,
        asked: fetch_pb2.ListOffsetsPartition,
        result: fetch_pb2.ListOffsetsPartitionResult,
        level: int,
    ) -> None:
        """One end of the log: nothing to wait for."""
        partition = self._find(topic_id, asked.partition)
        leading = check_leader(partition, asked.current_leader_epoch)
        if asked.timestamp == LATEST:
            result.offset = leading.committed_end(isolation(level))
        else:
            result.offset = partition.log.log_start_offset
        result.leader_epoch = leading.machine.leader_epoch

    async def _look_up(
        self,
        topic_id: bytes,
        asked: fetch_pb2.ListOffsetsPartition,
        result: fetch_pb2.ListOffsetsPartitionResult,
        level: int,
    ) -> None:
        """What is stored by time."""
        partition = self._find(topic_id, asked.partition)
        leading = check_leader(partition, asked.current_leader_epoch)
        leader_epoch = leading.machine.leader_epoch
        if asked.timestamp != MAX_TIMESTAMP and asked.timestamp < 0:
            raise InvalidRequest(
                f"timestamp {asked.timestamp} is neither milliseconds nor -1 (latest),"
                " -2 (earliest), -3 (largest timestamp)"
            )
        end = leading.committed_end(isolation(level))
        log = partition.log
        wanted = None if asked.timestamp == MAX_TIMESTAMP else asked.timestamp
        try:
            found = await self._replicas.dirs.in_turns(log, log.time_lookup(wanted))
        except OSError as error:
            check_leader(partition, leader_epoch)  # a later role may take files away
            raise partition.refuse_read(error) from error
        check_leader(partition, leader_epoch)
        if found is not None and found[1] < end:
            result.timestamp, result.offset, result.leader_epoch = found

    async def OffsetsForLeaderEpoch(
        self, request: fetch_pb2.OffsetsForLeaderEpochRequest, context: Any
    ) -> fetch_pb2.OffsetsForLeaderEpochResponse:
        """Answered by the leader only, in the epoch that the caller believes in (I-38)."""
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
                    partition = self._find(topic.topic_id, asked.partition)
                    check_leader(partition, asked.current_leader_epoch)
                    log = partition.log
                    result.leader_epoch, result.end_offset = log.leader_epochs.end_offset_for(
                        asked.leader_epoch, log.log_end_offset
                    )
                except WireError as error:
                    result.error_code = error.code
        return response

    def _find(self, topic_id: bytes, index: int) -> Partition:
        partition = self._replicas.find(topic_id, index)
        if partition is None:
            raise UnknownTopicId(f"broker {self._replicas.me} holds no such replica")
        return partition
