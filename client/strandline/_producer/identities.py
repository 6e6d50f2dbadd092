"""The producer ids and epochs of a producer's queues.

An idempotent producer gets an id from any broker, and a higher epoch of it when a queue has used up
its sequence numbers (KIP-360). A transactional producer has the identity of its transaction only.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from strandline._core.backoff import Backoff
from strandline._core.delivery_terms import Identity
from strandline.errors import StrandlineError, from_code
from strandline_proto.errors import NONE
from strandline_proto.v1 import metadata_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from strandline._core.cluster_view import PartitionKey
    from strandline._core.partition_queue import PartitionQueue
    from strandline._core.transaction_state import TransactionState
    from strandline._net.session import Session


class Identities(Protocol):
    """The source of a queue's identity."""

    def want(self, queue: PartitionQueue) -> None:
        """Gives the queue an identity that it has not used up, now or later."""
        ...


class IdempotentIdentities:
    """The identities of a producer without transactions."""

    def __init__(
        self,
        session: Session,
        queues: Mapping[PartitionKey, PartitionQueue],
        dispatch: Callable[[PartitionQueue], None],
        request_timeout_ms: float,
    ) -> None:
        self._runtime = session.runtime
        self._cluster = session.cluster
        self._queues = queues
        self._dispatch = dispatch
        self._request_timeout_ms = request_timeout_ms
        self._known: Identity | None = None
        self._wanted = asyncio.Event()

    def want(self, queue: PartitionQueue) -> None:
        known, spent = self._known, queue.spent_identity
        if known is not None and known != spent:
            queue.on_identity(known)
            self._dispatch(queue)
        else:
            self._wanted.set()

    async def keep(self) -> None:
        """Gets a producer id, or a higher epoch of it, when a queue needs one."""
        backoff = Backoff()
        while True:
            await self._wanted.wait()
            try:
                self._known = await self._init_producer_id()
            except StrandlineError as error:
                for queue in self._queues.values():
                    if queue.wants_identity:
                        queue.obstacle = error
                self._cluster.request_refresh()
                await asyncio.sleep(backoff.next_ms(self._runtime.rng.random()) / 1000)
                continue
            backoff.reset()
            self._wanted.clear()
            for queue in list(self._queues.values()):
                if queue.wants_identity:
                    self.want(queue)

    async def _init_producer_id(self) -> Identity:
        known = self._known
        request = metadata_pb2.InitProducerIdRequest(
            timeout_ms=int(self._request_timeout_ms),
            producer_id=-1 if known is None else known.producer_id,
            producer_epoch=-1 if known is None else known.producer_epoch,
        )
        answer: Any = await self._cluster.ask_any(
            lambda stub: stub.InitProducerId,
            request,
            timeout_s=min(self._request_timeout_ms, 10_000.0) / 1000,
            attempt_s=2.0,
            returns=metadata_pb2.InitProducerIdResponse,
        )
        if answer.error_code != NONE:
            raise from_code(answer.error_code, answer.error_message)
        return Identity(answer.producer_id, answer.producer_epoch)


class TransactionalIdentities:
    """The identity of the open transaction, for all queues."""

    def __init__(self, state: TransactionState, dispatch: Callable[[PartitionQueue], None]) -> None:
        self._state = state
        self._dispatch = dispatch

    def want(self, queue: PartitionQueue) -> None:
        """Gives the queue the transaction's identity; none if the transaction has failed there."""
        if queue.spent_identity != self._state.identity:
            queue.on_identity(self._state.touch())
            self._dispatch(queue)
