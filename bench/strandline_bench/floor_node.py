"""The processes of the bare path: a leader and its followers, with no replication logic at all.

The very messages of the contract over the same streams, a CRC-32C and a file on each side; no
epochs, no ISR, no recovery, no validation. It loses data and is no broker: it is what the transport
allows.
"""

import asyncio
import os
import sys
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, Final

import crc32c
import grpc

from strandline_proto.v1 import fetch_pb2, produce_pb2, services_pb2_grpc
from strandline_runtime.real import RealNetwork, keep_large_buffers

FOLLOWERS: Final = 2
FETCH_BYTES_MAX: Final = 1 << 20
FETCH_WAIT_S: Final = 0.5


class Leader:
    """Appends what it is sent, hands it to the followers, and answers once all have it."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        self._end = 0
        self._fetched = dict.fromkeys(range(1, FOLLOWERS + 1), 0)
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
        answers: asyncio.Queue[tuple[int, asyncio.Future[None]]] = asyncio.Queue()

        async def read() -> None:
            async for request in request_iterator:
                records = request.topics[0].partitions[0].records
                answers.put_nowait((request.correlation_id, self._append(records)))

        async with asyncio.TaskGroup() as group:
            group.create_task(read())
            while True:
                number, replicated = await answers.get()
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
                try:
                    async with asyncio.timeout(FETCH_WAIT_S):
                        await grown.wait()
                except TimeoutError:
                    pass
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


async def lead(path: str) -> None:
    server = RealNetwork().server()
    leader = Leader(path)
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
    print(port, flush=True)
    await server.wait_for_termination()


async def follow(number: int, target: str, path: str) -> None:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    channel = RealNetwork().channel(target)
    stream = services_pb2_grpc.BrokerServiceStub(channel).Fetch()
    end = 0
    while True:
        await stream.write(_fetch(number, end))
        response = await stream.read()
        if not isinstance(response, fetch_pb2.FetchResponse):
            return  # the leader has gone
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


def main(argv: list[str]) -> None:
    """`leader PATH` prints its port; `follower NUMBER TARGET PATH` runs until it is killed."""
    import uvloop

    keep_large_buffers()
    if argv[0] == "leader":
        uvloop.run(lead(argv[1]))
    else:
        uvloop.run(follow(int(argv[1]), argv[2], argv[3]))


if __name__ == "__main__":
    main(sys.argv[1:])
