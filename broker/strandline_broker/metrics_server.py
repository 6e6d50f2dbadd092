"""The HTTP listener of a server process: its metrics for Prometheus, and its health for probes.

| path | answer |
|---|---|
| `/metrics` | the metrics in Prometheus' text format |
| `/healthz` | 200 as long as the event loop runs: the process needs no restart |
| `/readyz` | 200 while the server serves clients, otherwise 503 with the reason |

Every other path answers 404. A scrape reads values on the event loop, one family at a time. A
thread makes the text, so the loop does not wait for it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from concurrent.futures import Executor

    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric
    from structlog.typing import FilteringBoundLogger

    from strandline_broker.config.addresses import HostPort

ANSWER_TIMEOUT_S: Final = 5.0
REQUESTS_MAX: Final = 16
PLAIN: Final = "text/plain; charset=utf-8"
METHODS: Final = ("GET", "HEAD")


@dataclass(frozen=True, slots=True)
class Monitored:
    """The parts of a server process that the listener shows."""

    registry: CollectorRegistry
    why_not_ready: Callable[[], str | None]
    """Returns the reason why the server serves no client now; None if it does."""
    thread: Executor
    """Makes the text of a scrape."""
    before_scrape: Callable[[], Awaitable[None]] | None = None
    """Asks other servers for values of the scrape; it ends in time by itself."""


class Answer(NamedTuple):
    status: HTTPStatus
    body: bytes
    content_type: str = PLAIN
    headers: str = ""


class _Collected:
    """A registry of families that were read already."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


async def serve_http(
    monitored: Monitored, addresses: Sequence[HostPort], log: FilteringBoundLogger
) -> None:
    """Serves metrics and health at each address, until cancelled."""
    requests = asyncio.BoundedSemaphore(REQUESTS_MAX)

    async def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if requests.locked():
            writer.close()  # more at a time would take descriptors from logs
            return
        async with requests:
            await _serve_one(monitored, reader, writer)

    servers = []
    for address in addresses:
        try:
            servers.append(await asyncio.start_server(on_connection, address.host, address.port))
        except OSError as error:
            # A server works without metrics, too.
            log.error("metrics cannot be served", address=address.target, why=str(error))
    try:
        await asyncio.Event().wait()
    finally:
        for server in servers:
            server.close()


async def _serve_one(
    monitored: Monitored, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            head = await reader.readuntil(b"\r\n\r\n")
            method, answer = await _answer(monitored, head)
            writer.write(_head(answer) + (b"" if method == "HEAD" else answer.body))
            await writer.drain()
    except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        pass  # the peer speaks no HTTP, or has disconnected
    finally:
        writer.close()


async def _answer(monitored: Monitored, head: bytes) -> tuple[str, Answer]:
    """The method of the request and its answer."""
    words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/"):
        return "", Answer(HTTPStatus.BAD_REQUEST, b"not an HTTP request\n")
    method, path = words[0], words[1].partition("?")[0]
    if path not in ("/metrics", "/healthz", "/readyz"):
        return method, Answer(
            HTTPStatus.NOT_FOUND, b"there are /metrics, /healthz and /readyz here\n"
        )
    if method not in METHODS:
        allowed = f"Allow: {', '.join(METHODS)}\r\n"
        return method, Answer(HTTPStatus.METHOD_NOT_ALLOWED, b"use GET or HEAD\n", headers=allowed)
    if path == "/metrics":
        return method, await _metrics(monitored)
    why = monitored.why_not_ready() if path == "/readyz" else None
    if why is not None:
        return method, Answer(HTTPStatus.SERVICE_UNAVAILABLE, f"not ready: {why}\n".encode())
    return method, Answer(HTTPStatus.OK, b"ready\n" if path == "/readyz" else b"alive\n")


async def _metrics(monitored: Monitored) -> Answer:
    from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

    if monitored.before_scrape is not None:
        await monitored.before_scrape()
    families: list[Metric] = []
    for family in monitored.registry.collect():
        families.append(family)
        await asyncio.sleep(0)  # other work goes on between two families (P-62)
    registry = cast("Any", _Collected(families))
    loop = asyncio.get_running_loop()
    text = await loop.run_in_executor(monitored.thread, generate_latest, registry)
    return Answer(HTTPStatus.OK, text, CONTENT_TYPE_LATEST)


def _head(answer: Answer) -> bytes:
    return (
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\n"
        f"Content-Type: {answer.content_type}\r\nContent-Length: {len(answer.body)}\r\n"
        f"Cache-Control: no-store\r\n{answer.headers}Connection: close\r\n\r\n"
    ).encode()
