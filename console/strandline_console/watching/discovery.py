"""The servers of a cluster: asked of any broker that answers, again and again.

Brokers' addresses are those of the listener that was asked, as for every client. The controller's
is the one that it gives of itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import grpc
import grpc.aio

from strandline_console.watching.server_watch import transport_reason
from strandline_proto.v1 import metadata_pb2, services_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Sequence

ASK_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class KnownServer:
    """A server of the cluster."""

    id: str
    node_id: int
    address: str | None
    build: str | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """The answer of one broker. `servers` is empty if none has answered."""

    cluster_id: str | None
    servers: tuple[KnownServer, ...]
    reason: str | None
    """Why no broker has answered."""


class Ask(Protocol):
    """The two calls of discovery to the broker at an address."""

    async def cluster(self, address: str) -> metadata_pb2.DescribeClusterResponse: ...
    async def metadata(self, address: str) -> metadata_pb2.MetadataResponse: ...


class AskByChannel:
    """The calls over a channel of their own, which is closed afterwards."""

    def __init__(self, channel_of: ChannelOf) -> None:
        self._channel_of = channel_of

    async def cluster(self, address: str) -> metadata_pb2.DescribeClusterResponse:
        async with self._channel_of(address) as channel:
            stub = services_pb2_grpc.BrokerServiceStub(channel)
            return await stub.DescribeCluster(metadata_pb2.DescribeClusterRequest(), timeout=ASK_S)

    async def metadata(self, address: str) -> metadata_pb2.MetadataResponse:
        async with self._channel_of(address) as channel:
            stub = services_pb2_grpc.BrokerServiceStub(channel)
            request = metadata_pb2.MetadataRequest(only_named=True)
            return await stub.Metadata(request, timeout=ASK_S)


class ChannelOf(Protocol):
    def __call__(self, target: str) -> grpc.aio.Channel: ...


async def discover(ask: Ask, addresses: Sequence[str]) -> Found:
    """Ask the addresses in order until a broker describes the cluster.

    A broker that is cut off from the controller describes what it knows: the live brokers.
    """
    reasons, partial = [], None
    for address in addresses:
        try:
            metadata = await ask.metadata(address)
        except grpc.aio.AioRpcError as why:
            reasons.append(transport_reason(why, address))
            continue
        live = {b.node_id: f"{b.host}:{b.port}" for b in metadata.brokers}
        try:
            cluster = await ask.cluster(address)
        except grpc.aio.AioRpcError as why:
            cluster = metadata_pb2.DescribeClusterResponse(error_code=-1)
            reasons.append(transport_reason(why, address))
        if cluster.error_code == 0:
            return Found(cluster.cluster_id, _servers(cluster, live), None)
        if partial is None:
            partial = Found(
                None,
                tuple(KnownServer(f"broker-{i}", i, a) for i, a in sorted(live.items())),
                None,
            )
    return partial or Found(None, (), "; ".join(reasons) or "no address was given")


def _servers(
    cluster: metadata_pb2.DescribeClusterResponse, live: dict[int, str]
) -> tuple[KnownServer, ...]:
    controller = cluster.controller
    listener = _common_listener(cluster, live)
    found = [
        KnownServer(
            "controller",
            controller.id,
            f"{controller.host}:{controller.port}" if controller.host else None,
            controller.version or None,
        )
    ]
    for broker in sorted(cluster.brokers, key=lambda each: each.id):
        address = live.get(broker.id)
        if address is None:  # a broker that is not live keeps the addresses of its registration
            chosen = [e for e in broker.listeners if e.listener == listener] or broker.listeners
            address = f"{chosen[0].host}:{chosen[0].port}" if chosen else None
        found.append(KnownServer(f"broker-{broker.id}", broker.id, address, broker.version or None))
    return tuple(found)


def _common_listener(
    cluster: metadata_pb2.DescribeClusterResponse, live: dict[int, str]
) -> str | None:
    """The name of the listener through which the live brokers were described."""
    for broker in cluster.brokers:
        for endpoint in broker.listeners:
            if live.get(broker.id) == f"{endpoint.host}:{endpoint.port}":
                return endpoint.listener
    return None
