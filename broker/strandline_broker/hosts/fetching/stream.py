"""A follower's Fetch stream to the broker of one leader: requests and answers in turn, until the
stream breaks or no partition is left to fetch.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import grpc

from strandline_broker.hosts.common.fetch_messages import FetchRequest, Replica

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager
    from typing import Protocol

    from strandline_broker.core.addresses import Endpoint
    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.common.dynamic_config import DynamicConfig
    from strandline_broker.hosts.common.fetch_messages import FetchResponse
    from strandline_broker.hosts.fetching.fetcher import Fetcher
    from strandline_broker.hosts.replica.to_controller import ToController
    from strandline_proto.ids import BrokerEpoch, BrokerId

    class FetchCall(Protocol):
        """The stream as `rpc/` opens it; `write` and `read` raise what its transport raises."""

        async def write(self, request: FetchRequest) -> None: ...

        async def read(self) -> FetchResponse | None:
            """None: the leader's broker has ended it."""
            ...

        def cancel(self) -> None: ...

    OpenFetch = Callable[[Endpoint], AbstractAsyncContextManager[FetchCall]]

ANSWER_GRACE_S: Final = 10.0
"""Time past its own wait that a leader may be silent before the stream is closed (P-80)."""
REQUESTS_MAX: Final = 2
"""Requests under way at a time: one that the leader may hold, and one that ends its wait."""


class FetchStreams:
    """Opens the streams of one broker's fetchers."""

    def __init__(
        self,
        config: DynamicConfig,
        metadata: MetadataCache,
        controller: ToController,
        open_fetch: OpenFetch,
    ) -> None:
        self._config = config
        self._metadata = metadata
        self._controller = controller
        self._open_fetch = open_fetch
        self._under_way: dict[BrokerId, tuple[Endpoint, FetchStream]] = {}

    async def run(self, fetcher: Fetcher, leader: BrokerId) -> None:
        """Run one stream to the leader's broker, to its end."""
        endpoint = self._endpoint(leader)
        if endpoint is None:
            raise ConnectionError(f"no address of broker {leader} is known yet")
        cluster_id, epoch = self._metadata.cluster_id, self._controller.broker_epoch
        async with self._open_fetch(endpoint) as call:
            stream = FetchStream(fetcher, self._config, cluster_id, epoch, call)
            self._under_way[leader] = endpoint, stream
            try:
                await stream.run()
            finally:
                del self._under_way[leader]

    def on_published(self) -> None:
        """End streams to a broker that has restarted elsewhere. Its old machine may send nothing,
        for example after a loss of power, and its partitions would wait until that is noticed.
        """
        for leader, (endpoint, stream) in self._under_way.items():
            if self._endpoint(leader) not in (endpoint, None):
                stream.leave()

    def _endpoint(self, broker: BrokerId) -> Endpoint | None:
        return self._metadata.view.endpoint(broker, self._config.current.inter_broker_listener_name)


class FetchStream:
    """One stream to the leader's broker."""

    def __init__(
        self,
        fetcher: Fetcher,
        config: DynamicConfig,
        cluster_id: str,
        broker_epoch: Callable[[], BrokerEpoch],
        stream: FetchCall,
    ) -> None:
        self._fetcher = fetcher
        self._config = config
        self._cluster_id = cluster_id
        self._broker_epoch = broker_epoch
        self._stream = stream
        self._writing = asyncio.Lock()
        self._requests = 0
        self._answers = 0
        self._asked_s: float | None = None
        """Time since which the stream waits for an answer."""
        self._session_id = 0
        self._left = asyncio.Event()
        self._is_applying = False

    def leave(self) -> None:
        """End the stream, whose other end is gone, but not within an answer."""
        self._left.set()

    async def run(self) -> None:
        self._fetcher.begin()
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.TaskGroup() as group:
                aside = [group.create_task(self._until_left())]
                await self._write()
                aside += [
                    group.create_task(self._write_what_changes()),
                    group.create_task(self._watch()),
                ]
                while not self._fetcher.is_idle:
                    self._asked_s = loop.time()
                    response = await self._stream.read()
                    if response is None:
                        raise ConnectionError("the leader's broker ended the stream")
                    self._asked_s = None
                    self._session_id = response.session_id
                    self._is_applying = True
                    await self._fetcher.apply(response, self._answers)
                    self._is_applying = False
                    self._check_left()
                    self._answers += 1
                    if self._answers == self._requests or self._fetcher.has_changes:
                        await self._write()
                for task in aside:
                    task.cancel()
        finally:
            self._stream.cancel()

    async def _until_left(self) -> None:
        await self._left.wait()
        if not self._is_applying:
            self._check_left()

    def _check_left(self) -> None:
        if self._left.is_set():
            raise ConnectionError("the leader's broker has another address now")

    async def _watch(self) -> None:
        """Ends the stream when an answer is overdue (P-80): one timer, and not one for each."""
        limit_s = self._config.current.replica_fetch_wait_max_ms / 1000 + ANSWER_GRACE_S
        loop = asyncio.get_running_loop()
        while True:
            waited_s = 0.0 if self._asked_s is None else loop.time() - self._asked_s
            if waited_s >= limit_s:
                raise TimeoutError(f"no answer in {limit_s:.1f} s")
            await asyncio.sleep(limit_s - waited_s)

    async def _write_what_changes(self) -> None:
        """Ask at once for a partition that is added while the leader holds our last request. That
        ends its wait, and the answer brings along what has changed by then.
        """
        while True:
            await self._fetcher.nudged()
            if self._fetcher.has_changes and self._requests - self._answers < REQUESTS_MAX:
                try:
                    await self._write()
                except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                    return  # the stream has ended, as its reader is about to find

    async def _write(self) -> None:
        config = self._config.current
        async with self._writing:
            forgotten, positions = self._fetcher.next_request(self._requests)
            request = FetchRequest(
                correlation_id=self._requests,
                cluster_id=self._cluster_id,
                max_wait_ms=config.replica_fetch_wait_max_ms,
                min_bytes=config.replica_fetch_min_bytes,
                max_bytes=config.replica_fetch_response_max_bytes,
                session_id=self._session_id,
                session_epoch=self._requests,
                replica=Replica(config.node_id, self._broker_epoch()),
                positions=positions,
                forgotten=forgotten,
            )
            self._requests += 1
            await self._stream.write(request)
