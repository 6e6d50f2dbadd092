"""The questions of this broker's partitions to the coordinators of transactions.

Questions to one broker travel together. A request takes all that wait, so questions wait only while
`IN_FLIGHT_MAX` requests to that broker have no answer.

A coordinator that is not ready yet is asked again soon, until the asker gives up: the transaction
before is not complete (P-117), or the coordinator's metadata lacks a topic that this broker leads
already. Any other error is the answer. Most of them are retriable, and the client tries again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from strandline_broker.core.internal_topics import TRANSACTION_STATE
from strandline_broker.hosts.transactions.broker_calls import PartitionsToAdd
from strandline_proto.errors import (
    ConcurrentTransactions,
    CoordinatorNotAvailable,
    UnknownTopicId,
    UnknownTopicOrPartition,
    WireError,
)
from strandline_proto.java_hash import partition_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.common.fetch_messages import Key
    from strandline_broker.hosts.transactions.broker_calls import AddHere, BrokerCalls, Results
    from strandline_proto.ids import BrokerId

FIRST_RETRY_S: Final = 0.002
"""Pause before a question is asked again; it doubles up to `RETRY_S`. Most transactions complete
within some milliseconds after their end, and the next one waits for that.
"""
RETRY_S: Final = 0.02
"""Kafka's default of add.partitions.to.txn.retry.backoff.ms."""
REQUEST_S: Final = 10.0
"""Longest wait for the answer to a request."""
QUESTIONS_MAX: Final = 1_000
"""Questions in one request."""
IN_FLIGHT_MAX: Final = 4
NOT_READY: Final = (ConcurrentTransactions, UnknownTopicId, UnknownTopicOrPartition)


class _Question:
    __slots__ = ("answer", "pause_s", "producer", "tp")

    def __init__(
        self, producer: tuple[str, int, int, bool], tp: Key, answer: asyncio.Future[None]
    ) -> None:
        self.producer = producer
        """Transactional id, producer id, producer epoch, `verify_only`."""
        self.tp = tp
        self.answer = answer
        self.pause_s = FIRST_RETRY_S
        """Pause before the question is asked again."""

    def settle(self, error: WireError | None) -> None:
        if self.answer.done():
            return  # the asker has given up
        if error is None:
            self.answer.set_result(None)
        else:
            self.answer.set_exception(error)


class _Coordinator:
    """The questions to one broker."""

    __slots__ = ("in_flight", "is_starting", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[_Question] = deque()
        self.in_flight = 0
        self.is_starting = False
        """True if a request is about to take what waits."""

    def take(self) -> list[_Question]:
        taken: list[_Question] = []
        while self.waiting and len(taken) < QUESTIONS_MAX:
            question = self.waiting.popleft()
            if not question.answer.done():
                taken.append(question)
        return taken


class Verifying:
    """A `Verifier`."""

    def __init__(
        self,
        me: BrokerId,
        metadata: MetadataCache,
        listener: str,
        calls: BrokerCalls,
        here: AddHere | None = None,
    ) -> None:
        """`listener`: the one that brokers use. `here`: the coordinator of this broker; None: it is
        called like any other.
        """
        self._me = me
        self._metadata = metadata
        self._listener = listener
        self._calls = calls
        self._here = here
        self._coordinators: dict[BrokerId, _Coordinator] = {}
        self._open: set[asyncio.Future[None]] = set()
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Sends the requests until cancelled; then all questions end."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                await asyncio.Event().wait()
        finally:
            self._group = None
            for answer in list(self._open):
                if not answer.done():
                    answer.set_exception(_stopped())

    def ask(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        tp: Key,
        *,
        verify_only: bool,
    ) -> asyncio.Future[None]:
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._open.add(answer)
        answer.add_done_callback(self._open.discard)
        producer = (transactional_id, producer_id, producer_epoch, verify_only)
        self._route(_Question(producer, tp, answer))
        return answer

    def _route(self, question: _Question) -> None:
        """Gives the question to the present coordinator's broker."""
        if question.answer.done():
            return
        try:
            coordinator = self._coordinator_of(question.producer[0])
        except WireError as error:
            question.settle(error)
            return
        asked = self._coordinators.get(coordinator)
        if asked is None:
            asked = self._coordinators[coordinator] = _Coordinator()
        asked.waiting.append(question)
        self._start(coordinator, asked)

    def _coordinator_of(self, transactional_id: str) -> BrokerId:
        view = self._metadata.view
        topic = view.topic_named(TRANSACTION_STATE)
        if topic is None:
            raise CoordinatorNotAvailable(f"{TRANSACTION_STATE} is not made yet; try again soon")
        index = partition_for(transactional_id, len(topic.partitions))
        leader = view.current_leader(topic.topic_id, index)
        if leader is None:
            raise CoordinatorNotAvailable(
                f"{TRANSACTION_STATE}:{index} has no leader at the moment; try again soon"
            )
        return leader.broker_id

    def _start(self, coordinator: BrokerId, asked: _Coordinator) -> None:
        if asked.is_starting or asked.in_flight >= IN_FLIGHT_MAX or not asked.waiting:
            return
        if self._group is None:
            for question in asked.take():
                question.settle(_stopped())
            return
        asked.is_starting = True
        asked.in_flight += 1
        self._group.create_task(self._send(coordinator, asked), name=f"verifying-{coordinator}")

    async def _send(self, coordinator: BrokerId, asked: _Coordinator) -> None:
        asked.is_starting = False
        questions = asked.take()
        self._start(coordinator, asked)  # more than fit into one request
        try:
            if questions:
                await self._ask(coordinator, questions)
        finally:
            asked.in_flight -= 1
        self._start(coordinator, asked)

    async def _ask(self, coordinator: BrokerId, questions: Sequence[_Question]) -> None:
        by_producer: dict[tuple[str, int, int, bool], list[_Question]] = {}
        for question in questions:
            by_producer.setdefault(question.producer, []).append(question)
        request = [
            PartitionsToAdd(*producer, [each.tp for each in of_one])
            for producer, of_one in by_producer.items()
        ]
        try:
            results = await self._call(coordinator, request)
        except WireError as failure:
            results = [[failure] * len(of_one) for of_one in by_producer.values()]
        for of_one, errors in zip(by_producer.values(), results, strict=True):
            for question, error in zip(of_one, errors, strict=True):
                self._answered(question, error)

    async def _call(self, coordinator: BrokerId, request: Sequence[PartitionsToAdd]) -> Results:
        if coordinator == self._me and self._here is not None:
            return await self._here(request)
        endpoint = self._metadata.view.endpoint(coordinator, self._listener)
        if endpoint is None:
            raise CoordinatorNotAvailable(f"no address of broker {coordinator} is known yet")
        return await self._calls.add_partitions(endpoint, request, timeout_s=REQUEST_S)

    def _answered(self, question: _Question, error: WireError | None) -> None:
        if isinstance(error, NOT_READY):
            asyncio.get_running_loop().call_later(question.pause_s, self._route, question)
            question.pause_s = min(2 * question.pause_s, RETRY_S)
        else:
            question.settle(error)


def _stopped() -> WireError:
    return CoordinatorNotAvailable("the broker is starting or stopping, and asks no coordinator")
