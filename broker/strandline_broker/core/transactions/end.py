"""The end of a transaction: EndTxn, and aborts by the coordinator itself.

In version 1 a request names the present epoch. In version 2 each end raises the epoch, so the given
epoch tells a repeated request from that for the next transaction (P-105, I-166). A repeated request
gets the same answer until the next transaction begins, and a late one changes nothing (I-167). An
abort by the coordinator has no repeated commit: the answer is 90, not a fatal 48 (P-121).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.coordination.decision import Decision, Record
from strandline_broker.core.transactions.commands import (
    Aborted,
    EndTransaction,
    Producer,
    SendMarkers,
)
from strandline_broker.core.transactions.records import TransactionKey
from strandline_broker.core.transactions.transaction import (
    AT_REST,
    DATA_EPOCH_MAX,
    ONGOING,
    PREPARED,
    WITH_BUMP,
    Transaction,
    TransactionState,
    completed,
    prepared,
    prepared_with_bump,
)
from strandline_proto.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTxnState,
    ProducerFenced,
)

if TYPE_CHECKING:
    from strandline_broker.core.transactions.commands import Effect
    from strandline_broker.core.transactions.context import Context
    from strandline_proto.errors import WireError
    from strandline_proto.ids import ProducerEpoch

COMMITTED = (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)


def end(
    transaction: Transaction | None, command: EndTransaction, context: Context
) -> Decision[Producer | WireError, Effect]:
    """Decides the transaction, or answers as its decision did. Raises WireError."""
    bumps = command.version >= WITH_BUMP
    found = check_producer(transaction, command)
    if found.state in PREPARED:
        raise _under_way(found, command)
    if bumps and found.state in AT_REST and _is_retry(found, command):
        return Decision((), _repeated(found, command), about=command.transactional_id)
    check_epoch(found, command)
    if found.state is ONGOING:
        return _decided(found, command, context)
    if bumps and not command.is_commit:
        return _empty_abort(found, command, context)
    if not bumps and found.state in _ENDS[command.is_commit]:
        answer = Producer(found.producer_id, found.producer_epoch)
        return Decision((), answer, about=command.transactional_id)
    raise _does_not_fit(found, command)


def abort(
    transactional_id: str,
    transaction: Transaction,
    context: Context,
    *,
    last_producer_epoch: ProducerEpoch,
    why: str,
) -> Decision[None, Effect]:
    """Aborts an open transaction with a bump, whatever the client's version is (P-118, P-119)."""
    after = prepared_with_bump(
        transaction,
        is_commit=False,
        last_producer_epoch=last_producer_epoch,
        next_producer_id=context.id_after_bump(transaction),
        now_ms=context.now_ms,
    )
    return Decision(
        (Record(TransactionKey(transactional_id), after),),
        None,
        (SendMarkers(transactional_id), Aborted(transactional_id, why)),
        about=transactional_id,
    )


def check_producer(transaction: Transaction | None, command: EndTransaction) -> Transaction:
    """Returns the transaction if its producer id is the command's, or was until the epochs of that
    id were used up. Raises InvalidProducerIdMapping.
    """
    if transaction is None:
        raise InvalidProducerIdMapping(
            f"transactional id {command.transactional_id!r} is not known; it expires when it is not"
            " used. Begin with InitProducerId"
        )
    known = {transaction.producer_id, transaction.next_producer[0]}
    if command.producer_epoch == DATA_EPOCH_MAX and transaction.producer_epoch == 0:
        known.add(transaction.previous_producer_id)
    if command.producer_id not in known:
        raise wrong_producer_id(command.transactional_id, transaction, command.producer_id)
    return transaction


def wrong_producer_id(
    transactional_id: str, transaction: Transaction, producer_id: int
) -> InvalidProducerIdMapping:
    return InvalidProducerIdMapping(
        f"producer id {producer_id} is not the one of transactional id {transactional_id!r}, which"
        f" is {transaction.producer_id}: another producer has taken the id over"
    )


def check_epoch(transaction: Transaction, command: EndTransaction) -> None:
    """Raises ProducerFenced unless producer id and epoch are the present ones."""
    if (command.producer_id, command.producer_epoch) != (
        transaction.producer_id,
        transaction.producer_epoch,
    ):
        raise fenced(command.transactional_id, transaction, command.producer_epoch)


def fenced(transactional_id: str, transaction: Transaction, producer_epoch: int) -> ProducerFenced:
    return ProducerFenced(
        f"epoch {producer_epoch} of transactional id {transactional_id!r} is not the present one,"
        f" {transaction.producer_epoch}: another producer has taken the id over, or the"
        " coordinator has aborted the transaction at its timeout"
    )


def busy(transactional_id: str, transaction: Transaction) -> ConcurrentTransactions:
    return ConcurrentTransactions(
        f"the transaction of {transactional_id!r} is in state {transaction.state.text}: its markers"
        " are being written; try again in a moment"
    )


def _is_retry(found: Transaction, command: EndTransaction) -> bool:
    """True if the command led to the present epoch of a completed or decided transaction."""
    if found.last_producer_epoch != command.producer_epoch:
        return False
    if command.producer_id == found.producer_id:
        bumped = found.producer_epoch == command.producer_epoch + 1
    else:  # the last epoch of the id before
        bumped = command.producer_id == found.previous_producer_id
    return bumped and found.version >= WITH_BUMP and found.state is not TransactionState.EMPTY


def _under_way(found: Transaction, command: EndTransaction) -> WireError:
    """The answer while the markers of a decision are outstanding."""
    is_same = command.is_commit == (found.state in COMMITTED)
    if command.version < WITH_BUMP:
        if (command.producer_id, command.producer_epoch) != (
            found.producer_id,
            found.producer_epoch,
        ):
            return fenced(command.transactional_id, found, command.producer_epoch)
    elif (command.producer_id, command.producer_epoch) == found.next_producer:
        return busy(command.transactional_id, found)  # the end of the next, empty transaction
    elif not _is_retry(found, command) or (command.is_commit and not is_same):
        return fenced(command.transactional_id, found, command.producer_epoch)
    return busy(command.transactional_id, found) if is_same else _does_not_fit(found, command)


def _repeated(found: Transaction, command: EndTransaction) -> Producer | WireError:
    """The answer to a repeated request after the completion."""
    if command.is_commit == (found.state in COMMITTED):
        return Producer(found.producer_id, found.producer_epoch)
    if command.is_commit:
        return fenced(command.transactional_id, found, command.producer_epoch)
    return _does_not_fit(found, command)


def _decided(
    found: Transaction, command: EndTransaction, context: Context
) -> Decision[Producer | WireError, Effect]:
    if command.version >= WITH_BUMP:
        after = prepared_with_bump(
            found,
            is_commit=command.is_commit,
            last_producer_epoch=command.producer_epoch,
            next_producer_id=context.id_after_bump(found),
            now_ms=context.now_ms,
        )
    else:
        after = prepared(found, is_commit=command.is_commit, now_ms=context.now_ms)
    record = Record(TransactionKey(command.transactional_id), after)
    effects = (SendMarkers(command.transactional_id),)
    return Decision((record,), Producer(*after.next_producer), effects)


def _empty_abort(
    found: Transaction, command: EndTransaction, context: Context
) -> Decision[Producer | WireError, Effect]:
    """Aborts a transaction to which no partition was added: a bump without markers."""
    decided = prepared_with_bump(
        found,
        is_commit=False,
        last_producer_epoch=command.producer_epoch,
        next_producer_id=context.id_after_bump(found),
        now_ms=context.now_ms,
    )
    ended = completed(decided, now_ms=context.now_ms)
    key = TransactionKey(command.transactional_id)
    answer = Producer(ended.producer_id, ended.producer_epoch)
    return Decision((Record(key, decided), Record(key, ended)), answer)


_ENDS = {
    True: (TransactionState.COMPLETE_COMMIT,),
    False: (TransactionState.COMPLETE_ABORT,),
}


def _does_not_fit(found: Transaction, command: EndTransaction) -> InvalidTxnState:
    wanted = "commit" if command.is_commit else "abort"
    allowed = {
        TransactionState.EMPTY: "add partitions to a transaction first",
        TransactionState.PREPARE_COMMIT: "it is being committed; only its commit may be repeated",
        TransactionState.PREPARE_ABORT: "it is being aborted; only its abort may be repeated",
        TransactionState.COMPLETE_COMMIT: "its last transaction is committed; begin another one",
        TransactionState.COMPLETE_ABORT: "its last transaction is aborted; begin another one",
    }[found.state]
    return InvalidTxnState(
        f"cannot {wanted} a transaction of {command.transactional_id!r} in state"
        f" {found.state.text}: {allowed}"
    )
