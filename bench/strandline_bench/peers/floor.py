"""The limit that the transport sets on this machine: the bare path, driven as the producer drives a
broker.

Three processes (`floor_node`) are the nodes, and this one is the client. Each of its rounds runs
right beside a round of the real system, so the share is one under the same load of the machine.
"""

import asyncio
import contextlib
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from typing import IO, TYPE_CHECKING, Any, Final

from strandline_bench.options import Options
from strandline_bench.payloads import payloads
from strandline_bench.peers.floor_node import NODES

if TYPE_CHECKING:
    from strandline_proto.v1 import produce_pb2

IN_FLIGHT: Final = 5
"""Batches in flight, as in the producer's max_in_flight."""
WARM_UP: Final = 500


async def throughput_mb_s(options: Options) -> float:
    """Throughput with batches of the producer's size. The round has as many bytes as one of the
    real system, spread over as many leaders.
    """
    batch = random.Random(0).randbytes(options.batch_size)
    leaders = min(NODES, options.partitions)
    count = max(20, options.records * options.record_size // options.batch_size // leaders)
    async with _streams(leaders) as streams:
        started = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for stream in streams:
                group.create_task(_pump(stream, batch, count))
        taken_s = time.perf_counter() - started
    return count * leaders * options.batch_size / taken_s / 1e6


async def _pump(stream: Any, batch: bytes, count: int) -> None:
    window = asyncio.Semaphore(IN_FLIGHT)

    async def read() -> None:
        for _ in range(count):
            await stream.read()
            window.release()

    async with asyncio.TaskGroup() as group:
        group.create_task(read())
        for number in range(count):
            await window.acquire()
            await stream.write(_request(number, batch))


async def latencies_ms(options: Options) -> list[float]:
    """Latencies of one awaited record at a time."""
    taken: list[float] = []
    async with _streams(1) as (stream,):
        values = payloads(WARM_UP + options.records, options.record_size)
        for number, payload in enumerate(values):
            started = time.perf_counter()
            await stream.write(_request(number, payload))
            await stream.read()
            taken.append((time.perf_counter() - started) * 1e3)
    return taken[WARM_UP:]


def _request(number: int, records: bytes) -> "produce_pb2.ProduceRequest":
    from strandline_proto.v1 import produce_pb2

    return produce_pb2.ProduceRequest(
        correlation_id=number,
        acks=-1,
        topics=[
            produce_pb2.TopicProduceData(
                partitions=[produce_pb2.PartitionProduceData(records=records)]
            )
        ],
    )


@contextlib.asynccontextmanager
async def _streams(leaders: int) -> AsyncIterator[list[Any]]:
    """Produce streams to the first `leaders` of the bare nodes, which are gone at the end."""
    from strandline_proto.v1 import services_pb2_grpc
    from strandline_runtime.real import RealNetwork

    with tempfile.TemporaryDirectory(prefix="strandline-floor-") as folder, _nodes(folder) as ports:
        async with contextlib.AsyncExitStack() as channels:
            streams = []
            for port in ports[:leaders]:
                channel = RealNetwork().channel(f"127.0.0.1:{port}")
                await channels.enter_async_context(channel)
                streams.append(services_pb2_grpc.BrokerServiceStub(channel).Produce())
            yield streams
            for stream in streams:
                await stream.done_writing()
                await stream.read()


@contextlib.contextmanager
def _nodes(folder: str) -> Iterator[list[int]]:
    """All nodes as processes, each with a file that it leads and one for each that it follows."""
    with contextlib.ExitStack() as running:
        nodes = [running.enter_context(_node(number, folder)) for number in range(NODES)]
        ports = [int(_pipe(node.stdout).readline()) for node in nodes]
        for node in nodes:
            _pipe(node.stdin).write(" ".join(map(str, ports)).encode() + b"\n")
            _pipe(node.stdin).flush()
        yield ports


@contextlib.contextmanager
def _node(number: int, folder: str) -> "Iterator[subprocess.Popen[bytes]]":
    command = [sys.executable, "-m", "strandline_bench.peers.floor_node", str(number), folder]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _pipe(end: IO[bytes] | None) -> IO[bytes]:
    assert end is not None
    return end
