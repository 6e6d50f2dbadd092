"""A follower's end of the Fetch stream to the broker of a leader."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import grpc.aio

from strandline_broker.rpc.fetch_codec import request_to_wire, response_from_wire
from strandline_proto.v1 import fetch_pb2
from strandline_proto.v1.services_pb2_grpc import BrokerServiceStub

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from strandline_broker.core.addresses import Endpoint
    from strandline_broker.hosts.fetch_messages import FetchRequest, FetchResponse
    from strandline_proto.v1.services_pb2_grpc import BrokerServiceAsyncStub
    from strandline_runtime.runtime import Network


class FetchClient:
    def __init__(self, network: Network) -> None:
        self._network = network

    @asynccontextmanager
    async def __call__(self, leader: Endpoint) -> AsyncIterator[FetchCall]:
        """A stream on a channel of its own, which ends with the block."""
        channel = self._network.channel(f"{leader.host}:{leader.port}")
        try:
            stub: BrokerServiceAsyncStub = BrokerServiceStub(channel)
            yield FetchCall(stub.Fetch())
        finally:
            await channel.close()


class FetchCall:
    def __init__(
        self, call: grpc.aio.StreamStreamCall[fetch_pb2.FetchRequest, fetch_pb2.FetchResponse]
    ) -> None:
        self._call = call

    async def write(self, request: FetchRequest) -> None:
        await self._call.write(request_to_wire(request))

    async def read(self) -> FetchResponse | None:
        response = await self._call.read()
        if response is grpc.aio.EOF:
            return None
        assert isinstance(response, fetch_pb2.FetchResponse)
        return response_from_wire(response)

    def cancel(self) -> None:
        self._call.cancel()
