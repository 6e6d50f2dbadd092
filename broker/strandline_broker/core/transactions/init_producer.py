"""InitProducerId with a transactional id: a producer takes the id over, and fences the one before.

A producer without an epoch gets the next one, so nothing of an earlier producer commits any more
(I-168). An open transaction is aborted first. The call is parked until its markers are written, and
answered once; Kafka answers 51 meanwhile. A producer that names its epoch and is the present one
gets the next epoch too. If its last request led to the present epoch, it gets that one (KIP-360).
Epochs of data end at `DATA_EPOCH_MAX`; then the producer gets another producer id (I-169).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.coordination.decision import Decision, Record
from strandline_broker.core.transactions.commands import PARKED, Producer
from strandline_broker.core.transactions.end import abort, fenced
from strandline_broker.core.transactions.records import TransactionKey
from strandline_broker.core.transactions.transaction import (
    NO_PRODUCER_EPOCH,
    ONGOING,
    PREPARED,
    Transaction,
    initialized,
)
from strandline_proto.errors import InvalidTransactionTimeout
from strandline_proto.ids import ProducerEpoch

if TYPE_CHECKING:
    from strandline_broker.core.transactions.commands import Effect, InitProducer, Later
    from strandline_broker.core.transactions.context import Context


def init_producer(
    transaction: Transaction | None, command: InitProducer, context: Context
) -> Decision[Producer | Later | None, Effect]:
    """Gives the producer an id and epoch. Raises WireError."""
    transactional_id = command.transactional_id
    longest_ms = context.settings.max_timeout_ms
    if not 0 < command.timeout_ms <= longest_ms:
        raise InvalidTransactionTimeout(
            f"transaction.timeout.ms is {command.timeout_ms}; it must be from 1 to {longest_ms}"
            " (transaction.max.timeout.ms of the brokers)"
        )
    if transaction is None:
        return _created(command, context)
    if transaction.state in PREPARED:
        return Decision((), PARKED, about=transactional_id)
    _check_expected(transaction, command)
    if transaction.state is ONGOING:
        aborted = abort(
            transactional_id,
            transaction,
            context,
            # The aborted epoch is this producer's own if it names it: then it is not taken over.
            last_producer_epoch=command.producer_epoch,
            why="its producer has begun again",
        )
        return Decision(aborted.records, PARKED, aborted.effects)
    if not command.is_new and not _is_present(transaction, command):
        answer = Producer(transaction.producer_id, transaction.producer_epoch)
        return Decision((), answer, about=transactional_id)
    return _raised(transaction, command, context)


def _created(command: InitProducer, context: Context) -> Decision[Producer, Effect]:
    """An id that is not known, or has expired, begins with a new producer id."""
    made = Transaction(
        producer_id=context.new_producer_id(),
        producer_epoch=ProducerEpoch(0),
        timeout_ms=command.timeout_ms,
        updated_ms=context.now_ms,
    )
    return _answered(command.transactional_id, made)


def _raised(
    transaction: Transaction, command: InitProducer, context: Context
) -> Decision[Producer, Effect]:
    producer_id = transaction.producer_id
    producer_epoch = ProducerEpoch(transaction.producer_epoch + 1)
    if transaction.is_exhausted:
        producer_id, producer_epoch = context.new_producer_id(), ProducerEpoch(0)
    after = initialized(
        transaction,
        producer_id,
        producer_epoch,
        last_producer_epoch=command.producer_epoch,
        timeout_ms=command.timeout_ms,
        now_ms=context.now_ms,
    )
    return _answered(command.transactional_id, after)


def _answered(transactional_id: str, after: Transaction) -> Decision[Producer, Effect]:
    record = Record(TransactionKey(transactional_id), after)
    return Decision((record,), Producer(after.producer_id, after.producer_epoch))


def _check_expected(transaction: Transaction, command: InitProducer) -> None:
    """Raises ProducerFenced unless the producer is new, the present one, or the one whose last
    request led to the present epoch.
    """
    if command.is_new or _is_present(transaction, command):
        return
    is_last = (
        command.producer_epoch == transaction.last_producer_epoch
        and command.producer_epoch != NO_PRODUCER_EPOCH
        and command.producer_id in (transaction.producer_id, transaction.previous_producer_id)
    )
    if not is_last:
        raise fenced(command.transactional_id, transaction, command.producer_epoch)


def _is_present(transaction: Transaction, command: InitProducer) -> bool:
    return (command.producer_id, command.producer_epoch) == (
        transaction.producer_id,
        transaction.producer_epoch,
    )
