"""The HTTP listener of a server process: metrics, liveness, readiness."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest
from prometheus_client.core import GaugeMetricFamily

from strandline_broker.config.addresses import HostPort
from strandline_broker.metrics_server import REQUESTS_MAX, Monitored, serve_http
from strandline_broker.telemetry import ServerMetrics
from strandline_runtime.real import real_runtime
from support.processes import free_ports
from support.scripted_controller import running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from prometheus_client.core import Metric


class Listener:
    """A listener whose readiness a test sets."""

    def __init__(self, before_scrape: Callable[[], Awaitable[None]] | None = None) -> None:
        self.runtime = real_runtime("test")
        self.why: str | None = None
        self.monitored = Monitored(
            self.runtime.metrics,
            lambda: self.why,
            self.runtime.serial_executor("metrics"),
            before_scrape,
        )
        (self.port,) = free_ports(1)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[Listener]:
        address = HostPort("127.0.0.1", self.port)
        async with (
            running(serve_http(self.monitored, [address], self.runtime.log)),
            asyncio.timeout(60),
        ):
            yield self

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while True:
            try:
                return await asyncio.open_connection("127.0.0.1", self.port)
            except ConnectionRefusedError:
                await asyncio.sleep(0)

    async def send(self, text: bytes) -> bytes:
        reader, writer = await self.connect()
        writer.write(text)
        writer.write_eof()
        answer = await reader.read()
        writer.close()
        return answer

    async def get(self, path: str, method: str = "GET") -> tuple[int, bytes]:
        answer = await self.send(f"{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        head, _, body = answer.partition(b"\r\n\r\n")
        return int(head.split(b" ")[1]), body


async def test_more_requests_at_a_time_than_are_bounded_are_closed() -> None:
    listener = Listener()
    async with listener.serving():
        held = [await listener.connect() for _ in range(REQUESTS_MAX)]
        reader, writer = await listener.connect()
        assert await reader.read() == b"", "it is closed at once"
        writer.close()
        for _, one in held:
            one.close()


async def test_metrics_are_served_to_a_scraper_and_garbage_does_no_harm() -> None:
    listener = Listener()
    ServerMetrics(listener.runtime.metrics, listener.runtime.clock).requests.labels(
        method="Produce"
    ).inc()
    async with listener.serving():
        assert await listener.send(b"\x00garbage") == b""
        assert (await listener.send(b"garbage\r\n\r\n")).startswith(b"HTTP/1.1 400 Bad Request\r\n")
        answer = await listener.send(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=")
        assert b'strandline_requests_total{method="Produce"} 1.0' in answer
        status, body = await listener.get("/metrics?name[]=up")
        assert (status, b"strandline_requests_total" in body) == (200, True)


@pytest.mark.parametrize("path", ["/", "/metric", "/metrics/", "/health", "//readyz", "metrics"])
async def test_another_path_is_not_found(path: str) -> None:
    async with Listener().serving() as listener:
        status, body = await listener.get(path)
    assert (status, body) == (404, b"there are /metrics, /healthz and /readyz here\n")


async def test_readiness_tells_the_reason_and_liveness_does_not_depend_on_it() -> None:
    async with Listener().serving() as listener:
        listener.why = "the logs are loading"
        assert await listener.get("/readyz") == (503, b"not ready: the logs are loading\n")
        assert await listener.get("/healthz") == (200, b"alive\n")
        assert (await listener.get("/metrics"))[0] == 200
        listener.why = None
        assert await listener.get("/readyz") == (200, b"ready\n")


async def test_head_has_no_body_and_other_methods_are_refused() -> None:
    async with Listener().serving() as listener:
        assert await listener.get("/readyz", "HEAD") == (200, b"")
        answer = await listener.send(b"POST /metrics HTTP/1.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 405 Method Not Allowed\r\n")
    assert b"\r\nAllow: GET, HEAD\r\n" in answer


async def test_values_are_asked_for_before_a_scrape_and_other_work_goes_on_within_it() -> None:
    told: list[str] = []

    async def ask() -> None:
        await asyncio.sleep(0)
        told.append("asked")

    class Collector:
        def collect(self) -> Iterator[Metric]:
            for name in ("one", "two"):
                told.append(name)
                asyncio.get_running_loop().call_soon(told.append, f"after {name}")
                yield GaugeMetricFamily(f"strandline_{name}", "A value.", value=len(told))

    async with Listener(ask).serving() as listener:
        listener.runtime.metrics.register(Collector())
        told.clear()
        _, body = await listener.get("/metrics")
        assert await listener.get("/healthz") == (200, b"alive\n")
    assert told == ["asked", "one", "after one", "two", "after two"]
    assert b"strandline_one 2.0\n" in body
