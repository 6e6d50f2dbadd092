"""One process of the bare path: a leader, and a follower of each other node, without any logic.

It uses the same messages of the contract over the same streams, a CRC-32C and a file on each side.
It has no epochs, no ISR, no recovery, no validation. It loses data and is no broker: it measures
the transport's limit.
"""

import asyncio
import contextlib
import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import Any, Final

import crc32c
import grpc.aio

from strandline_proto.v1 import fetch_pb2, produce_pb2, services_pb2_grpc
from strandline_runtime.real import RealNetwork, keep_large_buffers

NODES: Final = 3
FETCH_BYTES_MAX: Final = 1 << 20
FETCH_WAIT_S: Final = 0.5


class Leader:
    """Appends its batches, passes them to the followers, and answers once all have them."""

    def __init__(self, path: str, followers: Iterable[int]) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        self._end = 0
        self._fetched = dict.fromkeys(followers, 0)
        self._grown: asyncio.Event = asyncio.Event()
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    def _append(self, records: bytes) -> asyncio.Future[None]:
        crc32c.crc32c(records)
        os.pwrite(self._fd, records, self._end)
        self._end += len(records)
        replicated = asyncio.get_running_loop().create_future()
        self._waiting.append((self._end, replicated))
        self._grown.set()
        self._grown = asyncio.Event()
        return replicated

    def _on_fetch(self, follower: int, offset: int) -> None:
        self._fetched[follower] = offset
        everywhere = min(self._fetched.values())
        while self._waiting and self._waiting[0][0] <= everywhere:
            self._waiting.popleft()[1].set_result(None)

    async def produce(
        self,
        request_iterator: AsyncIterator[produce_pb2.ProduceRequest],
        context: Any,
    ) -> AsyncIterator[produce_pb2.ProduceResponse]:
        answers: asyncio.Queue[tuple[int, asyncio.Future[None]] | None] = asyncio.Queue()

        async def read() -> None:
            async for request in request_iterator:
                records = request.topics[0].partitions[0].records
                answers.put_nowait((request.correlation_id, self._append(records)))
            answers.put_nowait(None)

        async with asyncio.TaskGroup() as group:
            group.create_task(read())
            while (answer := await answers.get()) is not None:
                number, replicated = answer
                await replicated
                yield produce_pb2.ProduceResponse(correlation_id=number)

    async def fetch(
        self,
        request_iterator: AsyncIterator[fetch_pb2.FetchRequest],
        context: Any,
    ) -> AsyncIterator[fetch_pb2.FetchResponse]:
        async for request in request_iterator:
            offset = request.topics[0].partitions[0].fetch_offset
            self._on_fetch(request.replica_state.replica_id, offset)
            if offset >= self._end:
                grown = self._grown
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(FETCH_WAIT_S):
                        await grown.wait()
            size = min(FETCH_BYTES_MAX, self._end - offset)
            yield fetch_pb2.FetchResponse(
                topics=[
                    fetch_pb2.FetchTopicResult(
                        partitions=[
                            fetch_pb2.FetchPartitionResult(
                                records=os.pread(self._fd, size, offset) if size > 0 else b""
                            )
                        ]
                    )
                ]
            )


async def serve(leader: Leader) -> tuple[grpc.aio.Server, int]:
    """Start a server of the two streams; returns it and its port."""
    server = RealNetwork().server()
    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "Produce": grpc.stream_stream_rpc_method_handler(
            leader.produce,
            request_deserializer=produce_pb2.ProduceRequest.FromString,
            response_serializer=produce_pb2.ProduceResponse.SerializeToString,
        ),
        "Fetch": grpc.stream_stream_rpc_method_handler(
            leader.fetch,
            request_deserializer=fetch_pb2.FetchRequest.FromString,
            response_serializer=fetch_pb2.FetchResponse.SerializeToString,
        ),
    }
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler("strandline_proto.v1.BrokerService", handlers)]
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    return server, port


async def follow(number: int, target: str, path: str) -> None:
    """Fetch from one leader into a file, until the leader goes."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    stream = services_pb2_grpc.BrokerServiceStub(RealNetwork().channel(target)).Fetch()
    end = 0
    with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
        while True:
            await stream.write(_fetch(number, end))
            response = await stream.read()
            if not isinstance(response, fetch_pb2.FetchResponse):
                return
            records = response.topics[0].partitions[0].records
            if records:
                crc32c.crc32c(records)
                os.pwrite(fd, records, end)
                end += len(records)


def _fetch(number: int, offset: int) -> fetch_pb2.FetchRequest:
    return fetch_pb2.FetchRequest(
        replica_state=fetch_pb2.ReplicaState(replica_id=number),
        topics=[fetch_pb2.FetchTopic(partitions=[fetch_pb2.FetchPartition(fetch_offset=offset)])],
    )


async def run(number: int, folder: str) -> None:
    """Lead; then, once the ports of all nodes are known, follow the others until killed."""
    others = [other for other in range(NODES) if other != number]
    _, port = await serve(Leader(f"{folder}/{number}-leads.log", others))
    print(port, flush=True)
    ports = await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    targets = [f"127.0.0.1:{port}" for port in ports.split()]
    async with asyncio.TaskGroup() as group:
        for other in others:
            path = f"{folder}/{number}-follows-{other}.log"
            group.create_task(follow(number, targets[other], path))


if __name__ == "__main__":
    import uvloop

    keep_large_buffers()
    uvloop.run(run(int(sys.argv[1]), sys.argv[2]))
