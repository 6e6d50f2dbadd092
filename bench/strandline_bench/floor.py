"""What the transport allows on this machine: the bare path, driven as the producer drives a broker.

Three processes (`floor_node`) and this one as the client. A round of it runs right beside each
round of the real thing, so that a share of it is a share under the same load of the machine.
"""

import asyncio
import contextlib
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from strandline_bench.floor_node import FOLLOWERS
from strandline_bench.options import Options
from strandline_bench.payloads import payloads

if TYPE_CHECKING:
    from strandline_proto.v1 import produce_pb2

IN_FLIGHT: Final = 5
"""Batches on their way, as the producer's max_in_flight."""
WARM_UP: Final = 500


async def throughput_mb_s(options: Options) -> float:
    """Batches of the producer's size, as many bytes as the round of the real thing has."""
    batch = random.Random(0).randbytes(options.batch_size)
    count = max(20, options.records * options.record_size // options.batch_size)
    async with _stream() as stream:
        window = asyncio.Semaphore(IN_FLIGHT)

        async def read() -> None:
            for _ in range(count):
                await stream.read()
                window.release()

        started = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            group.create_task(read())
            for number in range(count):
                await window.acquire()
                await stream.write(_request(number, batch))
        return count * options.batch_size / (time.perf_counter() - started) / 1e6


async def latencies_ms(options: Options) -> list[float]:
    """One awaited record at a time."""
    taken: list[float] = []
    async with _stream() as stream:
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
async def _stream() -> AsyncIterator[Any]:
    """The Produce stream of a bare leader with its followers, all gone at the end."""
    from strandline_proto.v1 import services_pb2_grpc
    from strandline_runtime.real import RealNetwork

    with tempfile.TemporaryDirectory(prefix="strandline-floor-") as folder, _nodes(folder) as port:
        async with RealNetwork().channel(f"127.0.0.1:{port}") as channel:
            stream = services_pb2_grpc.BrokerServiceStub(channel).Produce()
            try:
                yield stream
            finally:
                stream.cancel()


@contextlib.contextmanager
def _nodes(folder: str) -> Iterator[int]:
    """A leader and its followers as processes; the leader's port."""
    with contextlib.ExitStack() as nodes:
        leader = nodes.enter_context(_node("leader", f"{folder}/leader.log"))
        assert leader.stdout is not None
        port = int(leader.stdout.readline())
        for number in range(1, FOLLOWERS + 1):
            path = Path(folder) / f"follower-{number}.log"
            nodes.enter_context(_node("follower", str(number), f"127.0.0.1:{port}", str(path)))
        yield port


@contextlib.contextmanager
def _node(*argv: str) -> "Iterator[subprocess.Popen[bytes]]":
    command = [sys.executable, "-m", "strandline_bench.floor_node", *argv]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
