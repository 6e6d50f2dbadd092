"""What a gRPC scenario runs on: a server and a channel of any `Network`, and what both sides saw.

The client's and the handler's events are two lists: how they interleave is chance, their own order
is not.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from strandline_runtime.runtime import Network

SERVICE = "conformance.Scenario"
TOLD_DETAILS = ("app:", "Locally cancelled", "Method not found", "Unexpected <class")
"""Details that an application can rely on; the others are the transport's words."""

HANDLERS: dict[str, Callable[..., Any]] = {
    "UnaryUnary": grpc.unary_unary_rpc_method_handler,
    "UnaryStream": grpc.unary_stream_rpc_method_handler,
    "StreamUnary": grpc.stream_unary_rpc_method_handler,
    "StreamStream": grpc.stream_stream_rpc_method_handler,
}


def told(code: object, details: str | None) -> str:
    name = code.name if isinstance(code, grpc.StatusCode) else str(code)
    return f"{name} {details}" if (details or "").startswith(TOLD_DETAILS) else name


async def outcome(step: Awaitable[Any]) -> str:
    """What awaiting it gave, as a line."""
    try:
        result = await step
    except grpc.aio.AioRpcError as error:
        return told(error.code(), error.details())
    except BaseException as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling() > 0:
            raise
        return type(error).__name__
    if result is grpc.aio.EOF:
        return "EOF"
    return result.decode() if isinstance(result, bytes) else repr(result)


class Rig:
    """One server and one channel; messages are bytes."""

    def __init__(self, server_side: Network, client_side: Network, host: str) -> None:
        self.client: list[str] = []
        self.handler: list[str] = []
        self.working = asyncio.Event()
        """A handler may say here that it has sent what it sends before its long work."""
        self.ended = asyncio.Event()
        """A handler may say here that it has ended."""
        self.host = host
        self.port = 0
        self._server_side = server_side
        self._client_side = client_side
        self._channels: list[grpc.aio.Channel] = []
        self._servers: list[grpc.aio.Server] = []

    def bound(self, port: int = 0, **methods: Callable[..., Any]) -> grpc.aio.Server:
        """A server that is bound, and not started."""
        server = self._server_side.server()
        handlers: dict[str, Any] = {
            name: HANDLERS[name](method) for name, method in methods.items()
        }
        generic = grpc.method_handlers_generic_handler(SERVICE, handlers)
        server.add_generic_rpc_handlers((generic,))
        self.port = server.add_insecure_port(f"{self.host}:{port}")
        self._servers.append(server)
        return server

    async def serve(self, **methods: Callable[..., Any]) -> grpc.aio.Server:
        server = self.bound(0, **methods)
        await server.start()
        return server

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def channel(self) -> grpc.aio.Channel:
        channel = self._client_side.channel(self.address)
        self._channels.append(channel)
        return channel

    def method(self, name: str, channel: grpc.aio.Channel | None = None) -> Any:
        if channel is None:
            channel = self._channels[0] if self._channels else self.channel()
        kinds: dict[str, Any] = {
            "UnaryUnary": channel.unary_unary,
            "UnaryStream": channel.unary_stream,
            "StreamUnary": channel.stream_unary,
            "StreamStream": channel.stream_stream,
        }
        return kinds[name](f"/{SERVICE}/{name}")

    def probe(self) -> Awaitable[object]:
        return self._client_side.probe(self.host, self.port, 1.0)

    async def saw(self, step: Awaitable[Any], what: str = "") -> str:
        """Await it, and note what the client saw."""
        line = await outcome(step)
        self.client.append(f"{what} {line}".strip())
        return line

    async def handler_saw(self, step: Awaitable[Any], what: str = "") -> str:
        """The same for the handler, which a cancellation ends."""
        try:
            line = await outcome(step)
        except asyncio.CancelledError:
            self.handler.append(f"{what} cancelled".strip())
            raise
        self.handler.append(f"{what} {line}".strip())
        return line

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close()
        for server in self._servers:
            await server.stop(None)
