"""The roles of one broker's replicas: each replica is leader or follower in one leader epoch.

A role is made when its epoch begins and never used again after it. After an await, a caller
compares its role with the replica's current one (I-42, P-38). The replica owns the state that
outlasts a role: the log, the high watermark, the producers, a refused truncation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.replication.follower import Follower
from strandline_broker.core.replication.leader import Leader
from strandline_broker.hosts.replica.following import Following
from strandline_broker.hosts.replica.leading import Leading
from strandline_broker.hosts.replica.ticks import Ticks
from strandline_proto.ids import BrokerId, Offset
from strandline_runtime.milliseconds import monotonic_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_broker.core.replication.partition_state import PartitionState
    from strandline_broker.hosts.common.cuts import Cuts
    from strandline_broker.hosts.common.dynamic_config import DynamicConfig
    from strandline_broker.hosts.disks.flush_schedule import FlushSchedule
    from strandline_broker.hosts.replica.eligibility import Eligibility
    from strandline_broker.hosts.replica.losses import Losses
    from strandline_broker.hosts.replica.observers import LogStartObserver, RoleObserver
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_broker.hosts.replica.to_controller import ToController
    from strandline_broker.hosts.replica.truncations import Truncations
    from strandline_runtime.runtime import Clock


class Roles:
    """The making of roles. The caller holds the replica's gate, and the former role has ended."""

    def __init__(
        self,
        clock: Clock,
        config: DynamicConfig,
        controller: ToController,
        *,
        flushes: FlushSchedule,
        retention: LogStartObserver,
        eligibility: Eligibility,
        truncations: Truncations,
        losses: Losses,
        cuts: Cuts,
        observers: Sequence[RoleObserver],
    ) -> None:
        self._clock = clock
        self._config = config
        self._controller = controller
        self._flushes = flushes
        self._retention = retention
        self.ticks = Ticks(clock, lag_ms_max=config.current.replica_lag_time_max_ms)
        self._eligibility = eligibility
        self._truncations = truncations
        self._losses = losses
        self._cuts = cuts
        self._observers = observers

    def lead(self, partition: Partition, state: PartitionState) -> None:
        """Publish leadership of a new epoch, whose start is durable by now (I-46)."""
        leading = Leading(
            partition,
            self._leader(partition, state),
            self._clock,
            controller=self._controller,
            flushes=self._flushes,
            retention=self._retention,
            ticks=self.ticks,
            observers=self._observers,
        )
        partition.take_role(leading, state)
        self._truncations.release(partition, "it leads")
        self._losses.on_lead(partition, state)
        leading.begin()
        self._flushes.on_elected(partition.log)

    def _leader(self, partition: Partition, state: PartitionState) -> Leader:
        log, config = partition.log, self._config.current
        return Leader(
            BrokerId(config.node_id),
            self._controller.broker_epoch(),
            state,
            log_end_offset=Offset(log.log_end_offset),
            log_start_offset=Offset(log.log_start_offset),
            high_watermark=Offset(partition.high_watermark),
            durable_offset=Offset(log.durable_offset),
            eligible=self._eligibility.brokers,
            offline=self._eligibility.offline(partition.key),
            lag_ms_max=config.replica_lag_time_max_ms,
            flush_always=self._flushes.always,
            now_ms=monotonic_ms(self._clock),
        )

    async def follow(self, partition: Partition, state: PartitionState) -> None:
        """Publish the role of a follower; without a leader, it fetches from no broker."""
        follower = Follower(
            state,
            truncate_to_high_watermark=self._config.current.replica_truncation == "high-watermark",
            refuses_truncation=self._truncations.still_refuses(partition, state),
        )
        following = Following(
            partition,
            follower,
            self._clock,
            controller=self._controller,
            flushes=self._flushes,
            retention=self._retention,
            losses=self._losses,
            cuts=self._cuts,
        )
        await following.begin()
        partition.take_role(following, state)

    def on_deleted(self, partition: Partition) -> None:
        """Notify observers that the controller has removed the replica; its files are gone, or set
        aside.
        """
        for observer in self._observers:
            observer.deleted(partition)
