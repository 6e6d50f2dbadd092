"""How long a produce request waits for its acks: as long as it says, whatever others of its stream
say.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import grpc.aio

from strandline_broker.hosts.replica.leading import check_leader
from strandline_proto.batch import build_batch
from strandline_proto.errors import NotLeaderOrFollower, RequestTimedOut
from strandline_proto.v1 import produce_pb2
from strandline_proto.v1.services_pb2_grpc import BrokerServiceStub
from support.replica_nodes import TOPIC_ID, decide, eventually, run_node, state

if TYPE_CHECKING:
    from pathlib import Path

    from strandline_proto.v1.services_pb2_grpc import BrokerServiceAsyncStub

WAIT_S = 30.0


def request(number: int, timeout_ms: int) -> produce_pb2.ProduceRequest:
    wire = produce_pb2.ProduceRequest(correlation_id=number, acks=-1, timeout_ms=timeout_ms)
    batch = build_batch([(None, b"v")], timestamp_ms=1)
    wire.topics.add(topic_id=TOPIC_ID).partitions.add(index=0, records=batch)
    return wire


async def test_each_request_waits_its_own_time_and_no_other(tmp_path: Path) -> None:
    """The alarm of a stream is set for whoever is due first, and for the rest when it rings."""
    async with run_node(tmp_path / "1", 1) as node, asyncio.timeout(WAIT_S):
        await decide(state(1, epoch=0, isr=(1, 2), replicas=(1, 2)), node)
        async with grpc.aio.insecure_channel(node.target) as channel:
            stub: BrokerServiceAsyncStub = BrokerServiceStub(channel)
            call = stub.Produce()
            loop, limits_ms = asyncio.get_running_loop(), (300_000, 200, 50, 120)
            begun_s = loop.time()
            for number, timeout_ms in enumerate(limits_ms):
                await call.write(request(number, timeout_ms))
            for number in (2, 3, 1):
                answer = await call.read()
                assert isinstance(answer, produce_pb2.ProduceResponse)
                assert answer.correlation_id == number
                assert loop.time() - begun_s >= limits_ms[number] / 1000
                result = answer.topics[0].partitions[0]
                assert (result.error_code, result.appended) == (RequestTimedOut.code, True)
            await decide(state(2, epoch=1, isr=(1, 2), replicas=(1, 2)), node)
            answer = await call.read()
            assert isinstance(answer, produce_pb2.ProduceResponse)
            assert answer.correlation_id == 0
            error_code = answer.topics[0].partitions[0].error_code
            assert error_code == NotLeaderOrFollower.code
            call.cancel()


async def test_who_has_ended_its_stream_leaves_nothing_that_waits(tmp_path: Path) -> None:
    """While nothing is committed it would stay, and so would what is sent by the next stream."""
    async with run_node(tmp_path / "1", 1) as node, asyncio.timeout(WAIT_S):
        await decide(state(1, epoch=0, isr=(1, 2), replicas=(1, 2)), node)
        async with grpc.aio.insecure_channel(node.target) as channel:
            stub: BrokerServiceAsyncStub = BrokerServiceStub(channel)
            call = stub.Produce()
            for number in range(3):
                await call.write(request(number, 300_000))
            appends = check_leader(node.partition, 0).appends
            await eventually(lambda: len(appends.waiting()) == 3, "all wait for their acks")
            call.cancel()
            await eventually(lambda: appends.waiting() == [], "nobody waits any more")
            assert node.partition.log.log_end_offset == 3
