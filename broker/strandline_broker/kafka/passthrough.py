"""A connection of HTTP/2 on a Kafka listener: its bytes pass to this broker's gRPC listener.

One bootstrap address thus serves both protocols.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from strandline_runtime.runtime import ByteStream

PREFACE: Final = b"PRI "
"""The first bytes of HTTP/2 (RFC 9113, 3.4). As the length of a frame they are too large."""
CHUNK_BYTES: Final = 64 << 10


async def pass_through(client: ByteStream, first: bytes, server: ByteStream) -> None:
    """Passes bytes both ways until one side closes; then closes both."""
    server.write(first)
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_pass(client, server))
            group.create_task(_pass(server, client))
    except* ConnectionError:
        pass
    finally:
        client.abort()
        server.abort()


async def _pass(source: ByteStream, sink: ByteStream) -> None:
    """Passes one way. The end of the source is passed on, so that the other way can finish."""
    while data := await source.read(CHUNK_BYTES):
        sink.write(data)
        await sink.drain()
    sink.close()
