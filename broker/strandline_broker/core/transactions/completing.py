"""The markers of decided transactions, and the completion that follows the last one.

A decision is irrevocable once it is committed (I-165). Its markers go to every partition of the
transaction, and the transaction is complete when each is committed or its topic is deleted (I-164).
The partitions that are left to do are a function of the log: those of the decision, less what this
leadership has done (I-174). So the next coordinator sends all markers again (P-131).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from strandline_broker.core.coordination.decision import Decision, Record
from strandline_broker.core.transactions.commands import Ended
from strandline_broker.core.transactions.records import TransactionKey
from strandline_broker.core.transactions.transaction import completed

if TYPE_CHECKING:
    from strandline_broker.core.transactions.commands import Effect, MarkersDone
    from strandline_broker.core.transactions.context import Context
    from strandline_broker.core.transactions.transaction import Transaction, TxnPartition
    from strandline_proto.ids import Offset


@dataclass(frozen=True, slots=True)
class Outstanding:
    """A decided transaction of which markers are outstanding."""

    prepared_at: Offset
    """Offset of the decision's record. It names the decision: epochs do not, before version 2."""
    partitions: set[TxnPartition]


def markers_done(
    transaction: Transaction | None,
    outstanding: Outstanding | None,
    command: MarkersDone,
    context: Context,
) -> Decision[None, Effect]:
    """Takes partitions off those that are outstanding; without any left, completes."""
    transactional_id = command.transactional_id
    if outstanding is None or outstanding.prepared_at != command.prepared_at:
        return Decision((), None, about=transactional_id)  # completed already (P-131)
    outstanding.partitions.difference_update(command.partitions)
    if outstanding.partitions:
        return Decision((), None, about=transactional_id)
    assert transaction is not None
    record = Record(TransactionKey(transactional_id), completed(transaction, now_ms=context.now_ms))
    return Decision((record,), None, (Ended(transactional_id),), about=transactional_id)
