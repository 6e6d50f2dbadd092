"""Time limits: of an open transaction, and of a transactional id that is not used.

The age of a transaction is a difference of wall-clock times, as another process may have begun it
(P-148). An open transaction past its timeout is aborted with one bump; a decided one never is
(I-171). Unused ids expire only while no transaction is open or decided (I-173).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.coordination.decision import Decision, Record
from strandline_broker.core.transactions.end import abort
from strandline_broker.core.transactions.records import TransactionKey
from strandline_broker.core.transactions.transaction import AT_REST, ONGOING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strandline_broker.core.transactions.commands import AbortTimedOut, Effect, ExpireIds
    from strandline_broker.core.transactions.context import Context
    from strandline_broker.core.transactions.transaction import Transaction


def is_timed_out(transaction: Transaction, now_ms: int) -> bool:
    """True if the transaction is open for longer than its timeout; it has no age before its
    begin.
    """
    age_ms = max(now_ms - transaction.started_ms, 0)
    return transaction.state is ONGOING and age_ms > transaction.timeout_ms


def abort_timed_out(
    transaction: Transaction | None, command: AbortTimedOut, context: Context
) -> Decision[None, Effect]:
    transactional_id = command.transactional_id
    if transaction is None or not is_timed_out(transaction, context.now_ms):
        return Decision((), None, about=transactional_id)
    return abort(
        transactional_id,
        transaction,
        context,
        # No producer has taken the id over: the producer's own abort gets the raised epoch.
        last_producer_epoch=transaction.producer_epoch,
        why=f"it was open for longer than {transaction.timeout_ms} ms",
    )


def is_expired(transaction: Transaction, now_ms: int, expiration_ms: int) -> bool:
    """True if the id may be removed: nothing is open, and nothing was written for so long."""
    return transaction.state in AT_REST and now_ms - transaction.updated_ms >= expiration_ms


def expire_ids(
    table: Mapping[str, Transaction], command: ExpireIds, context: Context
) -> Decision[None, Effect]:
    """Removes those ids of the command that are expired now."""
    expiration_ms = context.settings.id_expiration_ms
    records = tuple(
        Record(TransactionKey(transactional_id), None)
        for transactional_id in command.transactional_ids
        if (found := table.get(transactional_id)) is not None
        and is_expired(found, context.now_ms, expiration_ms)
    )
    return Decision(records, None)
