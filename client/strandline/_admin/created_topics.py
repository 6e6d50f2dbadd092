"""The topics that a client has created: there for it, whichever broker is asked next."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from strandline.errors import UnknownTopicOrPartition

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from strandline_proto.v1 import metadata_pb2

UNHEARD_OF_S: Final = 5.0
"""So long a broker may take to hear of a topic that another one has announced."""
PAUSE_S: Final = 0.05


class CreatedTopics:
    """Names of topics that this client has created and not deleted."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def add(self, name: str) -> None:
        self._names.add(name)

    def forget(self, name: str) -> None:
        self._names.discard(name)

    async def described(
        self,
        ask: Callable[[Callable[[Any], Any], Any], Awaitable[Any]],
        request: metadata_pb2.MetadataRequest,
        timeout_s: float,
    ) -> Any:
        """What some broker says. Each call goes to any of them: while the one that answers has not
        heard of a topic that this client has created, they are asked again.
        """
        clock = asyncio.get_running_loop().time
        until_s = clock() + min(UNHEARD_OF_S, timeout_s)
        while True:
            answer = await ask(lambda stub: stub.Metadata, request)
            unknown = {
                t.name for t in answer.topics if t.error_code == UnknownTopicOrPartition.code
            }
            if not unknown & self._names:
                return answer
            if clock() >= until_s:  # another client has deleted it
                self._names -= unknown
                return answer
            await asyncio.sleep(PAUSE_S)
