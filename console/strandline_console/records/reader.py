"""The reader of a page of records: asks the leader of a partition, for committed batches alone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import grpc
import grpc.aio

from strandline_console.answers import Records
from strandline_console.records.shown import Shown, show_batches
from strandline_console.watching.server_watch import transport_reason
from strandline_proto.v1 import fetch_pb2, metadata_pb2, services_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from strandline_proto.v1.services_pb2_grpc import BrokerServiceAsyncStub
    from strandline_runtime.runtime import Network

CALL_S: Final = 5.0
MESSAGE_BYTES: Final = 1 << 20
READ_BYTES_MAX: Final = 32 << 20
"""Limit of what one page reads. A single larger batch is read all the same."""
_LATEST: Final = -1
_EARLIEST: Final = -2


class NotReadable(Exception):
    """The records cannot be read. The text is one sentence; `status` is HTTP's."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class RecordReader:
    """Reads records; `addresses` gives those of brokers to ask for the leader."""

    def __init__(self, network: Network, addresses: Callable[[], Sequence[str]]) -> None:
        self._network = network
        self._addresses = addresses

    async def read(
        self,
        topic: str,
        partition: int,
        *,
        offset: int | None,
        time_ms: int | None,
        limit: int,
    ) -> Records:
        """Records from an offset, from a time, or from the log start if neither is given.

        Raises NotReadable.
        """
        topic_id, leader = await self._leader(topic, partition)
        async with self._network.channel(leader) as channel:
            stub = services_pb2_grpc.BrokerServiceStub(channel)
            try:
                return await self._read(
                    stub, topic, topic_id, partition, offset=offset, time_ms=time_ms, limit=limit
                )
            except grpc.aio.AioRpcError as why:
                raise NotReadable(502, transport_reason(why, leader)) from None

    async def _leader(self, topic: str, partition: int) -> tuple[bytes, str]:
        request = metadata_pb2.MetadataRequest(
            only_named=True, topics=[metadata_pb2.TopicRef(name=topic)]
        )
        reason = "no broker is known"
        for address in self._addresses():
            async with self._network.channel(address) as channel:
                stub = services_pb2_grpc.BrokerServiceStub(channel)
                try:
                    answer = await stub.Metadata(request, timeout=CALL_S)
                except grpc.aio.AioRpcError as why:
                    reason = transport_reason(why, address)
                    continue
                return _leader_in(answer, topic, partition)
        raise NotReadable(502, f"no broker answers: {reason}")

    async def _read(
        self,
        stub: BrokerServiceAsyncStub,
        topic: str,
        topic_id: bytes,
        partition: int,
        *,
        offset: int | None,
        time_ms: int | None,
        limit: int,
    ) -> Records:
        async def offset_of(timestamp: int) -> int:
            return await _offset_of(stub, topic_id, partition, timestamp)

        start, end = await offset_of(_EARLIEST), await offset_of(_LATEST)
        first = start if offset is None else offset
        if time_ms is not None:
            found = await offset_of(time_ms)
            first = end if found < 0 else found
        first = min(max(first, start), end)
        shown = Shown(next_offset=first)
        if first < end:
            await self._fetch(
                stub, topic_id, partition, first=first, end=end, limit=limit, shown=shown
            )
        return Records(
            topic=topic,
            partition=partition,
            log_start=start,
            high_watermark=end,
            first_offset=first,
            next_offset=shown.next_offset,
            batches=shown.batches,
            records=shown.records,
            damage=shown.damage,
        )

    async def _fetch(
        self,
        stub: BrokerServiceAsyncStub,
        topic_id: bytes,
        partition: int,
        *,
        first: int,
        end: int,
        limit: int,
        shown: Shown,
    ) -> None:
        call = stub.FetchRange(
            fetch_pb2.FetchRangeRequest(
                topic_id=topic_id,
                partition=partition,
                current_leader_epoch=-1,
                start_offset=first,
                stop_offset=end,
                max_message_bytes=MESSAGE_BYTES,
            ),
            timeout=2 * CALL_S,
        )
        loop = asyncio.get_running_loop()
        size = 0
        try:
            async for message in call:
                if message.error_code != 0:
                    raise NotReadable(502, f"the leader refuses: {message.error_message}")
                records = message.records

                def show(records: bytes = records) -> bool:
                    return show_batches(records, first=first, limit=limit, shown=shown)

                size += len(records)
                # Unpacking takes long, and streams of other pages must go on.
                if await loop.run_in_executor(None, show) or size >= READ_BYTES_MAX:
                    return
        finally:
            call.cancel()


def _leader_in(
    answer: metadata_pb2.MetadataResponse, topic: str, partition: int
) -> tuple[bytes, str]:
    found = next((each for each in answer.topics if each.name == topic), None)
    if found is None or found.error_code != 0:
        raise NotReadable(404, f"there is no topic {topic[:249]!r}")
    of_partition = next((p for p in found.partitions if p.index == partition), None)
    if of_partition is None:
        raise NotReadable(
            404, f"topic {topic!r} has {len(found.partitions)} partitions: there is no {partition}"
        )
    for broker in answer.brokers:
        if broker.node_id == of_partition.leader:
            return found.topic_id, f"{broker.host}:{broker.port}"
    raise NotReadable(503, f"{topic}:{partition} has no leader, so nothing of it can be read")


async def _offset_of(
    stub: BrokerServiceAsyncStub, topic_id: bytes, partition: int, timestamp: int
) -> int:
    request = fetch_pb2.ListOffsetsRequest(replica_id=-1)
    request.topics.add(topic_id=topic_id).partitions.add(
        partition=partition, current_leader_epoch=-1, timestamp=timestamp
    )
    answer = await stub.ListOffsets(request, timeout=CALL_S)
    result = answer.topics[0].partitions[0]
    if result.error_code != 0:
        raise NotReadable(502, f"the leader refuses: {result.error_message}")
    return result.offset
