"""The Produce stream to one broker: ordered requests, their answers, a timer for each message.

A batch leaves its queue only after the broker has answered a hello on the same channel. A batch
that could not be sent therefore never counts as "perhaps written". A gRPC deadline would cover the
whole stream. Instead, the oldest unanswered request bounds the silence (P-80): when its time is
exceeded, the stream is dropped and the batches under way are lost.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import grpc.aio

from strandline._core.backoff import Backoff
from strandline._core.delivery_terms import Answer
from strandline._net.connections import MessageTooLarge, on_stream, transport_error
from strandline.errors import BrokerUnreachable, RequestTimedOut, StrandlineError
from strandline.types import Broker
from strandline_proto.hot_messages import ProduceData, ProduceRequest, ProduceResponse
from strandline_runtime.cancellation import deliver_cancellation

if TYPE_CHECKING:
    from strandline._core.delivery_terms import QueueOptions
    from strandline._core.partition_queue import PartitionQueue
    from strandline._core.producer_batch import ProducerBatch
    from strandline._net.session import Session
    from strandline_proto.hot_messages import ProduceResult

HELLO_TIMEOUT_S: Final = 2.0
SMALL_BATCH_BYTES: Final = 32 << 10
"""Batches up to this size share a request, if their partitions have none under way."""
FRAME_BYTES_MAX: Final = 64
"""Largest frame of a request, and of each batch in it: ids, numbers and lengths."""
SILENCE_SLACK_MS: Final = 2000.0
"""Grace beyond the broker's time for an answer."""


class InFlight(NamedTuple):
    queue: PartitionQueue
    batch: ProducerBatch
    attempt: int


class Request(NamedTuple):
    message: ProduceRequest
    batches: list[InFlight]
    sent_ms: float

    def is_message_of(self, size: int) -> bool:
        """True if a message of `size` bytes may be this one, whose frame is small."""
        frame = size - sum(len(batch.data) for _, batch, _ in self.batches)
        return 0 <= frame <= FRAME_BYTES_MAX * (1 + len(self.batches))

    def why_lost(self, broken: BrokerUnreachable) -> BrokerUnreachable:
        """Returns the error for these batches, where a stream broke with `broken`."""
        if isinstance(broken, MessageTooLarge) and not self.is_message_of(broken.size):
            return BrokerUnreachable(str(broken))
        return broken


class BatchSource(Protocol):
    """The owner of the queues that a stream empties."""

    def take(self, queue: PartitionQueue, broker_id: int) -> ProducerBatch | None:
        """Returns the queue's next batch for the broker; None if there is none for it now."""
        ...

    def on_answer(self, sent: InFlight, answer: Answer) -> None:
        """Applies the broker's answer to a batch."""
        ...

    def on_lost(self, sent: list[InFlight], error: Exception) -> None:
        """Handles batches of a message without answer. MessageTooLarge: no broker has seen them."""
        ...

    async def on_unreachable(
        self, queues: list[PartitionQueue], error: StrandlineError, pause_s: float
    ) -> None:
        """Routes the queues again after the pause; returns then."""
        ...


class ProducerStream:
    """The stream on which one producer sends to one broker."""

    def __init__(
        self,
        session: Session,
        source: BatchSource,
        broker_id: int,
        *,
        options: QueueOptions,
        request_timeout_ms: float,
    ) -> None:
        self.broker_id = broker_id
        self._session = session
        self._source = source
        self._options = options
        self._request_timeout_ms = request_timeout_ms
        self._offered: dict[PartitionQueue, None] = {}
        self._wake = asyncio.Event()
        self._unanswered: dict[int, Request] = {}
        self._correlation_id = 0
        self._silent: asyncio.Future[None] | None = None
        self._backoff = Backoff()

    def offer(self, queue: PartitionQueue) -> None:
        """Offers a queue that may have a batch for this broker."""
        self._offered[queue] = None
        self._wake.set()

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            address = self._session.cluster.address_of(self.broker_id)
            try:
                if address is None:
                    raise BrokerUnreachable(f"broker {self.broker_id} is not in the metadata")
                await self._session.connections.hello(address, HELLO_TIMEOUT_S)
                self._backoff.reset()
                await self._stream(address)
            except StrandlineError as error:
                await self._pause(error)

    async def _pause(self, error: StrandlineError) -> None:
        """Routes the queues to another leader while the broker is gone."""
        offered, self._offered = self._offered, {}
        self._wake.clear()
        pause_s = self._backoff.next_ms(self._session.runtime.rng.random()) / 1000
        await self._source.on_unreachable(list(offered), error, pause_s)

    async def _stream(self, address: str) -> None:
        """Runs one stream until it breaks; raises BrokerUnreachable then."""
        call: Any = self._session.connections.produce(address)
        self._silent = asyncio.get_running_loop().create_future()
        error = BrokerUnreachable(f"the connection to {address} ended before the answer came")
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._write(call))
                group.create_task(self._read(call))
                await self._watch(address)
        except* (grpc.aio.AioRpcError, BrokerUnreachable, asyncio.InvalidStateError) as group_of:
            error = _first_cause(group_of, address) or error
        finally:
            self._silent = None
            call.cancel()
            unanswered, self._unanswered = self._unanswered, {}
            for request in unanswered.values():
                self._source.on_lost(request.batches, request.why_lost(error))
        deliver_cancellation()
        raise error

    # Writing.

    async def _write(self, call: Any) -> None:
        while True:
            request = self._next_request()
            if request is None:
                self._wake.clear()
                await self._wake.wait()
                continue
            correlation_id = request.message.correlation_id
            self._unanswered[correlation_id] = request
            await on_stream(call.write(request.message))
            if request.message.acks == 0:
                del self._unanswered[correlation_id]
                for sent in request.batches:
                    self._source.on_answer(sent, Answer(0, "", appended=False))

    def _next_request(self) -> Request | None:
        batches: list[InFlight] = []
        size = 0
        while self._offered:
            queue = next(iter(self._offered))
            alone = bool(queue.in_flight)
            if batches and (alone or queue.pending_bytes > SMALL_BATCH_BYTES):
                break
            del self._offered[queue]
            batch = self._source.take(queue, self.broker_id)
            if batch is None:
                continue
            batches.append(InFlight(queue, batch, batch.attempt))
            if queue.has_more:
                self._offered[queue] = None
            size += len(batch.data)
            if alone or size > SMALL_BATCH_BYTES:
                break
        return self._request(batches) if batches else None

    def _request(self, batches: list[InFlight]) -> Request:
        self._correlation_id += 1
        now_ms = self._session.runtime.clock.monotonic() * 1000
        left_ms = min(batch.deadline_ms for _, batch, _ in batches) - now_ms
        message = ProduceRequest(
            correlation_id=self._correlation_id,
            acks=self._options.acks,
            timeout_ms=int(max(1.0, min(self._request_timeout_ms, left_ms))),
            partitions=[
                ProduceData(
                    queue.topic_id,
                    queue.partition,
                    batch.data,
                    queue.sent_epoch if queue.sent_epoch >= 0 else None,
                )
                for queue, batch, _ in batches
            ],
            transactional_id=self._options.transactional_id,
        )
        return Request(message, batches, now_ms)

    # Reading.

    async def _read(self, call: Any) -> None:
        while True:
            response = await on_stream(call.read())
            if not isinstance(response, ProduceResponse):
                # The end of a stream carries its status; without an error the broker is leaving.
                raise BrokerUnreachable(f"broker {self.broker_id} ended the Produce stream")
            self._answered(response)

    def _answered(self, response: ProduceResponse) -> None:
        request = self._unanswered.pop(response.correlation_id, None)
        if request is None:
            return
        view = self._session.cluster.view
        for node in response.node_endpoints:
            view.add_broker(Broker(node.node_id, node.host, node.port, node.rack))
        pairs = zip(request.message.partitions, request.batches, strict=True)
        by_key = {(data.topic_id, data.partition): found for data, found in pairs}
        for result in response.partitions:
            found = by_key.pop((result.topic_id, result.partition), None)
            if found is None:
                continue
            hint = result.current_leader
            if result.error_code != 0 and hint is not None:
                view.hint(
                    result.topic_id,
                    result.partition,
                    leader=hint.leader_id,
                    leader_epoch=hint.leader_epoch,
                )
            self._source.on_answer(found, self._answer(result, request))
        for sent in by_key.values():
            left_out = f"broker {self.broker_id} left {sent.queue} out of its answer"
            self._source.on_lost([sent], BrokerUnreachable(left_out))

    def _answer(self, result: ProduceResult, request: Request) -> Answer:
        message = result.error_message
        if result.record_errors:
            first = result.record_errors[0]
            message = f"{message} (record {first.batch_index}: {first.message})"
        options, waited_ms = self._options, request.message.timeout_ms
        if result.error_code == RequestTimedOut.code and waited_ms < int(self._request_timeout_ms):
            message = (
                f"not committed in the {waited_ms} ms that were left of delivery_timeout_ms "
                f"({options.delivery_timeout_ms:.0f}); the records were appended"
            )
        return Answer(
            result.error_code,
            message,
            result.appended,
            result.base_offset,
            result.leader_epoch,
            result.log_append_time_ms,
        )

    # Silence.

    def check_silence(self, now_ms: float) -> float:
        """Drops the stream if its oldest request is overdue; returns its due time in ms."""
        oldest = next(iter(self._unanswered.values()), None)
        if oldest is None or self._silent is None or self._silent.done():
            return inf
        due_ms = oldest.sent_ms + oldest.message.timeout_ms + SILENCE_SLACK_MS
        if now_ms > due_ms:
            self._silent.set_result(None)
        return due_ms

    async def _watch(self, address: str) -> None:
        assert self._silent is not None
        await self._silent
        raise BrokerUnreachable(f"{address} was silent beyond the request's time limit")


def _first_cause(group: BaseExceptionGroup[Any], address: str) -> BrokerUnreachable | None:
    """The error that broke the stream: a later failed write has no cause of its own."""
    for cause in group.exceptions:
        if isinstance(cause, grpc.aio.AioRpcError):
            return transport_error(cause, address)
        if isinstance(cause, BrokerUnreachable):
            return cause
    return None
