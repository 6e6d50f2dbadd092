"""The routes of the fault lab. Each action needs the token."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from starlette.routing import Route

from strandline_console.answers import FaultRequest, WorkloadRequest
from strandline_console.faults.lab import NotInjected
from strandline_console.faults.workload import RATE_MAX
from strandline_console.recording.entities import WORKLOAD
from strandline_console.serving.app import answer, refusing
from strandline_console.serving.parameters import Refused

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from strandline_console.faults.lab import Lab
    from strandline_console.recording.live import Live
    from strandline_console.serving.security import Actions

BODY_MAX: Final = 10_000

Wanted = TypeVar("Wanted")


async def _body(request: Request, kind: type[Wanted]) -> Wanted:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > BODY_MAX:
            raise Refused(413, f"the request has more than {BODY_MAX} bytes")
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as why:
        raise Refused(400, f"the request is not of the expected form: {why}") from None


class FaultRoutes:
    """The routes over a lab."""

    def __init__(self, lab: Lab, live: Live, actions: Actions) -> None:
        self._lab = lab
        self._live = live
        self._actions = actions

    def routes(self) -> list[Route]:
        return [
            Route("/api/faults", refusing(self.describe), methods=["GET"]),
            Route("/api/faults", refusing(self.inject), methods=["POST"]),
            Route("/api/faults/{fault}/heal", refusing(self.heal), methods=["POST"]),
            Route("/api/workload", refusing(self.workload), methods=["POST"]),
        ]

    def _check(self, request: Request) -> None:
        """Raises Refused. A lab without a cluster has no token that its user could know."""
        if self._lab.reason is not None:
            raise Refused(403, self._lab.reason)
        self._actions.check(request.headers)

    async def describe(self, _request: Request) -> Response:
        lab = await self._lab.describe()
        reason = self._actions.read_only_reason
        if reason is not None:
            lab.available, lab.reason = False, reason
        return answer(lab)

    async def inject(self, request: Request) -> Response:
        self._check(request)
        wanted = await _body(request, FaultRequest)
        if not math.isfinite(wanted.duration_s):
            raise Refused(400, "duration_s is no number")
        return answer(await _refused(self._lab.inject(wanted)), 201)

    async def heal(self, request: Request) -> Response:
        self._check(request)
        try:
            return answer(self._lab.heal(request.path_params["fault"]))
        except NotInjected as why:
            raise Refused(why.status, str(why)) from None

    async def workload(self, request: Request) -> Response:
        self._check(request)
        wanted = await _body(request, WorkloadRequest)
        if self._lab.workload is None:
            raise Refused(403, self._lab.reason or "there is no fault lab")
        if not 1 <= wanted.records_per_s <= RATE_MAX:
            raise Refused(
                400, f"records_per_s is {wanted.records_per_s}: give one from 1 to {RATE_MAX}"
            )
        self._lab.workload.set_running(wanted.records_per_s if wanted.running else None)
        return answer(self._live.maps["workload"][WORKLOAD])


async def _refused(work: Any) -> Any:
    try:
        return await work
    except NotInjected as why:
        raise Refused(why.status, str(why)) from None
