"""Calls that retry while a coordinator or leader loads, moves or is gone."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar

from strandline._core.backoff import Backoff
from strandline._net.answers import check
from strandline._net.coordinator import GROUP, Coordinator
from strandline.errors import (
    BrokerError,
    BrokerUnreachable,
    LeaderNotAvailable,
    OperationTimedOut,
    StrandlineError,
    UnknownTopicId,
    UnknownTopicOrPartition,
    describe,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from strandline._core.cluster_view import PartitionKey
    from strandline._net.coordinator import Kind
    from strandline._net.session import Session

T = TypeVar("T")
Answer = TypeVar("Answer")


class Retrying(ABC):
    """The part of an admin that asks until it is answered.

    At the deadline a call raises OperationTimedOut, whose message has the last answer.
    """

    _timeout_s: float

    @abstractmethod
    def _started(self) -> Session:
        """The session of the started admin."""

    async def _ask_coordinator(
        self,
        key: str,
        method: Callable[[Any], Callable[..., Any]],
        request: Any,
        returns: type[Answer],
        results: Callable[[Any], Iterable[Any]],
        kind: Kind = GROUP,
    ) -> Answer:
        """Asks the coordinator until none of the `results` carries an error."""
        coordinator = Coordinator(self._started(), key, kind)

        async def ask() -> Answer:
            answer = await coordinator.call(
                method, request, timeout_s=self._timeout_s, returns=returns
            )
            for result in results(answer):
                try:
                    check(result)
                except StrandlineError as error:
                    coordinator.failed(error)
                    raise
            return answer

        return await self._until(ask, f"the coordinator of {kind.noun[4:]} {key!r} did not do it")

    async def _ask_leader(
        self,
        key: PartitionKey,
        method: Callable[[Any], Callable[..., Any]],
        request: Any,
        returns: type[Answer],
        late: str,
    ) -> Answer:
        """Asks the partition's leader until its answer carries no error."""
        session = self._started()

        async def ask() -> Answer:
            leader = session.cluster.view.leader(*key)
            address = None if leader is None else session.cluster.address_of(leader[0])
            try:
                if address is None:
                    raise LeaderNotAvailable("the partition has no leader at the moment")
                answer = await session.connections.call(
                    address,
                    method,
                    request,
                    timeout_s=min(self._timeout_s, 5.0),
                    returns=returns,
                )
                check(answer)
            except StrandlineError:
                session.cluster.request_refresh()
                raise
            return answer

        return await self._until(ask, late)

    async def _ask_every_broker(
        self,
        method: Callable[[Any], Callable[..., Any]],
        request: Any,
        returns: type[Answer],
        late: str,
    ) -> dict[int, Answer]:
        """Asks all live brokers; returns the answers by the brokers' ids.

        Raises OperationTimedOut if one does not answer: its part would be missing.
        """
        session = self._started()
        found: dict[int, Answer] = {}

        async def ask_all() -> None:
            await session.cluster.refresh(self._timeout_s)
            found.clear()
            errors: list[StrandlineError] = []

            async def one(broker_id: int, address: str) -> None:
                try:
                    answer = await session.connections.call(
                        address,
                        method,
                        request,
                        timeout_s=min(self._timeout_s, 5.0),
                        returns=returns,
                    )
                    check(answer)
                except StrandlineError as error:
                    errors.append(error)
                else:
                    found[broker_id] = answer

            async with asyncio.TaskGroup() as group:
                for broker in session.cluster.view.brokers.values():
                    group.create_task(one(broker.id, broker.address))
            if errors:
                raise errors[0]

        await self._until(ask_all, late)
        return found

    async def _until(self, ask: Callable[[], Awaitable[T]], late: str) -> T:
        """Calls `ask` until it succeeds or its error is permanent, and returns the result."""
        session = self._started()
        clock = session.runtime.clock.monotonic
        deadline = clock() + self._timeout_s
        backoff = Backoff()
        cause: StrandlineError | None = None
        while True:
            try:
                async with asyncio.timeout(max(0.001, deadline - clock())):
                    return await ask()
            except (BrokerError, BrokerUnreachable, OperationTimedOut, TimeoutError) as error:
                if isinstance(error, BrokerError) and not _may_pass(error):
                    raise
                if isinstance(error, StrandlineError):  # not the deadline, which has no cause
                    cause = error
                wait_s = backoff.next_ms(session.runtime.rng.random()) / 1000
                if clock() + wait_s >= deadline:
                    why = "" if cause is None else f": {describe(cause)}"
                    raise OperationTimedOut(
                        f"{late} within {self._timeout_s * 1000:.0f} ms{why}", cause
                    ) from None
                await asyncio.sleep(wait_s)


def _may_pass(error: BrokerError) -> bool:
    """True if a retry may help.

    An unknown topic is not retried, although a coordinator may not know a new topic yet: most often
    the name is misspelt.
    """
    return error.retriable and not isinstance(error, UnknownTopicOrPartition | UnknownTopicId)
