"""The Produce stream: batches are appended in order of arrival, and answered in the order in which
their acks are reached (P-37, P-80).

A refused batch with acks=0 gets no answer, so the stream ends there, as Kafka closes the
connection. Otherwise its client would continue to write to a broker that no longer leads.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from strandline_broker.hosts.serving.replicas import current_leader, node_on
from strandline_broker.hosts.serving.turns import Turns
from strandline_proto import hot_encode
from strandline_proto.errors import RequestTimedOut, WireError
from strandline_proto.hot_messages import NodeEndpoint, ProduceResponse, ProduceResult
from strandline_proto.ids import BrokerId

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.replica.purgatory import ProduceOutcome
    from strandline_broker.hosts.replica.record_check import Ahead, Looked
    from strandline_broker.hosts.serving.produce import AwaitedAppend, ProduceService
    from strandline_proto.hot_messages import ProduceData, ProduceRequest

UNANSWERED_MAX: Final = 5_000
"""Limit of requests whose answers the client has not taken; above it, the stream is not read."""
UNREAD_BYTES_MAX: Final = 1 << 20
"""Limit of bytes in answers that the client has not taken; a single answer may be larger."""
TIMEOUT_MS_MAX: Final = 300_000
AT_ONCE: Final = 100
"""Batches of one request that are appended between two yields to other calls."""
_ENDED: Final = RequestTimedOut("the stream of the request has ended")


class ProduceRpc:
    def __init__(self, service: ProduceService, metadata: MetadataCache, listener: str) -> None:
        self._service = service
        self._metadata = metadata
        self._listener = listener

    async def Produce(self, requests: AsyncIterator[ProduceRequest], context: Any) -> None:
        # As in PushRpc: otherwise a stream that ends in its first answer has no status.
        await context.send_initial_metadata(())
        answers = _Answers()
        async with asyncio.TaskGroup() as group:
            writer = group.create_task(answers.write(context))
            try:
                async for request in requests:
                    ahead = await self._service.checks.ahead(
                        ((data.topic_id, data.partition), data.records)
                        for data in request.partitions
                    )
                    goes_on = await _Request(
                        self._service, self._metadata, self._listener, request, answers
                    ).start(request.partitions, ahead)
                    del request  # the batches are in the log; do not keep them twice
                    if not goes_on:
                        break
                    if answers.has_enough:
                        await answers.until_fewer()
                await answers.until_none()
            finally:
                answers.abandon()
                writer.cancel()


class _Answers:
    """Answers of one stream on their way out, and how many requests still wait for theirs.

    Both are bounded together: a client that sends and never reads is soon not read either, and the
    transport tells it so.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[_Request, float] = {}
        """Deadline by the loop's clock of each request that waits for its acks."""
        self._alarm: asyncio.TimerHandle | None = None
        """One timer for all requests. Their time limits are mostly equal, so it is set again when
        it fires, and not for each request.
        """
        self._alarm_at = 0.0
        self._ready: deque[bytes] = deque()
        self._unread_bytes = 0
        self._news: asyncio.Future[None] | None = None
        """The future on which the writer waits."""
        self._written = asyncio.Event()

    def expect(self, request: _Request, timeout_ms: int) -> None:
        until_s = self._loop.time() + min(max(timeout_ms, 0), TIMEOUT_MS_MAX) / 1000
        self._waiting[request] = until_s
        if self._alarm is None or until_s < self._alarm_at:
            self._set_alarm(until_s)

    def put(self, request: _Request, response: ProduceResponse) -> None:
        self._waiting.pop(request, None)
        answer = hot_encode.produce_response(response)
        self._ready.append(answer)
        self._unread_bytes += len(answer)
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def abandon(self) -> None:
        """Ends the answers of an ended stream; the appends stand, and no caller waits for their
        acks.
        """
        waiting, self._waiting = self._waiting, {}
        for request in waiting:
            request.abandon()
        if self._alarm is not None:
            self._alarm.cancel()

    def _set_alarm(self, when: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = when
        self._alarm = self._loop.call_at(when, self._ring)

    def _ring(self) -> None:
        self._alarm, now_s = None, self._loop.time()
        due = [request for request, until_s in self._waiting.items() if until_s <= now_s]
        for request in sorted(due, key=self._waiting.__getitem__):
            request.time_out()
        if self._waiting:
            self._set_alarm(min(self._waiting.values()))

    @property
    def has_enough(self) -> bool:
        outstanding = len(self._waiting) + len(self._ready)
        return outstanding >= UNANSWERED_MAX or self._unread_bytes >= UNREAD_BYTES_MAX

    async def until_fewer(self) -> None:
        while self.has_enough:
            self._written.clear()
            await self._written.wait()

    async def until_none(self) -> None:
        while self._waiting or self._ready:
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


class _Request:
    """One request until each of its partitions has an outcome."""

    def __init__(
        self,
        service: ProduceService,
        metadata: MetadataCache,
        listener: str,
        request: ProduceRequest,
        answers: _Answers,
    ) -> None:
        self._service = service
        self._metadata = metadata
        self._listener = listener
        self._acks = request.acks
        self._timeout_ms = request.timeout_ms
        self._is_transactional = request.transactional_id is not None
        self._answers = answers
        self._response = ProduceResponse(request.correlation_id)
        self._left = 1  # this method itself: no answer before every batch was looked at
        self._waiting: list[AwaitedAppend] = []

    async def start(self, batches: Sequence[ProduceData], ahead: Ahead) -> bool:
        """True if another request may follow; False if a batch was refused and no answer reports
        it.
        """
        if self._acks != 0 and len(batches) > AT_ONCE:
            # Between two pauses the stream may end: then this request is among those given up.
            self._answers.expect(self, self._timeout_ms)
        turns = Turns(AT_ONCE)
        for place, data in enumerate(batches):
            if place > 0:
                await turns.took()
            self._left += 1
            result = ProduceResult(data.topic_id, data.partition, base_offset=-1, leader_epoch=-1)
            self._response.partitions.append(result)
            self._append(data, result, ahead.get(place))
        if self._left > 1 and self._acks != 0:
            self._answers.expect(self, self._timeout_ms)
        self._one_less()
        return self._acks != 0 or all(result.appended for result in self._response.partitions)

    def _append(self, data: ProduceData, result: ProduceResult, looked: Looked | None) -> None:
        def on_done(outcome: ProduceOutcome) -> None:
            self._set(result, outcome)

        topic_id, index, records, epoch = data
        try:
            awaited = self._service.append(
                (topic_id, index),
                records,
                current_leader_epoch=epoch,
                acks=self._acks,
                is_transactional=self._is_transactional,
                on_done=on_done,
                looked=looked,
            )
        except WireError as error:
            self._refuse(result, error)
            return
        if awaited is not None:
            self._waiting.append(awaited)

    def _refuse(self, result: ProduceResult, error: WireError) -> None:
        result.error_code, result.error_message = error.code, str(error)
        result.appended = False
        self._hint(result)
        self._one_less()

    def _set(self, result: ProduceResult, outcome: ProduceOutcome) -> None:
        result.base_offset = outcome.base_offset
        result.log_append_time_ms = outcome.log_append_time_ms
        result.log_start_offset = outcome.log_start_offset
        result.appended = outcome.appended
        result.leader_epoch = outcome.leader_epoch
        if outcome.error is not None:
            result.error_code, result.error_message = outcome.error.code, str(outcome.error)
            self._hint(result)
        self._one_less()

    def _hint(self, result: ProduceResult) -> None:
        """Tell the producer who leads now, and where (KIP-951)."""
        view = self._metadata.view
        leader = current_leader(view, (result.topic_id, result.partition))
        if leader is None:
            return
        result.current_leader = leader
        found = node_on(view, BrokerId(leader.leader_id), self._listener)
        if found is None:
            return
        endpoint = NodeEndpoint(*found)
        if endpoint not in self._response.node_endpoints:
            self._response.node_endpoints.append(endpoint)

    def _one_less(self) -> None:
        self._left -= 1
        if self._left == 0 and self._acks != 0:
            self._answers.put(self, self._response)

    def abandon(self) -> None:
        """Drops the waiters of an ended stream: they would stay as long as nothing is committed."""
        self._left += 1  # it never gets so far
        for awaited in self._waiting:
            awaited.waiter.give_up(_ENDED)

    def time_out(self) -> None:
        for awaited in self._waiting:
            awaited.time_out(self._timeout_ms)
