"""One connection of a Kafka client: requests in, answers out in the order of the requests.

- Produce requests are appended as they arrive, and their waits overlap. Kafka handles one request
  of a connection at a time.
- Any other request begins when all requests before it are answered.
- The arrival of a request ends the wait of an earlier Fetch.

An idle connection has one task, which waits for the next frame.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

from strandline_broker.kafka.headers import answer_header, read_header
from strandline_broker.kafka.request import CloseConnection, Request
from strandline_broker.kafka.versions import PRODUCE, SYNC_GROUP
from strandline_broker.kafka.wire import INT32, MalformedRequest

if TYPE_CHECKING:
    from strandline_broker.kafka.calls import Calls
    from strandline_broker.kafka.listener import KafkaListener
    from strandline_broker.kafka.wire import Buffers
    from strandline_runtime.runtime import ByteStream

REQUEST_BYTES_MAX: Final = 1 << 20
"""Limit of a request that carries neither records nor assignments."""
LARGE: Final = frozenset((PRODUCE, SYNC_GROUP))
UNANSWERED_MAX: Final = 1_000
"""Limit of Produce requests without an answer; above it, the connection is not read."""
UNREAD_S: Final = 60.0
"""Time that a client may leave its answers unread."""


class _Answer:
    """The place of one answer in the order of its connection."""

    __slots__ = ("body", "is_due", "request")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.is_due = False
        self.body: Buffers | None = None
        """None: the request has no answer."""


class Connection:
    def __init__(self, listener: KafkaListener, stream: ByteStream) -> None:
        self._listener = listener
        self._stream = stream
        self._answers: deque[_Answer] = deque()
        self._progress: asyncio.Future[None] | None = None
        """The future on which the reader waits for an answer to leave."""
        self._running: asyncio.Task[None] | None = None
        """The task of the request that is not Produce and has no answer yet."""
        self._failure: BaseException | None = None
        self.active_s = asyncio.get_running_loop().time()
        """The loop's time when a request last came in or an answer left."""

    async def serve(self, length: bytes) -> None:
        """Serves the requests until the client leaves. `length`: the first four bytes.

        Raises CloseConnection or MalformedRequest with the reason if the broker ends it,
        ConnectionError or IncompleteReadError if the client does.
        """
        try:
            while True:
                await self._begin(await self._next(length))
                await self.drained()
                length = await self._stream.read_exactly(4)
        except (ConnectionError, asyncio.IncompleteReadError):
            if self._failure is None:
                raise
        finally:
            self._end()
        raise self._failure

    async def _next(self, length: bytes) -> Request:
        size: int = INT32.unpack(length)[0]
        self._listener.check_size(size)
        frame = memoryview(await self._stream.read_exactly(size))
        self._was_active()
        if self._answers:
            self._answers[0].request.hurry()
        header, body = read_header(frame)
        if size > REQUEST_BYTES_MAX and header.api.key not in LARGE:
            raise MalformedRequest(
                f"{header.api.name} has {size} bytes; a request without records has at most"
                f" {REQUEST_BYTES_MAX}"
            )
        return Request(header, body, self._stream.peer.rpartition(":")[0].strip("[]"))

    async def _begin(self, request: Request) -> None:
        """Starts the request once its place in the order allows it."""
        calls = await self._listener.calls()
        answer = _Answer(request)
        if request.header.api.key != PRODUCE:
            while self._answers:
                await self._answered()
            self._answers.append(answer)
            self._running = self._listener.spawn(self._run(calls, answer))
            return
        while self._running is not None or len(self._answers) >= UNANSWERED_MAX:
            await self._answered()
        self._answers.append(answer)
        await calls.append(request, partial(self._done, answer))

    async def _run(self, calls: Calls, answer: _Answer) -> None:
        try:
            body = await calls.answer(answer.request)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - `serve` raises it
            self._fail(error)
            return
        self._running = None
        self._done(answer, body)
        try:
            await self.drained()
        except (ConnectionError, CloseConnection) as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """Ends the connection with this error; `serve` notices it at its next read or wait."""
        self._failure = error
        self._stream.abort()
        self._wake()

    async def _answered(self) -> None:
        """Waits until an answer has left. Raises the failure of a request."""
        self._progress = asyncio.get_running_loop().create_future()
        await self._progress
        if self._failure is not None:
            raise self._failure

    def _wake(self) -> None:
        if self._progress is not None and not self._progress.done():
            self._progress.set_result(None)

    def _done(self, answer: _Answer, body: Buffers | None) -> None:
        """Keeps the answer, and sends all that are due by the order of the requests."""
        answer.is_due, answer.body = True, body
        while self._answers and self._answers[0].is_due:
            first = self._answers.popleft()
            if first.body is not None:
                self._send(answer_header(first.request.header), first.body)
        self._was_active()
        self._wake()

    def _send(self, header: bytes, body: Buffers) -> None:
        size = len(header) + sum(map(len, body))
        self._stream.write(INT32.pack(size) + header)
        for buffer in body:
            self._stream.write(buffer)

    async def drained(self) -> None:
        """Waits until the client has taken most of its answers. Raises CloseConnection."""
        try:
            async with asyncio.timeout(UNREAD_S):
                await self._stream.drain()
        except TimeoutError:
            self._stream.abort()
            raise CloseConnection(
                f"the client has not read its answers for {UNREAD_S:.0f} s"
            ) from None

    def _was_active(self) -> None:
        self.active_s = asyncio.get_running_loop().time()

    @property
    def is_idle(self) -> bool:
        """True if no request is under way."""
        return not self._answers

    def _end(self) -> None:
        """Drops the requests that have no answer: nothing of theirs that waits may stay."""
        if self._running is not None:
            self._running.cancel()
        answers, self._answers = self._answers, deque()
        for answer in answers:
            if answer.request.on_end is not None:
                answer.request.on_end()
