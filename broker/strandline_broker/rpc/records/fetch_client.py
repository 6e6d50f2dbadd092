"""A follower's end of the Fetch stream to the broker of a leader."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc.aio

from strandline_broker.rpc.records.fetch_codec import request_to_wire, response_from_wire
from strandline_proto import hot_calls
from strandline_proto.hot_messages import FetchResponse as WireResponse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from strandline_broker.core.addresses import Endpoint
    from strandline_broker.hosts.common.fetch_messages import FetchRequest, FetchResponse
    from strandline_runtime.runtime import Network


class FetchClient:
    def __init__(self, network: Network) -> None:
        self._network = network

    @asynccontextmanager
    async def __call__(self, leader: Endpoint) -> AsyncIterator[FetchCall]:
        """A stream on a channel of its own, which ends with the block."""
        channel = self._network.channel(f"{leader.host}:{leader.port}")
        try:
            yield FetchCall(hot_calls.fetch(channel)())
        finally:
            await channel.close()


class FetchCall:
    def __init__(self, call: Any) -> None:
        self._call = call

    async def write(self, request: FetchRequest) -> None:
        await self._call.write(request_to_wire(request))

    async def read(self) -> FetchResponse | None:
        response = await self._call.read()
        if response is grpc.aio.EOF:
            return None
        assert isinstance(response, WireResponse)
        return response_from_wire(response)

    def cancel(self) -> None:
        self._call.cancel()
