"""FetchRange: a committed range of one partition as a server stream, for bulk readers such as
Spark.

Each message is read at one moment of one leadership: a reader that reaches the end has read exactly
the committed records (I-12). The aborted transactions of a message are found by the read of its
records (P-122). Bytes come from the disk pool; after each read, role, epoch and
truncation are checked again (P-13, P-34). While one message is sent, only the next one is read
ahead.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strandline_broker.core.replication.isolation import Isolation, isolation
from strandline_broker.hosts.replica.leading import check_leader
from strandline_broker.hosts.serving.replicas import current_leader, replica_of
from strandline_proto.batch import iter_headers
from strandline_proto.errors import (
    InvalidRequest,
    OffsetNotAvailable,
    OffsetOutOfRange,
    WireError,
)
from strandline_proto.hot_messages import AbortedTransaction, FetchRangeResponse

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator

    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.member.replica_manager import ReplicaManager
    from strandline_broker.hosts.replica.leading import Leading
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_broker.storage.log.reader import LogRead
    from strandline_proto.hot_messages import FetchRangeRequest

MESSAGE_BYTES_DEFAULT: Final = 2 << 20
MESSAGE_BYTES_MAX: Final = 16 << 20
_COMMITTED: Final = Isolation.READ_COMMITTED


@dataclass(slots=True)
class _Reading:
    """A message that is being read, and what held when that began."""

    partition: Partition
    leading: Leading
    offset: int
    truncations: int
    read: asyncio.Future[LogRead]

    def drop(self) -> None:
        """Drop the read ahead; its result is ignored."""
        if not self.read.cancel() and not self.read.cancelled():
            self.read.exception()


class FetchRangeService:
    def __init__(self, replicas: ReplicaManager, metadata: MetadataCache) -> None:
        self._replicas = replicas
        self._metadata = metadata

    async def read(self, request: FetchRangeRequest) -> AsyncIterator[FetchRangeResponse]:
        """Yields the range in messages; the last one carries the error that ended it early."""
        offset = request.start_offset
        ahead: _Reading | None = None
        try:
            _check(request)
            while offset < request.stop_offset:
                if ahead is None:
                    ahead = self._begin(request, offset)
                reading, ahead = ahead, None
                answer, next_offset = await self._finish(reading)
                if offset < next_offset < request.stop_offset:
                    with contextlib.suppress(WireError):  # the error is reported in its turn
                        ahead = self._begin(request, next_offset)
                yield answer
                if next_offset <= offset:
                    raise OffsetNotAvailable(
                        f"no batch at offset {offset} although {request.stop_offset} is committed"
                    )
                offset = next_offset
        except WireError as error:
            key = (request.topic_id, request.partition)
            partition = self._replicas.partitions.get(key)
            refusal = FetchRangeResponse(
                error_code=error.code,
                error_message=str(error),
                next_offset=offset,
                log_start_offset=0 if partition is None else partition.log.log_start_offset,
                high_watermark=0 if partition is None else partition.high_watermark,
                last_stable_offset=0 if partition is None else partition.last_stable_offset,
                current_leader=current_leader(self._metadata.view, key),
            )
            yield refusal
        finally:
            if ahead is not None:
                ahead.drop()

    def _begin(self, request: FetchRangeRequest, offset: int) -> _Reading:
        """Begin to read the message that starts at `offset`."""
        partition = replica_of(self._replicas, request.topic_id, request.partition)
        partition.counters.fetch_requests += 1
        leading = check_leader(partition, request.current_leader_epoch)
        level = isolation(request.isolation_level)
        log, limit, committed = partition.log, leading.readable_end(level), level == _COMMITTED
        _check_start(partition, offset)
        if request.stop_offset > limit:
            end = "last stable offset" if committed else "high watermark"
            raise OffsetNotAvailable(
                f"{partition.name}: {request.stop_offset} is past the {end} {limit}; try again soon"
            )
        size = min(request.max_message_bytes or MESSAGE_BYTES_DEFAULT, MESSAGE_BYTES_MAX)
        read = self._replicas.read_cold(
            partition,
            lambda: _cut(
                partition.read_log(
                    offset, max_bytes=size, limit=limit, checked=True, committed=committed
                ),
                request.stop_offset,
            ),
        )
        return _Reading(partition, leading, offset, log.state.truncations, read)

    async def _finish(self, reading: _Reading) -> tuple[FetchRangeResponse, int]:
        """One message, and where the next one begins."""
        partition, leader = reading.partition, reading.leading.machine
        try:
            records, base_offset, next_offset, aborted = await reading.read
        except OffsetOutOfRange:
            check_leader(partition, leader.leader_epoch)  # a former leader's range proves nothing
            raise
        log = partition.log
        if partition.role is not reading.leading or log.state.truncations != reading.truncations:
            check_leader(partition, leader.leader_epoch)
            raise OffsetNotAvailable(
                f"{partition.name}: the log changed during the read; try again"
            )
        _check_start(partition, reading.offset)
        partition.counters.bytes_out += len(records)
        message = FetchRangeResponse(
            base_offset=base_offset,
            next_offset=next_offset,
            leader_epoch=leader.leader_epoch,
            records=records,
            log_start_offset=log.log_start_offset,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset,
            aborted_transactions=[
                AbortedTransaction(each.producer_id, each.first_offset)
                for each in aborted
                if each.first_offset < next_offset
            ],
        )
        return message, next_offset


def _check_start(partition: Partition, offset: int) -> None:
    start = partition.log.log_start_offset
    if offset < start:
        raise OffsetOutOfRange(f"{partition.name}: offset {offset} is below the log start {start}")


def _check(request: FetchRangeRequest) -> None:
    if not 0 <= request.start_offset <= request.stop_offset:
        raise InvalidRequest(
            f"start_offset {request.start_offset} and stop_offset {request.stop_offset}"
            " are no range"
        )
    isolation(request.isolation_level)


def _cut(read: LogRead, stop_offset: int) -> LogRead:
    """Leave out the batches that begin at or past the end of the range."""
    if read.next_offset <= stop_offset:
        return read
    next_offset, end = read.base_offset, 0
    for at, header in iter_headers(read.records):
        if header.base_offset >= stop_offset:
            break
        next_offset, end = header.next_offset, at + header.size
    return read._replace(records=read.records[:end], next_offset=next_offset)
