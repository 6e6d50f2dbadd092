"""One broker and its controller are sent requests of more elements than they take, and of as many
as are answered; they answer health calls meanwhile, and keep their session.

That each repeated field has a limit is tests/unit/broker/rpc/test_request_bounds.py's. Here each
method refuses two.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import grpc
import grpc.aio

from strandline_bench.large_requests import Repeated, repeated_fields, request
from strandline_local.cluster_files import CONTROLLER
from strandline_proto.v1 import groups_pb2, metadata_pb2, services_pb2
from strandline_proto.v1.services_pb2_grpc import BrokerServiceStub, ControllerServiceStub
from strandline_runtime.real import CHANNEL_OPTIONS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from support.cluster import MakeCluster

MANY = 110_000
"""More than a request of any method may hold, but for pushes."""
MANY_PUSHED = 300_000
"""More than a push may hold."""
AT_LIMIT = {"Produce": 5_000, "DescribeConfigs": 1_000}
DEADLINE_S = 120.0
HEALTH = "/grpc.health.v1.Health/Check"


def refused_fields() -> set[Repeated]:
    """The first repeated field of each method, and the last of those that lie deepest."""
    fields = list(repeated_fields())
    first = {field.call: field for field in reversed(fields)}
    deepest = {field.call: field for field in sorted(fields, key=lambda each: len(each.path))}
    assert len(first) == len(deepest) > 30
    return {*first.values(), *deepest.values()}


@asynccontextmanager
async def health_calls(channel: grpc.aio.Channel) -> AsyncIterator[list[bytes]]:
    """The answers to health calls, each a moment after the last."""
    answers: list[bytes] = []
    check: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(HEALTH)

    async def ask() -> None:
        while True:
            answers.append(await check(b"", timeout=DEADLINE_S))
            await asyncio.sleep(0.01)

    asking = asyncio.create_task(ask())
    try:
        yield answers
    finally:
        asking.cancel()


async def send(channel: grpc.aio.Channel, call: str, data: bytes, *, streams: bool) -> str:
    """What became of it, in words."""
    try:
        async with asyncio.timeout(DEADLINE_S):
            if not streams:
                ask: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(call)
                return (await ask(data)).decode("utf-8", "replace")
            stream: grpc.aio.StreamStreamCall[bytes, bytes] = channel.stream_stream(call)()
            await stream.write(data)
            answer = await stream.read()
            stream.cancel()
            return repr(answer)
    except grpc.aio.AioRpcError as error:
        return f"{error.code().name} {error.details()}"


async def test_no_request_keeps_a_broker_or_the_controller_from_others(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(brokers=1)
    targets = {"ControllerService": cluster.address(CONTROLLER)}
    async with grpc.aio.insecure_channel(cluster.address(CONTROLLER)) as channel:
        before = await ControllerServiceStub(channel).DescribeCluster(
            metadata_pb2.DescribeClusterRequest()
        )
    refused = refused_fields()
    for service in services_pb2.DESCRIPTOR.services_by_name.values():
        target = targets.get(service.name, cluster.address(1))
        async with (
            grpc.aio.insecure_channel(target, options=CHANNEL_OPTIONS) as channel,
            health_calls(channel) as answers,
        ):
            for field in repeated_fields():
                method = field.method
                if method.containing_service is not service:
                    continue
                streams = method.client_streaming or method.server_streaming
                pushed = method.name == "LeaderAndIsr"
                if field in refused:
                    data = request(field, MANY_PUSHED if pushed else MANY)
                    told = await send(channel, field.call, data, streams=streams)
                    async with asyncio.timeout(DEADLINE_S):
                        while pushed and "at most" not in told:
                            # The controller has opened its own stream again, which ends this one.
                            told = await send(channel, field.call, data, streams=True)
                    assert "at most" in told, (field.call, field.name, told[:200])
                    assert f"{field.name} has" in told, (field.call, field.name, told[:200])
                if streams or method.name == "BrokerRegistration":
                    continue
                count, seen = AT_LIMIT.get(method.name, 9_000), len(answers)
                data = request(field, count, size=8)
                told = await send(channel, field.call, data, streams=False)
                assert "are possible: send several" not in told[:300], (field.call, field.name)
                assert len(answers) >= seen, "health calls go on"
            assert set(answers) == {b"\x08\x01"}, "serving, all the time"
    async with grpc.aio.insecure_channel(cluster.address(1)) as channel:
        stub = BrokerServiceStub(channel)
        after = await stub.DescribeCluster(metadata_pb2.DescribeClusterRequest())
        keys = groups_pb2.FindCoordinatorRequest(coordinator_keys=["g"])
        assert len((await stub.FindCoordinator(keys)).coordinators) == 1
    assert [(b.broker_epoch, b.state) for b in after.brokers] == [
        (b.broker_epoch, b.state) for b in before.brokers
    ]
