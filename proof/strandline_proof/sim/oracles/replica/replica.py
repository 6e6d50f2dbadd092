"""What is remembered of one replica from one step to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_proof.sim.disk.parts import Directory
    from strandline_proof.sim.oracles.replica.log_view import LogView


class Replica:
    """One replica as it was after the last step of its broker."""

    __slots__ = (
        "end",
        "epoch",
        "follower",
        "high_watermark",
        "incarnation",
        "is_due",
        "leader",
        "leader_partition_epoch",
        "log",
        "partition",
        "proposed",
        "removed_in",
        "start",
        "view",
    )

    def __init__(self, incarnation: int, partition: Partition, view: LogView) -> None:
        self.incarnation = incarnation
        self.partition = partition
        self.log: Any = partition.log
        self.view = view
        self.end = -1
        self.start = -1
        self.high_watermark = -1
        self.epoch = -1
        self.leader: Any = None
        self.leader_partition_epoch = -1
        self.proposed: Any = None
        self.follower: Any = None
        self.removed_in: Directory | None = None
        """Where it lay when it was removed: it may go from there, even if it is added again."""
        self.is_due = True
        """What it knows of producers is to be looked at (I-58)."""

    def is_opened_again(self, incarnation: int, view: LogView) -> bool:
        """Whether another process has it now, and not another log in the place of one that it has
        let go, as it was told.
        """
        is_there = self.removed_in is None or self.removed_in is view.directory()
        return self.incarnation != incarnation and is_there

    def is_unchanged(self, partition: Partition) -> bool:
        log, leader = partition.log, partition.leader
        return (
            self.log is log
            and self.leader is leader
            and self.high_watermark == partition.high_watermark
            and self.end == log.log_end_offset
            and self.start == log.log_start_offset
            and (
                leader is None
                or (
                    self.leader_partition_epoch == leader.partition_epoch
                    and self.proposed is leader.proposed
                )
            )
        )
