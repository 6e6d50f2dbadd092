"""One replica as a follower in one leader epoch: the follower machine, and the effects of its
leader's answers on the replica.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.replication.follower import TruncateTo
from strandline_broker.core.replication.truncation import (
    follower_high_watermark,
    follower_log_start,
)
from strandline_broker.hosts.common.cuts import CutReason
from strandline_broker.storage.files.checkpoints import OFFSET_MAX
from strandline_broker.storage.files.gaps_marker import FirstGap
from strandline_proto.batch import BatchHeader, end_marker_epoch, iter_headers
from strandline_proto.errors import KafkaStorageError
from strandline_proto.ids import Offset
from strandline_runtime.milliseconds import monotonic_ms, wall_ms

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from strandline_broker.core.replication.follower import Follower, TruncateFully
    from strandline_broker.core.replication.partition_state import PartitionState
    from strandline_broker.hosts.common.cuts import Cuts
    from strandline_broker.hosts.disks.flush_schedule import FlushSchedule
    from strandline_broker.hosts.replica.losses import Losses
    from strandline_broker.hosts.replica.observers import LogStartObserver
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_broker.hosts.replica.to_controller import ToController
    from strandline_proto.decompression import Buffer
    from strandline_runtime.runtime import Clock


class Following:
    """The follower's role. The caller holds the gate."""

    __slots__ = (
        "_agrees",
        "_before_healing",
        "_clock",
        "_controller",
        "_cuts",
        "_flushes",
        "_losses",
        "_partition",
        "_retention",
        "leader_high_watermark",
        "machine",
    )

    def __init__(
        self,
        partition: Partition,
        machine: Follower,
        clock: Clock,
        *,
        controller: ToController,
        flushes: FlushSchedule,
        retention: LogStartObserver,
        losses: Losses,
        cuts: Cuts,
    ) -> None:
        self._partition = partition
        self._clock = clock
        self._controller = controller
        self._flushes = flushes
        self._retention = retention
        self._losses = losses
        self._cuts = cuts
        self._agrees = False
        """True if the log is a prefix of the leader's, by an answer of this epoch."""
        self._before_healing = 0
        """The log's end before it was truncated to heal."""
        self.leader_high_watermark = 0
        """The leader's high watermark by its last answer; 0 before the first."""
        self.machine = machine

    async def begin(self) -> None:
        """Make the truncations that precede the epoch's first fetch, which declares the log's end
        durable (P-75).
        """
        partition = self._partition
        for effect in self.machine.on_become_follower(
            log_end_offset=Offset(partition.log.log_end_offset),
            high_watermark=Offset(partition.high_watermark),
        ):
            assert isinstance(effect, TruncateTo), effect
            with self._noting(self._reason, in_recovery=False):
                await partition.truncate(effect.offset, alarming=effect.below_high_watermark)
        await self._flushes.before_fetch(partition.log)

    @property
    def leader(self) -> None:
        return None

    @property
    def follower(self) -> Follower:
        return self.machine

    def end(self, why: str) -> None:
        """End the role; no caller waits for a follower."""

    def on_own_log_start(self) -> None:
        """Does nothing: a follower serves no readers."""

    def on_durable(self) -> None:
        """Name the durable end in the next fetch; a follower acknowledges nothing."""

    def on_state(self, state: PartitionState) -> None:
        self.machine.on_state(state)

    async def append(self, records: Buffer, *, leader_high_watermark: int) -> None:
        """Append the leader's records; raises CorruptMessage, or KafkaStorageError on a full disk.

        Batches of a new epoch need the epoch file first, durably (I-47). So appends go through the
        disk pool until the log has reached the leader's epoch. So does the first append with a gap.
        """
        self._agrees = True  # or else there would be no records to append
        partition, leader_epoch = self._partition, self.machine.leader_epoch
        log, appended = partition.log, list[BatchHeader]()
        await self._know_producers(records)
        is_compacted = log.gaps.expected or "compact" in log.config.cleanup_policy
        now_ms = wall_ms(self._clock)
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
            self._flushes.on_copied(log)

    async def _know_producers(self, records: Buffer) -> None:
        """Load the producer state if the records need it. Raises KafkaStorageError if an end marker
        is among them and the open transactions are not known: the index of aborted transactions
        would name the wrong ones (I-153). A later fetch succeeds if batches were misread. Lasting
        damage is healed, and the index is cut with the log.
        """
        partition, log = self._partition, self._partition.log
        if log.producers is None:  # a cut was cancelled, and has cut all the same (I-58)
            await partition.rebuild_producers()
        if not log.replay_lacks or not any(
            header.is_control for _, header in iter_headers(records)
        ):
            return
        await partition.rebuild_producers()
        if log.replay_lacks:
            raise KafkaStorageError(
                f"{partition.name}: end markers follow at offset {log.log_end_offset}, and batches "
                f"before them are damaged or misread; they are fetched again later"
            )

    def _note_producers(self, records: Buffer, headers: list[BatchHeader]) -> None:
        producers, now_ms = self._partition.producers, monotonic_ms(self._clock)
        at = 0
        for header in headers:
            if header.producer_id >= 0:
                marker = end_marker_epoch(records, at, header)
                producers.on_append(header, now_ms, marker)
            at += header.size

    async def cut(self, effect: TruncateTo) -> None:
        """Truncate where the leader's history diverges from ours, and report a possible loss."""
        self._on_cut(effect.offset, in_recovery=effect.in_recovery)
        with self._noting(self._reason, in_recovery=effect.in_recovery):
            await self._partition.truncate(effect.offset, alarming=effect.below_high_watermark)
        self._agrees = True  # its log reaches at least as far

    def on_healing(self) -> None:
        """Note our log end before the log is truncated at its damage. A fetch of this epoch that is
        under way may later report that end to the leader. The leader may then commit up to it with
        this replica in the ISR (I-9, I-15). An end beyond the leader's own log is not noted: the
        leader would reject such a fetch, and may never have so many records.
        """
        if self._agrees:
            self._before_healing = max(self._partition.log.log_end_offset, self._before_healing)

    async def drop(self, effect: TruncateFully) -> None:
        """Restart the log where the leader's history begins, and report a possible loss."""
        start = max(effect.start_at, self._partition.log.log_start_offset)
        self._on_cut(start, in_recovery=effect.in_recovery)
        with self._noting(CutReason.BEFORE_LEADER_START, in_recovery=effect.in_recovery):
            await self._partition.restart_at(effect.start_at)

    @property
    def _reason(self) -> CutReason:
        by_watermark = self.machine.truncate_to_high_watermark
        return CutReason.HIGH_WATERMARK if by_watermark else CutReason.DIVERGED

    def _noting(self, reason: CutReason, *, in_recovery: bool) -> AbstractContextManager[None]:
        return self._cuts.noting(
            self._partition.log,
            self._partition.high_watermark,
            reason,
            leader_epoch=self.machine.leader_epoch,
            is_sound=reason is not CutReason.HIGH_WATERMARK and not in_recovery,
        )

    def _on_cut(self, offset: int, *, in_recovery: bool) -> None:
        self._losses.on_cut(
            self._partition,
            offset,
            leader_epoch=self.machine.leader_epoch,
            in_recovery=in_recovery,
        )

    def on_high_watermark(self, to: int) -> None:
        """Take the leader's high watermark as far as our log reaches; it falls only with a
        truncation (I-13).
        """
        self._agrees = True
        self.leader_high_watermark = to
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
        if partition.healing and max(to, self._before_healing) <= end:
            partition.end_healing()
            self._controller.report_offline()

    def on_log_start(self, to: int, on_durable: Callable[[], None]) -> None:
        """Follow the leader's log start, within our own high watermark (I-74)."""
        partition = self._partition
        start = follower_log_start(
            partition.log.log_start_offset,
            leader_log_start=to,
            high_watermark=partition.high_watermark,
        )
        if partition.raise_log_start(start):
            self._retention.log_start_raised(partition, on_durable)
