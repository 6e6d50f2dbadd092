"""One watcher of every server, in a process of its own as a console is."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc.aio

from strandline_proto.v1 import (
    metadata_pb2,
    services_pb2_grpc,
    watch_pb2,
)

READY = b"watching\n"
FRAME_BYTES_MAX = 64 << 20


@asynccontextmanager
async def watcher(bootstrap: str) -> AsyncIterator[None]:
    """A process that reads the Watch stream of every server until the block ends."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "strandline_bench.watching", bootstrap, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        said = await process.stdout.readline()
        if said != READY:
            raise SystemExit("error: the servers cannot be watched; the lines above say why")
        yield
        if process.returncode is not None:
            raise SystemExit("error: the watcher has ended before its round")
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _main(bootstrap: str) -> None:
    async with grpc.aio.insecure_channel(bootstrap.partition(",")[0]) as channel:
        cluster = await services_pb2_grpc.BrokerServiceStub(channel).DescribeCluster(
            metadata_pb2.DescribeClusterRequest(), wait_for_ready=True
        )
    controller = cluster.controller
    addresses = [f"{controller.host}:{controller.port}", *bootstrap.split(",")]
    begun = [asyncio.Event() for _ in addresses]
    async with asyncio.TaskGroup() as tasks:
        for address, first in zip(addresses, begun, strict=True):
            tasks.create_task(_watch(address, first))
        for each in begun:
            await each.wait()
        sys.stdout.buffer.write(READY)
        sys.stdout.buffer.flush()


async def _watch(address: str, first: asyncio.Event) -> None:
    options = [("grpc.max_receive_message_length", FRAME_BYTES_MAX)]
    async with grpc.aio.insecure_channel(address, options=options) as channel:
        call = services_pb2_grpc.WatchServiceStub(channel).Watch(
            watch_pb2.WatchRequest(), wait_for_ready=True
        )
        async for frame in call:
            assert frame.error_code == 0, frame.error_message
            first.set()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
