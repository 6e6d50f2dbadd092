"""Byte streams over TCP: the real binding of `Network.listen` and `Network.connect`."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_runtime.runtime import Buffer, ByteStream

READ_AHEAD_BYTES: Final = 256 << 10
"""Bytes ahead of `read`: asyncio stops reading from the socket when twice as many wait."""
KEEPALIVE_IDLE_S: Final = 10
KEEPALIVE_INTERVAL_S: Final = 5
KEEPALIVE_PROBES: Final = 2
BACKLOG: Final = 512


class _Protocol(asyncio.StreamReaderProtocol):
    """The protocol of asyncio's streams, which also reports when the connection is gone."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        lost: asyncio.Event,
        connected: Callable[[asyncio.StreamReader, asyncio.StreamWriter], None] | None = None,
    ) -> None:
        super().__init__(reader, connected, loop=asyncio.get_running_loop())
        self._lost = lost

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._lost.set()


class TcpStream:
    """One TCP connection, with the methods of `ByteStream`."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, lost: asyncio.Event
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._lost = lost
        found = writer.get_extra_info("peername")
        self.peer = _host_and_port(found) if isinstance(found, tuple) else "?"
        _keep_alive(writer.get_extra_info("socket"))

    async def read(self, at_most: int) -> bytes:
        try:
            return await self._reader.read(at_most)
        except OSError as error:
            raise _as_connection_error(error) from error

    async def read_exactly(self, length: int) -> bytes:
        try:
            return await self._reader.readexactly(length)
        except OSError as error:
            raise _as_connection_error(error) from error

    def write(self, data: Buffer) -> None:
        if not self._writer.is_closing():
            self._writer.write(data)

    async def drain(self) -> None:
        try:
            await self._writer.drain()
        except OSError as error:
            raise _as_connection_error(error) from error

    def close(self) -> None:
        self._writer.close()

    def abort(self) -> None:
        if not self._lost.is_set():
            self._writer.transport.abort()

    async def closed(self) -> None:
        await self._lost.wait()


class TcpListener:
    """A port that accepts connections."""

    def __init__(self, server: asyncio.Server) -> None:
        self._server = server
        self.port: int = server.sockets[0].getsockname()[1]

    def close(self) -> None:
        self._server.close()


async def listen(host: str, port: int, accept: Callable[[ByteStream], None]) -> TcpListener:
    """Listen on `host:port`, as `Network.listen` describes."""

    def protocol() -> _Protocol:
        lost = asyncio.Event()
        return _Protocol(
            asyncio.StreamReader(READ_AHEAD_BYTES, asyncio.get_running_loop()),
            lost,
            lambda reader, writer: accept(TcpStream(reader, writer, lost)),
        )

    loop = asyncio.get_running_loop()
    return TcpListener(
        await loop.create_server(protocol, host.strip("[]") or None, port, backlog=BACKLOG)
    )


async def connect(host: str, port: int) -> TcpStream:
    """Connect to `host:port`, as `Network.connect` describes."""
    loop = asyncio.get_running_loop()
    reader, lost = asyncio.StreamReader(READ_AHEAD_BYTES, loop), asyncio.Event()
    transport, protocol = await loop.create_connection(
        lambda: _Protocol(reader, lost), host.strip("[]"), port
    )
    return TcpStream(reader, asyncio.StreamWriter(transport, protocol, reader, loop), lost)


def _keep_alive(found: socket.socket | None) -> None:
    """Make the kernel detect within 20 seconds that an idle peer's machine is gone."""
    if found is None:
        return
    options = (
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.IPPROTO_TCP, getattr(socket, "TCP_KEEPIDLE", None), KEEPALIVE_IDLE_S),
        (socket.IPPROTO_TCP, getattr(socket, "TCP_KEEPINTVL", None), KEEPALIVE_INTERVAL_S),
        (socket.IPPROTO_TCP, getattr(socket, "TCP_KEEPCNT", None), KEEPALIVE_PROBES),
    )
    for level, option, value in options:
        if option is not None:
            with contextlib.suppress(OSError):  # the connection may have ended already
                found.setsockopt(level, option, value)


def _host_and_port(address: tuple[object, ...]) -> str:
    host, port = cast("tuple[str, int]", address[:2])
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _as_connection_error(error: OSError) -> ConnectionError:
    if isinstance(error, ConnectionError):
        return error
    return ConnectionAbortedError(error.errno or errno.ECONNABORTED, str(error))
