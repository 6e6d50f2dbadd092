"""FetchRange: a committed range of one partition as a server stream, for bulk readers such as
Spark.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from strandline_proto import hot_encode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from strandline_broker.hosts.serving.fetch_range import FetchRangeService
    from strandline_proto.hot_messages import FetchRangeRequest


class FetchRangeRpc:
    def __init__(self, ranges: FetchRangeService) -> None:
        self._ranges = ranges

    async def FetchRange(self, request: FetchRangeRequest, context: Any) -> AsyncIterator[bytes]:
        async with aclosing(self._ranges.read(request)) as messages:  # type: ignore[type-var]
            async for message in messages:
                yield hot_encode.fetch_range_response(message)
