"""A listener for Kafka clients: which connections it accepts, and what it does with each kind."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from strandline_broker.config.addresses import HostPort
from strandline_broker.config.loading import load_broker_config
from strandline_broker.hosts.common.request_times import RequestTimes
from strandline_broker.kafka import listener as listener_module
from strandline_broker.kafka.limits import Limits
from strandline_broker.kafka.listener import KafkaListener
from strandline_broker.kafka.request import CloseConnection, Request
from strandline_broker.kafka.versions import BY_NAME
from strandline_runtime.real import real_runtime
from strandline_runtime.runtime import ByteStream

DEADLINE_S = 20.0
REST: Any = (memoryview(b""), "a host", None)
"""What a request has besides its header."""


class Log:
    """The lines that the listener writes."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.came = asyncio.Event()

    def info(self, event: str, **fields: object) -> None:
        self.lines.append(f"{event}: {fields['why']}")
        self.came.set()

    def debug(self, event: str, **fields: object) -> None:
        self.info(event, **fields)


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def end(self) -> bytes:
        """All that the broker sends until it ends the connection."""
        try:
            return await self.reader.read()
        except ConnectionError:
            return b""


@dataclass
class Subject:
    """A listener that runs, its log, and its clients."""

    port: int
    log: Log
    clients: list[Client]
    listener: KafkaListener
    times: RequestTimes

    async def client(self, first: bytes = b"") -> Client:
        made = Client(*await asyncio.open_connection("127.0.0.1", self.port))
        made.writer.write(first)
        self.clients.append(made)
        return made


@asynccontextmanager
async def listening(
    settings: dict[str, str] | None = None,
    *,
    grpc_port: int = 1,
    descriptors: int = 100,
    others: dict[bytes, Any] | None = None,
) -> AsyncIterator[Subject]:
    log = Log()
    config = load_broker_config(
        None,
        {
            "node.id": "1",
            "listeners": "PLAINTEXT://127.0.0.1:0,GRPC://127.0.0.1:0",
            "log.dirs": "/nowhere",
            "controller.quorum.bootstrap.servers": "127.0.0.1:1",
        }
        | (settings or {}),
        {},
    )
    runtime = replace(real_runtime("broker-1"), log=cast("Any", log))
    metrics = SimpleNamespace(times=RequestTimes(runtime.clock))
    services = SimpleNamespace(runtime=runtime, config=config, metrics=metrics)
    limits = Limits.of(config, descriptors=descriptors)
    found = KafkaListener(
        cast("Any", services), "K", HostPort("127.0.0.1", grpc_port), limits, others or {}
    )
    subject = Subject(await found.bind("127.0.0.1", 0), log, [], found, metrics.times)
    serving = asyncio.create_task(found.run())
    try:
        async with asyncio.timeout(DEADLINE_S):
            yield subject
    finally:
        for each in subject.clients:
            each.writer.close()
            await asyncio.gather(each.writer.wait_closed(), return_exceptions=True)
        found.close()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


@pytest.mark.parametrize(
    ("settings", "descriptors", "why"),
    [
        ({"max.connections": "2"}, 100, "2 connections are open, as many as max.connections"),
        ({"max.connections.per.ip": "2"}, 100, "127.0.0.1 has 2 connections, as many as max.conn"),
        ({}, 2, "take 2 file descriptors, their whole share"),
    ],
)
async def test_a_connection_above_the_limit_is_refused_and_the_others_stay(
    settings: dict[str, str], descriptors: int, why: str
) -> None:
    async with listening(settings, descriptors=descriptors) as subject:
        others = [await subject.client(b"\0") for _ in range(2)]
        refused = await subject.client()
        assert await refused.end() == b""
        assert why in subject.log.lines[0]
        assert not any(other.reader.at_eof() for other in others)
        others[0].writer.close()
        subject.log.came.clear()
        await subject.log.came.wait()  # the place is free when the listener has noticed the end
        again = await subject.client(b"GET / HTTP/1.1\r\n")
        await again.end()
        assert "speaks HTTP" in subject.log.lines[-1]


async def test_another_protocol_is_known_by_its_first_bytes_and_ends_with_its_connection() -> None:
    async def serve(stream: ByteStream) -> None:
        stream.write(b"ours " + await stream.read_exactly(4))
        await stream.drain()
        raise CloseConnection("the reason")

    async with listening(others={b"RNG1": serve}) as subject:
        ours = await subject.client(b"RNG1abcd")
        assert await ours.reader.readexactly(9) == b"ours abcd"
        await ours.end()
        assert subject.log.lines == ["a Kafka connection was ended: the reason"]
        await (await subject.client(b"RNG2")).end()
        assert "the first four bytes of a request are its length" in subject.log.lines[-1]


async def test_a_request_above_the_limit_ends_its_connection_with_the_key() -> None:
    async with listening({"socket.request.max.bytes": "1000"}) as subject:
        for size in (1001, -1, 1 << 30):
            made = await subject.client(size.to_bytes(4, "big", signed=True))
            await made.end()
            assert (
                f"here they are {size}; socket.request.max.bytes allows 1000"
                in subject.log.lines[-1]
            )


async def test_a_connection_that_stops_within_a_request_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listener_module, "SWEEP_S", 0.01)
    monkeypatch.setattr("strandline_broker.kafka.connection.STALLED_S", 0.05)
    async with listening() as subject:
        made = await subject.client(b"\0\0\0\x10half")
        await made.end()
        assert "a part of a request came, and nothing more" in subject.log.lines[0]


async def test_http2_passes_to_the_grpc_listener_and_back() -> None:
    heard = []

    async def grpc(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readexactly(24))
        writer.write(b"settings")
        heard.append(await reader.read())
        writer.close()

    server = await asyncio.start_server(grpc, "127.0.0.1", 0)
    grpc_port = server.sockets[0].getsockname()[1]
    # Two descriptors: the second connection needs those of the first.
    async with server, listening(grpc_port=grpc_port, descriptors=2) as subject:
        for _ in range(2):
            heard.clear()
            made = await subject.client(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            assert await made.reader.readexactly(8) == b"settings"
            made.writer.write(b"call")
            made.writer.write_eof()
            await made.end()
            assert heard == [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"call"]
        assert subject.log.lines == []


async def test_http2_that_no_descriptor_is_left_for_is_refused() -> None:
    async with listening(descriptors=1) as subject:
        made = await subject.client(b"PRI * HTTP/2.0\r\n\r\n")
        await made.end()
        assert "1 file descriptors, their whole share" in subject.log.lines[0]


async def test_open_and_accepted_connections_are_counted() -> None:
    async with listening({"max.connections": "2"}) as subject:
        found = subject.listener
        for _ in range(2):
            await subject.client(b"\0")
        await (await subject.client()).end()
        assert (found.open, found.opened.total) == (2, 2), "a refused one is no connection"
        subject.log.came.clear()
        subject.clients[0].writer.close()
        await subject.log.came.wait()
        assert (found.open, found.opened.total) == (1, 2)


async def test_the_phases_and_errors_of_a_request_are_noted() -> None:
    async with listening() as subject:
        now_s = asyncio.get_running_loop().time()
        request = Request(cast("Any", SimpleNamespace(api=BY_NAME["Produce"], version=9)), *REST)
        request.errors, request.waits_since_s = [6, 6], now_s - 10
        subject.listener.observe(request, came_s=now_s - 15, began_s=now_s - 12, done_s=now_s - 6)
        other = Request(cast("Any", SimpleNamespace(api=BY_NAME["JoinGroup"], version=9)), *REST)
        subject.listener.observe(other, came_s=now_s - 2, began_s=now_s - 1, done_s=now_s)
        registry = CollectorRegistry()
        registry.register(subject.times)

    def shown(phase: str, request: str) -> float | None:
        name = f"kafka_network_requestmetrics_{phase}timems_sum"
        return registry.get_sample_value(name, {"request": request})

    assert shown("requestqueue", "Produce") == pytest.approx(3_000)
    assert shown("local", "Produce") == pytest.approx(2_000)
    assert shown("remote", "Produce") == pytest.approx(4_000)
    assert shown("responsequeue", "Produce") >= 6_000  # type: ignore[operator]
    assert shown("total", "Produce") >= 15_000  # type: ignore[operator]
    assert shown("requestqueue", "JoinGroup") == pytest.approx(1_000)
    assert shown("local", "JoinGroup") is None, "its work and its wait are not told apart"
    labels = {"request": "Produce", "error": "NOT_LEADER_OR_FOLLOWER"}
    assert registry.get_sample_value("kafka_network_requestmetrics_errors_total", labels) == 2
