"""One shard of a coordinator, on the broker that leads its partition.

A command is one step without `await`. The shard checks that this broker leads in the shard's epoch
and has enough replicas in sync, and lets its application decide. It encodes all records into one
batch, replays them, and appends the batch. Replay stands before append, so that a record which
cannot be replayed is never written; an append that fails afterwards throws the state away, and the
shard is loaded again (I-102, I-107, I-108). Each answer goes to its ticket: at once, or when the
high watermark of the same leadership has passed everything in it (I-104, I-105).
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from strandline_broker.core.coordination.application import TransactionalState
from strandline_broker.core.coordination.shard import Drop, Load, Release, Serve, Shard, ShardState
from strandline_broker.core.replication.append_origin import AppendOrigin
from strandline_broker.hosts.coordination.loader import CannotLoad, load_state, until_sound
from strandline_broker.hosts.coordination.waiting import Asked, CommitWaits
from strandline_broker.hosts.replica.end_markers import append_marker
from strandline_broker.hosts.replica.leading import check_leader
from strandline_proto.batch import build_batch
from strandline_proto.errors import (
    CoordinatorNotAvailable,
    InvalidTxnState,
    NotCoordinator,
    NotEnoughReplicas,
    WireError,
)
from strandline_proto.ids import LeaderEpoch, Offset

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from strandline_broker.core.coordination.application import Application
    from strandline_broker.core.coordination.decision import Decision, Entity, Producer, Record
    from strandline_broker.core.coordination.shard import ShardEffect
    from strandline_broker.core.replication.end_marker import EndMarker
    from strandline_broker.hosts.coordination.shard_context import ShardContext
    from strandline_broker.hosts.coordination.waiting import Ticket, Waiting
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_broker.hosts.replica.purgatory import ProduceOutcome

RETRY_MS: Final = 1_000
"""Pause before a timer that could do nothing, for want of replicas in sync, tries again."""

FIRST_SEQUENCE: Final = 0
"""Sequence of each transactional batch of a shard. Such batches are not checked for duplicates, or
the second one of a transaction would count as one (P-129).
"""

App = TypeVar("App", bound="Application[Any]")


class ShardHost(Generic[App]):
    def __init__(
        self,
        context: ShardContext,
        partition: Partition,
        new_application: Callable[[ShardHost[App]], App],
    ) -> None:
        self.context = context
        self.partition = partition
        self.name = partition.name
        self.machine: Shard[Waiting] = Shard()
        self._settled = asyncio.Event()
        self._steps = 0
        """Commands under way: what one brings about is part of its step."""
        self._committed_in_step: int | None = None
        self._given_up = 0
        self.application = new_application(self)

    # The partition's role

    def elected(self, epoch: int, start: int) -> None:
        self._carry_out(self.machine.elected(LeaderEpoch(epoch), Offset(start)))
        self.committed(self.partition.high_watermark)

    def committed(self, end: int) -> None:
        if self._steps > 0:  # a leader that is alone in the ISR commits as it appends
            self._committed_in_step = end
            return
        self._carry_out(self.machine.committed(Offset(end)))

    def resigned(self, epoch: int) -> None:
        self._committed_in_step = None  # of that leadership (I-105)
        self._carry_out(self.machine.resigned(LeaderEpoch(epoch)))

    def deleted(self) -> None:
        self._committed_in_step = None
        self._carry_out(self.machine.deleted())

    # Commands

    def ask(self, command: Any, ticket: Ticket) -> None:
        """Carries the command out now. The ticket gets the answer when it may be given; an error is
        an answer.
        """
        try:
            self.run(command, ticket)
        except WireError as error:
            ticket.lost(error)

    def run(self, command: Any, ticket: Ticket | None = None) -> Any:
        """Carries the command out now, and returns the answer as decided; WireError if nothing was
        done.
        """
        self._check(command)
        self._steps += 1
        try:
            decision = self.application.decide(command)
            end = self._append(command, decision) if decision.records else None
            is_told = False
            if ticket is not None and ticket.decided(decision.answer):
                is_told = self._park(ticket, decision, end)
            self.application.carry_out(command, decision.effects)
            if ticket is not None and is_told:
                ticket.committed()
        finally:
            self._steps -= 1
            self._catch_up()
        return decision.answer

    def _park(self, ticket: Ticket, decision: Decision[Any, Any], end: Offset | None) -> bool:
        if end is None:
            is_committed = self.machine.park(ticket, decision.about)
        else:
            is_committed = self.machine.park_until(ticket, end)
        if not is_committed:
            ticket.parked()
        return is_committed

    def answer(self, ticket: Ticket, answer: Any, about: Entity) -> None:
        """Gives a ticket the answer that it waits for, now or once the last record about the entity
        is committed. A step calls it after its own records are appended.
        """
        if not ticket.decided(answer):
            return
        if self.machine.park(ticket, about):
            ticket.committed()
        else:
            ticket.parked()

    def refusal(self) -> WireError | None:
        """The error for every call at present; None: the shard serves."""
        refusal = self.machine.refusal()
        if refusal is None:
            return None
        return type(refusal)(f"{self.name} on broker {self.context.me}: {refusal}")

    async def settled(self, timeout_s: float) -> None:
        """Waits until the shard serves or refuses for good, at most so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._settled.wait()

    def on_given_up(self) -> None:
        """Counts a ticket that waits no more: these are dropped when they may be half of all."""
        self._given_up += 1
        if 2 * self._given_up >= self.machine.waiting:
            self._given_up = 0
            self.machine.forget(lambda w: isinstance(w, Asked) and w.is_over)

    def waits(self, count: int) -> CommitWaits:
        """The callers that wait for a commit; the offsets of the first `count`."""
        first = self.machine.first_waiters(count)
        offsets = [int(at) for at, who in first if not (isinstance(who, Asked) and who.is_over)]
        return CommitWaits(offsets, self.machine.waiting - self._given_up)

    def on_timer(self, key: Hashable, epoch: int) -> None:
        """Runs the command for a timer; again after a while if it could not be written."""
        try:
            self.run(self.application.on_timer(key, epoch))
        except WireError:
            if self.machine.state is ShardState.ACTIVE:
                self.context.timers.start(self, key, RETRY_MS, epoch)

    # A step

    def _check(self, command: Any) -> None:
        if (refusal := self.refusal()) is not None:
            raise refusal
        partition = self.partition
        try:
            leading = check_leader(partition, self.machine.epoch)
        except WireError as error:
            raise NotCoordinator(str(error)) from error
        if self.application.only_reads(command):
            return
        try:
            leading.machine.check_can_append_all()
            if (why := self.context.dirs.why_full(partition.log)) is not None:
                raise NotCoordinator(f"{self.name} on broker {self.context.me}: {why}")
        except WireError as error:
            self.application.refused(command)
            if isinstance(error, NotEnoughReplicas):
                raise CoordinatorNotAvailable(f"broker {self.context.me}: {error}") from error
            raise

    def _append(self, command: Any, decision: Decision[Any, Any]) -> Offset:
        """The end of the one batch that holds all records of the decision."""
        partition, application, records = self.partition, self.application, decision.records
        batch = self._batch_of(decision)
        if len(batch) > partition.max_message_bytes:
            if not application.is_undone(command):
                self._load_again()
            raise application.too_large(
                f"{self.name}: {len(records)} records of {len(batch)} bytes do not fit into one"
                f" batch of {partition.max_message_bytes}"
            )
        if decision.producer is not None:
            self._check_transaction(decision.producer)
        self._replay(decision)
        try:
            check_leader(partition, self.machine.epoch).appends.append(
                batch,
                acks=1,
                on_done=_nobody_waits,
                origin=AppendOrigin.COORDINATOR,
            )
        except WireError as error:
            if self.machine.state is ShardState.ACTIVE:  # and not put out of service with its disk
                self._load_again()
            raise NotCoordinator(f"{self.name}: nothing was written: {error}") from error
        end = Offset(partition.log.log_end_offset)
        self.machine.appended(application.state.entities(records), end)
        application.appended(records)
        return end

    def _check_transaction(self, producer: Producer) -> None:
        """Raises WireError unless the batch belongs to a transaction that is open or was verified
        under its guard: epoch, then guard (P-120, I-158).
        """
        partition, (producer_id, epoch, guard) = self.partition, producer
        partition.producers.check_epoch(producer_id, epoch)
        if partition.producers.open_epoch(producer_id) == epoch:
            return
        if guard is None:
            raise InvalidTxnState(
                f"{self.name}: the transaction of producer {producer_id} in epoch {epoch} has ended"
                " meanwhile; begin another one"
            )
        leading = check_leader(partition, self.machine.epoch)
        leading.appends.guards.check(guard, FIRST_SEQUENCE)

    def _batch_of(self, decision: Decision[Any, Any]) -> bytes:
        """The batch of the decision's records."""
        records = map(self.application.state.encode, decision.records)
        timestamp_ms, producer = self.context.wall_ms(), decision.producer
        if producer is None:
            return build_batch(records, timestamp_ms=timestamp_ms)
        return build_batch(
            records,
            timestamp_ms=timestamp_ms,
            is_transactional=True,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=FIRST_SEQUENCE,
        )

    def _replay(self, decision: Decision[Any, Any]) -> None:
        replay = self._replaying(decision.producer)
        offset = self.partition.log.log_end_offset
        for number, record in enumerate(decision.records):
            try:
                replay(Offset(offset + number), record)
            except Exception as error:  # noqa: BLE001 - whatever it is, nothing may be written after it
                self.context.runtime.exit(f"{self.name}: cannot replay {record}: {error!r}")

    def _replaying(self, producer: Producer | None) -> Callable[[Offset, Record], None]:
        state = self.application.state
        if producer is None:
            return state.replay
        assert isinstance(state, TransactionalState), state
        return partial(state.replay_transactional, producer_id=producer.producer_id)

    def _load_again(self) -> None:
        log_end = Offset(self.partition.log.log_end_offset)
        self._carry_out(self.machine.append_failed(log_end))

    # End markers

    def end_transaction(self, marker: EndMarker, ticket: Ticket) -> None:
        """Writes the end marker of a transaction in this partition, and carries out what it decides
        (I-104, P-104). The ticket gets None when the marker is committed, or an error.
        """
        try:
            self._end_transaction(marker, ticket)
        except WireError as error:
            ticket.lost(error)

    def _end_transaction(self, marker: EndMarker, ticket: Ticket) -> None:
        self._check(marker)
        self._steps += 1
        try:
            log, state = self.partition.log, self.application.state
            assert isinstance(state, TransactionalState), state
            entities, before = state.entities_of(marker.producer_id), log.log_end_offset
            end = append_marker(self.partition, marker)
            if log.log_end_offset > before:  # else the marker is there already (I-156)
                self._replay_marker(state, marker)
                self.machine.appended(entities, Offset(log.log_end_offset))
            if not ticket.decided(None):
                return
            if end is None or self.machine.park_until(ticket, end):
                ticket.committed()
            else:
                ticket.parked()
        finally:
            self._steps -= 1
            self._catch_up()

    def _replay_marker(self, state: TransactionalState, marker: EndMarker) -> None:
        """Unlike a record, a marker is replayed after its append, because the log decides if it may
        be written. Its replay parses nothing.
        """
        try:
            state.replay_marker(marker.producer_id, is_commit=marker.is_commit)
        except Exception as error:  # noqa: BLE001 - the state is no longer the fold of the log
            self.context.runtime.exit(f"{self.name}: cannot replay {marker}: {error!r}")

    # The shard's life

    def _catch_up(self) -> None:
        if self._steps > 0:
            return
        end, self._committed_in_step = self._committed_in_step, None
        if end is not None:
            self.committed(end)

    def _carry_out(self, effects: Iterable[ShardEffect[Waiting]]) -> None:
        for effect in effects:
            if isinstance(effect, Drop):
                self._drop(effect)
            elif isinstance(effect, Load):
                self._settled.clear()
                self._start(effect)
            elif isinstance(effect, Serve):
                self._serve()
            elif isinstance(effect, Release):
                for waiting in effect.waiters:
                    waiting.committed()

    def _drop(self, drop: Drop[Waiting]) -> None:
        """Nothing of it stays (I-110)."""
        gone = NotCoordinator(
            f"{self.name}: broker {self.context.me} does not coordinate it any more, or loads it"
            " again; what was asked may have been done"
        )
        for waiting in drop.waiters:
            waiting.lost(gone)
        self.context.timers.stop_all(self)
        self.application.dropped(gone)
        self._given_up = 0
        self._settled.set()

    def _serve(self) -> None:
        self.application.serves()
        self._settled.set()

    def _start(self, load: Load) -> None:
        if load.end > self.partition.log.log_start_offset:
            self.context.spawn(self._load(load))
        else:
            self._carry_out(self.machine.loaded(load))

    async def _load(self, load: Load) -> None:
        context, partition = self.context, self.partition
        is_current = partial(self.machine.is_current, load)
        began_s = context.runtime.clock.monotonic()
        try:
            state = self.application.state
            await load_state(context, partition, state, end=load.end, is_current=is_current)
        except CannotLoad as error:
            if is_current():
                context.runtime.log.error(
                    "a coordinator's log cannot be loaded; its shard is out of service",
                    partition=self.name,
                    leader_epoch=load.epoch,
                    why=str(error),
                )
            self._carry_out(self.machine.load_failed(load))
            if error.may_pass:
                await until_sound(partition, load.end, partial(self.machine.has_failed, load))
                self._carry_out(self.machine.load_again(load))
            return
        if is_current():
            self.application.loaded(context.runtime.clock.monotonic() - began_s)
            self._carry_out(self.machine.loaded(load))


def _nobody_waits(outcome: ProduceOutcome) -> None:
    """Who waits does so in the shard."""
