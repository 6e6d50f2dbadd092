"""One running broker, asked by hand, and what lies in its log past every check."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc.aio

from strandline_broker.hosts.replica.leading import check_leader
from strandline_proto.batch import read_header
from strandline_proto.ids import Offset
from strandline_proto.v1 import fetch_pb2, produce_pb2, services_pb2_grpc
from support.replica_nodes import TOPIC_ID

if TYPE_CHECKING:
    from support.replica_nodes import Node


def store(node: Node, *batches: bytes) -> None:
    """Into the log past every check, as an older version or another broker left it."""
    for data in batches:
        node.partition.log.append_as_leader(data, read_header(data), leader_epoch=0)
    log = node.partition.log
    ticket = log.flush_snapshot()  # the flush schedule hears of appends that a role has made
    ticket.run()
    log.flushed(ticket)
    leading = check_leader(node.partition, 0)
    leading.on_append(Offset(node.partition.log.log_end_offset))


class Client:
    """What is asked of one broker, by hand."""

    def __init__(self, node: Node) -> None:
        self._channel = grpc.aio.insecure_channel(node.target)
        self._stub = services_pb2_grpc.BrokerServiceStub(self._channel)
        self._stream = self._stub.Produce()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stream.cancel()
        await self._channel.close()

    async def offset_at(self, timestamp: int) -> fetch_pb2.ListOffsetsPartitionResult:
        request = fetch_pb2.ListOffsetsRequest(replica_id=-1)
        request.topics.add(topic_id=TOPIC_ID).partitions.add(
            partition=0, current_leader_epoch=0, timestamp=timestamp
        )
        answer = await self._stub.ListOffsets(request)
        return answer.topics[0].partitions[0]

    async def produce(self, records: bytes) -> produce_pb2.PartitionProduceResult:
        request = produce_pb2.ProduceRequest(acks=-1, timeout_ms=5000)
        request.topics.add(topic_id=TOPIC_ID).partitions.add(index=0, records=records)
        await self._stream.write(request)
        answer = await self._stream.read()
        assert isinstance(answer, produce_pb2.ProduceResponse)
        return answer.topics[0].partitions[0]
