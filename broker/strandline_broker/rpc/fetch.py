"""The Fetch stream: followers and consumers read here. One answer for each request, in order."""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from strandline_broker.hosts.fetch_session import FetchSession
from strandline_broker.rpc.fetch_codec import request_from_wire, response_to_wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.copy_throttle import LeaderThrottle
    from strandline_broker.hosts.replica_manager import ReplicaManager
    from strandline_proto.v1 import fetch_pb2
    from strandline_runtime.runtime import Clock

REQUESTS_AHEAD_MAX: Final = 8


class FetchRpc:
    def __init__(
        self,
        clock: Clock,
        metadata: MetadataCache,
        replicas: ReplicaManager,
        copies: LeaderThrottle,
    ) -> None:
        self._new_session = partial(FetchSession, clock, metadata, replicas, copies)
        self._sessions = 0

    async def Fetch(self, requests: AsyncIterator[fetch_pb2.FetchRequest], context: Any) -> None:
        self._sessions += 1
        session = self._new_session(self._sessions)
        stream = _Requests(session)
        try:
            async with asyncio.TaskGroup() as group:
                reader = group.create_task(stream.read(requests))
                while (request := await stream.next()) is not None:
                    await context.write(await _answer(session, request, stream))
                reader.cancel()
        finally:
            session.close()


async def _answer(
    session: FetchSession, request: fetch_pb2.FetchRequest, stream: _Requests
) -> fetch_pb2.FetchResponse:
    """Nothing else keeps what was read: it may be written for as long as the reader likes."""
    return response_to_wire(await session.serve(request_from_wire(request), stream.has_more))


class _Requests:
    """What the reader of the stream has sent, a few requests ahead at the most."""

    def __init__(self, session: FetchSession) -> None:
        self._session = session
        self._inbox: deque[fetch_pb2.FetchRequest | None] = deque()
        self._changed = asyncio.Event()

    async def read(self, requests: AsyncIterator[fetch_pb2.FetchRequest]) -> None:
        async for request in requests:
            self._put(request)
            while len(self._inbox) >= REQUESTS_AHEAD_MAX:
                self._changed.clear()
                await self._changed.wait()
        self._put(None)

    def _put(self, request: fetch_pb2.FetchRequest | None) -> None:
        self._inbox.append(request)
        self._changed.set()
        self._session.interrupt()

    def has_more(self) -> bool:
        return bool(self._inbox)

    async def next(self) -> fetch_pb2.FetchRequest | None:
        while not self._inbox:
            self._changed.clear()
            await self._changed.wait()
        request = self._inbox.popleft()
        self._changed.set()
        return request
