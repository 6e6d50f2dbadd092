"""Bytes that are no message of ours, and peers that are cut off: neither is a failure of the
server, in any of its services.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, cast

import grpc
import grpc.aio
import pytest
from google.protobuf import descriptor_pool
from grpc_health.v1 import health_pb2  # type: ignore[import-untyped]
from grpc_reflection.v1alpha import reflection_pb2  # type: ignore[import-untyped]

from strandline_broker.rpc.broker_service import (
    BROKER_SERVICE,
    COMPLAINT_S,
    REPLICA_SERVICE,
    Service,
    add_broker_service,
    add_replica_service,
)
from strandline_broker.rpc.controller.service import CONTROLLER_SERVICE, add_controller_service
from strandline_broker.rpc.lazy_service import HEALTH, REFLECTION, add_standard_services
from strandline_broker.telemetry import ServerMetrics
from strandline_proto.v1 import services_pb2
from strandline_runtime.real import real_runtime
from support.hand_clock import HandClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

WAIT_S = 60.0
OURS = (BROKER_SERVICE, REPLICA_SERVICE, CONTROLLER_SERVICE)
assert services_pb2.DESCRIPTOR is not None
assert health_pb2.DESCRIPTOR is not None
assert reflection_pb2.DESCRIPTOR is not None
GARBAGE = (b"\xff\xff\xff", b"\x0a", b"\x0a\x05ab", b"\x00", b"\x0b")
"""No tag, no length, a length beyond the end, field 0, a group that never ends."""


@dataclass(frozen=True, slots=True)
class Method:
    service: str
    name: str
    asks_in_stream: bool
    answers_in_stream: bool


def methods() -> list[Method]:
    pool = descriptor_pool.Default()
    return [
        Method(service, m.name, m.client_streaming, m.server_streaming)
        for service in (*OURS, HEALTH, REFLECTION)
        for m in pool.FindServiceByName(service).methods
    ]


class Lines:
    """A log that keeps what is said, with its level."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str, dict[str, Any]]] = []

    def __getattr__(self, level: str) -> Callable[..., None]:
        return lambda event, **fields: self.said.append((level, event, fields))

    def above_debug(self) -> list[tuple[str, str]]:
        return [(level, event) for level, event, _ in self.said if level != "debug"]


class Bench:
    """A server of all services, whose own handlers never see a request that does not parse."""

    def __init__(self) -> None:
        self.lines = Lines()
        self.clock = HandClock()
        self.runtime = replace(
            real_runtime("test"), log=cast("Any", self.lines), clock=self.clock, exit=_exit
        )
        self.metrics = ServerMetrics(self.runtime.metrics, self.runtime.clock)
        self.server = self.runtime.network.server()

    def service(self, *parts: Any) -> Service:
        return Service(self.runtime, self.metrics, *parts)

    def failures(self) -> float:
        return sum(
            sample.value
            for metric in self.metrics.failures.collect()
            for sample in metric.samples
            if sample.name.endswith("_total")
        )

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[int]:
        port = self.server.add_insecure_port("127.0.0.1:0")
        await self.server.start()
        try:
            yield port
        finally:
            await self.server.stop(None)


def _exit(why: str) -> NoReturn:
    raise AssertionError(why)


def part_of(service: str) -> Any:
    """A handler class with the methods of a service, each as its service declares it."""

    async def unary(self: Any, request: Any, context: Any) -> Any:
        raise KeyError("a handler saw it")

    async def stream(self: Any, request: Any, context: Any) -> AsyncIterator[Any]:
        raise KeyError("a handler saw it")
        yield

    async def reads(self: Any, requests: AsyncIterator[Any], context: Any) -> Any:
        async with asyncio.TaskGroup() as group:  # as Produce, Fetch and others do
            group.create_task(_read_all(requests))

    made = {}
    for method in methods():
        if method.service == service:
            of_one = stream if method.answers_in_stream else unary
            made[method.name] = reads if method.asks_in_stream else of_one
    return type(service.rpartition(".")[2], (), made)()


async def _read_all(requests: AsyncIterator[Any]) -> None:
    async for _ in requests:
        pass


def bench_of_all() -> Bench:
    bench = Bench()
    add_broker_service(bench.server, bench.service(part_of(BROKER_SERVICE)))
    add_replica_service(bench.server, bench.service(part_of(REPLICA_SERVICE)))
    add_controller_service(bench.server, bench.service(part_of(CONTROLLER_SERVICE)))
    guarded = partial(Service, bench.runtime, bench.metrics)
    add_standard_services(bench.server, OURS, lambda: True, guarded)
    return bench


async def answer_to(channel: grpc.aio.Channel, method: Method, data: bytes) -> Any:
    """The error with which the server answers these bytes."""
    path = f"/{method.service}/{method.name}"
    kinds: dict[tuple[bool, bool], Any] = {
        (False, False): channel.unary_unary,
        (False, True): channel.unary_stream,
        (True, False): channel.stream_unary,
        (True, True): channel.stream_stream,
    }
    multi = kinds[method.asks_in_stream, method.answers_in_stream](path)
    if method.asks_in_stream:
        call = multi(timeout=WAIT_S)
        await call.write(data)
    else:
        call = multi(data, timeout=WAIT_S)
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await (call.read() if method.answers_in_stream else call)
    return failed.value


@pytest.mark.parametrize("method", methods(), ids=lambda m: f"{m.service.split('.')[-1]}.{m.name}")
async def test_bytes_that_do_not_parse_are_the_peers_mistake(
    method: Method, caplog: pytest.LogCaptureFixture
) -> None:
    bench = bench_of_all()
    with caplog.at_level(logging.INFO):
        async with bench.serving() as port:
            channel = bench.runtime.network.channel(f"127.0.0.1:{port}")
            for data in GARBAGE:
                error = await answer_to(channel, method, data)
                assert error.code() is grpc.StatusCode.INVALID_ARGUMENT, (data, error)
                assert f"{method.name}: its {len(data)} bytes are no such request" in str(
                    error.details()
                )
            await channel.close()
    assert bench.lines.above_debug() == [("info", "a request was refused")]
    _, _, fields = bench.lines.said[0]
    assert fields["method"] == method.name
    assert "127.0.0.1:" in fields["peer"]
    assert "client_id" not in fields, "the channel has no name"
    assert caplog.records == []
    assert bench.failures() == 0


async def test_the_next_line_says_how_many_had_none() -> None:
    bench = bench_of_all()
    metadata = next(m for m in methods() if m.name == "Metadata")
    async with bench.serving() as port:
        channel = bench.runtime.network.channel(f"127.0.0.1:{port}", "bill\u00e9 2")
        for _ in range(7):
            await answer_to(channel, metadata, b"\xff")
        bench.clock.now_s += COMPLAINT_S
        await answer_to(channel, metadata, b"\xff")
        await channel.close()
    counts = [fields["others_since_the_last_line"] for _, _, fields in bench.lines.said]
    assert counts == [0, 6]
    assert {fields["client_id"] for _, _, fields in bench.lines.said} == {"bill\u00e9 2"}


class Talkers:
    """Streams that write until they cannot."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    async def Generated(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        try:
            while True:
                yield bytes(1 << 16)
        finally:
            self.ended.set()

    async def Written(self, request: bytes, context: Any) -> None:
        try:
            while True:
                await context.write(bytes(1 << 16))
        finally:
            self.ended.set()

    async def InTasks(self, request: bytes, context: Any) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_write_for_ever(context))
        finally:
            self.ended.set()


async def _write_for_ever(context: Any) -> None:
    while True:
        await context.write(bytes(1 << 16))


async def cut_off(port: int, path: str) -> None:
    """Begin a call through a relay, and break the server's connection while it writes."""
    broken = asyncio.Event()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection("127.0.0.1", port)

        async def back() -> None:
            passed = 0
            while passed < 1 << 18 and (data := await from_server.read(1 << 16)):
                passed += len(data)
                writer.write(data)
            sock = to_server.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            to_server.transport.abort()
            writer.close()
            broken.set()

        async with asyncio.TaskGroup() as group:
            group.create_task(back())
            while data := await reader.read(1 << 16):
                to_server.write(data)

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    relayed = server.sockets[0].getsockname()[1]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{relayed}") as channel:
        multi: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(path)
        call = multi(b"")
        with suppress(grpc.aio.AioRpcError):
            while await call.read() is not grpc.aio.EOF:
                pass
        async with asyncio.timeout(WAIT_S):
            await broken.wait()
    server.close()


@pytest.mark.parametrize("name", ["Generated", "Written", "InTasks"])
async def test_a_client_that_is_cut_off_during_a_write_is_no_error(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    bench, part = Bench(), Talkers()
    method = getattr(bench.service(part), name)
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_stream_rpc_method_handler(method)
    bench.server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("test.Talk", {name: handler}),)
    )
    with caplog.at_level(logging.INFO):
        async with bench.serving() as port:
            for _ in range(10):
                part.ended.clear()
                await cut_off(port, f"/test.Talk/{name}")
                async with asyncio.timeout(WAIT_S):
                    await part.ended.wait()
    assert bench.lines.above_debug() == []
    assert caplog.records == []
    assert bench.failures() == 0
