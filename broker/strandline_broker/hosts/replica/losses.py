"""Lost records of this broker's replicas, until the controller knows them (I-53). A follower
truncates them for the history of a leader that was elected uncleanly; or that leader had lost them
itself.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from strandline_broker.core.push_answer import LogEnd
from strandline_broker.hosts.common.controller_calls import ReplicaLoss

if TYPE_CHECKING:
    from strandline_broker.core.replication.partition_state import PartitionState
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_broker.hosts.replica.to_controller import ToController
    from strandline_runtime.runtime import Runtime

WAITING_MAX: Final = 10_000
"""Limit of reports that the controller has not received; a broker should have fewer partitions."""
PER_HEARTBEAT_MAX: Final = 500


class Losses:
    def __init__(self, runtime: Runtime, controller: ToController) -> None:
        self._log = runtime.log
        self._controller = controller
        self._waiting: deque[ReplicaLoss] = deque(maxlen=WAITING_MAX)

    def on_cut(
        self, partition: Partition, offset: int, *, leader_epoch: int, in_recovery: bool
    ) -> None:
        """Report that a follower is about to truncate its log where the leader's history
        diverges.
        """
        if in_recovery or offset < partition.high_watermark:
            end = partition.log.log_end_offset
            if offset < end:
                self._report(
                    partition,
                    leader_epoch=leader_epoch,
                    start=offset,
                    committed=partition.high_watermark,
                    end=end,
                )

    def on_lead(self, partition: Partition, state: PartitionState) -> None:
        """Report the losses of a leader by an unclean election. These are the end up to which its
        log was certainly committed, and the committed records beyond its end that its checkpoint
        knew.
        """
        if not state.recovering:
            return
        log = partition.log
        end = log.log_end_offset
        # Its own epoch may have begun in the log, and the one before it had no leader.
        last = LogEnd(log.leader_epochs.epoch_at(end - 1), end, min(partition.high_watermark, end))
        shared = last.shared_below(state.leader_epoch - 2)
        known = max(end, partition.checkpointed_high_watermark)
        for start, stop in ((shared, shared), (end, known)):
            self._report(
                partition, leader_epoch=state.leader_epoch, start=start, committed=stop, end=stop
            )

    def waiting(self) -> list[ReplicaLoss]:
        """The next reports to send; call `told` with them once the controller has them."""
        return [self._waiting[at] for at in range(min(len(self._waiting), PER_HEARTBEAT_MAX))]

    def told(self, reports: list[ReplicaLoss]) -> None:
        for report in reports:
            if self._waiting and self._waiting[0] is report:
                self._waiting.popleft()
        if self._waiting:
            self._controller.report_offline()

    def _report(
        self, partition: Partition, *, leader_epoch: int, start: int, committed: int, end: int
    ) -> None:
        if start < end:
            self._log.warning(
                "records are given up: the leader was elected without them",
                partition=partition.name,
                leader_epoch=leader_epoch,
                start=start,
                end=end,
                committed_below=committed,
            )
        self._waiting.append(
            ReplicaLoss(
                topic_id=partition.log.topic_id,
                partition=partition.log.partition,
                leader_epoch=leader_epoch,
                start=start,
                end=end,
                committed=committed,
            )
        )
        self._controller.report_offline()
