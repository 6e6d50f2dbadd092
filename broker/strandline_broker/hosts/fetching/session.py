"""One Fetch stream as a session (KIP-227): its requests and their answers in turn, and the long
poll.

A new request ends the wait of the one before: a reader that adds a partition does not wait a full
poll for it. One task waits for answers, another delivers the requests. A step of either does all
work that needs no wait. So a request that finds nothing costs no wake-up, and news cost one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from strandline_broker.core.replication.isolation import isolation
from strandline_broker.hosts.common.fetch_messages import FetchResponse
from strandline_broker.hosts.common.request_times import FETCHES, Phase
from strandline_broker.hosts.fetching.long_poll import LongPoll
from strandline_broker.hosts.fetching.session_partitions import SessionPartitions, Turn
from strandline_proto.errors import (
    FetchSessionIdNotFound,
    InconsistentClusterId,
    InvalidFetchSessionEpoch,
    StaleBrokerEpoch,
    WireError,
)
from strandline_proto.ids import BrokerId

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.common.fetch_messages import FetchRequest
    from strandline_broker.hosts.common.request_times import RequestTimes, Times
    from strandline_broker.hosts.fetching.answer import Collected
    from strandline_broker.hosts.fetching.copy_throttle import LeaderThrottle
    from strandline_broker.hosts.fetching.session_partitions import Cold, ServedReplicas
    from strandline_runtime.runtime import Clock

REQUESTS_AHEAD_MAX: Final = 8
WAIT_MS_MAX: Final = 30_000
RESPONSE_BYTES_MAX: Final = 32 << 20


class FetchSession:
    def __init__(
        self,
        clock: Clock,
        metadata: MetadataCache,
        replicas: ServedReplicas,
        copies: LeaderThrottle,
        times: RequestTimes,
        session_id: int,
    ) -> None:
        self._metadata = metadata
        self._replicas = replicas
        self._id = session_id
        self._epoch = 0
        self._asked: deque[FetchRequest] = deque()
        self._taken = asyncio.Event()
        """One of them was, so that there is room for another."""
        self._has_ended = False
        self._request: FetchRequest | None = None
        """The one under way; those in `_asked` come after it."""
        self._began_s = self._deadline_s = 0.0
        self._times = times
        self._phases = [_phases_of(times, kind) for kind in FETCHES]
        self._slept_s: float | None = None
        """Time at which the request under way began to wait for records."""
        self._look: Collected | None = None
        """The results of an unfinished check of the partitions."""
        self._cold: Cold | None = None
        """The cold bytes that the check needs to continue."""
        self._taking: Iterator[None] | None = None
        """The rest of the request that is being stored."""
        self._gives_way = False
        """Other work of the broker has its turn before this goes on."""
        self._ready: FetchResponse | None = None
        self._loop = asyncio.get_running_loop()
        self._poll = LongPoll()
        self._partitions = SessionPartitions(clock, metadata, replicas, copies, self._on_news)

    def ask(self, request: FetchRequest) -> None:
        """Take one more request, to be answered in turn; the one before is answered with the
        available content.

        The request is processed in this step if nothing else is under way. The task that waits in
        `answer` wakes when there is content.
        """
        self._asked.append(request)
        self._go_on()

    def end(self) -> None:
        """Take no further requests."""
        self._has_ended = True
        self._go_on()

    def _go_on(self) -> None:
        if self._poll.is_asleep:
            self._ready = self._advance()
            is_stopped = self._cold is not None or self._gives_way
            if self._ready is not None or is_stopped or self._has_ended:
                self._poll.end()

    async def until_fewer(self) -> None:
        """Return once there is room for another request."""
        while len(self._asked) >= REQUESTS_AHEAD_MAX:
            self._taken.clear()
            await self._taken.wait()

    async def answer(self) -> FetchResponse | None:
        """The next answer, once it is due. None: all were given, and no further request comes."""
        while True:
            if self._cold is not None:
                await self._partitions.warm(self._cold)
                self._cold = None
            if self._gives_way:
                self._gives_way = False
                await asyncio.sleep(0)
            response, self._ready = self._ready, None
            if response is None:
                response = self._advance()
            if response is not None:
                return response
            if self._cold is None and not self._gives_way:
                if self._has_ended:
                    return None
                await self._poll.ended()

    def _on_news(self) -> None:
        """Process news. Without a request, they wait for the next one."""
        if self._request is not None:
            self._poll.end()

    def close(self) -> None:
        self._partitions.is_waiting = False
        self._partitions.close()
        self._poll.close()

    def _advance(self) -> FetchResponse | None:
        """Serve the request under way, or the next one, as far as that goes without waiting."""
        request, now_s = self._request, self._loop.time()
        if request is None:
            if not self._asked:
                self._poll.begin()
                return None
            request = self._request = self._asked.popleft()
            self._taken.set()
            self._began_s, self._slept_s = now_s, None
            self._deadline_s = now_s + min(max(request.max_wait_ms, 0), WAIT_MS_MAX) / 1000
            try:
                self._check(request)
                self._taking = self._partitions.remember(request)
            except WireError as error:
                return self._refused(request, error)
        if self._taking is not None:
            try:
                for _ in self._taking:
                    self._gives_way = True
                    return None
            except WireError as error:
                return self._refused(request, error)
            self._taking = None
        return self._serve(request, now_s)

    def _refused(self, request: FetchRequest, error: WireError) -> FetchResponse:
        self._request = self._taking = None
        self._times.count_error(self._kind, error.code)
        return FetchResponse(request.correlation_id, self._id, error)

    def _serve(self, request: FetchRequest, now_s: float) -> FetchResponse | None:
        look = self._look
        if look is None:
            self._poll.begin()
            look = self._partitions.look(min(request.max_bytes, RESPONSE_BYTES_MAX), now_s)
        stopped = self._partitions.collect(look)
        if stopped is not None:
            self._look = look
            if isinstance(stopped, Turn):
                self._gives_way = True
            else:
                self._cold = stopped
            return None
        self._look = None
        if not (self._is_enough(look, request) or now_s >= self._deadline_s):
            self._poll.until(min(self._deadline_s, self._partitions.held_until_s))
            if self._slept_s is None:
                self._slept_s = self._loop.time()
                self._partitions.is_waiting = True
            return None
        self._request = None
        self._partitions.is_waiting = False
        self._partitions.tell_watermarks(look)
        self._note(look)
        return FetchResponse(request.correlation_id, self._id, partitions=look.partitions)

    @property
    def _kind(self) -> str:
        return FETCHES[self._partitions.replica.broker_id >= 0]

    def _note(self, look: Collected) -> None:
        """Notes the times and the errors of the request, whose answer is complete."""
        now_s = self._loop.time()
        slept_s = now_s if self._slept_s is None else self._slept_s
        total, local, remote = self._phases[self._partitions.replica.broker_id >= 0]
        total.observe(now_s - self._began_s)
        local.observe(slept_s - self._began_s)
        remote.observe(now_s - slept_s)
        for code in look.errors:
            self._times.count_error(self._kind, code)

    def _is_enough(self, look: Collected, request: FetchRequest) -> bool:
        return (
            look.urgent
            or look.size >= max(request.min_bytes, 1)
            or len(self._asked) > 0
            or self._has_ended
        )

    def _check(self, request: FetchRequest) -> None:
        cluster_id = self._metadata.cluster_id
        if request.cluster_id and request.cluster_id != cluster_id:
            raise InconsistentClusterId(
                f"this is cluster {cluster_id}, the request is for {request.cluster_id}"
            )
        if request.session_id not in (0, self._id):  # 0: sent before our first answer arrived
            raise FetchSessionIdNotFound(f"session {request.session_id} is not this stream's")
        if request.session_epoch != self._epoch:
            raise InvalidFetchSessionEpoch(
                f"request {request.session_epoch} came where {self._epoch} was due"
            )
        self._partitions.isolation = isolation(request.isolation_level)
        self._epoch += 1
        if request.replica is not None:
            replica_id, epoch = self._partitions.replica = request.replica
            known = self._replicas.broker_epoch_of(BrokerId(replica_id))
            if known is not None and epoch < known:
                raise StaleBrokerEpoch(
                    f"broker {replica_id} fetches with epoch {epoch};"
                    f" its registration is of epoch {known}"
                )


def _phases_of(times: RequestTimes, kind: str) -> tuple[Times, Times, Times]:
    return times.of(kind), times.of(kind, Phase.LOCAL), times.of(kind, Phase.REMOTE)
