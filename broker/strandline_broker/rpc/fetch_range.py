"""FetchRange: a committed range of one partition as a server stream, for bulk readers such as
Spark.

Each message is read at one moment of one leadership: a reader that gets to the end has read exactly
what was committed (I-12). Bytes come from the disk pool; after each read role, epoch and truncation
are checked again (P-13, P-34).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_broker.rpc.leader_hints import leader_hint
from strandline_proto.batch import iter_headers
from strandline_proto.errors import (
    InvalidRequest,
    OffsetNotAvailable,
    OffsetOutOfRange,
    UnknownTopicId,
    UnsupportedVersion,
    WireError,
)
from strandline_proto.v1 import fetch_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.partition import Partition
    from strandline_broker.hosts.replica_manager import ReplicaManager
    from strandline_broker.storage.log_reader import LogRead

MESSAGE_BYTES_DEFAULT: Final = 2 << 20
MESSAGE_BYTES_MAX: Final = 16 << 20


class FetchRangeRpc:
    def __init__(self, replicas: ReplicaManager, metadata: MetadataCache) -> None:
        self._replicas = replicas
        self._metadata = metadata

    async def FetchRange(
        self, request: fetch_pb2.FetchRangeRequest, context: Any
    ) -> AsyncIterator[fetch_pb2.FetchRangeResponse]:
        offset = request.start_offset
        try:
            _check(request)
            while offset < request.stop_offset:
                message = await self._read(request, offset)
                yield message
                if message.next_offset <= offset:
                    raise OffsetNotAvailable(
                        f"no batch at offset {offset} although {request.stop_offset} is committed"
                    )
                offset = message.next_offset
        except WireError as error:
            refusal = fetch_pb2.FetchRangeResponse(
                error_code=error.code, error_message=str(error), next_offset=offset
            )
            key = (request.topic_id, request.partition)
            leader = leader_hint(self._metadata.view, key)
            if leader is not None:
                refusal.current_leader.CopyFrom(leader)
            partition = self._replicas.partitions.get(key)
            if partition is not None:
                _describe(refusal, partition)
            yield refusal

    async def _read(
        self, request: fetch_pb2.FetchRangeRequest, offset: int
    ) -> fetch_pb2.FetchRangeResponse:
        partition = self._replicas.find(request.topic_id, request.partition)
        if partition is None:
            raise UnknownTopicId("this broker holds no replica of that partition")
        leading = partition.check_leader(request.current_leader_epoch)
        leader = leading.machine
        log = partition.log
        if offset < log.log_start_offset:
            raise OffsetOutOfRange(
                f"{partition.name}: offset {offset} is below the log start {log.log_start_offset}"
            )
        if request.stop_offset > leader.high_watermark:
            raise OffsetNotAvailable(
                f"{partition.name}: {request.stop_offset} is past the high watermark"
                f" {leader.high_watermark}; try again soon"
            )
        limit, truncations = leader.high_watermark, log.state.truncations
        size = min(request.max_message_bytes or MESSAGE_BYTES_DEFAULT, MESSAGE_BYTES_MAX)
        read = await self._replicas.read_cold(
            partition,
            lambda: _cut(
                partition.read_log(offset, max_bytes=size, limit=limit, checked=True),
                request.stop_offset,
            ),
        )
        if partition.role is not leading or log.state.truncations != truncations:
            partition.check_leader(leader.leader_epoch)
            raise OffsetNotAvailable(
                f"{partition.name}: the log changed during the read; try again"
            )
        records, base_offset, next_offset = read
        message = fetch_pb2.FetchRangeResponse(
            base_offset=base_offset,
            next_offset=next_offset,
            leader_epoch=leader.leader_epoch,
            records=records,
        )
        _describe(message, partition)
        return message


def _check(request: fetch_pb2.FetchRangeRequest) -> None:
    if not 0 <= request.start_offset <= request.stop_offset:
        raise InvalidRequest(
            f"start_offset {request.start_offset} and stop_offset {request.stop_offset}"
            " are no range"
        )
    if request.isolation_level not in (0, 1):
        raise UnsupportedVersion(f"isolation level {request.isolation_level} is not known")


def _cut(read: LogRead, stop_offset: int) -> tuple[bytes, int, int]:
    """Leave out the batches that begin at or past the end of the range."""
    if read.next_offset <= stop_offset:
        return read.records, read.base_offset, read.next_offset
    next_offset, end = read.base_offset, 0
    for at, header in iter_headers(read.records):
        if header.base_offset >= stop_offset:
            break
        next_offset, end = header.next_offset, at + header.size
    return read.records[:end], read.base_offset, next_offset


def _describe(message: fetch_pb2.FetchRangeResponse, partition: Partition) -> None:
    message.log_start_offset = partition.log.log_start_offset
    message.high_watermark = partition.high_watermark
