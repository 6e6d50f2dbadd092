"""A transactional producer's questions to coordinators: its identity, the ends of transactions, and
offsets of groups.

Each question is repeated until it is answered or its deadline passes. The repetitions are the same
request, so a lost answer does no harm: the coordinator recognises the end of a transaction by its
epoch (I-167), and offsets in a transaction replace themselves.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from strandline._core.backoff import Backoff
from strandline._core.delivery_terms import Identity
from strandline._core.transaction_state import ABORT, COMMIT, SEND_OFFSETS, Fate, TransactionState
from strandline._net.coordinator import TRANSACTION, Coordinator
from strandline._net.offset_commits import txn_commit_request
from strandline.errors import (
    BrokerError,
    CallNotServed,
    ClientClosed,
    CommitOutcomeUnknown,
    CoordinatorNotAvailable,
    OperationTimedOut,
    StrandlineError,
    describe,
    from_code,
)
from strandline_proto.errors import NONE
from strandline_proto.v1 import metadata_pb2, transactions_pb2

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from strandline._core.cluster_view import PartitionKey
    from strandline._core.commit_state import CommitOffset
    from strandline._core.transaction_state import End
    from strandline._net.session import Session
    from strandline.group_types import ConsumerGroupMetadata

BACKOFF_MAX_MS: Final = 250.0


class Transactions:
    """The coordinators of one transactional producer."""

    def __init__(self, session: Session, state: TransactionState, timeout_ms: int) -> None:
        self.state = state
        self.timeout_ms = timeout_ms
        self._session = session
        self._coordinator = Coordinator(session, state.transactional_id, TRANSACTION)
        self._groups: dict[str, Coordinator] = {}

    def _now_s(self) -> float:
        return self._session.runtime.clock.monotonic()

    # The identity.

    async def open(self, timeout_s: float) -> None:
        """Gets the producer id and epoch, which fences every earlier producer of the id.

        The coordinator first ends a transaction that such a producer has left open. Raises the
        coordinator's refusal, and OperationTimedOut.
        """
        request = metadata_pb2.InitProducerIdRequest(
            transactional_id=self.state.transactional_id,
            timeout_ms=self.timeout_ms,
            producer_id=-1,
            producer_epoch=-1,
        )

        async def ask(left_s: float) -> StrandlineError | None:
            answer: Any = await self._coordinator.call(
                lambda stub: stub.InitProducerId,
                request,
                timeout_s=left_s,
                returns=metadata_pb2.InitProducerIdResponse,
            )
            if answer.error_code == NONE:
                self.state.on_identity(Identity(answer.producer_id, answer.producer_epoch))
                return None
            return _refusal(answer.error_code, answer.error_message)

        cause = await self._until(ask, timeout_s)
        if cause is not None:
            raise OperationTimedOut(
                f"the coordinator of transactional_id {self.state.transactional_id!r} gave no "
                f"producer id within {timeout_s * 1000:.0f} ms: {describe(cause)}",
                cause,
            )

    async def _until(
        self, ask: Callable[[float], Awaitable[StrandlineError | None]], timeout_s: float
    ) -> StrandlineError | None:
        """Calls `ask(seconds left)` until it returns None; returns its last error at the deadline.

        `ask` returns or raises an error after which it is called again. Raises ClientClosed and
        CallNotServed, after which no repetition would help.
        """
        deadline_s = self._now_s() + timeout_s
        backoff = Backoff(max_ms=BACKOFF_MAX_MS)
        while True:
            try:
                cause = await ask(max(0.001, deadline_s - self._now_s()))
            except (ClientClosed, CallNotServed):
                raise
            except _Refused as refused:
                raise refused.error from None
            except StrandlineError as error:
                cause = error
            if cause is None:
                return None
            self._coordinator.failed(cause)
            wait_s = backoff.next_ms(self._session.runtime.rng.random()) / 1000
            if self._now_s() + wait_s >= deadline_s:
                return cause
            await asyncio.sleep(wait_s)

    # The end of a transaction.

    async def end(self, end: End, timeout_s: float) -> None:
        """Asks for the end of the transaction until it is decided.

        Raises the error of the decision, and CommitOutcomeUnknown or OperationTimedOut.
        """
        state = self.state
        request = transactions_pb2.EndTxnRequest(
            transactional_id=state.transactional_id,
            producer_id=end.identity.producer_id,
            producer_epoch=end.identity.producer_epoch,
            committed=end.committed,
        )
        call = COMMIT if end.committed else ABORT

        async def ask(left_s: float) -> StrandlineError | None:
            answer: Any = await self._coordinator.call(
                lambda stub: stub.EndTxn,
                request,
                timeout_s=left_s,
                returns=transactions_pb2.EndTxnResponse,
            )
            code, message = answer.error_code, answer.error_message
            following = Identity(answer.producer_id, answer.producer_epoch)
            if state.on_end(code, message, following) is Fate.AGAIN:
                return from_code(code, message)
            return None

        cause = await self._until(ask, timeout_s)
        if cause is None:
            state.require_ended(call)
            return
        what = f"the {'commit' if end.committed else 'abort'} of a transaction of "
        what += f"{state.transactional_id!r} was not answered within {timeout_s * 1000:.0f} ms"
        again = f"call {call}() again: {describe(cause)}"
        if end.committed:
            raise CommitOutcomeUnknown(f"{what}, its outcome is unknown; {again}", cause)
        raise OperationTimedOut(f"{what}; {again}", cause)

    # Offsets.

    async def send_offsets(
        self,
        offsets: Mapping[PartitionKey, CommitOffset],
        group: ConsumerGroupMetadata,
        timeout_s: float,
    ) -> None:
        """Sends offsets of a group, which are committed with the transaction.

        Every failure is one of the transaction: whether the offsets belong to it is unknown.
        """
        state = self.state
        identity = state.begin_offsets()
        try:
            await self._send_offsets(identity, dict(offsets), group, timeout_s)
        except StrandlineError as error:
            state.fail(error)
            state.require(SEND_OFFSETS)
            raise
        except asyncio.CancelledError:
            why = f"{SEND_OFFSETS} of group {group.group_id!r} was cancelled before its outcome"
            state.fail(OperationTimedOut(why))
            raise
        finally:
            state.end_offsets()

    async def _send_offsets(
        self,
        identity: Identity,
        left: dict[PartitionKey, CommitOffset],
        group: ConsumerGroupMetadata,
        timeout_s: float,
    ) -> None:
        coordinator = self._groups.get(group.group_id)
        if coordinator is None:
            coordinator = self._groups[group.group_id] = Coordinator(self._session, group.group_id)

        async def ask(left_s: float) -> StrandlineError | None:
            request = txn_commit_request(self.state.transactional_id, identity, group, left)
            try:
                answer: Any = await coordinator.call(
                    lambda stub: stub.TxnOffsetCommit,
                    request,
                    timeout_s=left_s,
                    returns=transactions_pb2.TxnOffsetCommitResponse,
                )
            except StrandlineError:
                self._session.cluster.request_refresh()
                raise
            error = _first_error(answer, left)
            if error is not None:
                coordinator.failed(error)
            return error

        cause = await self._until(ask, timeout_s)
        if cause is not None:
            raise OperationTimedOut(
                f"the offsets of group {group.group_id!r} were not taken within "
                f"{timeout_s * 1000:.0f} ms: {describe(cause)}",
                cause,
            )


class _Refused(Exception):
    """An error that ends the repetitions."""

    def __init__(self, error: BrokerError) -> None:
        self.error = error


def _refusal(code: int, message: str) -> BrokerError:
    """The retriable error of this code. Raises _Refused for any other."""
    error = from_code(code, message)
    if not error.retriable:
        raise _Refused(error)
    return error


def _first_error(
    answer: transactions_pb2.TxnOffsetCommitResponse, left: dict[PartitionKey, CommitOffset]
) -> StrandlineError | None:
    """The error after which the request is repeated; None if all offsets were taken.

    Takes out of `left` what was taken. Raises _Refused for an error that a repetition would meet
    again.
    """
    if answer.error_code != NONE:
        return _refusal(answer.error_code, answer.error_message)
    error: StrandlineError | None = None
    for topic in answer.topics:
        for p in topic.partitions:
            if p.error_code == NONE:
                left.pop((topic.topic_id, p.partition), None)
            else:
                error = _refusal(p.error_code, p.error_message)
    if error is None and left:
        error = CoordinatorNotAvailable(f"the answer leaves out {len(left)} partitions")
    return error
