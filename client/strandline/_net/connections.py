"""Channels to brokers, and unary calls that raise the library's own errors."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import grpc
import grpc.aio

from strandline._net.arguments import several
from strandline.errors import (
    BrokerUnreachable,
    CallNotServed,
    ClientClosed,
    ConfigurationError,
    InvalidRequest,
    OperationTimedOut,
)
from strandline_proto import hot_calls
from strandline_proto.v1 import metadata_pb2, services_pb2_grpc
from strandline_runtime.renewal import Renewal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from strandline_proto.v1.services_pb2_grpc import BrokerServiceAsyncStub
    from strandline_runtime.runtime import Runtime

Answer = TypeVar("Answer")

_ADVICE = {
    grpc.StatusCode.UNAVAILABLE: "is the broker running, and is this one of its listeners?",
    grpc.StatusCode.UNIMPLEMENTED: "the process there is not a Strandline broker of this version",
}


_TOO_LARGE = re.compile(r"message larger than max \((\d+) vs\. \d+\)")
"""gRPC's message, on either side, about a message that is too large for it."""


class MessageTooLarge(BrokerUnreachable):
    """The transport refused a message because of its size, and ended the stream."""

    size = 0
    """Size of the message in bytes."""


def parse_bootstrap(servers: str | Iterable[str]) -> tuple[str, ...]:
    """The addresses of `bootstrap_servers`: 'host:port,host:port' or several such strings."""
    if isinstance(servers, Mapping):
        raise ConfigurationError(
            "bootstrap_servers is a mapping; write from_config({'bootstrap.servers': ...})"
        )
    texts = [servers] if isinstance(servers, str) else several("bootstrap_servers", servers, str)
    addresses = [part.strip() for text in texts for part in text.split(",") if part.strip()]
    if not addresses:
        raise ConfigurationError("bootstrap_servers is empty; give host:port of a broker")
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise ConfigurationError(f"bootstrap_servers: {address!r} is not host:port")
    return tuple(dict.fromkeys(addresses))


def transport_error(error: grpc.aio.AioRpcError, where: str) -> BrokerUnreachable:
    """The library's error for a gRPC status."""
    detail = (error.details() or "").split("; ")[0]
    advice = _ADVICE.get(error.code())
    text = f"{where}: {error.code().name}: {detail}"
    unserved = error.code() == grpc.StatusCode.UNIMPLEMENTED
    kind = CallNotServed if unserved else BrokerUnreachable
    if (large := _TOO_LARGE.search(detail)) is not None:
        refused = MessageTooLarge(text)
        refused.size = int(large[1])
        return refused
    return kind(f"{text} ({advice})" if advice else text)


async def on_stream(step: Awaitable[Answer]) -> Answer:
    """Awaits one step of a stream, or a call; a cancellation by the transport is an error.

    Taken for a cancellation of the task, it would end the task silently, and a waiter for the
    stream's end would wait for ever.
    """
    try:
        return await step
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling() > 0:
            raise
        raise BrokerUnreachable("the transport cancelled the call") from None


class Connections:
    """One channel for each address, opened when first needed."""

    def __init__(self, runtime: Runtime, client_id: str | None = None) -> None:
        self._runtime = runtime
        self._client_id = client_id
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._stubs: dict[str, BrokerServiceAsyncStub] = {}
        self._renewals: dict[str, Renewal] = {}
        self._is_closed = False

    def stub(self, address: str) -> BrokerServiceAsyncStub:
        stub = self._stubs.get(address)
        if stub is None:
            channel = self._channel(address)
            stub = self._stubs[address] = services_pb2_grpc.BrokerServiceStub(channel)
        return stub

    def produce(self, address: str) -> Any:
        """Opens a Produce stream; hot_messages has its messages."""
        return hot_calls.produce(self._channel(address))()

    def fetch(self, address: str) -> Any:
        """Opens a Fetch stream."""
        return hot_calls.fetch(self._channel(address))()

    def _channel(self, address: str) -> grpc.aio.Channel:
        if self._is_closed:  # a new channel would never be closed
            raise ClientClosed("the client was closed meanwhile")
        channel = self._channels.get(address)
        if channel is None:
            channel = self._runtime.network.channel(address, self._client_id)
            self._channels[address] = channel
        return channel

    async def call(
        self,
        address: str,
        method: Callable[[BrokerServiceAsyncStub], Callable[..., Any]],
        request: Any,
        *,
        timeout_s: float,
        returns: type[Answer],
    ) -> Answer:
        """Makes one unary call with a deadline.

        Raises BrokerUnreachable, OperationTimedOut, InvalidRequest for a request that the broker
        did not read, and ClientClosed once the connections are closed.
        """
        if timeout_s <= 0:
            raise OperationTimedOut(f"no time was left to ask {address}")
        try:
            answer = await on_stream(method(self.stub(address))(request, timeout=timeout_s))
        except grpc.aio.AioRpcError as error:
            if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
                raise OperationTimedOut(
                    f"{address} did not answer within {timeout_s * 1000:.0f} ms"
                ) from None
            if error.code() == grpc.StatusCode.UNAVAILABLE:
                await self._renew(address)
            if error.code() is grpc.StatusCode.INVALID_ARGUMENT:
                raise InvalidRequest(f"{address}: {error.details()}") from None
            raise transport_error(error, address) from None
        if address in self._renewals:
            del self._renewals[address]
        assert isinstance(answer, returns), answer
        return answer

    async def _renew(self, address: str) -> None:
        """Closes a channel that has found no peer for a while."""
        renewal = self._renewals.setdefault(address, Renewal(self._runtime.clock))
        if renewal.is_due() and (channel := self._channels.pop(address, None)) is not None:
            self._stubs.pop(address, None)
            await channel.close()

    async def hello(self, address: str, timeout_s: float) -> metadata_pb2.MetadataResponse:
        """Checks that a broker answers there, before data that must not be lost is sent."""
        return await self.call(
            address,
            lambda stub: stub.Metadata,
            metadata_pb2.MetadataRequest(only_named=True),
            timeout_s=timeout_s,
            returns=metadata_pb2.MetadataResponse,
        )

    async def close(self) -> None:
        self._is_closed = True
        channels, self._channels = list(self._channels.values()), {}
        self._stubs.clear()
        for channel in channels:
            await channel.close()
