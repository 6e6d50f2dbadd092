"""Watch: the stream of what this process knows. Only the first call imports what it needs."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from strandline_broker.rpc.lazy_service import Collector, LazyService
from strandline_broker.rpc.request_bounds import bound_handlers
from strandline_proto.errors import InvalidRequest, WireError
from strandline_proto.v1 import services_pb2_grpc, watch_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    import grpc.aio

    from strandline_broker.hosts.watch.draft import Source
    from strandline_broker.rpc.broker_service import Service

WATCH_SERVICE: Final = "strandline_proto.v1.WatchService"


def add_watch_service(
    server: grpc.aio.Server, guarded: Callable[[Any], Service], source: Callable[[], Source]
) -> None:
    """Add the service. `guarded` puts a servicer behind the RPC boundary."""

    def register(collector: Any) -> None:
        inner: Any = Collector()
        services_pb2_grpc.add_WatchServiceServicer_to_server(
            guarded(WatchRpc(source())),  # type: ignore[arg-type] # its methods are found by name
            inner,
        )
        collector.handlers.update(bound_handlers(WATCH_SERVICE, inner.handlers))

    server.add_generic_rpc_handlers((LazyService(WATCH_SERVICE, register),))


class WatchRpc:
    def __init__(self, source: Source) -> None:
        self._source = source

    async def Watch(
        self, request: watch_pb2.WatchRequest, context: Any
    ) -> AsyncIterator[watch_pb2.WatchResponse]:
        from strandline_broker.hosts.watch.stream import FRAMES_PER_S_MAX, Watch
        from strandline_broker.rpc.watch.frames import frame_to_wire

        try:
            rate = FRAMES_PER_S_MAX
            if request.HasField("max_frames_per_second"):
                rate = _rate(request.max_frames_per_second, FRAMES_PER_S_MAX)
            watch = Watch(self._source, _selection(request), rate)
            async with aclosing(watch.frames()) as frames:
                async for frame in frames:
                    yield frame_to_wire(frame)
        except WireError as error:
            yield watch_pb2.WatchResponse(error_code=error.code, error_message=str(error))


def _rate(asked: int, most: int) -> int:
    if not 1 <= asked <= most:
        raise InvalidRequest(
            f"max_frames_per_second is {asked} and must be from 1 to {most};"
            f" leave it out for {most}"
        )
    return asked


def _selection(request: watch_pb2.WatchRequest) -> Any:
    from strandline_broker.hosts.watch.selection import Selection

    topics: dict[str, frozenset[int]] = {}
    for wanted in request.topics:
        if not wanted.topic:
            raise InvalidRequest("topics has an entry without a topic's name; name it")
        if wanted.topic in topics:
            raise InvalidRequest(f"topics names {wanted.topic!r} twice; name all partitions once")
        topics[wanted.topic] = frozenset(wanted.partitions)
    return Selection(topics, groups=not request.without_groups)
