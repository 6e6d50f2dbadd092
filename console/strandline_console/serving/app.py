"""The console's web application: routes of `messages.py`, and the files of its pages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.responses import Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from strandline_console.answers import Meta, Refusal
from strandline_console.messages import MESSAGES_VERSION, Deltas
from strandline_console.serving.parameters import Refused, instant_of, number, scope_of, text
from strandline_console.serving.security import Actions, Guard
from strandline_console.serving.stream import Stream
from strandline_console.serving.trace import trace_between, trace_file
from strandline_console.serving.why import why_not_in_isr
from strandline_runtime.build_id import build_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request
    from starlette.types import ASGIApp

    from strandline_console.recording.recorder import Recorder
    from strandline_console.serving.pulse import Pulse

STATIC: Final = Path(__file__).parents[1] / "static"
DELTAS_MAX: Final = 500
EVENTS_MAX: Final = 5_000

_encode: Final = msgspec.json.Encoder().encode

Found = TypeVar("Found")
Handler = Callable[["Request"], Awaitable[Response]]


def answer(value: object, status: int = 200) -> Response:
    """An answer as JSON."""
    return Response(_encode(value), status, media_type="application/json")


async def _aside(work: Callable[[], Found]) -> Found:
    """The result of work that reads many frames, on a thread: the event loop goes on."""
    return await asyncio.get_running_loop().run_in_executor(None, work)


def refusing(handler: Handler) -> Handler:
    """The handler, with refusals as answers."""

    async def handle(request: Request) -> Response:
        try:
            return await handler(request)
        except Refused as why:
            return answer(Refusal(error=why.sentence), why.status)

    return handle


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts about the console that do not change while it runs."""

    bootstrap: str
    has_tables: bool = False
    """True if the console was started with a pipeline."""


class RecordingRoutes:
    """The routes that read the recording."""

    def __init__(self, pulse: Pulse, facts: Facts, actions: Actions) -> None:
        self._pulse = pulse
        self._recorder: Recorder = pulse.recorder
        self._facts = facts
        self._actions = actions

    def routes(self) -> list[Route]:
        return [
            Route("/api/meta", refusing(self.meta)),
            Route("/api/stream", refusing(self.stream)),
            Route("/api/at", refusing(self.at)),
            Route("/api/deltas", refusing(self.deltas)),
            Route("/api/timeline", refusing(self.timeline)),
            Route("/api/lag", refusing(self.lag)),
            Route("/api/why", refusing(self.why)),
            Route("/api/trace", refusing(self.trace)),
        ]

    async def meta(self, _request: Request) -> Response:
        reason = self._actions.read_only_reason
        return answer(
            Meta(
                messages_version=MESSAGES_VERSION,
                build=build_id(),
                run=self._recorder.run,
                bootstrap=self._facts.bootstrap,
                read_only=reason is not None,
                read_only_reason=reason,
                has_tables=self._facts.has_tables,
                kept_ms=self._recorder.kept_ms,
            )
        )

    async def stream(self, request: Request) -> Response:
        given = request.headers.get("last-event-id") or request.query_params.get("last_event_id")
        stream = Stream(self._pulse, scope_of(request.query_params), given)
        headers = {"X-Accel-Buffering": "no"}
        return StreamingResponse(stream.parts(), media_type="text/event-stream", headers=headers)

    async def at(self, request: Request) -> Response:
        scope, instant = scope_of(request.query_params), instant_of(request.query_params)
        if instant is None:
            return answer(self._recorder.now(scope))
        return await _aside(lambda: answer(self._recorder.at(scope, **instant)))

    async def deltas(self, request: Request) -> Response:
        query = request.query_params
        after = number(query, "after")
        if not self._recorder.has_all_after(after):
            raise Refused(410, f"frames after {after} are not all kept: ask /api/at for a keyframe")
        limit = number(query, "limit", 200, least=1, most=DELTAS_MAX)
        kept = self._recorder.deltas_after(after, scope_of(query))

        def read() -> Response:
            found = list(islice(kept, limit + 1))
            more = len(found) > limit
            return answer(Deltas(run=self._recorder.run, deltas=found[:limit], more=more))

        return await _aside(read)

    async def timeline(self, request: Request) -> Response:
        query = request.query_params
        limit = number(query, "limit", 1_000, least=1, most=EVENTS_MAX)
        first, last = number(query, "from", 0), number(query, "to", 2**53)
        return answer(self._recorder.timeline(first, last, limit))

    async def lag(self, request: Request) -> Response:
        query = request.query_params
        group = text(query, "group")
        first, last = number(query, "from", 0), number(query, "to", 2**53)
        return answer(self._recorder.lag_between(group, first, last))

    async def why(self, request: Request) -> Response:
        query = request.query_params
        topic = text(query, "topic")
        partition, broker = number(query, "partition"), number(query, "broker")
        instant = instant_of(query)
        if instant is None:
            maps, at_ms = self._recorder.maps_at(None)
        else:
            maps, at_ms = await _aside(lambda: self._recorder.maps_at(instant))
        events = self._recorder.events_before(at_ms)
        return answer(why_not_in_isr(maps, topic, partition, broker, events))

    async def trace(self, request: Request) -> Response:
        query = request.query_params
        first, last = number(query, "from"), number(query, "to")
        work = partial(_trace_file, self._recorder, first, last, self._recorder.now_ms())
        body = await _aside(work)
        name = f"strandline-{first}-{last}.html"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(body, media_type="text/html", headers=headers)


def _trace_file(recorder: Recorder, first: int, last: int, now_ms: int) -> bytes:
    return trace_file(trace_between(recorder, first, last, made_ms=now_ms), STATIC)


def build_app(routes: Sequence[Route], *, loopback: bool, static: Path = STATIC) -> ASGIApp:
    """The application with the pages' files, behind the guard."""

    async def unknown(request: Request, _why: Exception) -> Response:
        return answer(Refusal(error=f"there is no {request.method} {request.url.path}"), 404)

    async def wrong_method(request: Request, _why: Exception) -> Response:
        return answer(Refusal(error=f"{request.url.path} takes no {request.method}"), 405)

    handlers: dict[Any, Any] = {404: unknown, 405: wrong_method}
    files = Mount("/", StaticFiles(directory=static, html=True))
    app = Starlette(routes=[*routes, files], exception_handlers=handlers)
    return Guard(app, loopback=loopback)
