"""A Kafka connection in one process: frames in, answers out, and handlers that the test steers."""

from __future__ import annotations

import asyncio
import struct
from typing import TYPE_CHECKING, Any, cast

from strandline_broker.kafka.connection import Connection
from strandline_broker.kafka.limits import RequestMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from strandline_broker.kafka.request import Request

PRODUCE, FETCH, METADATA = 0, 1, 3


def frame(key: int, correlation_id: int, *, version: int = 4, body: bytes = b"") -> bytes:
    """A request with a header of version 1 and its length before it."""
    header = struct.pack(">hhihs", key, version, correlation_id, 1, b"c")
    return struct.pack(">i", len(header) + len(body)) + header + body


class PipeStream:
    """A `ByteStream` whose other side is the test."""

    peer = "10.0.0.7:4711"

    def __init__(self) -> None:
        self._reader = asyncio.StreamReader()
        self.written = bytearray()
        self.is_readable = asyncio.Event()
        """Set while the client reads its answers."""
        self.is_readable.set()
        self.is_aborted = False

    def send(self, data: bytes) -> None:
        self._reader.feed_data(data)

    def send_eof(self) -> None:
        self._reader.feed_eof()

    async def read(self, at_most: int) -> bytes:
        return await self._reader.read(at_most)

    async def read_exactly(self, length: int) -> bytes:
        return await self._reader.readexactly(length)

    def write(self, data: Any) -> None:
        self.written += data

    async def drain(self) -> None:
        await self.is_readable.wait()

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if not self.is_aborted:
            self.is_aborted = True
            self._reader.set_exception(ConnectionAbortedError("aborted"))

    async def closed(self) -> None:
        return None

    def answers(self) -> list[tuple[int, bytes]]:
        """(correlation id, body) of each answer that was written whole."""
        found, at = [], 0
        while at + 4 <= len(self.written):
            (size,) = struct.unpack_from(">i", self.written, at)
            (correlation_id,) = struct.unpack_from(">i", self.written, at + 4)
            found.append((correlation_id, bytes(self.written[at + 8 : at + 4 + size])))
            at += 4 + size
        return found


class SteeredCalls:
    """Handlers that note the start of each request and answer when the test says so."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.cancelled: list[int] = []
        self.requests: dict[int, Request] = {}
        self._answers: dict[int, Callable[[list[bytes] | None], None]] = {}
        self._waiting: dict[int, asyncio.Future[list[bytes]]] = {}

    def _begin(self, request: Request) -> int:
        number = request.header.correlation_id
        self.begun.append(number)
        self.requests[number] = request
        return number

    async def append(self, request: Request, answer: Callable[[list[bytes] | None], None]) -> None:
        self._answers[self._begin(request)] = answer

    async def answer(self, request: Request) -> list[bytes]:
        number = self._begin(request)
        self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            return await self._waiting[number]
        except asyncio.CancelledError:
            self.cancelled.append(number)
            raise

    def finish(self, number: int, body: bytes | None = b"!") -> None:
        parts = None if body is None else [body]
        if number in self._answers:
            self._answers[number](parts)
        else:
            assert parts is not None
            self._waiting[number].set_result(parts)

    def fail(self, number: int, error: Exception) -> None:
        self._waiting[number].set_exception(error)


class OneConnection:
    """One connection under test, in place of its listener too."""

    def __init__(self, group: asyncio.TaskGroup, memory: RequestMemory | None = None) -> None:
        self._group = group
        self.handlers = SteeredCalls()
        self.timed: list[str] = []
        """The requests whose times were noted."""
        self.memory = RequestMemory(1 << 30) if memory is None else memory
        self.stream = PipeStream()
        self.connection = Connection(cast("Any", self), cast("Any", self.stream))
        self.served = group.create_task(self._serve())
        self.ended_with: BaseException | None = None

    async def _serve(self) -> None:
        try:
            await self.connection.serve(await self.stream.read_exactly(4))
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.ended_with = error

    async def calls(self) -> SteeredCalls:
        return self.handlers

    def spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        return self._group.create_task(work)

    def observe(self, request: Request, *, came_s: float, began_s: float, done_s: float) -> None:
        assert 0 <= came_s <= began_s <= done_s <= asyncio.get_running_loop().time()
        self.timed.append(f"{request.header.api.name} {request.version}")

    def check_size(self, size: int) -> None:
        assert 0 <= size <= 1 << 30

    async def send(self, *frames: bytes) -> None:
        """Sends the frames, and lets the connection do all that it can do now."""
        for each in frames:
            self.stream.send(each)
        await self.settle()

    async def finish(self, number: int, body: bytes | None = b"!") -> None:
        self.handlers.finish(number, body)
        await self.settle()

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    def answered(self) -> list[int]:
        return [correlation_id for correlation_id, _ in self.stream.answers()]

    async def end(self) -> None:
        self.stream.send_eof()
        await self.settle()
