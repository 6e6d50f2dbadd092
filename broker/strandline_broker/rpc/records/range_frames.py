"""A connection that reads ranges in plain frames, on a Kafka listener (ADR 49).

The messages are those of FetchRange over gRPC. Here the records go to the socket as they were read,
without a copy.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from google.protobuf.message import DecodeError

from strandline_broker.rpc.malformed import MalformedRequest
from strandline_proto.hot_messages import FetchRangeResponse
from strandline_proto.range_frames import LENGTH, REQUEST_BYTES_MAX, message_head, parse_request

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_broker.hosts.serving.fetch_range import FetchRangeService
    from strandline_proto.hot_messages import FetchRangeRequest
    from strandline_runtime.runtime import ByteStream

STALLED_S: Final = 30.0
"""Longest pause within a request."""
UNREAD_S: Final = 60.0
"""Time that a reader may leave a message unread. It reads on from its position over a new
connection.
"""


async def serve_ranges(
    service: FetchRangeService,
    stream: ByteStream,
    *,
    idle_s: float | None,
    count: Callable[[], None],
) -> None:
    """Serves requests, one after the other, until the client leaves. `count` is called for each.

    Raises MalformedRequest for a request that is none, ConnectionError if the client is gone, is
    idle for `idle_s`, or does not read.
    """
    while True:
        request = await _next(stream, idle_s)
        count()
        is_answered = False
        async with aclosing(service.read(request)) as messages:  # type: ignore[type-var]
            async for message in messages:
                await _send(stream, message)
                is_answered = True
        if not is_answered:
            await _send(stream, FetchRangeResponse(next_offset=request.start_offset))


async def _next(stream: ByteStream, idle_s: float | None) -> FetchRangeRequest:
    try:
        async with asyncio.timeout(idle_s):
            length = await stream.read_exactly(LENGTH.size)
    except TimeoutError:
        raise ConnectionAbortedError(f"idle for {idle_s:.0f} s") from None
    (size,) = LENGTH.unpack(length)
    if size > REQUEST_BYTES_MAX:
        raise MalformedRequest(
            f"a request for a range has {size} bytes; it has at most {REQUEST_BYTES_MAX}"
        )
    try:
        async with asyncio.timeout(STALLED_S):
            data = await stream.read_exactly(size)
        return parse_request(data)
    except TimeoutError:
        raise MalformedRequest(
            f"a part of a request for a range came, and nothing more for {STALLED_S:.0f} s"
        ) from None
    except DecodeError as error:
        raise MalformedRequest(f"{size} bytes are no request for a range ({error})") from error


async def _send(stream: ByteStream, message: FetchRangeResponse) -> None:
    stream.write(message_head(message))
    if message.records:
        stream.write(message.records)
    try:
        async with asyncio.timeout(UNREAD_S):
            await stream.drain()
    except TimeoutError:
        raise ConnectionAbortedError(
            f"the reader of a range has not read for {UNREAD_S:.0f} s"
        ) from None
