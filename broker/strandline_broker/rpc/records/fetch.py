"""The Fetch stream, which followers and consumers read: one answer for each request, in order."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from strandline_broker.hosts.fetching.session import FetchSession
from strandline_broker.rpc.records.fetch_codec import (
    large_request_from_wire,
    request_from_wire,
    response_to_wire,
)
from strandline_proto import hot_encode
from strandline_proto.v1 import fetch_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.common.request_times import RequestTimes
    from strandline_broker.hosts.fetching.copy_throttle import LeaderThrottle
    from strandline_broker.hosts.member.replica_manager import ReplicaManager
    from strandline_broker.rpc.records.fetch_codec import WireRequest
    from strandline_runtime.runtime import Clock


class FetchRpc:
    def __init__(
        self,
        clock: Clock,
        metadata: MetadataCache,
        replicas: ReplicaManager,
        copies: LeaderThrottle,
        times: RequestTimes,
    ) -> None:
        self._new_session = partial(FetchSession, clock, metadata, replicas, copies, times)
        self._sessions = 0

    async def Fetch(self, requests: AsyncIterator[WireRequest], context: Any) -> None:
        self._sessions += 1
        session = self._new_session(self._sessions)
        try:
            async with asyncio.TaskGroup() as group:
                reader = group.create_task(_read(requests, session))
                while (response := await session.answer()) is not None:
                    # The records move into the message, and nothing else keeps them.
                    await context.write(hot_encode.fetch_response(response_to_wire(response)))
                error = await reader
            if error is not None:
                raise error
        finally:
            session.close()


async def _read(requests: AsyncIterator[WireRequest], session: FetchSession) -> Exception | None:
    """Returns the failure. The caller raises it after the earlier requests are answered: a handler
    that is cancelled in its first write would leave the call without a status, as in PushRpc.
    """
    failure = None
    try:
        async for request in requests:
            if isinstance(request, fetch_pb2.FetchRequest):
                session.ask(await large_request_from_wire(request))
            else:
                session.ask(request_from_wire(request))
            await session.until_fewer()
    except Exception as error:  # noqa: BLE001 - such as a request that is no message
        failure = error
    session.end()
    return failure
