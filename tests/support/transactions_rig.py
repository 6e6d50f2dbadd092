"""A shard's transactional ids without a broker: every decision is encoded, decoded, replayed and
kept, and calls that wait for an end are asked again as the host does.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from strandline_broker.core.coordination.decision import Record
from strandline_broker.core.transactions.commands import (
    PARKED,
    AbortTimedOut,
    AddPartitions,
    Ended,
    EndTransaction,
    InitProducer,
    Inputs,
    MarkersDone,
    Producer,
    SendMarkers,
    VerifyPartitions,
)
from strandline_broker.core.transactions.records import TransactionKey
from strandline_broker.core.transactions.settings import TransactionSettings
from strandline_broker.core.transactions.transaction import BEFORE, EMPTY, TxnPartition
from strandline_broker.core.transactions.transactions import Transactions
from strandline_proto.errors import WireError
from strandline_proto.ids import Offset, ProducerEpoch, ProducerId

if TYPE_CHECKING:
    from strandline_broker.core.transactions.commands import Command, Effect, Reply
    from strandline_broker.core.transactions.transaction import Transaction

WALL_MS = 1_700_000_000_000
TIMEOUT_MS = 60_000
T0 = TxnPartition("t", 0)
T1 = TxnPartition("t", 1)


@dataclass
class TransactionsRig:
    settings: TransactionSettings = field(default_factory=TransactionSettings)
    wall_ms: int = WALL_MS
    next_producer_id: int = 1000
    has_producer_ids: bool = True
    is_sure: bool = True
    log: list[tuple[int, Record]] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    parked: dict[str, list[InitProducer | AddPartitions]] = field(default_factory=dict)
    answered: list[Reply] = field(default_factory=list)
    """The answers to calls that were parked."""
    markers: list[tuple[str, ProducerId, int, bool]] = field(default_factory=list)
    """Markers of decisions: transactional id, producer id, epoch, True for a commit."""

    def __post_init__(self) -> None:
        self.transactions = Transactions(self.settings)

    # A step

    def run(self, command: Command) -> Reply:
        decision = self.transactions.decide(command, self.inputs())
        for record in decision.records:
            self._check_transition(record)
            self.append(record)
        self.effects += decision.effects
        for effect in decision.effects:
            if isinstance(effect, SendMarkers):
                found = self.transactions.table[effect.transactional_id]
                is_commit = found.state.text == "PrepareCommit"
                self.markers.append(
                    (
                        effect.transactional_id,
                        found.producer_id,
                        found.producer_epoch,
                        is_commit,
                    )
                )
        if decision.answer is PARKED:
            assert isinstance(command, InitProducer | AddPartitions)
            self.parked.setdefault(command.transactional_id, []).append(command)
        for effect in decision.effects:
            if isinstance(effect, Ended):
                for waiting in self.parked.pop(effect.transactional_id, []):
                    reply = self.run(waiting)
                    if reply is not PARKED:
                        self.answered.append(reply)
        return decision.answer

    def inputs(self) -> Inputs:
        return Inputs(
            wall_ms=self.wall_ms, take_producer_id=self._take_producer_id, is_sure=self.is_sure
        )

    def append(self, record: Record) -> None:
        """As the runtime does it: encoded, and replayed as it is read again."""
        key, value = self.transactions.encode(record)
        again = self.transactions.decode(key, value)
        assert again == record, (again, record)
        offset = len(self.log)
        self.log.append((offset, record))
        self.transactions.replay(Offset(offset), record)

    def _check_transition(self, record: Record) -> None:
        """Only the transitions of COORDINATION 3.6 (I-162)."""
        before = self.transactions.table.get(record.key.transactional_id)
        if record.value is None:
            assert before is None or before.state in BEFORE[EMPTY], before
        elif before is None:
            assert record.value.state is EMPTY, record
        elif record.value != before:
            assert before.state in BEFORE[record.value.state], (before, record)

    def _take_producer_id(self) -> ProducerId | None:
        if not self.has_producer_ids:
            return None
        self.next_producer_id += 1
        return ProducerId(self.next_producer_id - 1)

    # A failover

    def load(self, *, compacted: bool = False) -> Transactions:
        """The fold of the log in another process."""
        log = self.log
        if compacted:
            last = {record.key: offset for offset, record in log}
            log = [each for each in log if last[each[1].key] == each[0]]
        loaded = Transactions(self.settings)
        for offset, record in log:
            loaded.replay(Offset(offset), record)
        return loaded

    def fail_over(self) -> None:
        """Another coordinator loads the log; parked calls are lost."""
        self.transactions = self.load()
        self.parked.clear()

    # Commands in short

    def init(
        self, name: str = "x", producer: Producer | None = None, *, timeout_ms: int = TIMEOUT_MS
    ) -> Any:
        expected = producer or Producer(ProducerId(-1), ProducerEpoch(-1))
        return self.run(
            InitProducer(
                transactional_id=name,
                timeout_ms=timeout_ms,
                producer_id=expected.producer_id,
                producer_epoch=expected.producer_epoch,
            )
        )

    def add(
        self,
        producer: Producer,
        *partitions: TxnPartition,
        name: str = "x",
        version: int = 2,
        waits: bool = False,
    ) -> Any:
        return self.run(AddPartitions(name, *producer, partitions or (T0,), version, waits))

    def verify(self, producer: Producer, *partitions: TxnPartition, name: str = "x") -> Any:
        return self.run(VerifyPartitions(name, *producer, partitions or (T0,)))

    def end(
        self, producer: Producer, *, commit: bool = True, name: str = "x", version: int = 2
    ) -> Any:
        return self.run(EndTransaction(name, *producer, commit, version))

    def time_out(self, name: str = "x") -> None:
        self.run(AbortTimedOut(name))

    def marked(self, *partitions: TxnPartition, name: str = "x") -> None:
        """The markers of these partitions are committed; without any: of all."""
        outstanding = self.transactions.outstanding[name]
        done = partitions or tuple(sorted(outstanding.partitions))
        self.run(MarkersDone(name, outstanding.prepared_at, done))

    def of(self, name: str = "x") -> Transaction:
        return self.transactions.table[name]

    def state(self, name: str = "x") -> str:
        return self.of(name).state.text

    def begun(self, name: str = "x", *, version: int = 2) -> Producer:
        """A producer with an open transaction."""
        producer: Producer = self.init(name)
        self.add(producer, name=name, version=version)
        return producer

    def at(self, epoch: int, name: str = "x") -> Producer:
        """The producer of a new id at a high epoch, as many transactions later."""
        self.init(name)
        later = replace(self.of(name), producer_epoch=ProducerEpoch(epoch))
        self.append(Record(TransactionKey(name), later))
        return Producer(later.producer_id, later.producer_epoch)


def code(reply: object) -> int:
    """The code of an error that is an answer."""
    assert isinstance(reply, WireError), reply
    return reply.code
