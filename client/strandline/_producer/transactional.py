"""A producer's calls about transactions."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from strandline._core.transaction_state import COMMIT, SEND_OFFSETS
from strandline._net import arguments as given
from strandline._net.arguments import mapping, milliseconds
from strandline._net.offset_commits import offset_of
from strandline.errors import (
    AbortableTransactionError,
    CommitOutcomeUnknown,
    ConfigurationError,
    FatalTransactionError,
    StrandlineError,
    TransactionAborted,
    describe,
)
from strandline.group_types import ConsumerGroupMetadata

if TYPE_CHECKING:
    from types import TracebackType

    from strandline._core.cluster_view import PartitionKey
    from strandline._core.commit_state import CommitOffset
    from strandline._core.transaction_state import TransactionState
    from strandline._net.session import Session
    from strandline._producer.sender import Sender
    from strandline._producer.transactions import Transactions
    from strandline.group_types import ToCommit

STOP_ABORT_S: Final = 5.0
"""Longest wait for an abort by `stop`: the transaction's timeout has the same effect."""


class TransactionCalls(ABC):
    """The calls of a producer with a `transactional_id`."""

    _request_timeout_ms: float
    _transactional_id: str | None
    _transactions: Transactions | None
    """While a transactional producer runs."""

    @abstractmethod
    def _parts(self) -> tuple[Session, Sender]:
        """The parts of the started producer. Raises ClientClosed."""

    def _transacting(self, call: str) -> tuple[Transactions, Sender]:
        if self._transactional_id is None:
            raise ConfigurationError(f"{call} needs a producer with a transactional_id")
        _, sender = self._parts()
        assert self._transactions is not None
        return self._transactions, sender

    def _end_timeout_s(self, timeout_ms: float | None) -> float:
        if timeout_ms is None:
            return self._request_timeout_ms / 1000
        return milliseconds("timeout_ms", timeout_ms) / 1000

    async def begin_transaction(self) -> None:
        """Begins a transaction, to which all records sent until its end belong.

        The coordinator aborts the transaction `transaction_timeout_ms` after its first record.
        """
        transactions, _ = self._transacting("begin_transaction")
        transactions.state.begin()

    async def commit_transaction(self, *, timeout_ms: float | None = None) -> None:
        """Waits for the acknowledgement of all records, then commits them and the offsets.

        The transaction is decided when the call returns. Raises AbortableTransactionError if a
        record has failed, CommitOutcomeUnknown if no answer came within `timeout_ms` (None:
        `request_timeout_ms`, once all records are acknowledged): then, and after a cancellation,
        call it again. TransactionFenced, which is a ProducerFenced, means that the coordinator has
        aborted the transaction.
        """
        transactions, sender = self._transacting(COMMIT)
        timeout_s = self._end_timeout_s(timeout_ms)
        state = transactions.state
        state.begin_commit()
        try:
            began_s = sender.now_ms() / 1000
            await sender.flush(timeout_ms, commits=state)
            state.require_committing()
            if (end := state.ask()) is not None:
                if timeout_ms is not None:
                    timeout_s = max(0.001, timeout_s - (sender.now_ms() / 1000 - began_s))
                await transactions.end(end, timeout_s)
            sender.end_transaction()
        finally:
            state.interrupt()

    async def abort_transaction(self, *, timeout_ms: float | None = None) -> None:
        """Gives up all records of the transaction, and aborts it.

        Their futures raise TransactionAborted, unless they were acknowledged. Raises
        OperationTimedOut if no answer came within `timeout_ms` (None: `request_timeout_ms`): then,
        and after a cancellation, call it again.
        """
        transactions, sender = self._transacting("abort_transaction")
        await self._abort(transactions, sender, self._end_timeout_s(timeout_ms))

    async def _abort(self, transactions: Transactions, sender: Sender, timeout_s: float) -> None:
        state = transactions.state
        state.begin_abort()
        try:
            why = f"the transaction of {state.transactional_id!r} was aborted"
            if state.error is not None:
                why += f": {describe(state.error)}"
            sender.end_transaction(TransactionAborted(why, cause=state.error))
            if (end := state.ask()) is not None:
                await transactions.end(end, timeout_s)
        finally:
            state.interrupt()

    async def send_offsets_to_transaction(
        self,
        offsets: ToCommit,
        group_metadata: ConsumerGroupMetadata,
        *,
        timeout_ms: float | None = None,
    ) -> None:
        """Commits offsets of a consumer group with the transaction.

        An offset is that of the record to read next. `group_metadata` is
        `consumer.group_metadata()`. Raises AbortableTransactionError if the member has lost its
        partitions, or if the outcome is not known; a cancellation also leaves only the abort.
        """
        transactions, sender = self._transacting(SEND_OFFSETS)
        timeout_s = self._end_timeout_s(timeout_ms)
        if not isinstance(group_metadata, ConsumerGroupMetadata):
            raise ConfigurationError(
                f"group_metadata={group_metadata!r} is not a ConsumerGroupMetadata; give "
                "consumer.group_metadata()"
            )
        transactions.state.require(SEND_OFFSETS)
        wanted: dict[PartitionKey, CommitOffset] = {}
        for tp, at in mapping("offsets", offsets).items():
            topic, partition = given.one_partition("offsets", tp)
            view = await sender.cluster.topic(topic, timeout_s, partition)
            name = f"offsets: that of {topic}/{partition}"
            wanted[view.topic_id, partition] = offset_of(name, at)
        if wanted:
            await transactions.send_offsets(wanted, group_metadata, timeout_s)

    def transaction(self, *, timeout_ms: float | None = None) -> TransactionBlock:
        """Returns a context manager that begins a transaction and ends it with the block.

        It commits, or aborts if the block raises or is cancelled. If no answer to the commit comes,
        it repeats the commit for `timeout_ms` (None: `transaction_timeout_ms`), then raises
        CommitOutcomeUnknown. A cancellation during the commit does not abort.
        """
        transactions, sender = self._transacting("transaction")
        limit_ms = transactions.timeout_ms if timeout_ms is None else timeout_ms
        milliseconds("timeout_ms", limit_ms)
        return TransactionBlock(self, transactions.state, sender, limit_ms)

    def _ending(self) -> TransactionBlock:
        """The end of the open transaction, as a block ends it."""
        block = self.transaction()
        block.enter()
        return block

    async def _abort_at_stop(self, timeout_ms: float | None) -> None:
        """Ends an open transaction of a producer that is closed."""
        transactions = self._transactions
        if transactions is None or not transactions.state.is_to_abort:
            return
        session, sender = self._parts()
        limit_s = STOP_ABORT_S if timeout_ms is None else min(STOP_ABORT_S, timeout_ms / 1000)
        session.runtime.log.warning(
            "a producer was closed in a transaction, which is aborted",
            transactional_id=transactions.state.transactional_id,
        )
        try:
            async with asyncio.timeout(limit_s):
                await self._abort(transactions, sender, limit_s)
        except (StrandlineError, TimeoutError) as error:
            session.runtime.log.warning(
                "the transaction of a closed producer is aborted by its timeout",
                transactional_id=transactions.state.transactional_id,
                error=describe(error),
            )


class TransactionBlock:
    """The context manager of one transaction."""

    def __init__(
        self, producer: TransactionCalls, state: TransactionState, sender: Sender, limit_ms: float
    ) -> None:
        self._producer = producer
        self._state = state
        self._sender = sender
        self._limit_ms = limit_ms
        self._number = -1

    async def __aenter__(self) -> None:
        await self._producer.begin_transaction()
        self.enter()

    def enter(self) -> None:
        """Takes the open transaction for the one of this block."""
        self._number = self._state.number

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.end(error)

    async def end(self, error: BaseException | None) -> None:
        """Commits, or aborts because of the error of the block."""
        state = self._state
        if state.is_over(self._number):
            return  # by a call in the block
        if error is None:
            await self.commit()
        elif state.is_to_abort:
            await self.abort(error)

    async def commit(self) -> None:
        """Repeats the commit until its outcome is known, or its time is over."""
        deadline_ms = self._sender.now_ms() + self._limit_ms
        while True:
            try:
                await self._producer.commit_transaction()
                return
            except AbortableTransactionError as error:
                await self.abort(error)
                raise
            except CommitOutcomeUnknown:
                if self._sender.now_ms() >= deadline_ms:
                    raise

    async def abort(self, error: BaseException | None) -> None:
        """Aborts because of an error, which is raised afterwards."""
        try:
            await self._producer.abort_transaction()
        except StrandlineError as failed:
            if error is None:
                raise
            if isinstance(failed, FatalTransactionError) and isinstance(error, Exception):
                raise  # it says more than the error of the block: this producer cannot go on
            error.add_note(f"the transaction is not aborted yet: {describe(failed)}")
