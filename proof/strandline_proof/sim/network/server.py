"""A simulated gRPC server: handlers, ports, and a stop with grace."""

from __future__ import annotations

import asyncio
import enum
from typing import TYPE_CHECKING, Any

import grpc
from grpc._cython import cygrpc

from strandline_proof.sim.network.server_call import ServerCall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from strandline_proof.sim.network.client_call import ClientCall, Metadata
    from strandline_proof.sim.network.connection import End
    from strandline_proof.sim.network.network import NodeNetwork


class _Phase(enum.Enum):
    READY = "ready"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"


class _CallDetails:
    """grpc.HandlerCallDetails."""

    def __init__(self, method: str, metadata: Metadata) -> None:
        self.method = method
        self.invocation_metadata = metadata


class SimServer:
    """grpc.aio.Server over a simulated network."""

    def __init__(self, node: NodeNetwork) -> None:
        self._node = node
        self._phase = _Phase.READY
        self._generic: list[grpc.GenericRpcHandler] = []
        self._registered: dict[str, Any] = {}
        self._ends: list[End] = []
        self._knocking: list[tuple[NodeNetwork, Callable[[End], None]]] = []
        """Connections that wait for the server's start."""
        self._completed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def is_stopped(self) -> bool:
        return self._phase is _Phase.STOPPED

    def add_generic_rpc_handlers(self, handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        self._generic.extend(handlers)

    def add_registered_method_handlers(
        self, service_name: str, method_handlers: Mapping[str, Any]
    ) -> None:
        for method, handler in method_handlers.items():
            self._registered[f"/{service_name}/{method}"] = handler

    def add_insecure_port(self, address: str) -> int:
        return self._node.bind(address, self)

    async def start(self) -> None:
        if self._phase is _Phase.RUNNING:
            return
        if self._phase is not _Phase.READY:
            raise cygrpc.UsageError("Server not in ready state")
        self._phase = _Phase.RUNNING
        knocking, self._knocking = self._knocking, []
        for client, opened in knocking:
            self.on_connect(client, opened)
        await asyncio.sleep(0)

    async def stop(self, grace: float | None) -> None:
        if self._phase is _Phase.READY:
            self._unbind()
        if self._phase in (_Phase.READY, _Phase.STOPPED):
            return
        if self._phase is _Phase.RUNNING:
            self._phase = _Phase.STOPPING
            self._unbind()
            for end in list(self._ends):
                self._node.network.say_going_away(end)
                self.on_call_over(end)
            self._complete_if_idle()
        if grace is not None:
            try:
                async with asyncio.timeout(grace):
                    await asyncio.shield(self._completed)
            except TimeoutError:
                grace = None
        if grace is None:
            self._cancel_all()
            await asyncio.shield(self._completed)
        self._phase = _Phase.STOPPED

    async def wait_for_termination(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - grpc
        try:
            async with asyncio.timeout(timeout):
                await asyncio.shield(self._completed)
        except TimeoutError:
            return True
        return False

    def _unbind(self) -> None:
        listeners = self._node.listeners
        for port in [port for port, server in listeners.items() if server is self]:
            del listeners[port]

    def _cancel_all(self) -> None:
        for end in list(self._ends):
            for call in list(end.calls.values()):
                assert isinstance(call, ServerCall)
                call.refuse(grpc.StatusCode.UNAVAILABLE, "Cancelling all calls")

    # Connections and calls

    def on_connect(self, client: NodeNetwork, opened: Callable[[End], None]) -> None:
        """A client's connection reaches this process."""
        if self._phase is _Phase.READY:
            self._knocking.append((client, opened))
        elif self._phase is _Phase.RUNNING:
            end = self._node.network.accept(client, self._node, opened)
            if end is not None:
                end.accept_call = self._acceptor(end)
                end.on_closed = self._on_closed
                self._ends.append(end)

    def _acceptor(self, end: End) -> Callable[[ClientCall, Metadata, float | None], ServerCall]:
        def accept(client: ClientCall, metadata: Metadata, timeout_s: float | None) -> ServerCall:
            call = ServerCall(self, client, end, metadata, timeout_s)
            if self._phase is _Phase.RUNNING:
                call.start(self._find(client.method, metadata))
            else:
                call.refuse(grpc.StatusCode.UNAVAILABLE, "the server is stopping")
            return call

        return accept

    def _find(self, method: str, metadata: Metadata) -> Any:
        handler = self._registered.get(method)
        if handler is not None:
            return handler
        details: Any = _CallDetails(method, metadata)
        for generic in self._generic:
            handler = generic.service(details)
            if handler is not None:
                return handler
        return None

    def on_call_over(self, end: End) -> None:
        """A stopping server closes each connection when its last call is over."""
        if self._phase is _Phase.STOPPING and not end.calls and end.is_open:
            end.close()
            self._node.network.hang_up(end, "Socket closed", in_order=True)

    def _on_closed(self, end: End) -> None:
        if end in self._ends:
            self._ends.remove(end)
        self._complete_if_idle()

    def _complete_if_idle(self) -> None:
        if self._phase is _Phase.STOPPING and not self._ends and not self._completed.done():
            self._completed.set_result(None)
