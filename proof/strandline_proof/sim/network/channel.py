"""A simulated channel: grpc.aio's own Python classes over a simulated transport."""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING, Any, Final, cast

import grpc
from grpc._cython import cygrpc
from grpc.aio import Metadata
from grpc.aio._call import StreamStreamCall, StreamUnaryCall, UnaryStreamCall, UnaryUnaryCall
from grpc.aio._channel import Channel

from strandline_proof.sim.network.client_call import ClientCall
from strandline_runtime.client_ids import user_agent
from strandline_runtime.runtime import Probe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strandline_proof.sim.network.connection import End
    from strandline_proof.sim.network.network import Acceptor, NodeNetwork

CONNECT_S: Final = (0.05, 1.0)
"""Duration of an attempt to connect, and the pause before the next one: the bounds of the channel
options' back-off.
"""
State = grpc.ChannelConnectivity


class ChannelCore:
    """The part of gRPC's core for a channel: it holds the connection that calls share."""

    def __init__(self, node: NodeNetwork, target: str, client_id: str | None) -> None:
        self.node = node
        name = "" if client_id is None else f"{user_agent(client_id)} "
        self.user_agent = f"{name}grpc-python-asyncio/simulated"
        self._loop = asyncio.get_running_loop()
        self._host, _, port = target.rpartition(":")
        self._port = int(port)
        self._target = target
        self._state = State.IDLE
        self._state_waiters: list[asyncio.Future[None]] = []
        self._is_closing = False
        self._end: End | None = None
        self._waiting: dict[int, ClientCall] = {}
        """Calls without a connection yet."""
        self._attempt = 0
        self._deadline: asyncio.TimerHandle | None = None

    # The interface of the Python class

    def call(self, method: str, timeout_s: float | None, wait_for_ready: bool | None) -> ClientCall:
        if self._is_closing:
            raise cygrpc.UsageError("Channel is closed.")
        return ClientCall(self, method, timeout_s, bool(wait_for_ready))

    def closing(self) -> None:
        self._is_closing = True

    def closed(self) -> bool:
        return self._state is State.SHUTDOWN

    def close(self) -> None:
        self._is_closing = True
        self._stop_attempt()
        end, self._end = self._end, None
        if end is not None and end.is_open:
            end.close()
            self.node.network.hang_up(end, "the client has closed its channel", in_order=True)
        self._become(State.SHUTDOWN)

    def check_connectivity_state(self, try_to_connect: bool) -> int:
        if try_to_connect and self._state is State.IDLE:
            self._connect()
        number: int = self._state.value[0]
        return number

    async def watch_connectivity_state(self, last: int, deadline: float | None) -> bool:
        if self._state.value[0] == last:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._state_waiters.append(waiter)
            await waiter
        return True

    # Calls

    def begin(self, call: ClientCall) -> None:
        if self._end is not None:
            call.attach(self._end)
            return
        self._waiting[call.number] = call
        if self._state is not State.CONNECTING:
            self._connect()

    def forget(self, call: ClientCall) -> None:
        self._waiting.pop(call.number, None)

    # The connection

    def _connect(self) -> None:
        self._become(State.CONNECTING)
        self._attempt += 1
        attempt = self._attempt
        network = self.node.network

        def opened(end: End) -> None:
            if attempt == self._attempt and self._state is State.CONNECTING:
                self._on_opened(end)
            else:
                end.close()
                network.hang_up(end, "the attempt was given up")

        def arrived(server: Acceptor) -> None:
            server.on_connect(self.node, opened)

        def answer(verdict: Probe) -> None:
            if attempt == self._attempt and self._state is State.CONNECTING:
                assert verdict is Probe.REFUSED, verdict
                self._on_failed("Connection refused")

        network.knock(self.node, self._host, self._port, arrived, answer)
        self._deadline = self._loop.call_later(
            network.chance(*CONNECT_S), self._on_failed, "connection attempt timed out"
        )

    def _on_opened(self, end: End) -> None:
        self._stop_attempt()
        self._end = end
        end.on_closed = end.on_going_away = self._on_lost
        self._become(State.READY)
        waiting = list(self._waiting.values())
        self._waiting.clear()
        for call in waiting:
            call.attach(end)

    def _on_lost(self, end: End) -> None:
        if self._end is end:
            self._end = None
            self._become(State.IDLE)

    def _on_failed(self, why: str) -> None:
        self._stop_attempt()
        self._become(State.TRANSIENT_FAILURE)
        for call in list(self._waiting.values()):
            if not call.wait_for_ready:
                call.on_broken(
                    f"failed to connect to all addresses; last error: {self._target}: {why}"
                )
        if self._waiting:
            pause_s = self.node.network.chance(*CONNECT_S)
            self._deadline = self._loop.call_later(pause_s, self._try_again)

    def _try_again(self) -> None:
        if self._state is State.TRANSIENT_FAILURE:
            self._connect()

    def _stop_attempt(self) -> None:
        self._attempt += 1
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _become(self, state: State) -> None:
        if self._state is State.SHUTDOWN:
            return
        self._state = state
        waiters, self._state_waiters = self._state_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


class _ActiveCalls:
    """The register of calls in their order. grpc.aio keeps a WeakSet, whose order differs from run
    to run.
    """

    def __init__(self) -> None:
        self._calls: weakref.WeakKeyDictionary[Any, None] = weakref.WeakKeyDictionary()

    def add(self, call: Any) -> None:
        self._calls[call] = None

    def discard(self, call: Any) -> None:
        self._calls.pop(call, None)

    def clear(self) -> None:
        self._calls.clear()

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._calls))


class SimChannel(Channel):
    """A channel whose closing, states and register of calls are grpc.aio's own."""

    def __init__(self, node: NodeNetwork, target: str, client_id: str | None = None) -> None:
        # Not super().__init__: it would start gRPC's core and its threads.
        self._loop = asyncio.get_running_loop()
        self._channel = ChannelCore(node, target, client_id)
        self._active_calls = cast("Any", _ActiveCalls())

    def unary_unary(self, method: str, *serializers: Any, **options: Any) -> Any:
        return self._method(UnaryUnaryCall, method, *serializers, **options)

    def unary_stream(self, method: str, *serializers: Any, **options: Any) -> Any:
        return self._method(UnaryStreamCall, method, *serializers, **options)

    def stream_unary(self, method: str, *serializers: Any, **options: Any) -> Any:
        return self._method(StreamUnaryCall, method, *serializers, **options)

    def stream_stream(self, method: str, *serializers: Any, **options: Any) -> Any:
        return self._method(StreamStreamCall, method, *serializers, **options)

    def _method(
        self,
        kind: Callable[..., Any],
        method: str,
        request_serializer: Any = None,
        response_deserializer: Any = None,
        _registered_method: bool = False,
    ) -> Callable[..., Any]:
        def invoke(
            request: Any = None,
            *,
            timeout: float | None = None,
            metadata: Any = None,
            wait_for_ready: bool | None = None,
        ) -> Any:
            # grpc.aio reads the wall clock for a deadline; here the timeout itself is passed on.
            call = kind(
                request,
                timeout,
                metadata if isinstance(metadata, Metadata) else Metadata(*(metadata or ())),
                None,
                wait_for_ready,
                _Core(self._channel),
                method,
                request_serializer,
                response_deserializer,
                self._loop,
            )
            self._register_call(call)
            return call

        return invoke


class _Core:
    """`AioChannel.call` as grpc.aio's call classes use it."""

    def __init__(self, core: ChannelCore) -> None:
        self._core = core

    def call(
        self,
        method: str,
        timeout_s: float | None,
        credentials: None,
        wait_for_ready: bool | None,
        handle: int,
    ) -> ClientCall:
        return self._core.call(method, timeout_s, wait_for_ready)
