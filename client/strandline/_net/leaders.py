"""Asks the leaders of partitions, with one request to each leader.

Requests are repeated until all leaders have answered or the deadline passes. Every question is safe
to repeat, so a lost answer or a new leader does no harm.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from strandline._core.backoff import Backoff
from strandline._core.in_parts import in_parts
from strandline.errors import (
    BrokerError,
    ClientClosed,
    LeaderNotAvailable,
    OperationTimedOut,
    StrandlineError,
    UnknownTopicId,
    UnknownTopicOrPartition,
    describe,
    from_code,
)
from strandline_proto.errors import NONE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from strandline._core.cluster_view import PartitionKey
    from strandline._net.session import Session

AT_ONCE: Final = 5_000
"""Largest number of partitions in one request; a broker takes 10,000."""
Found = TypeVar("Found")


class Answers(NamedTuple, Generic[Found]):
    """The result or the error of each partition."""

    found: dict[PartitionKey, Found]
    failures: dict[PartitionKey, StrandlineError]


class Question(NamedTuple, Generic[Found]):
    """One kind of question to leaders."""

    method: Callable[[Any], Callable[..., Any]]
    """The stub's call."""
    request: Callable[[Mapping[PartitionKey, int]], Any]
    """Builds the request about these partitions, each with the leader epoch known here."""
    returns: type
    read: Callable[[Any, int], Found]
    """Converts a partition's result without error, given the leader epoch of the question."""
    timeout_s: float


class Leaders:
    """Questions to the leaders of partitions, with retries."""

    def __init__(self, session: Session) -> None:
        self._runtime = session.runtime
        self._connections = session.connections
        self._cluster = session.cluster

    async def until_answered(
        self,
        wanted: Mapping[PartitionKey, int],
        ask: Callable[[Mapping[PartitionKey, int], float], Awaitable[Answers[Found]]],
        timeout_s: float,
        late: str,
    ) -> dict[PartitionKey, Found]:
        """Calls `ask(missing partitions, seconds left)` until every partition has a result.

        Raises the first permanent error, UnknownTopicOrPartition for a topic deleted meanwhile, or
        OperationTimedOut with `late`, where {} stands for a partition.
        """
        clock = self._runtime.clock.monotonic
        deadline = clock() + timeout_s
        backoff = Backoff()
        found: dict[PartitionKey, Found] = {}
        while True:
            missing = {key: what for key, what in wanted.items() if key not in found}
            answers = await ask(missing, max(0.001, deadline - clock()))
            found.update(answers.found)
            if not answers.failures:
                return found
            for error in answers.failures.values():
                if isinstance(error, BrokerError | ClientClosed) and not error.retriable:
                    raise error
            wait_s = backoff.next_ms(self._runtime.rng.random()) / 1000
            if clock() + wait_s >= deadline:
                key, cause = next(iter(answers.failures.items()))
                raise OperationTimedOut(
                    f"{late.format(self._name(key))} within {timeout_s * 1000:.0f} ms: "
                    f"{describe(cause)}",
                    cause,
                )
            self._cluster.request_refresh()
            await asyncio.sleep(wait_s)
            if any(topic_id not in self._cluster.view.by_id for topic_id, _ in wanted):
                raise UnknownTopicOrPartition("the topic was deleted, perhaps created again")

    async def ask(self, keys: Iterable[PartitionKey], question: Question[Found]) -> Answers[Found]:
        """Asks each leader once, in several requests if it leads very many partitions."""
        answers: Answers[Found] = Answers({}, {})

        async def ask(address: str, epochs: dict[PartitionKey, int]) -> None:
            try:
                response: Any = await self._connections.call(
                    address,
                    question.method,
                    question.request(epochs),
                    timeout_s=question.timeout_s,
                    returns=question.returns,
                )
            except StrandlineError as error:
                answers.failures.update(dict.fromkeys(epochs, error))
                return
            results = {(t.topic_id, p.partition): p for t in response.topics for p in t.partitions}
            for key, epoch in epochs.items():
                result = results.get(key)
                if result is None:
                    answers.failures[key] = LeaderNotAvailable(f"{address} left it out")
                elif result.error_code == NONE:
                    answers.found[key] = question.read(result, epoch)
                else:
                    why = getattr(result, "error_message", "")
                    answers.failures[key] = from_code(result.error_code, why)

        async with asyncio.TaskGroup() as group:
            for address, epochs in self._routes(keys, answers.failures).items():
                for part in in_parts(epochs.items(), AT_ONCE):
                    group.create_task(ask(address, dict(part)))
        return answers

    def _routes(
        self, keys: Iterable[PartitionKey], failures: dict[PartitionKey, StrandlineError]
    ) -> dict[str, dict[PartitionKey, int]]:
        """Partitions by the address of their leader, each with the leader epoch to ask in."""
        routes: dict[str, dict[PartitionKey, int]] = {}
        view = self._cluster.view
        for key in keys:
            leader = view.leader(*key)
            address = None if leader is None else self._cluster.address_of(leader[0])
            if leader is not None and address is not None:
                routes.setdefault(address, {})[key] = leader[1]
            elif key[0] not in view.by_id:
                failures[key] = UnknownTopicId("the topic is not known any more")
            else:
                failures[key] = LeaderNotAvailable(f"{self._name(key)} has no leader at the moment")
        return routes

    def _name(self, key: PartitionKey) -> str:
        topic = self._cluster.view.by_id.get(key[0])
        return f"{key[0].hex() if topic is None else topic.name}:{key[1]}"
