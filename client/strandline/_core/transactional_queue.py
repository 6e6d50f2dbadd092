"""The queue of one partition in a transactional producer.

All batches of a transaction have the transaction's identity, and the next transaction has the next
one (P-105). A batch that is given up fails the whole transaction, so no other identity repairs the
sequence: the abort ends the identity, and each later batch of it is refused by its epoch (I-166).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline._core.delivery_terms import failure
from strandline._core.partition_queue import PartitionQueue
from strandline._core.producer_batch import NO_SEQUENCE, ProducerBatch
from strandline.errors import OutOfOrderSequenceNumber, TransactionAborted

if TYPE_CHECKING:
    from strandline._core.partition_queue import Settled
    from strandline.errors import BrokerError


class TransactionalQueue(PartitionQueue):
    """Accumulates, numbers and retries one partition's batches of one transaction at a time."""

    def new_batch(self, now_ms: float, size_max: int) -> ProducerBatch:
        return ProducerBatch(
            size_max=size_max,
            compression=self.options.compression,
            created_ms=now_ms,
            deadline_ms=now_ms + self.options.delivery_timeout_ms,
            is_transactional=True,
        )

    def _out_of_sequence(self, batch: ProducerBatch, error: BrokerError) -> list[Settled]:
        """Gives up a batch that does not fit the leader's state of the producer.

        A batch behind an unresolved one is repeated after it.
        """
        ahead = self.in_flight[: self.in_flight.index(batch)]
        if ahead and isinstance(error, OutOfOrderSequenceNumber):
            return []
        return self._give_up(batch, failure(batch, str(self), error))

    def on_hopeless(self, error: Exception) -> list[Settled]:
        """Settles everything; an abort is the outcome of a record that may be in the log too."""
        settled = super().on_hopeless(error)
        if not isinstance(error, TransactionAborted):
            return settled
        unknown = TransactionAborted(str(error), cause=error.cause, may_have_been_written=True)
        return [(batch, unknown if batch.may_be_written else error) for batch, _ in settled]

    def on_transaction_ended(self) -> None:
        """Forgets identity and sequence: the next transaction begins with its own."""
        assert self.idle, f"{self} has records of a transaction that has ended"
        self._identity = self.spent_identity = None
        self.wants_identity = self._recovering = self._renew = self.flushing = False
        self._gap_at = NO_SEQUENCE
        self._resend.clear()
        self._recreated = self.obstacle = None
        self.retry_at_ms = 0.0
        self._backoff.reset()
