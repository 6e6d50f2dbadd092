"""A client of an ASGI application in the same event loop; it reads streams piece by piece."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, MutableMapping


@dataclass
class Answer:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class AsgiClient:
    def __init__(self, app: Any, host: str = "127.0.0.1:8080") -> None:
        self._app = app
        self._host = host

    async def get(self, target: str, **headers: str) -> Answer:
        return await self._call("GET", target, b"", headers)

    async def post(self, target: str, document: Any, **headers: str) -> Answer:
        headers = {"content_type": "application/json", **headers}
        return await self._call("POST", target, json.dumps(document).encode(), headers)

    async def _call(self, method: str, target: str, body: bytes, headers: dict[str, str]) -> Answer:
        answer, bodies = Answer(), [body]

        async def receive() -> dict[str, Any]:
            if not bodies:  # the client waits for its answer
                await asyncio.Event().wait()
            return {"type": "http.request", "body": bodies.pop(), "more_body": False}

        async def send(message: MutableMapping[str, Any]) -> None:
            _take(answer, message)

        await self._app(self._scope(method, target, headers), receive, send)
        return answer

    @asynccontextmanager
    async def stream(self, target: str, **headers: str) -> AsyncIterator[Events]:
        """A stream of server-sent events. Each send waits until the test reads the one before."""
        answer, pieces = Answer(), asyncio.Queue[bytes](maxsize=1)
        gone = asyncio.Event()

        async def receive() -> dict[str, Any]:
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.body":
                await pieces.put(message.get("body", b""))
            else:
                _take(answer, message)

        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(self._app(self._scope("GET", target, headers), receive, send))
            yield Events(answer, pieces)
            task.cancel()

    def _scope(self, method: str, target: str, headers: dict[str, str]) -> dict[str, Any]:
        path, _, query = target.partition("?")
        given = {"host": self._host, **headers}
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [
                (name.replace("_", "-").encode(), value.encode()) for name, value in given.items()
            ],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8080),
        }


class Events:
    """The events of a stream, comments left out."""

    def __init__(self, answer: Answer, pieces: asyncio.Queue[bytes]) -> None:
        self.answer = answer
        self._pieces = pieces
        self._text = ""

    async def next(self) -> tuple[str, str, Any]:
        """(kind, id, data) of the next event."""
        while True:
            async with asyncio.timeout(60):
                while "\n\n" not in self._text:
                    self._text += (await self._pieces.get()).decode()
            block, _, self._text = self._text.partition("\n\n")
            fields = dict(line.split(": ", 1) for line in block.splitlines() if line[0] != ":")
            if "event" in fields:
                return fields["event"], fields["id"], json.loads(fields["data"])


def _take(answer: Answer, message: MutableMapping[str, Any]) -> None:
    if message["type"] == "http.response.start":
        answer.status = message["status"]
        answer.headers = {n.decode().lower(): v.decode() for n, v in message["headers"]}
    else:
        answer.body += message.get("body", b"")
