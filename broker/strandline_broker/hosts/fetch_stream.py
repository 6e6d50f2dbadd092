"""A follower's Fetch stream to the broker of one leader: requests and answers in turn, until it
breaks or nothing is left to fetch.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import grpc

from strandline_proto.v1 import fetch_pb2

if TYPE_CHECKING:
    from strandline_broker.hosts.fetcher import Fetcher
    from strandline_broker.hosts.replica_context import ReplicaContext

ANSWER_GRACE_S: Final = 10.0
"""How long past its own wait a leader may be silent before the stream is given up (P-80)."""


class FetchStream:
    """One stream to the leader's broker."""

    def __init__(
        self,
        fetcher: Fetcher,
        context: ReplicaContext,
        stream: grpc.aio.StreamStreamCall[fetch_pb2.FetchRequest, fetch_pb2.FetchResponse],
    ) -> None:
        self._fetcher = fetcher
        self._context = context
        self._stream = stream
        self._writing = asyncio.Lock()
        self._requests = 0
        self._session_id = 0

    async def run(self) -> None:
        self._fetcher.begin()
        answer_s = self._context.config.replica_fetch_wait_max_ms / 1000 + ANSWER_GRACE_S
        try:
            async with asyncio.TaskGroup() as group:
                await self._write()
                answered, nudger = 0, group.create_task(self._write_what_changes())
                while not self._fetcher.is_idle:
                    async with asyncio.timeout(answer_s):
                        response = await self._stream.read()
                    if response is grpc.aio.EOF:
                        raise ConnectionError("the leader's broker ended the stream")
                    assert isinstance(response, fetch_pb2.FetchResponse)
                    self._session_id = response.session_id
                    await self._fetcher.apply(response, answered)
                    answered += 1
                    if answered == self._requests or self._fetcher.has_changes:
                        await self._write()
                nudger.cancel()
        finally:
            self._stream.cancel()

    async def _write_what_changes(self) -> None:
        """Ask at once for a partition that is added while the leader holds our last request."""
        while True:
            await self._fetcher.nudged()
            if self._fetcher.has_changes:
                try:
                    await self._write()
                except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                    return  # the stream has ended, as its reader is about to find

    async def _write(self) -> None:
        config = self._context.config
        async with self._writing:
            request = fetch_pb2.FetchRequest(
                correlation_id=self._requests,
                cluster_id=self._context.metadata.cluster_id,
                max_wait_ms=config.replica_fetch_wait_max_ms,
                min_bytes=config.replica_fetch_min_bytes,
                max_bytes=config.replica_fetch_response_max_bytes,
                session_id=self._session_id,
                session_epoch=self._requests,
            )
            request.replica_state.replica_id = self._context.me
            request.replica_state.replica_epoch = self._context.broker_epoch()
            self._fetcher.fill(request, self._requests)
            self._requests += 1
            await self._stream.write(request)
