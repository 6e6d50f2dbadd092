"""The transactional ids of one shard on its broker: the host side of the coordinators' second
application.

`core/transactions` decides. This file carries effects out. The markers of a decision leave once it
is committed (I-164), and after a load those of every decision that is not complete (I-174). The
metadata is read when they leave. If a topic's id is gone by then, but another topic has its name,
the marker goes to that one: data may have come there before the decision.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from strandline_broker.core.coordination.shard import ShardState
from strandline_broker.core.replication.end_marker import EndMarker
from strandline_broker.core.transactions.commands import (
    NO_PRODUCER_ID_LEFT,
    Aborted,
    AbortTimedOut,
    DescribeTransaction,
    Ended,
    ExpireIds,
    ListTransactions,
    MarkersDone,
    SendMarkers,
    VerifyPartitions,
)
from strandline_broker.core.transactions.transaction import TransactionState, TxnPartition
from strandline_broker.hosts.coordination.shard_host import RETRY_MS
from strandline_broker.hosts.transactions.parked_calls import Call, ParkedCalls
from strandline_proto.errors import RecordTooLarge, WireError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from strandline_broker.core.coordination.decision import Decision, Record
    from strandline_broker.core.transactions.commands import Command, Effect, Reply
    from strandline_broker.core.transactions.transactions import Transactions
    from strandline_broker.hosts.coordination.shard_host import ShardHost
    from strandline_broker.hosts.transactions.transaction_context import Place, TransactionContext
    from strandline_proto.ids import LeaderEpoch, Offset, TopicId


class TransactionShard:
    """An `Application`."""

    def __init__(self, context: TransactionContext, shard: ShardHost[TransactionShard]) -> None:
        self.context = context
        self.shard = shard
        self.machine = shard.machine
        self.transactions = context.new_transactions()
        self.parked = ParkedCalls(self)
        self._sent: dict[str, LeaderEpoch] = {}
        """Ids whose markers are with the sender, with the leadership in which they were sent."""

    # Calls

    def ask(self, command: Command) -> Call:
        """Carries the command out; an error is an answer."""
        call = Call(self, command)
        self.shard.ask(command, call)
        return call

    # Markers

    def _send_once_committed(self, transactional_id: str) -> None:
        """Sends the markers once the decision is committed."""
        prepared = _Prepared(self, transactional_id)
        if self.machine.park(prepared, transactional_id):
            prepared.committed()

    def send_markers(self, transactional_id: str) -> None:
        """Sends the markers of a committed decision; those without a partition are done."""
        outstanding = self.transactions.outstanding.get(transactional_id)
        if outstanding is None:
            return  # it has no partitions left, and is complete
        ids = self.context.metadata.view.ids_by_name
        names: dict[TopicId, str] = {}
        places: list[Place] = []
        gone: list[TxnPartition] = []
        for partition in sorted(outstanding.partitions):
            topic_id = ids.get(partition.topic)
            if topic_id is None or not self._has(topic_id, partition.partition):
                gone.append(partition)
                continue
            names[topic_id] = partition.topic
            places.append((topic_id, partition.partition))
        if places:
            self._send(transactional_id, outstanding.prepared_at, names, places)
        if gone or not places:
            self.run_later(MarkersDone(transactional_id, outstanding.prepared_at, tuple(gone)))

    def _send(
        self,
        transactional_id: str,
        prepared_at: Offset,
        names: Mapping[TopicId, str],
        places: Sequence[Place],
    ) -> None:
        epoch = self.machine.epoch
        value = self.transactions.table[transactional_id]
        marker = EndMarker(
            value.producer_id,
            value.producer_epoch,
            is_commit=value.state is TransactionState.PREPARE_COMMIT,
            coordinator_epoch=epoch,
            transaction_version=value.version,
        )
        self._sent[transactional_id] = epoch
        done = partial(self._marked, transactional_id, prepared_at, epoch, names)
        self.context.sender.send(transactional_id, marker, places, done)

    def _marked(
        self,
        transactional_id: str,
        prepared_at: Offset,
        epoch: LeaderEpoch,
        names: Mapping[TopicId, str],
        place: Place,
    ) -> None:
        """Notes that the marker is committed in this partition, or that its topic's id is gone."""
        if self.machine.state is not ShardState.ACTIVE or self.machine.epoch != epoch:
            return
        outstanding = self.transactions.outstanding.get(transactional_id)
        if outstanding is None or outstanding.prepared_at != prepared_at:
            return
        topic_id, index = place
        name = names[topic_id]
        view = self.context.metadata.view
        successor = view.ids_by_name.get(name)
        if (
            topic_id not in view.topics_by_id
            and successor is not None
            and self._has(successor, index)
        ):
            self._send(transactional_id, prepared_at, {successor: name}, [(successor, index)])
            return
        self.run_later(MarkersDone(transactional_id, prepared_at, (TxnPartition(name, index),)))

    def run_later(self, command: MarkersDone) -> None:
        """Runs the command, again after a while if it could not be written."""
        try:
            self.shard.run(command)
        except WireError:
            if self.machine.state is ShardState.ACTIVE:
                self.context.timers.start(self.shard, command, RETRY_MS)

    def _has(self, topic_id: TopicId, index: int) -> bool:
        return self.context.metadata.view.partition(topic_id, index) is not None

    # Time limits

    def abort_timed_out(self) -> bool:
        """Aborts transactions past their timeout; False if more producer ids are needed first."""
        has_ids = True
        if self.machine.state is not ShardState.ACTIVE:
            return has_ids
        for transactional_id in self.transactions.timed_out(self.context.shared.wall_ms()):
            try:
                reply = self.shard.run(AbortTimedOut(transactional_id))
            except WireError:
                break  # at the next sweep
            has_ids = has_ids and reply is not NO_PRODUCER_ID_LEFT
        return has_ids

    def expire(self, ids: Sequence[str]) -> None:
        """Removes those of the ids that are expired."""
        expired = self.transactions.expired(ids, self.context.shared.wall_ms())
        if expired and self.machine.state is ShardState.ACTIVE:
            try:
                self.shard.run(ExpireIds(expired))
            except WireError:
                return  # at the next sweep

    # State

    def shard_state(self) -> str:
        """Returns the state of the shard, as metrics name it."""
        return self.machine.state.value

    def states(self) -> Mapping[TransactionState, int]:
        """Returns the number of ids in each state."""
        return self.transactions.states if self.machine.state is ShardState.ACTIVE else {}

    # As the application of its shard

    @property
    def state(self) -> Transactions:
        """The transactional ids, as the fold of the log."""
        return self.transactions

    def decide(self, command: Command) -> Decision[Reply, Effect]:
        """Returns the decision of the transactions."""
        return self.transactions.decide(command, self.context.inputs())

    def only_reads(self, command: Command) -> bool:
        """True for the commands that write nothing while no other broker may lead."""
        if isinstance(command, VerifyPartitions | DescribeTransaction):
            return self.context.is_sure()
        return isinstance(command, ListTransactions)

    def is_undone(self, command: Command) -> bool:
        """True for all commands but one, which takes note of markers without a record."""
        return not isinstance(command, MarkersDone)

    def too_large(self, what: str) -> WireError:
        """Returns the error for a transaction with more partitions than a record can hold."""
        return RecordTooLarge(f"{what}; a transaction with fewer partitions fits")

    def refused(self, command: Command) -> None:
        """Does nothing: a refused command leaves no trace."""

    def appended(self, records: Sequence[Record]) -> None:
        """Counts records that are in the log now."""
        self.context.metrics.on_records(records)

    def carry_out(self, command: Command, effects: Iterable[Effect]) -> None:
        """Carries the effects out."""
        for effect in effects:
            match effect:
                case SendMarkers():
                    self._send_once_committed(effect.transactional_id)
                case Ended():
                    self._sent.pop(effect.transactional_id, None)
                    self.parked.ended(effect.transactional_id)
                case Aborted():
                    self.context.metrics.aborted()
                    self.context.shared.runtime.log.info(
                        "a transaction is aborted",
                        transactional_id=effect.transactional_id,
                        why=effect.why,
                    )

    def on_timer(self, key: Hashable, epoch: int) -> Command:
        """Returns a command that could not be written when it came."""
        assert isinstance(key, MarkersDone), key
        return key

    def loaded(self, took_s: float) -> None:
        """Counts the time of a load."""
        self.context.metrics.loaded(took_s)

    def serves(self) -> None:
        """Sends the markers of all decided transactions that were loaded (I-174)."""
        for effect in self.transactions.unfinished():
            self._send_once_committed(effect.transactional_id)

    def dropped(self, error: WireError) -> None:
        """Forgets the ids, stops their markers, and ends parked calls (I-110)."""
        sent, self._sent = self._sent, {}
        for transactional_id, epoch in sent.items():
            self.context.sender.cancel(transactional_id, epoch)
        self.transactions = self.context.new_transactions()
        self.parked.lose_all(error)


class _Prepared:
    """A decision whose markers wait for its commit."""

    __slots__ = ("_id", "_shard")

    def __init__(self, shard: TransactionShard, transactional_id: str) -> None:
        self._shard = shard
        self._id = transactional_id

    def committed(self) -> None:
        """Sends the markers."""
        self._shard.send_markers(self._id)

    def lost(self, error: WireError) -> None:
        """Does nothing: the next leadership sends them."""
