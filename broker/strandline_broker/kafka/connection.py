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
from strandline_broker.kafka.limits import CHUNK_BYTES
from strandline_broker.kafka.request import CloseConnection, Request, host_of
from strandline_broker.kafka.versions import BY_KEY, PRODUCE, SYNC_GROUP
from strandline_broker.kafka.wire import INT16, INT32, MalformedRequest

if TYPE_CHECKING:
    from strandline_broker.kafka.calls import Calls
    from strandline_broker.kafka.limits import Held
    from strandline_broker.kafka.listener import KafkaListener
    from strandline_broker.kafka.wire import Buffers
    from strandline_runtime.runtime import ByteStream

REQUEST_BYTES_MAX: Final = 1 << 20
"""Limit of a request that carries neither records nor assignments."""
LARGE: Final = frozenset((PRODUCE, SYNC_GROUP))
UNANSWERED_MAX: Final = 1_000
"""Limit of Produce requests without an answer; above it, the connection is not read."""
STALLED_S: Final = 30.0
"""Longest pause within a request."""
JOINED_BYTES_MAX: Final = 16 << 10
"""Limit of a buffer that is copied to be sent together with its neighbours."""
UNREAD_S: Final = 60.0
"""Time that a client may leave its answers unread."""


class _Answer:
    """The place of one answer in the order of its connection."""

    __slots__ = ("began_s", "body", "came_s", "done_s", "held", "is_due", "request")

    def __init__(self, request: Request, held: Held, came_s: float) -> None:
        self.request = request
        self.came_s = self.began_s = self.done_s = came_s
        """The loop's times at which the request came, its work began, and its answer was made."""
        self.held = held
        """The bytes of the request, which are held until the answer leaves."""
        self.is_due = False
        self.body: Buffers | None = None
        """None: the request has no answer."""


class Connection:
    def __init__(self, listener: KafkaListener, stream: ByteStream) -> None:
        self._listener = listener
        self._stream = stream
        self._identity = object()
        """Stands for this connection where it is remembered longer than it lives."""
        self._answers: deque[_Answer] = deque()
        self._progress: asyncio.Future[None] | None = None
        """The future on which the reader waits for an answer to leave."""
        self._running: asyncio.Task[None] | None = None
        """The task of the request that is not Produce and has no answer yet."""
        self._failure: BaseException | None = None
        self._arriving: Held | None = None
        """The bytes of the request of which a part has come."""
        self._is_expecting = False
        """True while the reader waits for bytes of a request."""
        self.active_s = asyncio.get_running_loop().time()
        """The loop's time when a request last came in or an answer left."""

    async def serve(self, length: bytes) -> None:
        """Serves the requests until the client leaves. `length`: the first four bytes.

        Raises CloseConnection or MalformedRequest with the reason if the broker ends it,
        ConnectionError or IncompleteReadError if the client does.
        """
        try:
            while True:
                await self._begin(*await self._next(length))
                await self.drained()
                length = await self._stream.read_exactly(4)
        except (ConnectionError, asyncio.IncompleteReadError):
            if self._failure is None:
                raise
        finally:
            self._end()
        raise self._failure

    async def _next(self, length: bytes) -> tuple[Request, Held]:
        size: int = INT32.unpack(length)[0]
        self._listener.check_size(size)
        held = self._arriving = self._listener.memory.hold()
        frame = memoryview(await self._frame(size, held))
        held.complete()
        if self._answers:
            self._answers[0].request.hurry()
        header, body = read_header(frame)
        return Request(header, body, host_of(self._stream), self._identity), held

    async def _frame(self, size: int, held: Held) -> bytes | bytearray:
        """Reads a request; its memory grows with the bytes that come."""
        first = await self._part(size, held)
        if len(first) == size:
            return first
        frame = bytearray(first)
        if size > REQUEST_BYTES_MAX:
            while len(frame) < INT16.size:
                frame += await self._part(size - len(frame), held)
            _check_may_be_large(INT16.unpack_from(frame)[0], size)
        while len(frame) < size:
            frame += await self._part(size - len(frame), held)
        return frame

    async def _part(self, left: int, held: Held) -> bytes:
        """Reads a part of a request that has so many bytes left."""
        await held.room()
        self._was_active()
        self._is_expecting = True
        data = await self._stream.read(min(left, CHUNK_BYTES)) if left else b""
        self._is_expecting = False
        if not data and left:
            raise asyncio.IncompleteReadError(data, left)
        held.add(len(data))
        self._was_active()
        return data

    async def _begin(self, request: Request, held: Held) -> None:
        """Starts the request once its place in the order allows it."""
        calls = await self._listener.calls()
        answer = _Answer(request, held, self.active_s)
        if request.header.api.key != PRODUCE:
            while self._answers:
                await self._answered()
            self._answers.append(answer)
            self._arriving = None
            answer.began_s = asyncio.get_running_loop().time()
            self._running = self._listener.spawn(self._run(calls, answer))
            return
        while self._running is not None or len(self._answers) >= UNANSWERED_MAX:
            await self._answered()
        self._answers.append(answer)
        self._arriving = None
        answer.began_s = asyncio.get_running_loop().time()
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
        answer.done_s = asyncio.get_running_loop().time()
        while self._answers and self._answers[0].is_due:
            first = self._answers.popleft()
            if first.body is not None:
                self._send(answer_header(first.request.header), first.body)
            first.held.release()
            self._listener.observe(
                first.request, came_s=first.came_s, began_s=first.began_s, done_s=first.done_s
            )
        self._was_active()
        self._wake()

    def _send(self, header: bytes, body: Buffers) -> None:
        """Writes the answer. Short buffers are written together, and long ones are not copied."""
        size = len(header) + sum(map(len, body))
        joined = bytearray(INT32.pack(size) + header)
        for buffer in body:
            if len(buffer) <= JOINED_BYTES_MAX:
                joined += buffer
                continue
            self._stream.write(joined)
            # Of a view, asyncio keeps the unsent rest without a copy of it.
            self._stream.write(memoryview(buffer))
            joined = bytearray()
        if joined:
            self._stream.write(joined)

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

    def end_if_silent(self, now_s: float, idle_s: float) -> None:
        """Ends the connection if no request was under way for `idle_s`, or if a request has stopped
        arriving.
        """
        silent_s = now_s - self.active_s
        if self._is_expecting and silent_s >= STALLED_S:
            self._fail(
                CloseConnection(f"a part of a request came, and nothing more for {STALLED_S:.0f} s")
            )
        elif self._is_idle and silent_s >= idle_s:
            self._fail(ConnectionAbortedError(f"idle for {idle_s:.0f} s"))

    @property
    def _is_idle(self) -> bool:
        """True if no request is under way."""
        return not self._answers and self._arriving is None

    def _end(self) -> None:
        """Drops the requests that have no answer: nothing of theirs that waits may stay."""
        if self._running is not None:
            self._running.cancel()
        if self._arriving is not None:
            self._arriving.release()
        answers, self._answers = self._answers, deque()
        for answer in answers:
            answer.held.release()
            if answer.request.on_end is not None:
                answer.request.on_end()


def _check_may_be_large(key: int, size: int) -> None:
    """Raises MalformedRequest before the rest of a request that must not be so large is read."""
    if key in LARGE:
        return
    api = BY_KEY.get(key)
    name = f"a request of key {key}" if api is None else api.name
    raise MalformedRequest(
        f"{name} has {size} bytes; a request without records has at most {REQUEST_BYTES_MAX}"
    )
