"""The broker's one channel to the controller, and what a failed call on it means."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc
import grpc.aio

from strandline_proto.errors import (
    NotController,
    RequestTimedOut,
    UnknownServerError,
    UnsupportedVersion,
    WireError,
)
from strandline_proto.v1.services_pb2_grpc import ControllerServiceStub

if TYPE_CHECKING:
    from strandline_proto.v1.services_pb2_grpc import ControllerServiceAsyncStub
    from strandline_runtime.runtime import Runtime


class ControllerLink:
    """Opened at the first use, and shared by everything that speaks to the controller."""

    def __init__(self, runtime: Runtime, target: str) -> None:
        self.target = target
        self._runtime = runtime
        self._channel: grpc.aio.Channel | None = None
        self._stub: ControllerServiceAsyncStub | None = None

    @property
    def stub(self) -> ControllerServiceAsyncStub:
        if self._stub is None:
            self._channel = self._runtime.network.channel(self.target)
            self._stub = ControllerServiceStub(self._channel)
        return self._stub

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close()
        self._channel = self._stub = None

    def failure(self, error: grpc.RpcError) -> WireError:
        """A failed call, in words. Its outcome is unknown: the controller may have done what was
        asked.
        """
        code = error.code() if isinstance(error, grpc.aio.AioRpcError) else None
        details = error.details() if isinstance(error, grpc.aio.AioRpcError) else str(error)
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return RequestTimedOut(
                f"the controller at {self.target} did not answer in time; the outcome is unknown"
            )
        if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
            return NotController(
                f"no controller can be reached at {self.target} ({_short(details)}); is it running?"
            )
        if code is grpc.StatusCode.UNIMPLEMENTED:
            return UnsupportedVersion(f"the process at {self.target} is not a controller")
        return UnknownServerError(
            f"the call to the controller at {self.target} failed: {_short(details)}"
        )


def _short(details: str | None) -> str:
    """The cause at the end of gRPC's account, without its list of every address tried."""
    lines = (details or "no details").strip().splitlines()
    return lines[0].rsplit(": ", 1)[-1][:200]
