"""Partitions of a transaction: they are added before their first batch, and verified (KIP-890).

The first partition begins the transaction. A transaction whose markers are outstanding is busy:
that is checked before the epoch, because an honest producer has the next epoch already (P-117). A
command that waits is parked then, and decided when the transaction has ended (I-172).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.coordination.decision import Decision, Record
from strandline_broker.core.transactions.commands import PARKED, PartitionsAdded
from strandline_broker.core.transactions.end import busy, fenced, wrong_producer_id
from strandline_broker.core.transactions.records import TransactionKey
from strandline_broker.core.transactions.transaction import ONGOING, PREPARED, begun
from strandline_proto.errors import InvalidProducerIdMapping, TransactionAbortable

if TYPE_CHECKING:
    from strandline_broker.core.transactions.commands import (
        AddPartitions,
        Effect,
        Later,
        VerifyPartitions,
    )
    from strandline_broker.core.transactions.context import Context
    from strandline_broker.core.transactions.transaction import Transaction, TxnPartition


def add_partitions(
    transaction: Transaction | None, command: AddPartitions, context: Context
) -> Decision[PartitionsAdded | Later, Effect]:
    """Adds partitions to the open transaction, or begins one. Raises WireError."""
    known = _of_producer(transaction, command)
    if command.waits and known.state in PREPARED:
        return Decision((), PARKED, about=command.transactional_id)
    found = _checked(known, command)
    answer = PartitionsAdded((None,) * len(command.partitions))
    if found.state is ONGOING and set(command.partitions) <= set(found.partitions):
        return Decision((), answer, about=command.transactional_id)
    after = begun(found, command.partitions, version=command.version, now_ms=context.now_ms)
    return Decision((Record(TransactionKey(command.transactional_id), after),), answer)


def verify_partitions(
    transaction: Transaction | None, command: VerifyPartitions
) -> Decision[PartitionsAdded, Effect]:
    """Answers whether each partition takes part in the open transaction. Raises WireError."""
    found = _checked(transaction, command)
    present = set(found.partitions) if found.state is ONGOING else set()
    errors = tuple(
        None if partition in present else _not_added(command.transactional_id, found, partition)
        for partition in command.partitions
    )
    return Decision((), PartitionsAdded(errors), about=command.transactional_id)


def _of_producer(
    transaction: Transaction | None, command: AddPartitions | VerifyPartitions
) -> Transaction:
    """Returns the transaction of the command's producer id, in any epoch. Raises WireError."""
    transactional_id = command.transactional_id
    if transaction is None:
        raise InvalidProducerIdMapping(
            f"transactional id {transactional_id!r} is not known; it expires when it is not used."
            " Begin with InitProducerId"
        )
    known = {transaction.producer_id}
    if transaction.state in PREPARED:
        known.add(transaction.next_producer[0])
    if command.producer_id not in known:
        raise wrong_producer_id(transactional_id, transaction, command.producer_id)
    return transaction


def _checked(
    transaction: Transaction | None, command: AddPartitions | VerifyPartitions
) -> Transaction:
    """Returns the producer's transaction, which takes partitions now. Raises WireError."""
    found = _of_producer(transaction, command)
    if found.state in PREPARED:
        raise busy(command.transactional_id, found)
    if command.producer_epoch != found.producer_epoch:
        raise fenced(command.transactional_id, found, command.producer_epoch)
    return found


def _not_added(
    transactional_id: str, transaction: Transaction, partition: TxnPartition
) -> TransactionAbortable:
    return TransactionAbortable(
        f"partition {partition.topic}:{partition.partition} was not added to the transaction of"
        f" {transactional_id!r}, which is in state {transaction.state.text}: abort it"
    )
