"""What one replica is in one leader epoch: its leader, or a follower.

A role is made when its epoch begins and never used again after it: whoever has awaited something
compares the role it knew with the one that the replica has (I-42, P-38). What outlasts a role is
the replica's: the log, the high watermark, the producers, a refused truncation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.follower import Follower, TruncateTo
from strandline_broker.core.leader import HighWatermarkRaised, Leader, ProposeIsr
from strandline_broker.core.truncation import follower_high_watermark, follower_log_start
from strandline_broker.hosts.flush_schedule import flush_if_many
from strandline_broker.storage.checkpoints import OFFSET_MAX
from strandline_broker.storage.gaps_marker import FirstGap
from strandline_proto.batch import BatchHeader, end_marker_epoch
from strandline_proto.errors import OffsetNotAvailable, WireError
from strandline_proto.ids import Offset

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from strandline_broker.core.follower import TruncateFully
    from strandline_broker.core.leader import Effect
    from strandline_broker.core.partition_state import IsrAnswer, PartitionState
    from strandline_broker.hosts.partition import Partition
    from strandline_proto.ids import BrokerEpoch, BrokerId


class Leading:
    """The leader machine, and what it wishes carried out on the replica."""

    __slots__ = ("_partition", "machine")

    def __init__(self, partition: Partition, state: PartitionState) -> None:
        context, log = partition.context, partition.log
        self._partition = partition
        self.machine = Leader(
            context.me,
            context.controller.broker_epoch(),
            state,
            log_end_offset=Offset(log.log_end_offset),
            log_start_offset=Offset(log.log_start_offset),
            high_watermark=Offset(partition.high_watermark),
            durable_offset=Offset(log.durable_offset),
            eligible=context.eligibility.brokers,
            lag_ms_max=context.config.replica_lag_time_max_ms,
            flush_always=context.flush_always,
            now_ms=context.now_ms(),
        )

    def committed_end(self) -> int:
        """The end offset for clients: not before it reaches the epoch's start (I-11)."""
        machine = self.machine
        if not machine.end_offset_known:
            raise OffsetNotAvailable(
                f"{self._partition.name}: high watermark {machine.high_watermark} is below the"
                f" start {machine.epoch_start} of leader epoch {machine.leader_epoch};"
                " try again soon"
            )
        return machine.high_watermark

    @property
    def is_over(self) -> bool:
        return self._partition.role is not self

    def on_state(self, state: PartitionState) -> None:
        self.carry_out(self.machine.on_state(state, self._partition.context.now_ms()))
        self._look_for_joins()

    def on_eligible(
        self, brokers: Mapping[BrokerId, BrokerEpoch], *, offline: Collection[BrokerId]
    ) -> None:
        self.carry_out(self.machine.on_eligible(brokers, offline=offline))
        self._look_for_joins()

    def on_isr_outcome(self, request_id: int, outcome: IsrAnswer | WireError) -> None:
        """What became of a proposal of this leader epoch."""
        if isinstance(outcome, WireError):
            now_ms = self._partition.context.now_ms()
            self.carry_out(self.machine.on_isr_refused(request_id, outcome, now_ms))
        else:
            self.carry_out(self.machine.on_isr_answer(request_id, outcome))
        self._look_for_joins()

    def on_durable(self) -> None:
        self.carry_out(self.machine.on_durable(Offset(self._partition.log.durable_offset)))

    def on_tick(self, now_ms: int) -> None:
        self.carry_out(self.machine.on_tick(now_ms))
        self._look_for_joins()

    def _look_for_joins(self) -> None:
        """Who has everything is looked at again by its session, and may join the ISR then (I-24):
        it names no position while that stays what it is.
        """
        if self.machine.may_grow:
            self._partition.tell(self._partition.replica_listeners)

    def on_log_start(self) -> None:
        """The log begins later than before: followers are told."""
        partition = self._partition
        self.carry_out(self.machine.on_log_start(Offset(partition.log.log_start_offset)))
        partition.tell(partition.replica_listeners)

    def carry_out(self, effects: Iterable[Effect]) -> None:
        partition = self._partition
        raised = False
        for effect in effects:
            if isinstance(effect, HighWatermarkRaised):
                known = partition.high_watermark
                assert effect.to >= known or not raised, (effect, known)
                partition.learn_high_watermark(effect.to)
                raised = True
            elif isinstance(effect, ProposeIsr):
                partition.context.controller.propose_isr(partition, effect)
        if raised:
            partition.on_committed()
        partition.deletions.on_news()  # a follower has told its log start, or left the ISR
        partition.context.ticks.watch(self)


class Following:
    """The follower machine, and what the leader's answers mean for the replica.

    The caller holds the gate.
    """

    __slots__ = ("_partition", "machine")

    def __init__(self, partition: Partition, state: PartitionState) -> None:
        context = partition.context
        self._partition = partition
        self.machine = Follower(
            state,
            truncate_to_high_watermark=context.truncate_to_high_watermark,
            refuses_truncation=context.truncations.still_refuses(partition, state),
        )

    async def begin(self) -> None:
        """Cut what is to be cut before the first fetch of the epoch."""
        partition = self._partition
        for effect in self.machine.on_become_follower(
            log_end_offset=Offset(partition.log.log_end_offset),
            high_watermark=Offset(partition.high_watermark),
        ):
            assert isinstance(effect, TruncateTo), effect
            await partition.truncate(effect.offset, alarming=effect.below_high_watermark)

    def on_state(self, state: PartitionState) -> None:
        self.machine.on_state(state)

    async def append(self, records: bytes, *, leader_high_watermark: int) -> None:
        """Append what the leader sent; raises CorruptMessage, or KafkaStorageError on a full disk.

        Batches of a new epoch need the epoch file first, durably (I-47): until the log has reached
        the leader's epoch, appends go through the disk pool. So does the first with a gap.
        """
        partition, leader_epoch = self._partition, self.machine.leader_epoch
        log, appended = partition.log, list[BatchHeader]()
        is_compacted = log.gaps.expected or "compact" in log.config.cleanup_policy
        now_ms = partition.context.wall_ms()
        gaps_below = OFFSET_MAX if is_compacted else leader_high_watermark

        def append() -> None:
            appended.extend(
                log.append_as_follower(
                    records, leader_epoch=leader_epoch, now_ms=now_ms, gaps_below=gaps_below
                )
            )

        try:
            if log.leader_epochs.latest() != leader_epoch:
                await partition.in_disk_pool(append)
            else:
                append()
        except FirstGap:
            await partition.in_disk_pool(log.gaps.expect)
            await partition.in_disk_pool(append)
        except OSError as error:
            raise partition.refuse_write(error) from error
        finally:  # a fetch that is cancelled meanwhile has appended all the same (I-58)
            self._note_producers(records, appended)
        flush_if_many(partition.context, log)

    def _note_producers(self, records: bytes, headers: list[BatchHeader]) -> None:
        producers, now_ms = self._partition.producers, self._partition.context.now_ms()
        at = 0
        for header in headers:
            if header.producer_id >= 0:
                marker = end_marker_epoch(records, at, header)
                producers.on_append(header, now_ms, marker)
            at += header.size

    async def cut(self, effect: TruncateTo) -> None:
        """Truncate where the leader's history parts from ours, and tell what may be lost."""
        self._on_cut(effect.offset, in_recovery=effect.in_recovery)
        await self._partition.truncate(effect.offset, alarming=effect.below_high_watermark)

    async def drop(self, effect: TruncateFully) -> None:
        """Begin anew where the leader's history begins, and tell what may be lost."""
        start = max(effect.start_at, self._partition.log.log_start_offset)
        self._on_cut(start, in_recovery=effect.in_recovery)
        await self._partition.restart_at(effect.start_at)

    def _on_cut(self, offset: int, *, in_recovery: bool) -> None:
        self._partition.context.losses.on_cut(
            self._partition,
            offset,
            leader_epoch=self.machine.leader_epoch,
            in_recovery=in_recovery,
        )

    def hear_high_watermark(self, to: int) -> None:
        """Take the leader's as far as our log reaches; it falls only with a truncation (I-13)."""
        partition = self._partition
        end = partition.log.log_end_offset
        partition.learn_high_watermark(
            follower_high_watermark(
                partition.high_watermark,
                log_start_offset=partition.log.log_start_offset,
                leader_high_watermark=to,
                log_end_offset=end,
            )
        )
        if partition.healing and to <= end:
            partition.end_healing()

    def hear_log_start(self, to: int, on_durable: Callable[[], None]) -> None:
        """Follow the leader's log start, within our own high watermark (I-74)."""
        partition = self._partition
        start = follower_log_start(
            partition.log.log_start_offset,
            leader_log_start=to,
            high_watermark=partition.high_watermark,
        )
        if partition.raise_log_start(start):
            upkeep = partition.context.upkeep
            upkeep.retention.request(partition)
            upkeep.log_starts.persist(partition.log, on_durable)
