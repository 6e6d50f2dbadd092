"""Simulated byte streams: a TCP connection's order, segments, window and ends.

A write is cut into segments at seeded places, and a reader receives the segments that have arrived.
A reader that does not read closes its window: its peer's writes are queued there, and `drain`
waits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from strandline_proof.sim.network.connection import Pipe

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_proof.sim.network.connection import End
    from strandline_proof.sim.network.network import Acceptor, NodeNetwork
    from strandline_runtime.runtime import Buffer, ByteStream, Probe

WINDOW_BYTES: Final = 128 << 10
"""Most bytes under way or unread."""
QUEUED_BYTES_HIGH: Final = 64 << 10
QUEUED_BYTES_LOW: Final = 16 << 10
"""The bounds of asyncio's transports: above the first, `drain` waits for the second."""
SEGMENT_BYTES_MAX: Final = 32 << 10
CALL: Final = 0
"""The number of the only call on the connection, as its ends number their calls."""


class SimByteStream:
    """`ByteStream` over a simulated connection."""

    def __init__(self, end: End) -> None:
        self.peer = f"{end.peer.node.name}:{id(end.peer) % 50_000 + 10_000}"
        self.other: SimByteStream = self
        self._end = end
        self._network = end.node.network
        self._pipe = Pipe(self._network, end)
        self._arrived = bytearray()
        self._is_ended = False
        """True once the other side has closed."""
        self._error: ConnectionError | None = None
        self._queued: deque[memoryview] = deque()
        self._queued_bytes = 0
        self._window = WINDOW_BYTES
        self._is_closing = False
        self._wakeups: list[asyncio.Future[None]] = []
        end.calls[CALL] = self

    # The methods of `ByteStream`

    async def read(self, at_most: int) -> bytes:
        if at_most == 0:
            return b""
        while not self._arrived:
            if self._is_over():
                return b""
            await self._wait()
        self._check()
        return self._take(min(at_most, len(self._arrived)))

    async def read_exactly(self, length: int) -> bytes:
        got = bytearray()
        while len(got) + len(self._arrived) < length:
            if self._is_over():
                got += self._take(len(self._arrived))
                raise asyncio.IncompleteReadError(bytes(got), length)
            if len(self._arrived) >= WINDOW_BYTES:
                # The reader must open its window to get on; a cancelled read puts the bytes back.
                got += self._take(len(self._arrived))
            try:
                await self._wait()
            except asyncio.CancelledError:
                self._arrived[:0] = got
                raise
        self._check()
        return bytes(got + self._take(length - len(got)))

    def write(self, data: Buffer) -> None:
        if self._is_closing or self._error is not None or len(data) == 0:
            return
        self._queued.append(memoryview(bytes(data)))
        self._queued_bytes += len(data)
        self._pump()

    async def drain(self) -> None:
        if self._queued_bytes > QUEUED_BYTES_HIGH:
            while self._queued_bytes > QUEUED_BYTES_LOW and self._error is None:
                await self._wait()
        self._check()
        if self._is_closing:
            await asyncio.sleep(0)

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._pump()

    def abort(self) -> None:
        self._is_closing = True
        self._queued.clear()
        self._queued_bytes = 0
        if self._end.is_open:
            self._end.close()
            self._network.hang_up(self._end, "Connection reset by peer")
        self._wake()

    async def closed(self) -> None:
        while self._end.is_open:
            await self._wait()

    # Notices of the connection

    def on_broken(self, why: str) -> None:
        timed_out = "timed out" in why or "timeout" in why
        self._error = (ConnectionAbortedError if timed_out else ConnectionResetError)(why)
        self._queued.clear()
        self._queued_bytes = 0
        self._wake()

    def on_data(self, data: memoryview) -> None:
        self._arrived += data
        self._wake()

    def on_end(self) -> None:
        self._is_ended = True
        self._wake()

    def on_window(self, length: int) -> None:
        """The other side has read so many bytes."""
        self._window += length
        self._pump()

    # Helpers

    def _pump(self) -> None:
        """Sends as much as the window allows; then closes, if that was requested."""
        while self._queued and self._window > 0:
            data = self._queued[0]
            most = min(len(data), self._window, SEGMENT_BYTES_MAX)
            length = most if self._network.chance(0, 1) < 0.5 else self._cut(most)
            self._pipe.send(self.other.on_data, data[:length])
            self._window -= length
            self._queued_bytes -= length
            if length == len(data):
                self._queued.popleft()
            else:
                self._queued[0] = data[length:]
        if self._queued_bytes <= QUEUED_BYTES_LOW:
            self._wake()
        if self._is_closing and not self._queued and self._end.is_open:
            self._pipe.send(self.other.on_end)
            self._end.close()
            self._wake()

    def _cut(self, most: int) -> int:
        return 1 + int(self._network.chance(0, most - 1))

    def _take(self, length: int) -> bytes:
        taken = bytes(self._arrived[:length])
        del self._arrived[:length]
        if length and self._end.is_open and self.other._end.is_open:
            self._pipe.send(self.other.on_window, length)
        return taken

    def _is_over(self) -> bool:
        """True if nothing more will arrive; raises ConnectionError if the connection broke."""
        self._check()
        return self._is_ended or self._is_closing

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    async def _wait(self) -> None:
        wakeup: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._wakeups.append(wakeup)
        try:
            await wakeup
        finally:
            if wakeup in self._wakeups:
                self._wakeups.remove(wakeup)

    def _wake(self) -> None:
        wakeups, self._wakeups = self._wakeups, []
        for wakeup in wakeups:
            if not wakeup.done():
                wakeup.set_result(None)


class SimListener:
    """`Listener` on a simulated node."""

    port = 0

    def __init__(self, node: NodeNetwork, accept: Callable[[ByteStream], None]) -> None:
        self._node = node
        self._accept = accept

    def on_connect(self, client: NodeNetwork, opened: Callable[[End], None]) -> None:
        end = self._node.network.accept(client, self._node, opened)
        if end is None:
            return
        here, there = SimByteStream(end), SimByteStream(end.peer)
        here.other, there.other = there, here
        self._accept(here)

    def close(self) -> None:
        if self._node.listeners.get(self.port) is self:
            del self._node.listeners[self.port]


async def open_stream(node: NodeNetwork, host: str, port: int) -> SimByteStream:
    """A connection from this node. Silence never ends it."""
    network = node.network
    answered: asyncio.Future[End | None] = asyncio.get_running_loop().create_future()

    def opened(end: End) -> None:
        if answered.done():
            end.close()
            network.hang_up(end, "the attempt was given up")
        else:
            answered.set_result(end)

    def arrived(acceptor: Acceptor) -> None:
        acceptor.on_connect(node, opened)

    def answer(verdict: Probe) -> None:
        if not answered.done():
            answered.set_result(None)

    network.knock(node, host, port, arrived, answer)
    end = await answered
    if end is None:
        raise ConnectionRefusedError(f"{host}:{port} refuses the connection")
    stream = end.calls[CALL]
    assert isinstance(stream, SimByteStream), f"{host}:{port} serves gRPC"
    return stream
