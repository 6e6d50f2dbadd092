"""The delay that one large request causes for other callers: health calls while it is served.

Every repeated field of every method is sent twice: at its limit, which is answered, and with
millions of elements, which is refused. The figure is the slowest health call of the same process:
of several rounds their median, each with processes of its own, because a busy machine delays a
call now and then.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Final, NamedTuple

import grpc
import grpc.aio

from strandline_bench.large_requests import SENDABLE_BYTES, Repeated, repeated_fields, request
from strandline_bench.report import Report, median
from strandline_bench.target import fresh_topic, own_cluster
from strandline_local.cluster_files import CONTROLLER
from strandline_proto.v1 import metadata_pb2
from strandline_runtime.real import CHANNEL_OPTIONS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from strandline_bench.options import Options
    from strandline_local.local_cluster import LocalCluster

MILLIONS: Final = 2_000_000
LIMIT: Final = 10_000
"""Limit of elements in most fields; `LIMITS` has the others'."""
LIMITS: Final = {
    "Produce.topics": 5_000,
    "Produce.topics.partitions": 5_000,
    "DescribeConfigs.resources": 1_000,
    "Fetch.topics.partitions": 90_000,
}
TEXT: Final = 12
"""Characters of a name."""
IDLE_S: Final = 3.0
ANSWER_S: Final = 30.0
STREAM_S: Final = 2.0
"""Seconds for which a stream is read."""
HEALTH: Final = "/grpc.health.v1.Health/Check"


class Sent(NamedTuple):
    name: str
    call: str
    data: bytes
    is_stream: bool


def run(options: Options, report: Report) -> None:
    waits: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        with own_cluster(options) as cluster:
            cluster.up()
            for name, worst in asyncio.run(_round(cluster, options, report)).items():
                waits.setdefault(name, []).append(worst)
    medians = {name: median(worst) for name, worst in waits.items()}
    name = max(medians, key=medians.__getitem__)
    report.measured(
        "requests",
        {
            "requests": len(medians),
            "health_max_ms": medians[name],
            "worst": name,
            "rounds": options.rounds,
        },
    )


async def _round(cluster: LocalCluster, options: Options, report: Report) -> dict[str, float]:
    """The slowest health call during each request, in ms."""
    worst: dict[str, float] = {}
    broker, controller = (
        cluster.grpc_address(cluster.broker_ids[0]),
        cluster.grpc_address(CONTROLLER),
    )
    async with fresh_topic(cluster.grpc_bootstrap, "bench-requests", options) as topic:
        for address in (broker, controller):
            async with _waits(address) as waits:
                await asyncio.sleep(IDLE_S)
            report.measured(
                "idle", {"address": address, "median_ms": median(waits), "max_ms": max(waits)}
            )
        for sent in _all(topic):
            address = controller if "ControllerService" in sent.call else broker
            async with _waits(address) as waits:
                outcome = await _send(address, sent)
            worst[sent.name] = max(waits)
            report.measured(
                "request",
                {
                    "name": sent.name,
                    "mb": len(sent.data) / 1e6,
                    "outcome": outcome,
                    "health_max_ms": max(waits),
                },
            )
    return worst


def _all(topic: str) -> Iterator[Sent]:
    for field in repeated_fields():
        name = f"{field.method.name}.{field.name}"
        least = len(request(field, 100, size=0)) / 100
        yield _sent(f"{name} x limit", field, LIMITS.get(name, LIMIT), TEXT)
        yield _sent(name, field, min(MILLIONS, int(SENDABLE_BYTES / least)), 0)
    service = "/strandline_proto.v1.BrokerService/"
    configs = metadata_pb2.DescribeConfigsRequest()
    for _ in range(1_000):
        configs.resources.add(type=2, name=topic)
    yield Sent(
        "DescribeConfigs of a topic",
        service + "DescribeConfigs",
        configs.SerializeToString(),
        False,
    )
    for method in ("Metadata", "DescribeReplicas", "ListGroups", "DescribeCluster"):
        yield Sent(f"{method} of all", service + method, b"", is_stream=False)


def _sent(name: str, field: Repeated, count: int, size: int) -> Sent:
    method = field.method
    is_stream = method.client_streaming or method.server_streaming
    return Sent(f"{name} x {count}", field.call, request(field, count, size=size), is_stream)


@contextlib.asynccontextmanager
async def _waits(address: str) -> AsyncIterator[list[float]]:
    """The milliseconds that each health call took, one after the other, until the end."""
    found: list[float] = []
    async with grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS) as channel:
        check: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(HEALTH)
        await check(b"")
        going = asyncio.Event()
        going.set()

        async def ask() -> None:
            while going.is_set():
                started = time.perf_counter()
                await check(b"")
                found.append((time.perf_counter() - started) * 1e3)
                await asyncio.sleep(0.002)

        asking = asyncio.create_task(ask())
        try:
            yield found
            going.clear()
            await asking  # the call under way may have waited
        finally:
            asking.cancel()


async def _send(address: str, sent: Sent) -> str:
    async with grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS) as channel:
        try:
            if sent.is_stream:
                call: grpc.aio.StreamStreamCall[bytes, bytes] = channel.stream_stream(sent.call)()
                await call.write(sent.data)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(STREAM_S):
                        while await call.read() is not grpc.aio.EOF:
                            pass
                if call.done() and await call.code() is not grpc.StatusCode.OK:
                    return (await call.code()).name
                call.cancel()
                return "streamed"
            ask: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(sent.call)
            answer = await ask(sent.data, timeout=ANSWER_S)
        except grpc.aio.AioRpcError as error:
            return error.code().name
    return f"{len(answer)} bytes"
