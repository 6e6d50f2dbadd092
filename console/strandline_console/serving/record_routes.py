"""The route that reads records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from starlette.routing import Route

from strandline_console.records.reader import NotReadable
from strandline_console.serving.app import answer, refusing
from strandline_console.serving.parameters import Refused, number, text

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from strandline_console.answers import Records

LIMIT_MAX: Final = 500


class Reader(Protocol):
    """Reads records of one partition; raises NotReadable."""

    async def read(
        self,
        topic: str,
        partition: int,
        *,
        offset: int | None,
        time_ms: int | None,
        limit: int,
    ) -> Records: ...


def record_routes(reader: Reader) -> list[Route]:
    """The routes over a reader."""

    async def records(request: Request) -> Response:
        query = request.query_params
        if query.get("offset") is not None and query.get("time") is not None:
            raise Refused(400, "offset and time both name a start: give one of them")
        try:
            found = await reader.read(
                text(query, "topic"),
                number(query, "partition", most=2**31 - 1),
                offset=number(query, "offset") if query.get("offset") is not None else None,
                time_ms=number(query, "time") if query.get("time") is not None else None,
                limit=number(query, "limit", 50, least=1, most=LIMIT_MAX),
            )
        except NotReadable as why:
            raise Refused(why.status, str(why)) from None
        return answer(found)

    return [Route("/api/records", refusing(records))]
