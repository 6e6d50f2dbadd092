"""The calls to other brokers about transactions, over gRPC: `BrokerCalls`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from strandline_broker.rpc.transactions.codec import (
    added_from_wire,
    additions_to_wire,
    marker_to_wire,
    written_from_wire,
)
from strandline_proto.errors import NetworkException, WireError
from strandline_proto.v1 import transactions_pb2
from strandline_proto.v1.services_pb2_grpc import ReplicaServiceStub
from strandline_runtime.renewal import Renewal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from strandline_broker.core.addresses import Endpoint
    from strandline_broker.hosts.transactions.broker_calls import (
        MarkerToWrite,
        PartitionsToAdd,
        Results,
    )
    from strandline_proto.v1.services_pb2_grpc import ReplicaServiceAsyncStub
    from strandline_runtime.runtime import Runtime


class _Peer:
    """The channel to one broker."""

    def __init__(self, runtime: Runtime, target: str) -> None:
        self.target = target
        self.channel = runtime.network.channel(target)
        self.stub: ReplicaServiceAsyncStub = ReplicaServiceStub(self.channel)
        self.renewal = Renewal(runtime.clock)


class BrokerClient:
    """One channel to each address, opened by the first call and shared by all."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._peers: dict[str, _Peer] = {}

    async def close(self) -> None:
        peers, self._peers = self._peers, {}
        for peer in peers.values():
            await peer.channel.close()

    async def add_partitions(
        self, broker: Endpoint, transactions: Sequence[PartitionsToAdd], *, timeout_s: float
    ) -> Results:
        peer = self._peer(broker)
        call = peer.stub.AddPartitionsToTxn(additions_to_wire(transactions), timeout=timeout_s)
        return added_from_wire(transactions, await self._answered(peer, call))

    async def write_markers(
        self, broker: Endpoint, markers: Sequence[MarkerToWrite], *, timeout_s: float
    ) -> Results:
        request = transactions_pb2.WriteTxnMarkersRequest(markers=map(marker_to_wire, markers))
        peer = self._peer(broker)
        call = peer.stub.WriteTxnMarkers(request, timeout=timeout_s)
        return written_from_wire(markers, await self._answered(peer, call))

    def _peer(self, broker: Endpoint) -> _Peer:
        host = f"[{broker.host}]" if ":" in broker.host else broker.host
        target = f"{host}:{broker.port}"
        peer = self._peers.get(target)
        if peer is None:
            peer = self._peers[target] = _Peer(self._runtime, target)
        return peer

    async def _answered(self, peer: _Peer, call: Awaitable[Any]) -> Any:
        """Returns the answer; raises NetworkException without one."""
        try:
            return await call
        except grpc.RpcError as error:
            code = error.code() if isinstance(error, grpc.aio.AioRpcError) else None
            is_gone = code is grpc.StatusCode.UNAVAILABLE and peer.renewal.is_due()
            if is_gone and self._peers.get(peer.target) is peer:
                del self._peers[peer.target]  # not closed: that would cancel its other calls
            raise _lost(peer, error) from error


def _lost(peer: _Peer, error: grpc.RpcError) -> WireError:
    details = error.details() if isinstance(error, grpc.aio.AioRpcError) else str(error)
    return NetworkException(
        f"no answer from broker at {peer.target}: {(details or 'no details')[:200]}"
    )
