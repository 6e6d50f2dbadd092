"""One transactional id: its state, and the changes that a decision may make to it.

A `Transaction` is the value of the id's last record, so a change of it is a record (I-102). The
functions here return changed values and check that the change is permitted (I-162). Each end of a
transaction under version 2 raises the producer's epoch in the same record (I-166, P-118). The last
epoch belongs to markers only: the end of a transaction at `DATA_EPOCH_MAX` also gives the producer
a new id (I-169).

`last_producer_epoch` is the epoch of the producer whose request led to the present epoch. A
repeated request with it gets the same answer (I-167). It is -1 if another producer has taken over
the id.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from strandline_proto.ids import NO_PRODUCER_ID, ProducerEpoch, ProducerId

DATA_EPOCH_MAX: Final = ProducerEpoch(2**15 - 2)
"""The highest epoch of data; one more is the last that a batch header can have."""
NO_PRODUCER_EPOCH: Final = ProducerEpoch(-1)
NO_TIME: Final = -1
WITHOUT_BUMP: Final = 0
WITH_BUMP: Final = 2
"""Versions of a client's transactions: the end keeps the epoch, or raises it (KIP-890)."""


class TransactionState(enum.IntEnum):
    """The states, with Kafka's numbers."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def text(self) -> str:
        """The state's name, as Kafka writes it: "PrepareCommit"."""
        return self.name.title().replace("_", "")


EMPTY: Final = TransactionState.EMPTY
ONGOING: Final = TransactionState.ONGOING
PREPARED: Final = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
AT_REST: Final = frozenset(
    {EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
)
"""States in which no transaction is open."""

BEFORE: Final = {
    EMPTY: AT_REST,
    ONGOING: AT_REST | {ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({ONGOING}),
    TransactionState.PREPARE_ABORT: AT_REST | {ONGOING},
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
}
"""The states that may precede each state."""


class TxnPartition(NamedTuple):
    """A partition that takes part in a transaction, by the topic's name as in Kafka's records."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """The value of a transactional id's last record."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    """The producer's epoch; in a Prepare state that of the markers."""
    timeout_ms: int
    state: TransactionState = EMPTY
    partitions: tuple[TxnPartition, ...] = ()
    """Partitions of the open transaction, sorted."""
    updated_ms: int
    """Wall-clock time of the record."""
    started_ms: int = NO_TIME
    """Wall-clock time at which the present or last transaction began; -1 if none has."""
    previous_producer_id: ProducerId = NO_PRODUCER_ID
    next_producer_id: ProducerId = NO_PRODUCER_ID
    """The producer's id after the markers of the last epoch; -1 if it keeps its id."""
    version: int = WITHOUT_BUMP
    """Version of the client's transactions."""
    last_producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH

    @property
    def is_exhausted(self) -> bool:
        """True if the next epoch would not be one of data."""
        return self.producer_epoch >= DATA_EPOCH_MAX

    @property
    def next_producer(self) -> tuple[ProducerId, ProducerEpoch]:
        """The producer's id and epoch once the transaction is completed."""
        if self.next_producer_id != NO_PRODUCER_ID:
            return self.next_producer_id, ProducerEpoch(0)
        return self.producer_id, self.producer_epoch


def begun(
    before: Transaction, added: tuple[TxnPartition, ...], *, version: int, now_ms: int
) -> Transaction:
    """Returns the transaction with more partitions; the first ones begin it."""
    is_first = before.state is not ONGOING
    return _changed(
        before,
        replace(
            before,
            state=ONGOING,
            partitions=tuple(sorted({*(() if is_first else before.partitions), *added})),
            started_ms=now_ms if is_first else before.started_ms,
            updated_ms=now_ms,
            version=version,
            previous_producer_id=NO_PRODUCER_ID,
            next_producer_id=NO_PRODUCER_ID,
            last_producer_epoch=NO_PRODUCER_EPOCH,  # what was before is no retry any more (I-167)
        ),
    )


def prepared(before: Transaction, *, is_commit: bool, now_ms: int) -> Transaction:
    """Returns the decided transaction, whose markers have the epoch of the data (version 1)."""
    return _changed(
        before,
        replace(before, state=_prepare(is_commit), updated_ms=now_ms, version=WITHOUT_BUMP),
    )


def prepared_with_bump(
    before: Transaction,
    *,
    is_commit: bool,
    last_producer_epoch: ProducerEpoch,
    next_producer_id: ProducerId,
    now_ms: int,
) -> Transaction:
    """Returns the decided transaction with the next epoch. `next_producer_id` is required exactly
    if that is the last one.
    """
    assert (next_producer_id != NO_PRODUCER_ID) == before.is_exhausted, (before, next_producer_id)
    is_open = before.state is ONGOING
    return _changed(
        before,
        replace(
            before,
            state=_prepare(is_commit),
            producer_epoch=ProducerEpoch(before.producer_epoch + 1),
            partitions=before.partitions if is_open else (),
            started_ms=before.started_ms if is_open else now_ms,
            updated_ms=now_ms,
            version=WITH_BUMP,
            previous_producer_id=before.producer_id,
            next_producer_id=next_producer_id,
            last_producer_epoch=last_producer_epoch,
        ),
    )


def completed(before: Transaction, *, now_ms: int) -> Transaction:
    """Returns the ended transaction; its markers are committed."""
    is_commit = before.state is TransactionState.PREPARE_COMMIT
    state = TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT
    producer_id, producer_epoch = before.next_producer
    return _changed(
        before,
        replace(
            before,
            state=state,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            partitions=(),
            updated_ms=now_ms,
            next_producer_id=NO_PRODUCER_ID,
        ),
    )


def initialized(
    before: Transaction,
    producer_id: ProducerId,
    producer_epoch: ProducerEpoch,
    *,
    last_producer_epoch: ProducerEpoch,
    timeout_ms: int,
    now_ms: int,
) -> Transaction:
    """Returns the id for a producer that begins, or begins again."""
    is_new_id = producer_id != before.producer_id
    return _changed(
        before,
        Transaction(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            timeout_ms=timeout_ms,
            updated_ms=now_ms,
            previous_producer_id=before.producer_id if is_new_id else NO_PRODUCER_ID,
            last_producer_epoch=last_producer_epoch,
        ),
    )


def _prepare(is_commit: bool) -> TransactionState:
    return TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT


def _changed(before: Transaction, after: Transaction) -> Transaction:
    assert before.state in BEFORE[after.state], (before, after)
    return after
