"""One replica as the leader of its partition, in one leader epoch: the leader machine, its effects,
and all waiting callers.

Callers wait for this leadership and no other: producers for their acks, DeleteRecords for the
followers, fetch sessions for news. When the leadership ends, each of them learns it in the same
step (P-25).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_broker.core.replication.fencing import check_leader_epoch
from strandline_broker.core.replication.isolation import Isolation
from strandline_broker.core.replication.leader import HighWatermarkRaised, ProposeIsr
from strandline_broker.hosts.replica.appends import Appends
from strandline_broker.hosts.replica.deletions import Deletions
from strandline_proto.errors import (
    KafkaStorageError,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    WireError,
)
from strandline_proto.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset
from strandline_runtime.milliseconds import monotonic_ms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from strandline_broker.core.replication.leader import Effect, Leader
    from strandline_broker.core.replication.partition_state import (
        IsrAnswer,
        IsrMember,
        PartitionState,
    )
    from strandline_broker.hosts.common.fetch_messages import Position
    from strandline_broker.hosts.disks.flush_schedule import FlushSchedule
    from strandline_broker.hosts.replica.observers import (
        FetchListener,
        LogStartObserver,
        RoleObserver,
    )
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_broker.hosts.replica.ticks import Ticks
    from strandline_broker.hosts.replica.to_controller import ToController
    from strandline_runtime.runtime import Clock


_COMMITTED: Final = Isolation.READ_COMMITTED
"""Python 3.11 takes as long for an enumeration's member as for a call."""


def check_leader(partition: Partition, current_leader_epoch: int | None) -> Leading:
    """Returns the leadership, if the replica leads in the epoch that the caller expects.

    The epoch is checked first, then leadership (I-33).
    """
    if partition.out_of_service is not None:
        raise KafkaStorageError(
            f"{partition.name} on broker {partition.broker_id}: {partition.out_of_service}"
        )
    if current_leader_epoch is not None and current_leader_epoch >= 0:
        check_leader_epoch(current_leader_epoch, partition.leader_epoch, where=partition.name)
    role = partition.role
    if not isinstance(role, Leading):
        raise NotLeaderOrFollower(
            f"broker {partition.broker_id} does not lead {partition.name}"
            f" (leader epoch {partition.leader_epoch})"
        )
    return role


class Leading:
    __slots__ = (
        "_clock",
        "_controller",
        "_observers",
        "_partition",
        "_ticks",
        "appends",
        "consumer_listeners",
        "deletions",
        "machine",
        "replica_listeners",
    )

    def __init__(
        self,
        partition: Partition,
        machine: Leader,
        clock: Clock,
        *,
        controller: ToController,
        flushes: FlushSchedule,
        retention: LogStartObserver,
        ticks: Ticks,
        observers: Sequence[RoleObserver],
    ) -> None:
        self._partition = partition
        self._clock = clock
        self._controller = controller
        self._ticks = ticks
        self._observers = observers
        self.machine = machine
        self.appends = Appends(partition, self, clock, flushes)
        self.deletions = Deletions(partition, self, retention)
        self.replica_listeners: dict[FetchListener, None] = {}
        self.consumer_listeners: dict[FetchListener, None] = {}

    def begin(self) -> None:
        """Start as the replica's role."""
        machine = self.machine
        for observer in self._observers:
            observer.elected(self._partition, machine.leader_epoch, machine.epoch_start)
        self.on_tick(monotonic_ms(self._clock))

    def end(self, why: str) -> None:
        """End as the replica's role; waiting callers learn that the outcome is unknown (P-25)."""
        partition = self._partition
        error = NotLeaderOrFollower(f"{partition.name}: {why}; the records may still be committed")
        self.appends.fail_all(error)
        self.deletions.on_news()
        for observer in self._observers:
            observer.resigned(partition)
        self._tell(self.replica_listeners)
        self._tell(self.consumer_listeners)

    # Questions about the leadership

    @property
    def leader(self) -> Leader:
        return self.machine

    @property
    def follower(self) -> None:
        return None

    @property
    def is_over(self) -> bool:
        return self._partition.role is not self

    def readable_end(self, isolation: Isolation) -> Offset:
        """The only limit of client reads: the offset after the last record that they may have.

        Each rise of it is a rise of the high watermark: the last stable offset waits for the commit
        of an end marker (I-152). So the readers of both levels wake up at the same event.
        """
        if isolation == _COMMITTED:
            return Offset(self._partition.last_stable_offset)
        return self.machine.high_watermark

    def committed_end(self, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> int:
        """The end offset that clients learn: not before it reaches the epoch's start (I-11)."""
        machine = self.machine
        if not machine.end_offset_known:
            raise OffsetNotAvailable(
                f"{self._partition.name}: high watermark {machine.high_watermark} is below the"
                f" start {machine.epoch_start} of leader epoch {machine.leader_epoch};"
                " try again soon"
            )
        return self.readable_end(isolation)

    def describe_isr(self) -> str:
        state, isr = self._partition.state, sorted(m.broker_id for m in self.machine.isr)
        assert state is not None, self._partition.name
        return f"{self._partition.name} has ISR {isr}, needs {state.eff_min_insync}"

    # Events

    def on_state(self, state: PartitionState) -> None:
        before = self.machine.isr
        self.carry_out(self.machine.on_state(state, monotonic_ms(self._clock)))
        self._count_isr(before)
        self._look_for_joins()

    def on_eligible(
        self, brokers: Mapping[BrokerId, BrokerEpoch], *, offline: Collection[BrokerId]
    ) -> None:
        self.carry_out(self.machine.on_eligible(brokers, offline=offline))
        self._look_for_joins()

    def on_isr_outcome(self, request_id: int, outcome: IsrAnswer | WireError) -> None:
        """Take the outcome of a proposal of this leader epoch."""
        before = self.machine.isr
        if isinstance(outcome, WireError):
            self._partition.counters.failed_isr_updates += 1
            now_ms = monotonic_ms(self._clock)
            self.carry_out(self.machine.on_isr_refused(request_id, outcome, now_ms))
        else:
            self.carry_out(self.machine.on_isr_answer(request_id, outcome))
        self._count_isr(before)
        self._look_for_joins()

    def _count_isr(self, before: Sequence[IsrMember]) -> None:
        after, counters = self.machine.isr, self._partition.counters
        if after is not before:
            was, now = ({each.broker_id for each in isr} for isr in (before, after))
            counters.isr_shrinks += not was <= now
            counters.isr_expands += not now <= was

    def on_append(self, log_end_offset: Offset) -> None:
        """Wake followers: there is more to read."""
        self.carry_out(self.machine.on_append(log_end_offset))
        self._tell(self.replica_listeners)

    def on_follower_fetch(self, at: Position, *, broker_id: int, broker_epoch: int) -> None:
        """Note that a follower was read to from this position (P-35)."""
        before = self.machine.followers.get(BrokerId(broker_id))
        self.carry_out(
            self.machine.on_follower_fetch(
                BrokerId(broker_id),
                broker_epoch=BrokerEpoch(broker_epoch),
                leader_epoch=LeaderEpoch(at.current_leader_epoch),
                fetch_offset=Offset(at.fetch_offset),
                log_start_offset=Offset(at.log_start_offset),
                now_ms=monotonic_ms(self._clock),
            )
        )
        known = None if before is None else before.log_end_offset
        if known is not None and at.fetch_offset < known:
            for listener in self.replica_listeners:
                listener.on_set_back(self._partition, broker_id)

    def on_durable(self) -> None:
        durable = self._partition.log.durable_offset
        self.appends.on_durable(durable)
        self.carry_out(self.machine.on_durable(Offset(durable)))

    def on_tick(self, now_ms: int) -> None:
        self.carry_out(self.machine.on_tick(now_ms))
        self._look_for_joins()

    def _look_for_joins(self) -> None:
        """Let the sessions check again which followers hold everything and may join the ISR (I-24).
        A request names no position that has not changed.
        """
        if self.machine.may_grow:
            self._tell(self.replica_listeners)

    def on_healing(self) -> None:
        """Does nothing: a leader's log is not truncated."""

    def on_own_log_start(self) -> None:
        """Notify followers that the log begins later than before."""
        self.carry_out(self.machine.on_log_start(Offset(self._partition.log.log_start_offset)))
        self._tell(self.replica_listeners)

    def carry_out(self, effects: Iterable[Effect]) -> None:
        """Carry out the machine's effects. The machine's watermark and the replica's are the same:
        nothing else moves it in this epoch.
        """
        partition = self._partition
        raised = False
        for effect in effects:
            if isinstance(effect, HighWatermarkRaised):
                assert effect.to > partition.high_watermark, (effect, partition.high_watermark)
                partition.learn_high_watermark(effect.to)
                raised = True
            elif isinstance(effect, ProposeIsr):
                self._controller.propose_isr(partition, effect)
        assert partition.high_watermark == self.machine.high_watermark, partition.name
        if raised:
            self._on_committed()
        self.deletions.on_news()  # a follower reported its log start, or left the ISR
        self._ticks.watch(self)

    def _on_committed(self) -> None:
        partition = self._partition
        self.appends.on_committed(partition.high_watermark)
        for observer in self._observers:
            observer.committed(partition, partition.high_watermark)
        self._tell(self.consumer_listeners)
        for listener in self.replica_listeners:
            listener.on_watermark(partition)

    def forget(self, listener: FetchListener) -> None:
        """Drop the listener, whether its reader was a replica, a consumer or each in turn."""
        self.replica_listeners.pop(listener, None)
        self.consumer_listeners.pop(listener, None)

    def _tell(self, listeners: dict[FetchListener, None]) -> None:
        for listener in listeners:
            listener.on_news(self._partition)
