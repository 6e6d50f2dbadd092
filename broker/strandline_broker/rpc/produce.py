"""The Produce stream: batches are appended in the order in which they come, and answered in the
order in which their acks are reached (P-37, P-80).

A batch is appended in one synchronous step of the reader, so a client that disconnects cancels
nothing half done (P-38).
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from strandline_broker.hosts.appends import ACKS_ALL
from strandline_broker.rpc.leader_hints import leader_hint, node_endpoint
from strandline_proto.errors import (
    InvalidRequest,
    InvalidRequiredAcks,
    NotLeaderOrFollower,
    RequestTimedOut,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedVersion,
    WireError,
)
from strandline_proto.ids import BrokerId, TopicId
from strandline_proto.v1 import produce_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.appends import Appends
    from strandline_broker.hosts.partition import Partition
    from strandline_broker.hosts.purgatory import AckWaiter, ProduceOutcome
    from strandline_broker.hosts.record_check import Ahead, Looked, Place, RecordChecks
    from strandline_broker.hosts.replica_manager import ReplicaManager

UNANSWERED_MAX: Final = 5_000
"""Requests of one stream whose answers the client has not taken; then no more is read from it."""
UNREAD_BYTES_MAX: Final = 1 << 20
"""Of answers; a single one may be larger."""
TIMEOUT_MS_MAX: Final = 300_000


class ProduceRpc:
    def __init__(
        self,
        replicas: ReplicaManager,
        metadata: MetadataCache,
        checks: RecordChecks,
        listener: str,
    ) -> None:
        self._replicas = replicas
        self._metadata = metadata
        self._checks = checks
        self._listener = listener

    async def Produce(
        self, requests: AsyncIterator[produce_pb2.ProduceRequest], context: Any
    ) -> None:
        # As in PushRpc: else a stream that ends during its first answer would have no status.
        await context.send_initial_metadata(())
        answers = _Answers()
        async with asyncio.TaskGroup() as group:
            writer = group.create_task(answers.write(context))
            try:
                async for request in requests:
                    ahead = await self._checks.ahead(_batches(request))
                    _Request(
                        self._replicas, self._metadata, self._listener, request, answers
                    ).start(ahead)
                    if answers.has_enough:
                        await answers.until_fewer()
                await answers.until_none()
            finally:
                answers.abandon()
                writer.cancel()


def _batches(
    request: produce_pb2.ProduceRequest,
) -> Iterator[tuple[Place, tuple[bytes, int], bytes]]:
    """One at a time, as each look at a field's bytes copies them."""
    for i, topic in enumerate(request.topics):
        for j, data in enumerate(topic.partitions):
            yield (i, j), (topic.topic_id, data.index), data.records


class _Answers:
    """Answers of one stream on their way out, and how many requests still wait for theirs.

    Both are bounded together: a client that sends and never reads is soon not read either, and the
    transport tells it so.
    """

    def __init__(self) -> None:
        self._unanswered = 0
        self._unread_bytes = 0
        self._ready: deque[produce_pb2.ProduceResponse] = deque()
        self._changed = asyncio.Event()
        self._written = asyncio.Event()
        self._timers: dict[_Request, asyncio.TimerHandle] = {}

    def expect(self, request: _Request, timeout_ms: int) -> None:
        self._unanswered += 1
        delay_s = min(max(timeout_ms, 0), TIMEOUT_MS_MAX) / 1000
        loop = asyncio.get_running_loop()
        self._timers[request] = loop.call_later(delay_s, request.time_out)

    def put(self, request: _Request, response: produce_pb2.ProduceResponse) -> None:
        timer = self._timers.pop(request, None)
        if timer is not None:
            timer.cancel()
            self._unanswered -= 1
        self._ready.append(response)
        self._unread_bytes += response.ByteSize()
        self._changed.set()

    def abandon(self) -> None:
        """The stream has ended; the appends stand, nobody waits for their acks."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    @property
    def has_enough(self) -> bool:
        outstanding = self._unanswered + len(self._ready)
        return outstanding >= UNANSWERED_MAX or self._unread_bytes >= UNREAD_BYTES_MAX

    async def until_fewer(self) -> None:
        while self.has_enough:
            self._written.clear()
            await self._written.wait()

    async def until_none(self) -> None:
        while self._unanswered or self._ready:
            self._written.clear()
            await self._written.wait()

    async def write(self, context: Any) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            while self._ready:
                response = self._ready[0]
                await context.write(response)
                self._ready.popleft()
                self._unread_bytes -= response.ByteSize()
                self._written.set()


class _Request:
    """One request until each of its partitions has an outcome."""

    def __init__(
        self,
        replicas: ReplicaManager,
        metadata: MetadataCache,
        listener: str,
        request: produce_pb2.ProduceRequest,
        answers: _Answers,
    ) -> None:
        self._replicas = replicas
        self._metadata = metadata
        self._listener = listener
        self._request = request
        self._answers = answers
        self._response = produce_pb2.ProduceResponse(correlation_id=request.correlation_id)
        self._left = 1  # this method itself: no answer before every batch was looked at
        self._waiting: list[tuple[Partition, Appends, AckWaiter]] = []

    def start(self, ahead: Ahead) -> None:
        for i, topic in enumerate(self._request.topics):
            results = self._response.topics.add(topic_id=topic.topic_id)
            for j, data in enumerate(topic.partitions):
                self._left += 1
                result = results.partitions.add(index=data.index, base_offset=-1, leader_epoch=-1)
                self._append(topic.topic_id, data, result, ahead.get((i, j)))
        if self._left > 1 and self._request.acks != 0:
            self._answers.expect(self, self._request.timeout_ms)
        self._request.ClearField("topics")  # the batches are in the log; do not keep them twice
        self._one_less()

    def _append(
        self,
        topic_id: bytes,
        data: produce_pb2.PartitionProduceData,
        result: produce_pb2.PartitionProduceResult,
        looked: Looked | None,
    ) -> None:
        def on_done(outcome: ProduceOutcome) -> None:
            self._set(topic_id, result, outcome)

        try:
            self._check()
            partition = self._replicas.find(topic_id, data.index)
            if partition is None:
                raise self._unknown(topic_id, data.index)
            epoch = data.current_leader_epoch if data.HasField("current_leader_epoch") else None
            appends = partition.check_leader(epoch).appends
            waiter = appends.append(
                data.records, acks=self._request.acks, on_done=on_done, looked=looked
            )
        except WireError as error:
            self._refuse(topic_id, result, error)
            return
        if waiter is not None:
            self._waiting.append((partition, appends, waiter))

    def _check(self) -> None:
        if self._request.acks not in (0, 1, ACKS_ALL):
            raise InvalidRequiredAcks(f"acks is {self._request.acks}; it must be 0, 1 or -1 (all)")
        if self._request.HasField("transactional_id"):
            raise UnsupportedVersion("transactions are not supported yet; unset transactional.id")

    def _unknown(self, topic_id: bytes, index: int) -> WireError:
        if len(topic_id) != 16:
            return InvalidRequest(f"a topic id has 16 bytes, this one {len(topic_id)}")
        topic = self._metadata.view.topic(TopicId(topic_id))
        if topic is None:
            return UnknownTopicId("no topic of this id; it may have been deleted or created anew")
        if index in topic.partitions:
            return NotLeaderOrFollower(
                f"broker {self._replicas.me} holds no replica of partition {index}"
            )
        return UnknownTopicOrPartition(f"the topic has no partition {index}")

    def _refuse(
        self, topic_id: bytes, result: produce_pb2.PartitionProduceResult, error: WireError
    ) -> None:
        result.error_code, result.error_message = error.code, str(error)
        result.appended = False
        self._hint(topic_id, result)
        self._one_less()

    def _set(
        self,
        topic_id: bytes,
        result: produce_pb2.PartitionProduceResult,
        outcome: ProduceOutcome,
    ) -> None:
        result.base_offset = outcome.base_offset
        result.log_append_time_ms = outcome.log_append_time_ms
        result.log_start_offset = outcome.log_start_offset
        result.appended = outcome.appended
        result.leader_epoch = outcome.leader_epoch
        if outcome.error is not None:
            result.error_code, result.error_message = outcome.error.code, str(outcome.error)
            self._hint(topic_id, result)
        self._one_less()

    def _hint(self, topic_id: bytes, result: produce_pb2.PartitionProduceResult) -> None:
        """Tell the producer who leads now, and where (KIP-951)."""
        view = self._metadata.view
        leader = leader_hint(view, (topic_id, result.index))
        if leader is None:
            return
        result.current_leader.CopyFrom(leader)
        endpoint = node_endpoint(view, BrokerId(leader.leader_id), self._listener)
        if endpoint is not None and endpoint not in self._response.node_endpoints:
            self._response.node_endpoints.append(endpoint)

    def _one_less(self) -> None:
        self._left -= 1
        if self._left == 0 and self._request.acks != 0:
            self._answers.put(self, self._response)

    def time_out(self) -> None:
        for partition, appends, waiter in self._waiting:
            if not waiter.is_done:
                appends.timed_out(
                    waiter,
                    RequestTimedOut(
                        f"{partition.name}: not committed within {self._request.timeout_ms} ms;"
                        " the records were appended and may still be"
                    ),
                )
