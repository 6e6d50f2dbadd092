"""The client's side of a simulated call: the part of gRPC's core below `grpc.aio`'s Python classes.

Those classes run unchanged above this, with all their habits; the names and signatures here are
theirs. A call reports its status only when every message before it has been read. A status of the
transport itself comes at once: a deadline, a cancellation, a broken connection.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from grpc._cython import cygrpc

from strandline_proof.sim.network.connection import Pipe
from strandline_proof.sim.network.inbox import Inbox

if TYPE_CHECKING:
    from collections.abc import Callable

    import grpc

    from strandline_proof.sim.network.channel import ChannelCore
    from strandline_proof.sim.network.connection import End
    from strandline_proof.sim.network.server_call import ServerCall

Metadata = tuple[Any, ...]


def batch_failed() -> Exception:
    """The exception of an operation whose call has ended."""
    error: Exception = cygrpc.ExecuteBatchError('Failed "execute_batch": the call has ended')
    return error


def code_of(status: grpc.StatusCode) -> int:
    number: int = status.value[0]
    return number


class ClientCall:
    def __init__(
        self, channel: ChannelCore, method: str, timeout_s: float | None, wait_for_ready: bool
    ) -> None:
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._network = channel.node.network
        self.number = next(self._network.call_ids)
        self.method = method
        self.wait_for_ready = wait_for_ready
        # State that the Python classes have seen.
        self._status: Any = None
        self._initial_metadata: Metadata | None = None
        self._is_locally_cancelled = False
        self._done_callbacks: list[Callable[[], None]] = []
        self._status_waiters: list[asyncio.Future[None]] = []
        self._metadata_waiters: list[asyncio.Future[None]] = []
        # State of the transport.
        self._metadata: Metadata = ()
        self._end: End | None = None
        self._pipe: Pipe | None = None
        self._far: ServerCall | None = None
        self._request: bytes | None = None
        """The whole request of this side, which goes with the opening."""
        self._early: list[Callable[[], None]] = []
        """Frames that wait for the connection."""
        self._attached: asyncio.Future[bool] = self._loop.create_future()
        self._headers: asyncio.Future[Metadata | None] = self._loop.create_future()
        self._inbox = Inbox(self._network, self._tell_if_over)
        self._is_first = True
        """True if no message was sent in this stream."""
        self._is_single = False
        """True if one operation takes the answer and the status together."""
        self._final: Any = None
        self._over: asyncio.Future[None] = self._loop.create_future()
        """Done when the status may be reported."""
        self._deadline_s = None if timeout_s is None else self._loop.time() + timeout_s
        self._timer = (
            None
            if timeout_s is None
            else self._loop.call_later(max(timeout_s, 0.0), self._on_deadline)
        )

    # The interface of the Python classes

    def done(self) -> bool:
        return self._status is not None

    def cancelled(self) -> bool:
        return self.done() and self._status.code() == cygrpc.StatusCode.cancelled

    def is_locally_cancelled(self) -> bool:
        return self._is_locally_cancelled

    def is_ok(self) -> bool:
        return self.done() and self._status.code() == cygrpc.StatusCode.ok

    def add_done_callback(self, callback: Callable[[], None]) -> None:
        if self.done():
            callback()
        else:
            self._done_callbacks.append(callback)

    def time_remaining(self) -> float | None:
        return None if self._deadline_s is None else max(0.0, self._deadline_s - self._loop.time())

    def cancel(self, details: str) -> None:
        self._is_locally_cancelled = True
        status = cygrpc.AioRpcStatus(cygrpc.StatusCode.cancelled, details, None, None)
        self._set_status(status)
        self._abandon(status)

    def set_internal_error(self, text: str) -> None:
        code = cygrpc.StatusCode.internal
        self._set_status(cygrpc.AioRpcStatus(code, "Internal error from Core", (), text))

    async def status(self) -> Any:
        if self._status is None:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._status_waiters.append(waiter)
            await waiter
        return self._status

    async def initial_metadata(self) -> Metadata | None:
        if self._initial_metadata is None:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._metadata_waiters.append(waiter)
            await waiter
        return self._initial_metadata

    async def unary_unary(self, request: bytes, metadata: Metadata, context: object) -> Any:
        self._request = request
        self._start(metadata)
        return await self._single_answer()

    async def stream_unary(
        self, metadata: Metadata, metadata_sent: Callable[[], None], context: object
    ) -> Any:
        self._start(metadata)
        if not await self._attached:
            await self._handle_status()
            metadata_sent()
            return None
        metadata_sent()
        return await self._single_answer()

    async def initiate_unary_stream(
        self, request: bytes, metadata: Metadata, context: object
    ) -> None:
        self._request = request
        self._start(metadata)
        await self._until_headers(lambda: None)

    async def initiate_stream_stream(
        self, metadata: Metadata, metadata_sent: Callable[[], None], context: object
    ) -> None:
        self._start(metadata)
        await self._until_headers(metadata_sent)

    async def send_serialized_message(self, message: bytes) -> None:
        if self._final is not None:
            raise batch_failed()
        self._send_message(message)
        if self._network.others_are_due():
            await asyncio.sleep(0)

    async def send_receive_close(self) -> None:
        if self._final is not None:
            raise batch_failed()
        self._half_close()
        if self._network.others_are_due():
            await asyncio.sleep(0)

    async def receive_serialized_message(self) -> Any:
        message = await self._inbox.take()
        return cygrpc.EOF if message is None else message

    async def _single_answer(self) -> bytes | None:
        self._is_single = True
        self._tell_if_over()
        await self._over
        self._set_initial_metadata(_known(self._headers))
        self._set_status(self._final)
        return self._inbox.pop() if self.is_ok() else None

    async def _until_headers(self, metadata_sent: Callable[[], None]) -> None:
        telling = self._loop.create_task(self._handle_status())
        headers = None
        if await self._attached:
            metadata_sent()
            headers = await self._headers
        if headers is None:
            await telling
            metadata_sent()
        else:
            self._set_initial_metadata(headers)

    async def _handle_status(self) -> None:
        await self._over
        if not self._is_locally_cancelled:
            self._set_status(self._final)

    def _set_status(self, status: Any) -> None:
        self._status = status
        self._set_initial_metadata(())
        waiters, self._status_waiters = self._status_waiters, []
        _wake(waiters)
        callbacks, self._done_callbacks = self._done_callbacks, []
        for callback in callbacks:
            callback()

    def _set_initial_metadata(self, metadata: Metadata) -> None:
        if self._initial_metadata is None:
            self._initial_metadata = metadata
            waiters, self._metadata_waiters = self._metadata_waiters, []
            _wake(waiters)

    # Towards the server

    def _start(self, metadata: Metadata) -> None:
        agent = ("user-agent", self._channel.user_agent)
        self._metadata = tuple(cygrpc._Metadatum(k, v) for k, v in (*metadata, agent))
        if self._final is None:
            self._channel.begin(self)

    def attach(self, end: End) -> None:
        """The channel has a connection: sends the waiting frames."""
        if self._final is not None:
            return
        self._end = end
        self._pipe = Pipe(self._network, end)
        end.calls[self.number] = self
        self._pipe.send(self._open, end.peer, self.time_remaining())
        early, self._early = self._early, []
        for send in early:
            send()
        if not self._attached.done():  # its waiter may have been cancelled
            self._attached.set_result(True)

    def _open(self, far_end: End, timeout_s: float | None) -> None:
        """Opens the call at the server."""
        if self._request is not None:
            echoer = self._network.echoer
            delay_s = echoer.delay_of(self, far_end, self._metadata, self._request)
            if delay_s > 0:
                owner = far_end.node.owner
                self._network.later(delay_s, owner, self._open_again, far_end, timeout_s)
                return
        self._accept(far_end, timeout_s)

    def _open_again(self, far_end: End, timeout_s: float | None) -> None:
        """Opens the call at the server, which has carried it out before, if its client
        still waits.
        """
        if self._final is None and far_end.is_open:
            self._accept(far_end, timeout_s)

    def _accept(self, far_end: End, timeout_s: float | None) -> None:
        assert far_end.accept_call is not None
        self._far = far_end.accept_call(self, self._metadata, timeout_s)
        if self._request is not None:
            self._far.on_message(self._request)
            self._far.on_half_close()

    def _send_message(self, message: bytes) -> None:
        if self._is_first:
            self._is_first = False
            self._send(lambda call: self._on_first_message(call, message))
        else:
            self._send(lambda call: call.on_message(message))

    def _on_first_message(self, call: ServerCall, message: bytes) -> None:
        """The first message arrives at the server."""
        assert self._end is not None
        call.on_message(message)
        self._network.echoer.on_first(self, self._end.peer, self._metadata, message)

    def _half_close(self) -> None:
        self._send(lambda call: call.on_half_close())

    def _send(self, frame: Callable[[ServerCall], None]) -> None:
        if self._final is not None:
            return
        if self._pipe is None:
            self._early.append(lambda: self._send(frame))
        else:
            self._pipe.send(self._at_server, frame)

    def _at_server(self, frame: Callable[[ServerCall], None]) -> None:
        if self._far is not None:
            frame(self._far)

    def _abandon(self, status: Any) -> None:
        """Ends the call on this side, and tells the server."""
        if self._final is None and self._pipe is not None:
            if self._request is None:
                self._network.give_up(self._pipe)
            self._pipe.send(self._at_server, lambda call: call.on_cancelled())
        self._finish(status, drop=True)

    def _on_deadline(self) -> None:
        code = cygrpc.StatusCode.deadline_exceeded
        self._abandon(cygrpc.AioRpcStatus(code, "Deadline Exceeded", (), "simulated"))

    # From the server

    def on_headers(self, metadata: Metadata) -> None:
        if self._final is None and not self._headers.done():
            self._headers.set_result(metadata)

    def on_message(self, message: bytes) -> None:
        if self._final is None:
            self._inbox.put(message)

    def on_end(
        self,
        headers: Metadata | None,
        message: bytes | None,
        status: tuple[int, str, Metadata],
    ) -> None:
        """The rest of the server's answer, in one frame as gRPC sends it."""
        if headers is not None:
            self.on_headers(headers)
        if message is not None:
            self.on_message(message)
        self.on_trailers(*status, drop=False)

    def on_trailers(self, code: int, details: str, metadata: Metadata, *, drop: bool) -> None:
        self._finish(cygrpc.AioRpcStatus(code, details, metadata, "simulated"), drop=drop)

    def on_broken(self, why: str) -> None:
        code = cygrpc.StatusCode.unavailable
        self._finish(cygrpc.AioRpcStatus(code, why, (), "simulated"), drop=True)

    def _finish(self, status: Any, *, drop: bool) -> None:
        if self._final is not None:
            return
        self._final = status
        if self._timer is not None:
            self._timer.cancel()
        if self._end is not None:
            self._end.calls.pop(self.number, None)
        else:
            self._channel.forget(self)
        self._early.clear()
        if not self._attached.done():
            self._attached.set_result(False)
        if not self._headers.done():
            self._headers.set_result(None)
        self._inbox.close(drop=drop)
        self._tell_if_over()

    def _tell_if_over(self) -> None:
        read = self._is_single or self._inbox.is_empty
        if read and self._final is not None and not self._over.done():
            self._over.set_result(None)


def _wake(waiters: list[asyncio.Future[None]]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)


def _known(headers: asyncio.Future[Metadata | None]) -> Metadata:
    found = headers.result() if headers.done() else None
    return () if found is None else found
