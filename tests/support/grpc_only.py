"""A network without byte streams, for tests whose code speaks gRPC alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_runtime.runtime import ByteStream, Listener


class GrpcOnly:
    async def listen(self, host: str, port: int, accept: Callable[[ByteStream], None]) -> Listener:
        raise AssertionError("byte streams are not used here")

    async def connect(self, host: str, port: int) -> ByteStream:
        raise AssertionError("byte streams are not used here")
