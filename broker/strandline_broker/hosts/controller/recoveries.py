"""Elections for partitions without any in-sync replica (I-53), tried now and then; and the removal
of replicas that are remembered for them.

Their inputs come from several sides: brokers are unfenced, report where their logs end, or report
progress. None of these inputs triggers an election itself; the periodic check is cheap.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from strandline_broker.core.controller.log.records import PartitionRecord
from strandline_broker.core.controller.partitions.departures import (
    decide_departures,
    departures_applied,
)
from strandline_broker.core.controller.partitions.log_ends import LogEnds
from strandline_broker.core.controller.partitions.recovery import decide_recoveries, recoveries
from strandline_broker.hosts.controller.pipeline import NOT_NOW

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from strandline_broker.core.controller.brokers.applied_offsets import Applied
    from strandline_broker.core.controller.log.decision import Decision
    from strandline_broker.core.controller.log.records import LossRecord, PartitionChangeRecord
    from strandline_broker.core.controller.log.state import ControllerState
    from strandline_proto.ids import TopicId
    from strandline_runtime.runtime import Runtime

PARTITIONS_PER_BATCH: Final = 200
"""Partitions elected at once. After a loss of power everywhere, all partitions need a leader at the
same moment. So many take the event loop about 20 ms to elect, to replay and to describe to brokers.
"""


class Recoveries:
    """The elections without in-sync replicas, owned by the controller."""

    def __init__(
        self,
        runtime: Runtime,
        state: ControllerState,
        applied: Applied,
        *,
        submit: Callable[[Callable[[], Decision[Any]]], Awaitable[Any]],
    ) -> None:
        self.ends = LogEnds()
        self._log = runtime.log
        self._state = state
        self._applied = applied
        self._submit = submit

    def on_started(self) -> None:
        for partition in self._state.partitions():
            self.ends.led.on_found(partition)

    def on_partition(self, record: PartitionRecord | PartitionChangeRecord) -> None:
        """Note a partition that was created, or may have another leader now. The state contains the
        change already.
        """
        partition = self._state.partition(record.topic_id, record.partition)
        if partition is None or record.leader is None:
            return
        if isinstance(record, PartitionRecord):
            self.ends.led.on_created(partition)
        else:
            self.ends.led.on_leader(partition, self._applied)

    def on_elected(self, topic_id: TopicId, partition: int) -> None:
        self.ends.forget(topic_id, partition)

    def on_removed(self, topic_id: TopicId) -> None:
        self.ends.forget_topic(topic_id)

    def on_losses(self, losses: Sequence[LossRecord]) -> None:
        """Note that replicas have truncated records which an unclean leader was elected without."""
        for loss in losses:
            if loss.start >= loss.end:
                continue
            self._log.warning(
                "records are lost",
                topic_id=loss.topic_id.hex(),
                partition=loss.partition,
                leader_epoch=loss.leader_epoch,
                start=loss.start,
                end=loss.end,
                committed_below=loss.committed,
            )

    async def sweep(self) -> None:
        await self._elect()
        decide = partial(decide_departures, self._state, self._applied, limit=PARTITIONS_PER_BATCH)
        while next(departures_applied(self._state, self._applied), None) is not None:
            try:
                await self._submit(decide)
            except NOT_NOW:
                return  # they stay known until the next look

    async def _elect(self) -> None:
        decide = partial(decide_recoveries, self._state, self.ends, limit=PARTITIONS_PER_BATCH)
        while next(recoveries(self._state, self.ends), None) is not None:
            try:
                elected = await self._submit(decide)
            except NOT_NOW:
                return  # it is so still at the next look
            for change in elected:
                self._log.warning(
                    "no replica in sync was left; the longest log leads",
                    topic_id=change.topic_id.hex(),
                    partition=change.partition,
                    leader=change.leader,
                    may_be_lost_from=change.log_end,
                )
