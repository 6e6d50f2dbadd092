"""Watch over real gRPC: refusals, the first frame, and a watcher that goes away or never reads."""

from __future__ import annotations

import subprocess
import sys
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest

from strandline_broker.hosts.common.cuts import Cut, CutReason
from strandline_broker.hosts.common.events import Events
from strandline_broker.hosts.watch.content import Identity, Offsets, ReplicaChange, ServerKind
from strandline_broker.rpc.broker_service import Service
from strandline_broker.rpc.watch.service import add_watch_service
from strandline_broker.telemetry import ServerMetrics
from strandline_proto.errors import InvalidRequest
from strandline_proto.v1 import services_pb2_grpc, watch_pb2
from strandline_runtime.real import real_runtime
from support.replica_nodes import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from strandline_broker.hosts.watch.draft import Draft, Pauses

CUT = Cut("t", b"i" * 16, 3, 9, 4, CutReason.DIVERGED, 2, 4, False, ((1, 4),))


class EverChanging:
    """A server with one replica that is larger at each look."""

    def __init__(self) -> None:
        self.clock = real_runtime("b").clock
        self.events = Events(self.clock)
        self.looks = 0

    def identity(self) -> Identity:
        return Identity("c", ServerKind.BROKER, 1, "one")

    def view(self, selection: Any) -> EverChanging:
        return self

    def forget(self) -> None:
        pass

    def look(self, draft: Draft) -> Pauses:
        self.looks += 1
        offsets = Offsets(0, self.looks, 0, 0, 0)
        for number in range(100):  # 100 KB in each frame: the stream's windows are soon full
            change = ReplicaChange("t" * 1000, number.to_bytes(16, "big"), 3, offsets=offsets)
            draft.content.replicas.append(change)
        draft.content.size += 100
        yield

    def has(self, what: Any) -> bool:
        return True


@asynccontextmanager
async def served(source: EverChanging) -> AsyncIterator[services_pb2_grpc.WatchServiceAsyncStub]:
    runtime = real_runtime("b")
    server = runtime.network.server()
    metrics = ServerMetrics(runtime.metrics, runtime.clock)
    guarded = partial(Service, runtime, metrics)
    add_watch_service(server, guarded, lambda: source)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield services_pb2_grpc.WatchServiceStub(channel)
    finally:
        await server.stop(0)


async def read(call: Any) -> watch_pb2.WatchResponse:
    frame = await call.read()
    assert isinstance(frame, watch_pb2.WatchResponse)
    return frame


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (watch_pb2.WatchRequest(max_frames_per_second=0), "from 1 to 20"),
        (watch_pb2.WatchRequest(max_frames_per_second=-1), "from 1 to 20"),
        (watch_pb2.WatchRequest(max_frames_per_second=21), "from 1 to 20"),
        (watch_pb2.WatchRequest(topics=[watch_pb2.WatchedTopic()]), "without a topic's name"),
        (
            watch_pb2.WatchRequest(topics=[watch_pb2.WatchedTopic(topic="a")] * 2),
            "names 'a' twice",
        ),
    ],
)
async def test_a_bad_request_is_refused_and_the_stream_ends(
    request_: watch_pb2.WatchRequest, why: str
) -> None:
    async with served(EverChanging()) as stub:
        frames = [frame async for frame in stub.Watch(request_)]
    assert [frame.error_code for frame in frames] == [InvalidRequest.code]
    assert why in frames[0].error_message


async def test_frames_are_numbered_and_a_watcher_that_goes_away_is_forgotten() -> None:
    source = EverChanging()
    source.events.keep(CUT)
    async with served(source) as stub:
        call = stub.Watch(watch_pb2.WatchRequest())
        frames = [await read(call) for _ in range(3)]
        assert [frame.sequence for frame in frames] == [1, 2, 3]
        assert [frame.keyframe for frame in frames] == [True, False, False]
        first = frames[0]
        assert (first.cluster_id, first.server, first.node_id, first.incarnation_id) == (
            "c",
            watch_pb2.WATCHED_SERVER_BROKER,
            1,
            "one",
        )
        (event,) = first.events
        assert (event.truncation.from_offset, event.truncation.to_offset) == (9, 4)
        assert event.truncation.reason == watch_pb2.TRUNCATION_REASON_DIVERGED
        assert event.truncation.HasField("acknowledged")
        assert source.events.watchers == 1
        call.cancel()
        await eventually(lambda: source.events.watchers == 0, "the watcher is forgotten")


async def test_a_watcher_that_never_reads_stops_the_looks_and_queues_nothing() -> None:
    source = EverChanging()
    async with served(source) as stub:
        silent = stub.Watch(watch_pb2.WatchRequest())
        await silent.read()
        looks = [source.looks]

        def stands_still() -> bool:
            looks.append(source.looks)
            return len(looks) > 100 and looks[-1] == looks[-100]

        await eventually(stands_still, "no look takes place that nobody takes")
        reader = stub.Watch(watch_pb2.WatchRequest())
        assert (await read(reader)).keyframe, "another watcher does not wait for it"
        silent.cancel()
        reader.cancel()
        await eventually(lambda: source.events.watchers == 0, "both are forgotten")


async def test_a_server_without_the_service_says_so() -> None:
    server = real_runtime("b").network.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = services_pb2_grpc.WatchServiceStub(channel).Watch(watch_pb2.WatchRequest())
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call.read()
        assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
    await server.stop(0)


def test_servers_import_nothing_of_a_watch_before_the_first_watcher() -> None:
    code = (
        "import sys, strandline_broker.app, strandline_broker.controller_app;"
        "print([m for m in sys.modules if m.startswith('strandline_broker.hosts.watch.')"
        " or m in ('strandline_broker.rpc.watch.frames', 'strandline_broker.rpc.watch.events')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
