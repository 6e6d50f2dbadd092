"""The server's side of a simulated call: its handler's task, and the context that the handler gets.

The code of grpc.aio is compiled here, so this code follows its behaviour. A peer that goes away
ends the pending read, then cancels the handler at its next await. A write after that fails. A
handler that ends by a cancellation of its own sends no status at all.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
from grpc._cython import cygrpc

from strandline_proof.sim.network.client_call import batch_failed, code_of
from strandline_proof.sim.network.connection import Pipe
from strandline_proof.sim.network.inbox import Inbox

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from strandline_proof.sim.network.client_call import ClientCall, Metadata
    from strandline_proof.sim.network.connection import End
    from strandline_proof.sim.network.server import SimServer

_LOG = logging.getLogger(__name__)


class ServerCall:
    def __init__(
        self,
        server: SimServer,
        client: ClientCall,
        end: End,
        metadata: Metadata,
        timeout_s: float | None,
    ) -> None:
        self.server = server
        self.method = client.method
        self.metadata = metadata
        self.inbox = Inbox(end.node.network)
        self.code = 0
        self.py_code: Any = None
        self.details = ""
        self.trailing: Metadata = ()
        self.abort_error: BaseException | None = None
        self.metadata_sent = False
        self.status_sent = False
        self.is_over = False
        """True for the transport: the status is sent, or the peer is gone."""
        self.listener = end.node.network.overhear(end.node.name, client.method)
        self.callbacks: list[Callable[[], None]] = []
        self._answer: bytes | None = None
        """The answer that goes with the status, if it is no stream."""
        self._client = client
        self._end = end
        self._network = end.node.network
        self._pipe = Pipe(self._network, end)
        self._loop = asyncio.get_running_loop()
        self._deadline_s = None if timeout_s is None else self._loop.time() + timeout_s
        self._timer = (
            None
            if timeout_s is None
            else self._loop.call_later(max(timeout_s, 0.0), self.on_cancelled)
        )
        self._task: asyncio.Task[None] | None = None
        end.calls[client.number] = self

    def start(self, handler: Any) -> None:
        self._task = self._loop.create_task(self._run(handler), name=f"rpc {self.method}")

    def call_when_done(self, callback: Callable[[], None]) -> None:
        if not self.callbacks:
            assert self._task is not None
            self._task.add_done_callback(self._call_back)
        self.callbacks.append(callback)

    def _call_back(self, task: asyncio.Task[None]) -> None:
        for callback in self.callbacks:
            callback()

    @property
    def peer(self) -> str:
        return f"sim:{self._end.peer.node.name}"

    def time_remaining(self) -> float | None:
        return None if self._deadline_s is None else max(0.0, self._deadline_s - self._loop.time())

    # From the client

    def on_message(self, message: bytes) -> None:
        self.inbox.put(message)

    def on_half_close(self) -> None:
        self.inbox.close(drop=False)

    def on_broken(self, why: str) -> None:
        self.on_cancelled()

    def on_cancelled(self) -> None:
        """The peer is gone, or has cancelled. A pending read finds the end first."""
        if self.is_over:
            return
        self._end_transport()
        self.inbox.close(drop=True)
        self._loop.call_soon(self._cancel_handler)

    def _cancel_handler(self) -> None:
        if self._task is not None and not self._task.done() and not self.status_sent:
            self._task.cancel()

    def _end_transport(self) -> None:
        self.is_over = True
        if self._timer is not None:
            self._timer.cancel()
        self._end.calls.pop(self._client.number, None)
        self.server.on_call_over(self._end)

    def refuse(self, code: grpc.StatusCode, details: str) -> None:
        """Ends the call from the transport's side: unread messages are lost to the client."""
        if not self.is_over:
            self._pipe.send(
                partial(self._client.on_trailers, code_of(code), details, (), drop=True)
            )
        self.on_cancelled()

    # Towards the client

    async def send_headers(self, metadata: Metadata) -> None:
        self._send_headers(metadata)
        await self._give_way()

    def _send_headers(self, metadata: Metadata) -> None:
        if self.is_over:
            raise batch_failed()
        self.metadata_sent = True
        as_told = tuple(cygrpc._Metadatum(k, v) for k, v in metadata)
        self._pipe.send(self._client.on_headers, as_told)

    async def send_message(self, message: bytes) -> None:
        if self.is_over:
            raise batch_failed()
        if not self.metadata_sent:
            self._send_headers(())
        if not self._network.echoer.loses_answer(self._end, self.method):
            self._pipe.send(self._client.on_message, message)
        await self._give_way()

    async def send_status(self, code: int, details: str) -> None:
        self._send_status(code, details)
        await self._give_way()

    async def _give_way(self) -> None:
        if self._network.others_are_due():
            await asyncio.sleep(0)

    def _send_status(self, code: int, details: str) -> None:
        self.status_sent = True
        if self.is_over:
            raise batch_failed()
        headers = None if self.metadata_sent else ()
        self.metadata_sent = True
        trailing = tuple(cygrpc._Metadatum(k, v) for k, v in self.trailing)
        status = (code, details, trailing)
        echoer, is_answer = self._network.echoer, self._answer is not None
        if not (is_answer and echoer.loses_answer(self._end, self.method)):
            self._pipe.send(self._client.on_end, headers, self._answer, status)
        self._end_transport()

    # The handler

    def check_running(self) -> None:
        """Raises if the handler should have ended."""
        if self.abort_error is not None:
            raise self.abort_error
        if self.status_sent:
            raise cygrpc.UsageError("RPC already finished.")
        if self.server.is_stopped:
            raise cygrpc._ServerStoppedError("Server already stopped.")

    async def _run(self, handler: Any) -> None:
        try:
            if handler is None:
                unknown = code_of(grpc.StatusCode.UNIMPLEMENTED)
                await self.send_status(unknown, "Method not found!")
            else:
                await self._handle(handler)
        except (asyncio.CancelledError, cygrpc.AbortError, cygrpc._ServerStoppedError):
            pass
        except cygrpc.ExecuteBatchError:
            pass  # the peer is gone
        except Exception as error:  # noqa: BLE001 - what grpc.aio does with any exception
            await self._on_handler_error(error)

    async def _on_handler_error(self, error: Exception) -> None:
        node = self._end.node
        _LOG.debug("%s on %s raised", self.method, node.name, exc_info=error)
        if node.network.on_handler_error is not None:
            node.network.on_handler_error(node.name, self.method, error)
        if self.status_sent or self.server.is_stopped or self.is_over:
            return
        code = self.code or code_of(grpc.StatusCode.UNKNOWN)
        await self.send_status(code, f"Unexpected {type(error)}: {error}")

    async def _handle(self, handler: Any) -> None:
        context = ServicerContext(self, handler)
        request: Any
        if handler.request_streaming:
            request = RequestIterator(context)
        else:
            raw = await self.inbox.take()
            if raw is None:
                return  # cancelled before it began
            request = context.deserialize(raw)
        if handler.response_streaming:
            await self._stream(handler.unary_stream or handler.stream_stream, request, context)
            self.check_running()
        else:
            await self._call(handler.unary_unary or handler.stream_unary, request, context)
        await self.send_status(self.code, self.details)

    async def _call(self, method: Any, request: Any, context: ServicerContext) -> None:
        response = method(request, context)
        if inspect.isawaitable(response):
            response = await response
        self.check_running()
        if self.code == 0:
            self._answer = context.serialize(response)

    async def _stream(self, method: Any, request: Any, context: ServicerContext) -> None:
        responses = method(request, context)
        if inspect.isawaitable(responses):
            await responses
            return
        async for response in responses:
            self.check_running()
            await context.write(response)


class ServicerContext:
    """The context of a handler's call, with grpc.aio's names and habits."""

    def __init__(self, call: ServerCall, handler: Any) -> None:
        self._call = call
        self._deserializer = handler.request_deserializer
        self._serializer = handler.response_serializer

    def serialize(self, message: Any) -> bytes:
        if self._call.listener is not None:
            self._call.listener.on_said(message)
        raw: bytes = message if self._serializer is None else self._serializer(message)
        assert isinstance(raw, bytes), f"{self._call.method} answers {type(raw).__name__}"
        return raw

    def deserialize(self, raw: bytes) -> Any:
        message = raw if self._deserializer is None else self._deserializer(raw)
        if self._call.listener is not None:
            self._call.listener.on_read(message)
        return message

    async def read(self) -> Any:
        self._call.check_running()
        raw = await self._call.inbox.take()
        self._call.check_running()
        return grpc.aio.EOF if raw is None else self.deserialize(raw)

    async def write(self, message: Any) -> None:
        self._call.check_running()
        await self._call.send_message(self.serialize(message))

    async def send_initial_metadata(self, metadata: Any) -> None:
        self._call.check_running()
        if self._call.metadata_sent:
            raise cygrpc.UsageError("Send initial metadata failed: already sent")
        await self._call.send_headers(tuple(metadata))

    async def abort(
        self, code: grpc.StatusCode, details: str = "", trailing_metadata: Any = ()
    ) -> None:
        call = self._call
        if call.abort_error is not None:
            raise cygrpc.UsageError("Abort already called!")
        call.abort_error = cygrpc.AbortError("Locally aborted.")
        call.trailing = tuple(trailing_metadata) or call.trailing
        call.details = details or call.details
        self.set_code(code)
        await call.send_status(call.code, call.details)
        raise call.abort_error

    async def abort_with_status(self, status: Any) -> None:
        await self.abort(status.code, status.details, status.trailing_metadata)

    def set_trailing_metadata(self, metadata: Any) -> None:
        self._call.trailing = tuple(metadata)

    def trailing_metadata(self) -> Any:
        return self._call.trailing

    def invocation_metadata(self) -> Any:
        return self._call.metadata

    def set_code(self, code: Any) -> None:
        self._call.py_code = code
        self._call.code = code_of(code) if isinstance(code, grpc.StatusCode) else int(code)

    def code(self) -> Any:
        return self._call.py_code

    def set_details(self, details: str) -> None:
        self._call.details = details

    def details(self) -> str:
        return self._call.details

    def set_compression(self, compression: object) -> None:
        """Does nothing: sizes are not modelled."""

    def disable_next_message_compression(self) -> None:
        """Does nothing: sizes are not modelled."""

    def peer(self) -> str:
        return self._call.peer

    def time_remaining(self) -> float | None:
        return self._call.time_remaining()

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self._call.call_when_done(partial(callback, self))

    def done(self) -> bool:
        return self._call.status_sent

    def cancelled(self) -> bool:
        return self._call.code == code_of(grpc.StatusCode.CANCELLED)


class RequestIterator:
    """The requests of a stream, one at a time; it is its own iterator."""

    def __init__(self, context: ServicerContext) -> None:
        self._context = context
        self._messages: AsyncIterator[Any] | None = None

    async def _read_all(self) -> AsyncIterator[Any]:
        while (message := await self._context.read()) is not grpc.aio.EOF:
            yield message

    def __aiter__(self) -> AsyncIterator[Any]:
        if self._messages is None:
            self._messages = self._read_all()
        return self._messages

    async def __anext__(self) -> Any:
        return await anext(self.__aiter__())
