"""All transactional ids of one shard: commands in, records and answers out, records replayed.

`decide` changes no state that a record contains. Only `replay` does, live and at load, so the state
is the fold of the log in every process (I-102). There are no pending states: a command sees what
the one before it wrote, and its answer waits for the commit (P-130).

A coordinator whose controller may have taken it for dead writes the id's record once more with an
answer that needs none. The answer waits for that commit, which a deposed coordinator never gets. A
"yes" of a deposed coordinator would let data in behind the marker of the next one (I-157).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from strandline_broker.core.coordination.decision import Decision, Record
from strandline_broker.core.transactions import records as codec
from strandline_broker.core.transactions.commands import (
    NO_PRODUCER_ID_LEFT,
    AbortTimedOut,
    AddPartitions,
    Described,
    DescribeTransaction,
    EndTransaction,
    ExpireIds,
    InitProducer,
    Listed,
    ListTransactions,
    MarkersDone,
    SendMarkers,
    VerifyPartitions,
)
from strandline_broker.core.transactions.completing import Outstanding, markers_done
from strandline_broker.core.transactions.context import Context, NoProducerIdLeft
from strandline_broker.core.transactions.end import end
from strandline_broker.core.transactions.init_producer import init_producer
from strandline_broker.core.transactions.partitions import add_partitions, verify_partitions
from strandline_broker.core.transactions.records import TransactionKey
from strandline_broker.core.transactions.timeouts import (
    abort_timed_out,
    expire_ids,
    is_expired,
    is_timed_out,
)
from strandline_broker.core.transactions.transaction import ONGOING, PREPARED
from strandline_broker.core.transactions.transaction_table import TransactionTable
from strandline_proto.errors import TransactionalIdNotFound, WireError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from strandline_broker.core.coordination.decision import Entity
    from strandline_broker.core.transactions.commands import (
        Command,
        Effect,
        Inputs,
        OfOneId,
        Reply,
    )
    from strandline_broker.core.transactions.settings import TransactionSettings
    from strandline_broker.core.transactions.transaction import Transaction, TransactionState
    from strandline_proto.ids import Offset


class Transactions:
    """The transactional ids of one shard, empty until its log is replayed."""

    def __init__(self, settings: TransactionSettings) -> None:
        self._settings = settings
        self.table = TransactionTable()
        self.open: set[str] = set()
        """Ids with an open transaction."""
        self.outstanding: dict[str, Outstanding] = {}
        """Ids with a decided transaction, with the partitions whose markers are not committed."""
        self.states: Counter[TransactionState] = Counter()
        """Number of ids in each state."""

    # Deciding

    def decide(self, command: Command, inputs: Inputs) -> Decision[Reply, Effect]:
        """Decides a command. It raises only for our own bugs; a refusal is an answer."""
        context = Context(self._settings, inputs)
        if isinstance(command, ListTransactions):
            return Decision((), Listed(self.table.copy()))
        if isinstance(command, ExpireIds):
            return expire_ids(self.table, command, context)
        transactional_id = command.transactional_id
        try:
            decision = self._decide(command, context)
        except NoProducerIdLeft:
            decision = Decision((), NO_PRODUCER_ID_LEFT, about=transactional_id)
        except WireError as error:
            decision = Decision((), error, about=transactional_id)
        return decision if inputs.is_sure else self._proving(decision, transactional_id)

    def _decide(self, command: OfOneId, context: Context) -> Decision[Reply, Effect]:
        found = self.table.get(command.transactional_id)
        match command:
            case InitProducer():
                return init_producer(found, command, context)
            case AddPartitions():
                return add_partitions(found, command, context)
            case VerifyPartitions():
                return verify_partitions(found, command)
            case EndTransaction():
                return end(found, command, context)
            case MarkersDone():
                outstanding = self.outstanding.get(command.transactional_id)
                return markers_done(found, outstanding, command, context)
            case AbortTimedOut():
                return abort_timed_out(found, command, context)
            case DescribeTransaction():
                return _described(found, command)

    def _proving(
        self, decision: Decision[Reply, Effect], transactional_id: str
    ) -> Decision[Reply, Effect]:
        """Adds a record that changes nothing to a decision without records."""
        if decision.records:
            return decision
        same = Record(TransactionKey(transactional_id), self.table.get(transactional_id))
        return Decision((same,), decision.answer, decision.effects)

    # What the host asks

    def timed_out(self, now_ms: int) -> list[str]:
        """Returns the ids whose transactions are open for too long."""
        return sorted(each for each in self.open if is_timed_out(self.table[each], now_ms))

    def expired(self, ids: Iterable[str], now_ms: int) -> tuple[str, ...]:
        """Returns those of the ids that were not used for too long."""
        limit_ms = self._settings.id_expiration_ms
        found = ((each, self.table.get(each)) for each in ids)
        return tuple(
            each
            for each, value in found
            if value is not None and is_expired(value, now_ms, limit_ms)
        )

    def unfinished(self) -> Iterator[SendMarkers]:
        """Yields the markers that the loaded state requires (I-174)."""
        for transactional_id in sorted(self.outstanding):
            yield SendMarkers(transactional_id)

    # As the state of a shard

    def replay(self, offset: Offset, record: Record) -> None:
        """Applies one record, live or during a load."""
        transactional_id = record.key.transactional_id
        state = self.table.state_of(transactional_id)
        before = self.table[transactional_id] if state in PREPARED else None
        after: Transaction | None = record.value
        if state is not None:
            self.states[state] -= 1
        if after is None:
            self.table.pop(transactional_id, None)
        else:
            self.table[transactional_id] = after
            self.states[after.state] += 1
        if after is not None and after.state is ONGOING:
            self.open.add(transactional_id)
        else:
            self.open.discard(transactional_id)
        if after is None or after.state not in PREPARED:
            self.outstanding.pop(transactional_id, None)
        elif after != before:  # not written again to prove the leadership: another decision
            self.outstanding[transactional_id] = Outstanding(offset, set(after.partitions))

    def encode(self, record: Record) -> tuple[bytes, bytes | None]:
        """Returns the record's key and value as the log has them."""
        return codec.encode(record)

    def decode(self, key: bytes, value: bytes | None) -> Record | None:
        """Returns a record of the log; None if its type or version is unknown."""
        return codec.decode(key, value)

    def entities(self, records: Iterable[Record]) -> set[Entity]:
        """Returns the transactional ids that the records are about."""
        return {record.key.transactional_id for record in records}


def _described(
    found: Transaction | None, command: DescribeTransaction
) -> Decision[Described, Effect]:
    transactional_id = command.transactional_id
    if found is None:
        raise TransactionalIdNotFound(f"there is no transactional id {transactional_id!r}")
    return Decision((), Described(transactional_id, found), about=transactional_id)
