"""The Produce stream: batches are appended in order of arrival, and answered in the order in which
their acks are reached (P-37, P-80).

A refused batch with acks=0 gets no answer, so the stream ends there, as Kafka closes the
connection. Otherwise its client would continue to write to a broker that no longer leads.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from strandline_broker.hosts.common.request_times import Phase
from strandline_broker.hosts.serving.produce_requests import ProduceDeadlines, RequestedAppends
from strandline_proto import hot_encode
from strandline_proto.errors import NONE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.common.request_times import RequestTimes
    from strandline_broker.hosts.serving.produce import ProduceService
    from strandline_proto.hot_messages import ProduceRequest, ProduceResponse

UNANSWERED_MAX: Final = 5_000
"""Limit of requests whose answers the client has not taken; above it, the stream is not read."""
UNREAD_BYTES_MAX: Final = 1 << 20
"""Limit of bytes in answers that the client has not taken; a single answer may be larger."""


class ProduceRpc:
    def __init__(
        self,
        service: ProduceService,
        metadata: MetadataCache,
        listener: str,
        times: RequestTimes,
    ) -> None:
        self._service = service
        self._metadata = metadata
        self._listener = listener
        self._times = times

    async def Produce(self, requests: AsyncIterator[ProduceRequest], context: Any) -> None:
        # As in PushRpc: otherwise a stream that ends in its first answer has no status.
        await context.send_initial_metadata(())
        answers, clock = _Answers(self._times), self._times.clock
        async with asyncio.TaskGroup() as group:
            writer = group.create_task(answers.write(context))
            try:
                async for request in requests:
                    arrival = _Arrival(clock.monotonic())
                    ahead = await self._service.checks.ahead(
                        ((data.topic_id, data.partition), data.records)
                        for data in request.partitions
                    )
                    goes_on = await RequestedAppends(
                        self._service,
                        self._metadata,
                        self._listener,
                        answers.deadlines,
                        partial(answers.put, arrival),
                        correlation_id=request.correlation_id,
                        acks=request.acks,
                        timeout_ms=request.timeout_ms,
                        transactional_id=request.transactional_id,
                    ).start(request.partitions, ahead)
                    answers.appended(arrival, is_answered=request.acks == 0)
                    del request  # the batches are in the log; do not keep them twice
                    if not goes_on:
                        break
                    if answers.has_enough:
                        await answers.until_fewer()
                await answers.until_none()
            finally:
                answers.deadlines.abandon()
                writer.cancel()


class _Arrival:
    """The times of one request; `appended_s` is None until its batches are in the log."""

    __slots__ = ("appended_s", "began_s", "is_answered")

    def __init__(self, began_s: float) -> None:
        self.began_s = began_s
        self.appended_s: float | None = None
        self.is_answered = False


class _Answers:
    """Answers of one stream on their way out, and how many requests still wait for theirs.

    Both are bounded together: a client that sends and never reads is soon not read either, and the
    transport tells it so.
    """

    def __init__(self, times: RequestTimes) -> None:
        self._clock, self._errors = times.clock, times
        self._total = times.of("Produce")
        self._local = times.of("Produce", Phase.LOCAL)
        self._remote = times.of("Produce", Phase.REMOTE)
        self._loop = asyncio.get_running_loop()
        self.deadlines = ProduceDeadlines()
        self._ready: deque[bytes] = deque()
        self._unread_bytes = 0
        self._news: asyncio.Future[None] | None = None
        """The future on which the writer waits."""
        self._written = asyncio.Event()

    def appended(self, arrival: _Arrival, *, is_answered: bool) -> None:
        """Notes that the batches are in the log. `is_answered`: the request gets no answer."""
        if arrival.is_answered:
            return
        now_s = arrival.appended_s = self._clock.monotonic()
        if is_answered:
            self._observe(arrival, now_s)

    def _observe(self, arrival: _Arrival, now_s: float) -> None:
        arrival.is_answered = True
        appended_s = now_s if arrival.appended_s is None else arrival.appended_s
        self._total.observe(now_s - arrival.began_s)
        self._local.observe(appended_s - arrival.began_s)
        self._remote.observe(now_s - appended_s)

    def put(self, arrival: _Arrival, response: ProduceResponse) -> None:
        self._observe(arrival, self._clock.monotonic())
        for each in response.partitions:
            if each.error_code != NONE:
                self._errors.count_error("Produce", each.error_code)
        answer = hot_encode.produce_response(response)
        self._ready.append(answer)
        self._unread_bytes += len(answer)
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    @property
    def has_enough(self) -> bool:
        outstanding = len(self.deadlines) + len(self._ready)
        return outstanding >= UNANSWERED_MAX or self._unread_bytes >= UNREAD_BYTES_MAX

    async def until_fewer(self) -> None:
        while self.has_enough:
            self._written.clear()
            await self._written.wait()

    async def until_none(self) -> None:
        while len(self.deadlines) > 0 or self._ready:
            self._written.clear()
            await self._written.wait()

    async def write(self, context: Any) -> None:
        while True:
            while self._ready:
                answer = self._ready[0]
                await context.write(answer)
                self._ready.popleft()
                self._unread_bytes -= len(answer)
                self._written.set()
            self._news = self._loop.create_future()
            await self._news
